//! The file of calls that the guard could not be asked about: one JSON line each, readable by its owner only.
//! The audit trail has them too; this file is short and easy to monitor.

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
};

use callgate_gate::{Call, Check};
use callgate_wire::quote;
use jiff::Timestamp;

#[derive(Debug)]
pub(super) struct UncheckedCallLog {
    file: PathBuf,
}

impl UncheckedCallLog {
    pub(super) fn new(file: PathBuf) -> Self {
        Self { file }
    }

    /// Appends a call. The call is refused whether or not this succeeds.
    pub(super) fn write(&self, call: &Call, check: &Check, error: &str) {
        let identity = &call.attempt.host.identity;
        let members = [
            ("timestamp", format!("{:.6}", Timestamp::now())),
            ("record_id", call.attempt.id.to_string()),
            ("tenant", identity.tenant.clone()),
            ("principal", identity.principal.clone()),
            ("agent", identity.agent.clone()),
            ("session", identity.session.clone()),
            ("server", call.target.server().to_string()),
            ("tool", call.target.label().into_owned()),
            ("rule", check.rule.clone()),
            ("error", error.to_owned()),
        ];
        let members = members.map(|(key, text)| format!("{}:{}", quote(key), quote(&text)));
        // One write per line, so that lines of several processes do not interleave.
        let line = format!("{{{}}}\n", members.join(","));
        if let Err(error) = self.append(&line) {
            crate::log::unchecked_call_not_logged(&self.file, &error);
        }
    }

    fn append(&self, line: &str) -> io::Result<()> {
        let mut options = OpenOptions::new();
        // Not readable by other users: the lines name principals and sessions.
        let options = options.append(true).create(true).mode(0o600);
        options.open(&self.file)?.write_all(line.as_bytes())
    }
}
