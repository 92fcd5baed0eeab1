//! A failure with advice for people: commands end with it, and health reports it.

/// What failed, and what to do about it.
#[derive(Debug)]
pub struct Failed {
    fault: Fault,
    message: String,
    help: Option<String>,
}

/// The cause of a failure, which decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The request was invalid or refused.
    User,
    /// A configuration file is invalid.
    Config,
    /// The operation was tried and failed.
    Execution,
    /// The operating system refused.
    System,
}

impl Failed {
    pub fn user(message: impl Into<String>) -> Self {
        Self::new(Fault::User, message)
    }

    pub fn config(message: impl Into<String>) -> Self {
        Self::new(Fault::Config, message)
    }

    pub fn execution(message: impl Into<String>) -> Self {
        Self::new(Fault::Execution, message)
    }

    pub fn system(message: impl Into<String>) -> Self {
        Self::new(Fault::System, message)
    }

    /// Adds advice.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub fn fault(&self) -> Fault {
        self.fault
    }

    /// What to do about the failure; printed as `help:`.
    pub fn advice(&self) -> Option<&str> {
        self.help.as_deref()
    }

    /// What happened, without the help.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What happened and what to do, without the snippet: for logs and health.
    pub fn one_line(&self) -> String {
        let what = self.message.lines().next().unwrap_or_default();
        match &self.help {
            Some(help) => format!("{what}; {help}"),
            None => what.to_owned(),
        }
    }

    fn new(fault: Fault, message: impl Into<String>) -> Self {
        Self {
            fault,
            message: message.into(),
            help: None,
        }
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.one_line())
    }
}

impl std::error::Error for Failed {}
