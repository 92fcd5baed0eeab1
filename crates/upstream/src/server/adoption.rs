//! Who owns the primary process. `serve` starts it with the gateway's own profile, which has no
//! capabilities, so that lists are ready before hosts connect. The first host with capabilities replaces it by
//! a process of its own: the server then lists what such a host sees, and one process runs instead of two.

use std::sync::PoisonError;

use callgate_gate::Host;
use callgate_wire::Era;
use tokio::sync::watch;

use super::{Server, relist::FetchedList};
use crate::{Profile, lane::Lane};

/// The state of the takeover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Adoption {
    /// The primary is the gateway's own, and no host with capabilities has connected.
    Open,
    /// A process with this host's profile is to replace it.
    Requested(Profile),
    /// The primary belongs to a host, or the takeover failed; there is no second attempt.
    Settled,
}

impl Adoption {
    /// The initial state for a primary of this profile.
    pub(super) fn of(profile: &Profile) -> Self {
        match profile.principal {
            Some(_) => Self::Settled,
            None => Self::Open,
        }
    }

    fn requested(&self) -> Option<Profile> {
        match self {
            Self::Requested(profile) => Some(profile.clone()),
            Self::Open | Self::Settled => None,
        }
    }
}

impl Server {
    /// Requests a takeover if this host has capabilities and the primary has no owner.
    pub(crate) fn request_takeover(&self, host: &Host) {
        self.request_takeover_by(Profile::of(host));
    }

    /// Lets a stateless host take over the primary of a handshake server, and waits for it: such a server lists what the
    /// capabilities of its connection allow.
    pub(crate) async fn taken_over_by(&self, host: &Host) {
        let is_open = matches!(
            *self.adoption.borrow(),
            Adoption::Open | Adoption::Requested(_)
        );
        let is_handshake = self.primary_era() == Some(Era::Handshake);
        if !is_open || !is_handshake || host.capabilities == Profile::gateway().capabilities {
            return;
        }
        // A server of both eras is used in the host's own, where lists do not depend on a connection.
        if Box::pin(self.era_for(host)).await == Era::Stateless {
            return;
        }
        let profile = Profile::of(host).speaking(Era::Handshake);
        self.request_takeover_by(profile.clone());
        self.adopted(&profile).await;
    }

    fn request_takeover_by(&self, host: Profile) {
        let is_free = match &*self.primary() {
            Some((profile, _)) => profile.principal.is_none(),
            None => true,
        };
        // A host without capabilities can share the gateway's own process: it cannot be asked anything.
        if !is_free || host.capabilities == Profile::gateway().capabilities {
            return;
        }
        self.adoption.send_if_modified(|adoption| {
            let is_open = *adoption == Adoption::Open;
            if is_open {
                *adoption = Adoption::Requested(host);
            }
            is_open
        });
    }

    /// The profile that the primary is started with.
    pub(super) fn profile(&self) -> Profile {
        let profile = self.profile.lock();
        profile.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits while a process for this host is about to become the primary.
    pub(super) async fn adopted(&self, host: &Profile) {
        let mut adoption = self.adoption.subscribe();
        let is_coming = |adoption: &Adoption| match adoption {
            Adoption::Requested(profile) => profile.fits(host),
            Adoption::Open | Adoption::Settled => false,
        };
        let gone = adoption.wait_for(|adoption| !is_coming(adoption));
        // After a timeout the call goes on and gets a lane of its own.
        let _ = tokio::time::timeout(self.supplies.options.connect_wait, gone).await;
    }

    /// Waits until a host requests the takeover, and returns its profile.
    pub(super) async fn adopter(&self, adoption: &mut watch::Receiver<Adoption>) -> Profile {
        loop {
            if let Some(profile) = adoption.borrow_and_update().requested() {
                return profile;
            }
            if adoption.changed().await.is_err() {
                // Unreachable: `self` owns the sender.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Starts a process for a host. `None` if that failed or the primary has got an owner meanwhile.
    pub(super) async fn adopt(&self, profile: &Profile) -> Option<(Lane, Vec<FetchedList>)> {
        let opened = self.open(profile).await;
        // Checked again after the slow start: another principal may have claimed the primary meanwhile.
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
