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

/// The limit of attached hosts; further connections are refused.
const MAX_HOSTS: usize = 256;

/// The pause after a failed `accept`.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The door for attached hosts.
#[derive(Debug)]
pub struct AttachDoor {
    pub gateway: Gateway,
    /// The longest line that a host may send, in bytes.
    pub frame_bytes: usize,
    /// The user that all attached hosts run as.
    pub principal: String,
    /// That user's id. Connections from other users are refused.
    pub uid: u32,
}

impl AttachDoor {
    /// Serves hosts until `stop` fires, then waits for their last answers.
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
                    // Most likely out of file descriptors. Without a pause this loop would spin until one is freed.
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
        // The socket file's mode already keeps other users out. The kernel's credentials also hold where the
        // data folder's permissions were loosened.
        let peer = stream
            .peer_cred()
            .map_err(|_| "its user id could not be read")?;
        if peer.uid() != self.uid {
            return Err("it runs as another user");
        }
        // Refused at once rather than queued: a host without an answer looks hung to its user.
        let place = room.clone().try_acquire_owned();
        place.map_err(|_| "the limit of attached hosts is reached")
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
