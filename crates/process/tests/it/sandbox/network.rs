//! The way out of a sandbox is the egress proxy alone.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::thread;

use callgate_process::sandbox::{
    HostPort, LoopbackProxy, Namespaces, Network, ProxiedNetwork, Sandbox,
};

use super::{Machine, run};

/// An egress proxy that opens every tunnel to itself and answers with what it was asked for.
fn egress(machine: &Machine) -> ProxiedNetwork {
    let socket = machine.outside.path().join("egress");
    let listener = UnixListener::bind(&socket).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                head.extend(byte);
            }
            let first = String::from_utf8_lossy(&head)
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned();
            let _ = write!(
                stream,
                "HTTP/1.1 200 Connection established\r\n\r\n[{first}]\n"
            );
        }
    });
    ProxiedNetwork {
        socket,
        fallback: None,
        direct: Vec::new(),
    }
}

fn sandbox(machine: &Machine, namespaces: Namespaces, network: ProxiedNetwork) -> Sandbox {
    Sandbox {
        network: Network::Proxied(network),
        ..machine.sandbox(namespaces)
    }
}

const THROUGH_THE_PROXY: &str = "perl -MSocket -e '($h, $p) = $ENV{HTTPS_PROXY} =~ m(([\\d.]+):(\\d+)$) or die; \
    socket(S, AF_INET, SOCK_STREAM, 0); connect(S, sockaddr_in($p, inet_aton($h))) or die $!; \
    syswrite(S, qq(CONNECT example.com:443 HTTP/1.1\\r\\n\\r\\n)); print <S>'";

#[tokio::test]
async fn connections_reach_the_proxy_from_namespaces() {
    let machine = Machine::new();
    let sandbox = sandbox(&machine, Namespaces::WhereAllowed, egress(&machine));
    let script = format!(
        "{THROUGH_THE_PROXY}; echo $NODE_USE_ENV_PROXY $NO_PROXY; [ $http_proxy = $ALL_PROXY ] && echo same"
    );
    let outcome = run(&machine.spec(&script, Some(sandbox))).await;
    let expected = "HTTP/1.1 200 Connection established\r\n\r\n[CONNECT example.com:443 HTTP/1.1]\n\
                    1 localhost,127.0.0.1,::1\nsame\n";
    assert_eq!(outcome.stdout, expected, "{outcome:?}");
}

#[tokio::test]
async fn direct_hosts_are_reached_without_knowing_of_the_proxy() {
    let machine = Machine::new();
    let mut network = egress(&machine);
    for (host, port) in [
        ("db.example.com", 443),
        ("192.0.2.7", 5432),
        ("db.example.com", 80),
        ("2001:db8::7", 99),
    ] {
        network.direct.push(HostPort {
            host: host.to_owned(),
            port,
        });
    }
    let script = "ask() { perl -MSocket=:all -e '($e, @a) = getaddrinfo($ARGV[0], $ARGV[1], {socktype => SOCK_STREAM}); die $e if $e; socket(S, $a[0]{family}, SOCK_STREAM, 0); \
                  connect(S, $a[0]{addr}) or die $!; print <S>' $1 $2; }; \
                  ask db.example.com 443; ask db.example.com 80; ask 192.0.2.7 5432; ask 2001:db8::7 99; ask 192.0.2.8 5432 || echo closed";
    let sandbox = sandbox(&machine, Namespaces::WhereAllowed, network);
    let outcome = run(&machine.spec(script, Some(sandbox))).await;
    let expected = "[CONNECT db.example.com:443 HTTP/1.1]\n[CONNECT db.example.com:80 HTTP/1.1]\n\
                    [CONNECT 192.0.2.7:5432 HTTP/1.1]\n[CONNECT [2001:db8::7]:99 HTTP/1.1]\nclosed\n";
    assert_eq!(outcome.stdout, expected, "{outcome:?}");
}

#[tokio::test]
async fn without_namespaces_only_the_proxys_port_is_open() {
    let machine = Machine::new();
    let mut network = egress(&machine);
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = proxy.local_addr().unwrap().port();
    network.fallback = Some(LoopbackProxy {
        port,
        password: "p4ss".to_owned(),
    });
    let server = thread::spawn(move || {
        let (mut stream, _) = proxy.accept().unwrap();
        stream.write_all(b"proxy\n").unwrap();
    });
    let script = "perl -MSocket -e 'for $p (@ARGV) { socket(S, AF_INET, SOCK_STREAM, 0); \
                  connect(S, sockaddr_in($p, inet_aton(q(127.0.0.1)))) ? print <S> : print qq(refused\\n) }' $TCP ${HTTPS_PROXY##*:}; \
                  echo ${HTTPS_PROXY%:*} [$NO_PROXY]";
    let sandbox = sandbox(&machine, Namespaces::Off, network);
    let outcome = run(&machine.spec(script, Some(sandbox))).await;
    let expected = "refused\nproxy\nhttp://callgate:p4ss@127.0.0.1 []\n";
    assert_eq!(outcome.stdout, expected, "{outcome:?}");
    assert!(
        outcome
            .stderr
            .contains(&format!("TCP port {port} can be reached on every host")),
        "{outcome:?}"
    );
    assert!(!machine.was_reached());
    server.join().unwrap();
}
