//! `callgate activity restore` and `callgate activity clock`: what retention dropped, and whether it believes the clock.

use std::process::ExitCode;

use callgate_record::{Archive, ClockTrust, RetentionPause};
use jiff::Timestamp;

use super::archive_failed;
use crate::{exit::Failed, print::outln};

pub(super) fn restore(archive: &dyn Archive, as_json: bool) -> Result<ExitCode, Failed> {
    let restored = archive.restore().map_err(archive_failed)?;
    let (entries, bytes) = (restored.entries, restored.bytes);
    if as_json {
        outln!(
            "{}",
            serde_json::json!({"entries": entries, "bytes": bytes})
        );
    } else if entries == 0 {
        outln!("nothing to put back: retention dropped nothing by age within the last day");
    } else {
        outln!(
            "put back {entries} entries ({bytes} bytes); retention drops nothing by age for a day"
        );
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn clock(
    archive: &dyn Archive,
    confirm: bool,
    as_json: bool,
) -> Result<ExitCode, Failed> {
    if confirm {
        archive.confirm_clock().map_err(archive_failed)?;
    }
    let trust = archive.clock().map_err(archive_failed)?;
    let now = Timestamp::now();
    let pause = trust.as_ref().and_then(|trust| trust.pause(now));
    if as_json {
        let trusted = trust.as_ref().map(|trust| trust.trusted);
        let pause = pause.map(|pause| pause.to_string());
        outln!(
            "{}",
            serde_json::json!({"now": now, "trusted": trusted, "paused": pause})
        );
        return Ok(ExitCode::SUCCESS);
    }
    outln!("{}", state(trust.as_ref(), pause.as_ref()));
    if pause.is_some_and(|pause| matches!(pause, RetentionPause::Clock { .. })) {
        eprintln!("help: {CONFIRM}");
    }
    Ok(ExitCode::SUCCESS)
}

/// What to do about a clock that is not believed.
pub(in crate::commands) const CONFIRM: &str =
    "if the clock is right now, run `callgate activity clock --confirm`; else set it right";

fn state(trust: Option<&ClockTrust>, pause: Option<&RetentionPause>) -> String {
    match (trust, pause) {
        (_, Some(pause)) => format!("retention drops nothing by age: {pause}"),
        (Some(trust), None) => format!("the clock is believed; last seen at {:.0}", trust.trusted),
        (None, None) => "retention has not run yet".to_owned(),
    }
}
