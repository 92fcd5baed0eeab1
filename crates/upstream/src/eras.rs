//! Which eras of the protocol a server speaks, as far as that was found out. It is asked only when
//! somebody would profit, and over stdio in a process of its own: some servers keep the era in which they
//! were first spoken to, and some old ones end when they are asked anything before `initialize`.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use callgate_gate::ServerName;
use callgate_wire::Era;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::{
    Launch, Profile, Protocol, ServerSpec,
    definitions::mark,
    inbound::Wiring,
    lane::{Lane, LaneError},
    supplies::Supplies,
};

/// How long a verdict holds. A server that learned the newer era would otherwise never be spoken to in it.
const HOLDS: Duration = Duration::from_secs(24 * 60 * 60);

/// What is known about one server.
#[derive(Debug, Default)]
pub(crate) struct Eras {
    /// Whether it speaks the stateless era; asked by one at a time.
    stateless: Mutex<Option<bool>>,
}

/// A verdict as it is kept.
#[derive(Debug, Serialize, Deserialize)]
struct Verdict {
    /// Which configuration it belongs to.
    launch: String,
    stateless: bool,
    /// When it was found out, in seconds since 1970.
    at: u64,
}

impl Eras {
    /// Whether the server speaks the stateless era, found out when it is not known.
    pub(crate) async fn speaks_stateless(
        &self,
        spec: &ServerSpec,
        supplies: &Supplies,
        wiring: impl FnOnce(&Profile) -> Wiring,
    ) -> bool {
        match spec.protocol {
            Protocol::Only(era) => return era == Era::Stateless,
            Protocol::Auto => {}
        }
        let mut known = self.stateless.lock().await;
        if let Some(known) = *known {
            return known;
        }
        let folder = supplies.options.definitions_dir.as_deref();
        let kept = folder.and_then(|folder| Verdict::load(folder, &spec.name, &spec.launch));
        if let Some(kept) = kept {
            return *known.insert(kept);
        }
        let profile = Profile::gateway().speaking(Era::Stateless);
        let wiring = wiring(&profile);
        let found = match Lane::open(&spec.launch, profile, supplies, wiring).await {
            Ok(lane) => {
                lane.close().await;
                true
            }
            Err(error) if error.is_about_era() => false,
            // Nothing was learned; whoever comes next asks again.
            Err(error) => {
                crate::log::era_not_found_out(&spec.name, &error);
                return false;
            }
        };
        crate::log::era_found_out(&spec.name, found);
        if let Some(folder) = folder {
            Verdict::keep(folder, &spec.name, &spec.launch, found);
        }
        *known.insert(found)
    }

    /// Notes what a connection showed.
    pub(crate) async fn note_stateless(
        &self,
        spec: &ServerSpec,
        supplies: &Supplies,
        speaks: bool,
    ) {
        *self.stateless.lock().await = Some(speaks);
        if let Some(folder) = supplies.options.definitions_dir.as_deref() {
            Verdict::keep(folder, &spec.name, &spec.launch, speaks);
        }
    }
}

/// Opens a lane in the era of `profile`, or in the other one when the server does not speak it.
pub(crate) async fn open_in_either(
    spec: &ServerSpec,
    profile: &Profile,
    supplies: &Supplies,
    wiring: &(dyn Fn(&Profile) -> Wiring + Send + Sync),
) -> Result<Lane, LaneError> {
    let open = |era| {
        let profile = profile.clone().speaking(era);
        let wiring = wiring(&profile);
        async move { Lane::open(&spec.launch, profile, supplies, wiring).await }
    };
    let first = match spec.protocol {
        Protocol::Only(era) => return open(era).await,
        Protocol::Auto => profile.era,
    };
    let error = match open(first).await {
        Err(error) if error.is_about_era() => error,
        opened => return opened,
    };
    let other = match first {
        Era::Handshake => Era::Stateless,
        Era::Stateless => Era::Handshake,
    };
    // What went wrong in the era that was meant says more than what went wrong in the other.
    open(other).await.map_err(|_| error)
}

impl Verdict {
    fn load(folder: &Path, server: &ServerName, launch: &Launch) -> Option<bool> {
        let kept: Self = serde_json::from_slice(&fs::read(path(folder, server)).ok()?).ok()?;
        let fresh = kept.at <= now() && now() - kept.at < HOLDS.as_secs();
        (fresh && kept.launch == mark(launch)).then_some(kept.stateless)
    }

    /// A convenience: a failure costs a probe and nothing else.
    fn keep(folder: &Path, server: &ServerName, launch: &Launch, stateless: bool) {
        let verdict = Self {
            launch: mark(launch),
            stateless,
            at: now(),
        };
        let written = fs::create_dir_all(folder).and_then(|()| {
            let fresh = folder.join(format!("{server}.era.{}.new", std::process::id()));
            fs::write(&fresh, serde_json::to_vec(&verdict)?)?;
            fs::rename(&fresh, path(folder, server))
        });
        if let Err(error) = written {
            crate::log::era_not_kept(server, &error);
        }
    }
}

fn path(folder: &Path, server: &ServerName) -> PathBuf {
    folder.join(format!("{server}.era"))
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_era_verdict_is_kept_for_its_launch_for_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let server = ServerName::new("s").unwrap();
        let launch = |command: &str| Launch::Stdio {
            command: command.to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: None,
        };
        Verdict::keep(folder.path(), &server, &launch("one"), true);
        let load = |command| Verdict::load(folder.path(), &server, &launch(command));
        assert_eq!(load("one"), Some(true));
        assert_eq!(load("two"), None);
        let old = Verdict {
            launch: mark(&launch("one")),
            stateless: true,
            at: now() - HOLDS.as_secs(),
        };
        let text = serde_json::to_vec(&old).unwrap();
        fs::write(path(folder.path(), &server), text).unwrap();
        assert_eq!(load("one"), None);
    }
}
