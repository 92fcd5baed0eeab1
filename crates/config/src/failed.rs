//! A failure with advice, for people: commands end with it, and health shows it.

/// What failed, and what to do about it.
#[derive(Debug)]
pub struct Failed {
    fault: Fault,
    message: String,
    help: Option<String>,
}

/// Whose matter a failure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The request was refused or wrong.
    User,
    /// A configuration file is wrong.
    Config,
    /// It was tried and did not work.
    Execution,
    /// The system did not let us.
    System,
}

impl Failed {
    /// The request was refused or wrong.
    pub fn user(message: impl Into<String>) -> Self {
        Self::new(Fault::User, message)
    }

    /// A file is wrong.
    pub fn config(message: impl Into<String>) -> Self {
        Self::new(Fault::Config, message)
    }

    /// It was tried and did not work.
    pub fn execution(message: impl Into<String>) -> Self {
        Self::new(Fault::Execution, message)
    }

    /// The system refused.
    pub fn system(message: impl Into<String>) -> Self {
        Self::new(Fault::System, message)
    }

    /// Adds what to do about it.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Whose matter it is.
    pub fn fault(&self) -> Fault {
        self.fault
    }

    /// What to do about it.
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
