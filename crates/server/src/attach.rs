//! The door for hosts that were started beside a running gateway: each connection on a private socket
//! is one host that speaks as if on standard input and output. Only the gateway's own user is let in.

use std::{sync::Arc, time::Duration};

use tokio::{
    net::{UnixListener, UnixStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use ulid::Ulid;

use crate::{Gateway, StdioDoor};

/// Hosts that are attached at once; one more is turned away.
const MAX_HOSTS: usize = 256;

/// How long to wait after a connection could not be taken.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The door for attached hosts.
#[derive(Debug)]
pub struct AttachDoor {
    /// What is behind it.
    pub gateway: Gateway,
    /// Longest line.
    pub frame_bytes: usize,
    /// The user that all attached hosts run as.
    pub principal: String,
    /// That user's number; whoever connects must have it.
    pub uid: u32,
}

impl AttachDoor {
    /// Serves hosts until `stop` fires, then lets each of them go.
    pub async fn serve(self, listener: UnixListener, stop: CancellationToken) {
        let tasks = TaskTracker::new();
        let room = Arc::new(Semaphore::new(MAX_HOSTS));
        let door = Arc::new(self);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stop.cancelled() => break,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    crate::log::host_not_attached(&error);
                    // Out of descriptors, most likely: others have to go first.
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            match door.admit(&stream, &room) {
                Ok(place) => {
                    tasks.spawn(door.clone().attend(stream, place, stop.clone()));
                }
                Err(why) => crate::log::host_turned_away(why),
            }
        }
        tasks.close();
        tasks.wait().await;
    }

    fn admit(
        &self,
        stream: &UnixStream,
        room: &Arc<Semaphore>,
    ) -> Result<OwnedSemaphorePermit, &'static str> {
        let peer = stream
            .peer_cred()
            .map_err(|_| "it does not say who it is")?;
        if peer.uid() != self.uid {
            return Err("it runs as another user");
        }
        let place = room.clone().try_acquire_owned();
        place.map_err(|_| "too many hosts are attached")
    }

    async fn attend(
        self: Arc<Self>,
        stream: UnixStream,
        _place: OwnedSemaphorePermit,
        stop: CancellationToken,
    ) {
        let session = Ulid::generate().to_string();
        let door = StdioDoor::new(
            self.gateway.clone(),
            self.frame_bytes,
            &self.principal,
            session,
        );
        let (reader, writer) = stream.into_split();
        let end = door.serve(reader, writer, stop).await;
        crate::log::attached_host_gone(end);
    }
}
