//! A door of two named pipes, for an agent whose sandbox refuses Unix sockets.
//!
//! Every process that opens a pipe is served, so both are removed once a relay has come in: a process that learns of them later
//! finds none.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use rustix::fs::OFlags;
use tokio::net::unix::pipe;

use crate::{folder::Folder, relay::RelayPipes};

/// Two named pipes in the step's folder.
#[derive(Debug)]
pub(super) struct Pipes {
    paths: RelayPipes,
    from_relay: pipe::Receiver,
    /// Keeps the pipes open in both directions until a relay comes: its opens do not wait, and nothing looks like its end.
    held: [File; 2],
}

impl Pipes {
    pub(super) fn make(folder: &Folder) -> io::Result<Self> {
        let paths = RelayPipes {
            to_step: folder.path().join("gate.in"),
            from_step: folder.path().join("gate.out"),
        };
        for path in [&paths.to_step, &paths.from_step] {
            make(path)?;
        }
        Ok(Self {
            held: [both_ways(&paths.to_step)?, both_ways(&paths.from_step)?],
            from_relay: pipe::OpenOptions::new().open_receiver(&paths.to_step)?,
            paths,
        })
    }

    pub(super) fn paths(&self) -> &RelayPipes {
        &self.paths
    }

    /// Waits for a relay. Afterwards its end is the end of the pipes.
    pub(super) async fn accept(self) -> io::Result<(pipe::Receiver, pipe::Sender)> {
        self.from_relay.readable().await?;
        // Fails if the relay has gone already.
        let to_relay = pipe::OpenOptions::new().open_sender(&self.paths.from_step)?;
        for path in [&self.paths.to_step, &self.paths.from_step] {
            fs::remove_file(path)?;
        }
        drop(self.held);
        Ok((self.from_relay, to_relay))
    }
}

#[cfg(target_os = "linux")]
fn make(path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    Ok(mknodat(
        CWD,
        path,
        FileType::Fifo,
        Mode::RUSR | Mode::WUSR,
        0,
    )?)
}

/// Other systems have no sandbox, so no agent needs pipes there.
#[cfg(not(target_os = "linux"))]
fn make(_path: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

fn both_ways(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .custom_flags(flags)
        .open(path)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::Read;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::{
        door::Door,
        relay::{Connection, RelayFile},
    };

    fn file(folder: &Folder) -> RelayFile {
        let door = Door::open(folder, false).unwrap();
        door.relay_file()
    }

    #[tokio::test]
    async fn a_relay_comes_in_through_pipes_that_are_gone_afterwards() {
        let folder = Folder::make().unwrap();
        let pipes = Pipes::make(&folder).unwrap();
        let file = RelayFile {
            socket: None,
            pipes: Some(pipes.paths().clone()),
            token: Some("t0ken".to_owned()),
            traceparent: None,
            intercept_builtins: true,
            plugin_tools: Vec::new(),
            root_dir: None,
        };
        let Some(Ok(Connection::Pipes {
            to_step,
            mut from_step,
        })) = Connection::open(&file)
        else {
            panic!("the pipes are open");
        };
        let (mut reader, mut writer) = pipes.accept().await.unwrap();
        assert!(matches!(Connection::open(&file), Some(Err(_))));
        let reading = tokio::task::spawn_blocking(move || {
            let mut text = String::new();
            from_step.read_to_string(&mut text).unwrap();
            text
        });
        drop(to_step);
        let mut sent = String::new();
        reader.read_to_string(&mut sent).await.unwrap();
        assert_eq!(
            sent, "t0ken\n",
            "the end of the relay is the end of the pipe"
        );
        writer.write_all(b"answer").await.unwrap();
        drop(writer);
        assert_eq!(reading.await.unwrap(), "answer");
    }

    #[tokio::test]
    async fn a_relay_of_a_step_that_has_ended_does_not_wait() {
        let folder = Folder::make().unwrap();
        let file = file(&folder);
        assert!(
            file.pipes
                .as_ref()
                .is_some_and(|pipes| pipes.to_step.exists())
        );
        assert!(matches!(Connection::open(&file), Some(Err(_))));
    }
}
