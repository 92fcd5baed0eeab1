//! Arguments of `approvals` and `token`: who decides about calls, and who may connect.

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
        /// Only approvals with this status; `all` for every status
        #[arg(long, value_enum, default_value_t = ApprovalState::Pending)]
        status: ApprovalState,
    },
    /// Show all details of one call: who calls what, its arguments, and why it needs approval
    Show {
        /// The approval's id, from `approvals list`
        id: String,
    },
    /// Allow the call, once
    Approve {
        /// The approval's id, from `approvals list`
        id: String,
    },
    /// Refuse the call
    Deny {
        /// The approval's id, from `approvals list`
        id: String,
    },
    /// Show each call that needs approval as it arrives, and ask for a decision
    Watch,
    /// Print a link, valid once, that logs a browser in to the approvals page of the running gateway
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
    /// Create a token and print its secret, which cannot be shown again
    Create(NewToken),
    /// List all tokens, including revoked ones
    List,
    /// Revoke a token, at once and permanently
    Revoke {
        /// The token's name
        name: String,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct NewToken {
    /// The token's name, which identifies its holder; a name cannot be reused
    #[arg(long)]
    pub(crate) name: String,
    /// The role of the token's holder
    #[arg(long, value_enum)]
    pub(crate) role: TokenRole,
    /// The servers that the holder sees, separated by commas; default: all
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub(crate) servers: Option<Vec<String>>,
    /// The view that the holder gets
    #[arg(long)]
    pub(crate) view: Option<String>,
    /// The most that a call of the holder may do
    #[arg(long, value_enum, default_value_t = Ceiling::Destructive)]
    pub(crate) ceiling: Ceiling,
    /// The tenant of the holder
    #[arg(long, default_value = "local")]
    pub(crate) tenant: String,
    /// How long the token is valid, such as 30d or 12h; default: until it is revoked
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TokenRole {
    /// May make calls
    Agent,
    /// May decide about held calls
    Approver,
    /// May do everything except make calls
    Admin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ceiling {
    Read,
    Write,
    Destructive,
}
