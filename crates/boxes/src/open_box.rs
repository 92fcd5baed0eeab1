//! Opening a box: the sandbox of one process, and its running proxy.

use std::{path::Path, sync::Arc};

use crate::{ConnectionRecord, Occupant, recorded::RecordedConnections};
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
        sandbox.files = self.files(&occupant);
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

    fn files(&self, occupant: &Occupant) -> Vec<FileGrant> {
        let own_program = occupant.program_paths();
        let grants = [
            (FileAccess::Read, &self.spec.read),
            (FileAccess::Read, &own_program),
            (FileAccess::Write, &self.spec.write),
            (FileAccess::Write, &occupant.own_folders),
        ];
        let grants = grants.into_iter().flat_map(|(access, paths)| {
            paths.iter().map(move |path| FileGrant {
                path: path.clone(),
                access,
            })
        });
        grants.collect()
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
