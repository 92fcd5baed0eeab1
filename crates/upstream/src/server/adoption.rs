//! Whose the primary process is. `serve` starts it in the gateway's own name, which can do nothing, so
//! that lists are there before hosts are. The first host that can do more takes its place: the server
//! then lists what it lists for such a host, and there is one process instead of two.

use std::sync::PoisonError;

use callgate_gate::Host;
use tokio::sync::watch;

use super::{Server, relist::Fresh};
use crate::{Profile, lane::Lane};

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Adoption {
    /// The primary is the gateway's own, and no host has come that could do more.
    Open,
    /// A process in this host's name is to take its place.
    Wanted(Profile),
    /// The primary is a host's.
    Settled,
}

impl Adoption {
    /// As it begins for a primary of this profile.
    pub(super) fn of(profile: &Profile) -> Self {
        match profile.principal {
            Some(_) => Self::Settled,
            None => Self::Open,
        }
    }

    fn wanted(&self) -> Option<Profile> {
        match self {
            Self::Wanted(profile) => Some(profile.clone()),
            Self::Open | Self::Settled => None,
        }
    }
}

impl Server {
    /// Takes note of a host that is there now.
    pub(crate) fn meet(&self, host: &Host) {
        let is_free = match &*self.primary() {
            Some((profile, _)) => profile.principal.is_none(),
            None => true,
        };
        if !is_free || host.capabilities == Profile::gateway().capabilities {
            return;
        }
        self.adoption.send_if_modified(|adoption| {
            let is_open = *adoption == Adoption::Open;
            if is_open {
                *adoption = Adoption::Wanted(Profile::of(host));
            }
            is_open
        });
    }

    /// In whose name the primary is started.
    pub(super) fn profile(&self) -> Profile {
        let profile = self.profile.lock();
        profile.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits while the primary is about to become one that this host uses.
    pub(super) async fn adopted(&self, host: &Host) {
        let mut adoption = self.adoption.subscribe();
        let own = Profile::of(host);
        let is_coming = |adoption: &Adoption| match adoption {
            Adoption::Wanted(profile) => profile.fits(&own),
            Adoption::Open | Adoption::Settled => false,
        };
        let gone = adoption.wait_for(|adoption| !is_coming(adoption));
        let _ = tokio::time::timeout(self.supplies.options.connect_wait, gone).await;
    }

    /// Waits until a host's process is to take the primary's place.
    pub(super) async fn adopter(&self, adoption: &mut watch::Receiver<Adoption>) -> Profile {
        loop {
            if let Some(profile) = adoption.borrow_and_update().wanted() {
                return profile;
            }
            if adoption.changed().await.is_err() {
                // The server itself holds the other end, so this does not happen.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Opens a process in a host's name. It fails when the primary has found a user meanwhile.
    pub(super) async fn adopt(&self, profile: &Profile) -> Option<(Lane, Vec<Fresh>)> {
        let opened = self.open(profile).await;
        let is_free = match &*self.primary() {
            Some((own, _)) => own.principal.is_none(),
            None => true,
        };
        match opened {
            Ok((lane, fresh)) if is_free => {
                let mut own = self.profile.lock().unwrap_or_else(PoisonError::into_inner);
                *own = profile.clone();
                Some((lane, fresh))
            }
            Ok((lane, _)) => {
                lane.close().await;
                None
            }
            Err(error) => {
                crate::log::not_started_for_host(&self.spec.name, &error);
                None
            }
        }
    }
}
