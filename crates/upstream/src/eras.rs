//! Which protocol eras a server speaks. A server is probed only when a host would benefit, and over stdio in
//! a separate process: some servers stay in the era of their first request, and some old ones exit on any
//! request before `initialize`.

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
    definitions::launch_digest,
    inbound::Wiring,
    lane::{Lane, LaneError},
    supplies::Supplies,
};

/// How long a probe's result is valid, so that a server which learns the newer era is noticed.
const PROBE_TTL: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug, Default)]
pub(crate) struct Eras {
    /// Whether it speaks the stateless era; `None` until probed. Locked during a probe, so that there is only
    /// one at a time.
    stateless: Mutex<Option<bool>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct EraProbe {
    /// A digest of the launch configuration that was probed.
    launch: String,
    stateless: bool,
    /// When it was probed, in seconds since 1970.
    at: u64,
}

impl Eras {
    /// Whether the server speaks the stateless era; probes it if that is unknown.
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
        let kept = folder.and_then(|folder| EraProbe::load(folder, &spec.name, &spec.launch));
        if let Some(kept) = kept {
            return *known.insert(kept);
        }
        let profile = Profile::gateway().speaking(Era::Stateless);
        let wiring = wiring(&profile);
        let found = match Lane::open(spec, profile, supplies, wiring).await {
            Ok(lane) => {
                lane.close().await;
                true
            }
            Err(error) if error.is_about_era() => false,
            // The probe failed for another reason and proves nothing, so the next caller probes again.
            Err(error) => {
                crate::log::era_not_detected(&spec.name, &error);
                return false;
            }
        };
        crate::log::era_detected(&spec.name, found);
        if let Some(folder) = folder {
            EraProbe::save(folder, &spec.name, &spec.launch, found);
        }
        *known.insert(found)
    }

    /// Notes the era of a successful connection.
    pub(crate) async fn note_stateless(
        &self,
        spec: &ServerSpec,
        supplies: &Supplies,
        speaks: bool,
    ) {
        *self.stateless.lock().await = Some(speaks);
        if let Some(folder) = supplies.options.definitions_dir.as_deref() {
            EraProbe::save(folder, &spec.name, &spec.launch, speaks);
        }
    }
}

/// Opens a lane in the era of `profile`, or in the other one if the server does not speak it.
pub(crate) async fn open_in_either(
    spec: &ServerSpec,
    profile: &Profile,
    supplies: &Supplies,
    wiring: &(dyn Fn(&Profile) -> Wiring + Send + Sync),
) -> Result<Lane, LaneError> {
    let open = |era| {
        let profile = profile.clone().speaking(era);
        let wiring = wiring(&profile);
        async move { Lane::open(spec, profile, supplies, wiring).await }
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
    // If both fail, the error in the requested era is the more helpful one.
    open(other).await.map_err(|_| error)
}

impl EraProbe {
    fn load(folder: &Path, server: &ServerName, launch: &Launch) -> Option<bool> {
        let kept: Self = serde_json::from_slice(&fs::read(path(folder, server)).ok()?).ok()?;
        // A time in the future means that the clock was set back; the age is unknown then.
        let fresh = kept.at <= now() && now() - kept.at < PROBE_TTL.as_secs();
        (fresh && kept.launch == launch_digest(launch)).then_some(kept.stateless)
    }

    fn save(folder: &Path, server: &ServerName, launch: &Launch, stateless: bool) {
        let probe = Self {
            launch: launch_digest(launch),
            stateless,
            at: now(),
        };
        // A failure is only logged: it costs the next start one probe.
        let written = fs::create_dir_all(folder).and_then(|()| {
            let fresh = folder.join(format!("{server}.era.{}.new", std::process::id()));
            fs::write(&fresh, serde_json::to_vec(&probe)?)?;
            fs::rename(&fresh, path(folder, server))
        });
        if let Err(error) = written {
            crate::log::era_not_saved(server, &error);
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
        EraProbe::save(folder.path(), &server, &launch("one"), true);
        let load = |command| EraProbe::load(folder.path(), &server, &launch(command));
        assert_eq!(load("one"), Some(true));
        assert_eq!(load("two"), None);
        let old = EraProbe {
            launch: launch_digest(&launch("one")),
            stateless: true,
            at: now() - PROBE_TTL.as_secs(),
        };
        let text = serde_json::to_vec(&old).unwrap();
        fs::write(path(folder.path(), &server), text).unwrap();
        assert_eq!(load("one"), None);
    }
}
