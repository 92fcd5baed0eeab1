//! How a command ends: exit codes, and what is said on stderr.

use std::process::ExitCode;

use callgate_gate::visible::{Layout, visible};

/// A command that failed, with what to tell and the code to leave with.
#[derive(Debug)]
pub(crate) struct Failed {
    kind: Kind,
    message: String,
    help: Option<String>,
}

/// Whose matter the failure is; the number is the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The request was refused or wrong.
    User = 1,
    /// A configuration file is wrong.
    Config = 2,
    /// It was tried and did not work.
    Execution = 3,
    /// The system did not let us.
    System = 4,
}

impl Failed {
    pub(crate) fn user(message: impl Into<String>) -> Self {
        Self::new(Kind::User, message)
    }

    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::new(Kind::Config, message)
    }

    pub(crate) fn execution(message: impl Into<String>) -> Self {
        Self::new(Kind::Execution, message)
    }

    pub(crate) fn system(message: impl Into<String>) -> Self {
        Self::new(Kind::System, message)
    }

    /// Adds what to do about it.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// What happened, without the help.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// What happened and what to do, without the snippet: for logs and health.
    pub(crate) fn one_line(&self) -> String {
        let what = self.message.lines().next().unwrap_or_default();
        match &self.help {
            Some(help) => format!("{what}; {help}"),
            None => what.to_owned(),
        }
    }

    fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            help: None,
        }
    }

    /// Says it and gives the exit code. Files and servers have a part in the words, and a terminal must not obey them.
    pub(crate) fn report(&self) -> ExitCode {
        eprintln!("error: {}", visible(&self.message, Layout::Lines));
        if let Some(help) = &self.help {
            eprintln!("help: {}", visible(help, Layout::Lines));
        }
        ExitCode::from(self.kind as u8)
    }
}

/// Help and version are no failures; anything else about arguments is the user's.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // A closed stdout or stderr leaves nobody to tell.
    let _ = error.print();
    if error.use_stderr() {
        ExitCode::from(Kind::User as u8)
    } else {
        ExitCode::SUCCESS
    }
}
