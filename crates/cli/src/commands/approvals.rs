//! `callgate approvals …`: decide on this machine about calls that need approval.
//!
//! The command works on the data folder itself, so it needs no running gateway; a running one sees the
//! decision at once. It decides as the admin, so it must be able to read the admin token, and records which
//! user of this machine decided.

pub(crate) mod ask;
mod show;
mod watch;

use std::{path::Path, process::ExitCode, sync::Arc};

use callgate_call::{ApprovalService, ApprovalSettings, ApprovalView, Events, SealKey};
use callgate_gate::{
    ApprovalId,
    visible::{Layout, summary, visible},
};
use callgate_record::{
    Answer, Approval, ApprovalFilter, ApprovalStatus, Approver, DecisionChannel, Log,
    ResolveApprovalError,
};
use jiff::Timestamp;

use callgate_config::Settings;

use callgate_gateway::local_user::local_user;

use crate::{
    admin,
    args::{ApprovalState, Approvals, ApprovalsCommand, Gateway, Shared},
    exit::Failed,
    print::{outln, table},
    setup,
};

/// Approvals in one list.
const MAX_LISTED: usize = 500;
/// The principal of decisions made here: the holder of the admin token.
const PRINCIPAL: &str = "admin";

pub(crate) fn run(shared: &Shared, approvals: &Approvals) -> Result<ExitCode, Failed> {
    let settings = setup::settings(shared, &Gateway::default(), true)?;
    let as_json = shared.json;
    match &approvals.command {
        ApprovalsCommand::List { status } => list(&settings.data_dir, *status, as_json),
        ApprovalsCommand::Show { id } => {
            let approval = find(&settings.data_dir, id)?;
            if as_json {
                outln!("{}", json(&summarised(&approval)?)?);
            } else {
                outln!("{}", show::text(&approval));
            }
            Ok(ExitCode::SUCCESS)
        }
        ApprovalsCommand::Approve { id } => decide(&settings, id, Answer::Approve, as_json),
        ApprovalsCommand::Deny { id } => decide(&settings, id, Answer::Deny, as_json),
        ApprovalsCommand::Watch => watch::run(&settings, as_json),
        ApprovalsCommand::Link => link(&settings),
    }
}

fn list(data_dir: &Path, state: ApprovalState, as_json: bool) -> Result<ExitCode, Failed> {
    let status = match state {
        ApprovalState::Pending => Some(ApprovalStatus::Pending),
        ApprovalState::Approved => Some(ApprovalStatus::Approved),
        ApprovalState::Denied => Some(ApprovalStatus::Denied),
        ApprovalState::Expired => Some(ApprovalStatus::Expired),
        ApprovalState::Used => Some(ApprovalStatus::Used),
        ApprovalState::All => None,
    };
    let which = ApprovalFilter {
        status,
        tenant: None,
    };
    let found = view(data_dir)?.list((&which, MAX_LISTED), true, Timestamp::now());
    let found = found.map_err(failed)?;
    if as_json {
        let all: Result<Vec<_>, _> = found.iter().map(summarised).collect();
        outln!("{}", json(&all?)?);
        return Ok(ExitCode::SUCCESS);
    }
    let line = |text: &str| visible(text, Layout::OneLine);
    let row = |approval: &Approval| {
        let asking = &approval.asking;
        vec![
            approval.id.to_string(),
            approval.status.as_str().to_owned(),
            format!("{:.0}", approval.asked_at),
            line(&asking.agent),
            line(&format!("{}:{}", asking.server, asking.tool)),
            line(&asking.reason),
            summary(&asking.arguments),
        ]
    };
    let rows: Vec<_> = found.iter().map(row).collect();
    let heads = ["ID", "STATUS", "ASKED", "AGENT", "CALL", "WHY", "ARGUMENTS"];
    table(&heads, &rows);
    Ok(ExitCode::SUCCESS)
}

fn decide(
    settings: &Settings,
    id: &str,
    answer: Answer,
    as_json: bool,
) -> Result<ExitCode, Failed> {
    let id = find(&settings.data_dir, id)?.id;
    let local_approvals = LocalApprovals::open(settings)?;
    let decided = setup::runtime()?.block_on(local_approvals.decide(&id, answer));
    local_approvals.close();
    let status = decided?.as_str();
    if as_json {
        outln!("{}", serde_json::json!({"id": id, "status": status}));
    } else {
        outln!("{id} {status}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a login link for the page of the running gateway.
fn link(settings: &Settings) -> Result<ExitCode, Failed> {
    let asked = async {
        let gateway = admin::running(&settings.data_dir).await.ok_or_else(|| {
            Failed::execution("no `serve` is running on this data folder")
                .help("start `callgate serve`, or decide with `callgate approvals watch`")
        })?;
        let token = settings.tokens()?.admin;
        admin::post(&gateway, "/v1/login-links", &token, String::new()).await
    };
    let (status, answer) = setup::runtime()?.block_on(asked)?;
    if !(200..300).contains(&status) {
        let what = format!("the gateway refused to make a login link: status {status}");
        return Err(Failed::execution(what));
    }
    let answer: serde_json::Value = serde_json::from_slice(&answer).map_err(failed)?;
    outln!("{}", answer["url"].as_str().unwrap_or_default());
    Ok(ExitCode::SUCCESS)
}

/// An approval service of this process, with a log of its own for the decisions.
struct LocalApprovals {
    approval_service: ApprovalService,
    log: Arc<dyn Log>,
}

impl LocalApprovals {
    fn open(settings: &Settings) -> Result<Self, Failed> {
        // Reading the admin token is the authorisation: file permissions decide who may approve here.
        settings.tokens()?;
        let (stores, recorder) = callgate_gateway::command_record(settings)?;
        let key = seal_key(&settings.data_dir)?;
        let (events, settings) = (Events::default(), ApprovalSettings::default());
        let approval_service =
            ApprovalService::new(stores.approvals, &key, recorder, events, settings);
        let log = stores.log;
        Ok(Self {
            approval_service,
            log,
        })
    }

    async fn decide(&self, id: &ApprovalId, answer: Answer) -> Result<ApprovalStatus, Failed> {
        decided(&self.approval_service, id, answer).await
    }

    fn close(&self) {
        callgate_gateway::close_record(&*self.log);
    }
}

/// Decides as the person at this terminal. The caller has read the admin token, which authorises it.
pub(crate) async fn decided(
    approval_service: &ApprovalService,
    id: &ApprovalId,
    answer: Answer,
) -> Result<ApprovalStatus, Failed> {
    let by = Approver {
        principal: PRINCIPAL.to_owned(),
        person: Some(local_user()),
        tenant: None,
        way: DecisionChannel::Cli,
    };
    match approval_service.resolve(id, answer, by).await {
        Ok(_) => Ok(answer.status()),
        Err(
            error @ (ResolveApprovalError::Unknown
            | ResolveApprovalError::Settled(_)
            | ResolveApprovalError::Unseen
            | ResolveApprovalError::OwnCall),
        ) => Err(Failed::user(format!("`{id}`: {error}"))),
        Err(ResolveApprovalError::Store(error)) => Err(failed(error)),
    }
}

fn find(data_dir: &Path, id: &str) -> Result<Approval, Failed> {
    let unknown = || {
        Failed::user(format!("there is no approval `{id}`"))
            .help("`callgate approvals list --status all` lists approvals")
    };
    let id: ApprovalId = id.parse().map_err(|_| unknown())?;
    let found = view(data_dir)?.show(&id, Timestamp::now());
    found.map_err(failed)?.ok_or_else(unknown)
}

/// The approvals of a data folder, for the person at this terminal.
fn view(data_dir: &Path) -> Result<ApprovalView, Failed> {
    let approvals = callgate_gateway::shared_stores(data_dir)?.approvals;
    Ok(ApprovalView::new(approvals, &seal_key(data_dir)?))
}

fn seal_key(data_dir: &Path) -> Result<SealKey, Failed> {
    Ok(SealKey::new(callgate_config::seal_key(data_dir)?))
}

/// An approval as JSON, with the line that lists show of its arguments.
fn summarised(approval: &Approval) -> Result<serde_json::Value, Failed> {
    let mut json = serde_json::to_value(approval).map_err(failed)?;
    json["summary"] = summary(&approval.asking.arguments).into();
    Ok(json)
}

fn json(data: &impl serde::Serialize) -> Result<String, Failed> {
    serde_json::to_string(data).map_err(failed)
}

fn failed(error: impl std::fmt::Display) -> Failed {
    Failed::system(error.to_string())
}
