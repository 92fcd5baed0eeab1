//! Opening a box: the sandbox of one process, and its running proxy.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{ConnectionRecord, Occupant, links, recorded::RecordedConnections};
use callgate_egress::{BadDestination, DestinationRules, Egress, NotStarted, Options};
use callgate_gate::{BoxMode, BoxSpec};
use callgate_process::sandbox::{
    self, FileAccess, FileGrant, HostPort, LoopbackProxy, Mode, Network, ProxiedNetwork, Sandbox,
};

/// A configured box, and where the connections from it are recorded. A process that is started again opens it again.
#[derive(Debug, Clone)]
pub struct BoxPlan {
    pub spec: BoxSpec,
    pub record: ConnectionRecord,
}

/// A box for one process. Keep it as long as the process runs: without it the process has no network.
#[derive(Debug)]
pub struct OpenBox {
    sandbox: Sandbox,
    /// `None` if the box lists no host.
    egress: Option<Egress>,
}

/// Why a box could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum BoxNotOpened {
    /// What the process would write there would be lost with its box.
    #[error("box: `{}` in `write` does not exist; create it first", .0.display())]
    NothingToChange(PathBuf),
    /// The process could make the link lead anywhere, and have that at its next start.
    #[error(
        "box: `{}` leads through the link `{}`, which the program can change; list the path that it leads to", .path.display(), .link.display()
    )]
    LinkOfItsOwn { path: PathBuf, link: PathBuf },
    #[error("box: {0}")]
    Destination(#[from] BadDestination),
    #[error("box: the way to its hosts could not be opened: {0}")]
    Egress(#[from] NotStarted),
}

impl BoxPlan {
    /// Opens the box for one process. Needs a tokio runtime.
    pub fn open(&self, occupant: Occupant) -> Result<OpenBox, BoxNotOpened> {
        let mut sandbox = Sandbox::new(match self.spec.mode {
            BoxMode::BestEffort => Mode::BestEffort,
            BoxMode::Required => Mode::Required,
        });
        sandbox.files = self.files(&occupant)?;
        sandbox.hidden.clone_from(&self.spec.hidden);
        let rules = DestinationRules::parse(&self.spec.net)?;
        if rules.is_empty() {
            return Ok(OpenBox {
                sandbox,
                egress: None,
            });
        }
        let (network, egress) = self.way_out(rules, occupant)?;
        sandbox.network = Network::Proxied(network);
        Ok(OpenBox {
            sandbox,
            egress: Some(egress),
        })
    }

    fn files(&self, occupant: &Occupant) -> Result<Vec<FileGrant>, BoxNotOpened> {
        let BoxSpec { read, write, .. } = &self.spec;
        if let Some(missing) = write.iter().find(|path| !path.exists()) {
            return Err(BoxNotOpened::NothingToChange(missing.clone()));
        }
        let (read, missing): (Vec<_>, Vec<_>) = read.iter().partition(|path| path.exists());
        for path in missing {
            crate::log::nothing_to_read(occupant, path);
        }
        let changed = write.iter().chain(&occupant.own_folders);
        let changed: Vec<PathBuf> = changed
            .filter_map(|path| path.canonicalize().ok())
            .collect();
        for path in read.iter().copied().chain(write) {
            let mut links = links::on_the_way(path).into_iter();
            if let Some(link) = links.find(|link| changed.iter().any(|own| link.starts_with(own))) {
                return Err(BoxNotOpened::LinkOfItsOwn {
                    path: path.clone(),
                    link,
                });
            }
        }
        let own_program = occupant.program_paths();
        // What the program may change includes itself, if it lies there.
        let own_program = own_program
            .iter()
            .filter(|path| !write.iter().any(|own| path.starts_with(own)));
        let grants = (read
            .into_iter()
            .chain(own_program)
            .map(|path| (path, FileAccess::Read)))
        .chain(
            write
                .iter()
                .chain(&occupant.own_folders)
                .map(|path| (path, FileAccess::Write)),
        );
        // Mounting again what is there anyway costs time at each start.
        let is_there = |path: &Path| {
            let real = path.canonicalize();
            sandbox::is_in_every_sandbox(path)
                && real.is_ok_and(|real| sandbox::is_in_every_sandbox(&real))
        };
        let grants =
            grants.filter(|(path, access)| *access == FileAccess::Write || !is_there(path));
        let grants = grants.map(|(path, access)| FileGrant {
            path: path.clone(),
            access,
        });
        Ok(grants.collect())
    }

    fn way_out(
        &self,
        rules: DestinationRules,
        occupant: Occupant,
    ) -> Result<(ProxiedNetwork, Egress), BoxNotOpened> {
        let direct = rules.exact().into_iter().map(|destination| HostPort {
            host: destination.host.to_string(),
            port: destination.port,
        });
        let direct = direct.collect();
        // Every program of this machine can knock at a port.
        let needs_port = occupant
            .warden_program
            .as_deref()
            .is_none_or(|warden| sandbox::probe(warden).namespaces.is_err());
        let log = RecordedConnections {
            record: self.record.clone(),
            server: occupant.server,
            title: occupant.title,
        };
        let options = Options {
            parent: occupant.folder,
            // Without namespaces, the process cannot be given the socket.
            loopback: needs_port,
            ..Options::default()
        };
        let egress = Egress::start(rules, Arc::new(log), options)?;
        let network = ProxiedNetwork {
            socket: egress.socket().to_owned(),
            fallback: egress.loopback().map(|loopback| LoopbackProxy {
                port: loopback.port,
                password: loopback.password.clone(),
            }),
            direct,
        };
        Ok((network, egress))
    }
}

impl OpenBox {
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// The folder of the proxy's socket, which the process's warden removes if this process is killed.
    pub fn folder(&self) -> Option<&Path> {
        self.egress.as_ref().and_then(Egress::folder)
    }

    /// Ends all connections, and waits until they are on record.
    pub async fn close(self) {
        if let Some(egress) = self.egress {
            egress.close().await;
        }
    }
}
