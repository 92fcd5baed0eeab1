use std::{sync::Arc, time::Duration};

use callgate_spin::{SoleActivity, SpinningSocket};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

/// Nothing here takes long; what does hangs.
const HANGS: Duration = Duration::from_secs(60);

/// Both ends of a connection, the second as a looking socket.
async fn connected(streak: &Arc<SoleActivity>) -> (TcpStream, SpinningSocket) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let (far, _) = listener.accept().await.unwrap();
    near.set_nodelay(true).unwrap();
    far.set_nodelay(true).unwrap();
    (near, SpinningSocket::new(far, streak.clone()))
}

/// Sends back what comes until it ends.
async fn echo(mut socket: SpinningSocket) {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let read = socket.read(&mut bytes).await.unwrap();
        if read == 0 {
            return;
        }
        socket.write_all(&bytes[..read]).await.unwrap();
    }
}

async fn exchange(socket: &mut TcpStream, round: usize, length: usize) {
    let sent: Vec<u8> = (0..length).map(|at| (at * 31 + round) as u8).collect();
    let mut read = vec![0; length];
    let (mut from, mut to) = socket.split();
    let (written, _) = tokio::join!(to.write_all(&sent), from.read_exact(&mut read));
    written.unwrap();
    assert!(read == sent, "{length} bytes came back changed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_read_while_spinning_are_those_sent() {
    let (mut near, far) = connected(&Arc::default()).await;
    let echoing = tokio::spawn(echo(far));
    let exchanges = async {
        for round in 0..3000 {
            let length = [1, 100, 5000, 16 * 1024, 16 * 1024 + 1, 300_000][round % 6];
            exchange(&mut near, round, if round % 50 < 44 { 100 } else { length }).await;
        }
    };
    timeout(HANGS, exchanges).await.expect("it hangs");
    drop(near);
    timeout(HANGS, echoing)
        .await
        .expect("it sees no end")
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn end_of_stream_is_noticed_while_spinning() {
    for _ in 0..50 {
        let (mut near, far) = connected(&Arc::default()).await;
        let echoing = tokio::spawn(echo(far));
        for round in 0..20 {
            exchange(&mut near, round, 10).await;
        }
        drop(near);
        timeout(HANGS, echoing)
            .await
            .expect("it sees no end")
            .unwrap();
    }
}
