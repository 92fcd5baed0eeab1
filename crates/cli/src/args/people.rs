//! Arguments of the commands about people: who decides, and who may come in.

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

#[derive(Debug, ClapArgs)]
pub(crate) struct Approvals {
    #[command(subcommand)]
    pub(crate) command: ApprovalsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// List approvals, newest first
    List {
        /// Only those that stand so; `all` for every one
        #[arg(long, value_enum, default_value_t = ApprovalState::Pending)]
        status: ApprovalState,
    },
    /// Show one whole: who calls what, with which arguments, and why it needs a person
    Show {
        /// Its id, as listed
        id: String,
    },
    /// Let the call happen, once
    Approve {
        /// Its id, as listed
        id: String,
    },
    /// Keep the call from happening
    Deny {
        /// Its id, as listed
        id: String,
    },
    /// Show each call that needs a person as it comes, and ask
    Watch,
    /// Print a link that logs a browser in to the page of the running gateway, once
    Link,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ApprovalState {
    Pending,
    Approved,
    Denied,
    Expired,
    Used,
    All,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Token {
    #[command(subcommand)]
    pub(crate) command: TokenCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token and print its secret, which is shown only now
    Create(NewToken),
    /// List the tokens there are, revoked ones included
    List,
    /// End a token at once and for good
    Revoke {
        /// Its name
        name: String,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct NewToken {
    /// Whom it stands for; names are never used again
    #[arg(long)]
    pub(crate) name: String,
    /// What it is for
    #[arg(long, value_enum)]
    pub(crate) role: TokenRole,
    /// The only servers that its holder sees, separated by commas; all when left out
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub(crate) servers: Option<Vec<String>>,
    /// The view that its holder gets
    #[arg(long)]
    pub(crate) view: Option<String>,
    /// The most that a call of its holder may do
    #[arg(long, value_enum, default_value_t = Ceiling::Destructive)]
    pub(crate) ceiling: Ceiling,
    /// The tenant it belongs to
    #[arg(long, default_value = "local")]
    pub(crate) tenant: String,
    /// How long it lasts, for example 30d or 12h; until it is revoked when left out
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TokenRole {
    /// Makes calls
    Agent,
    /// Decides about held calls
    Approver,
    /// Everything but making calls
    Admin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ceiling {
    Read,
    Write,
    Destructive,
}
