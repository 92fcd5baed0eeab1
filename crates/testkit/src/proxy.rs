//! A forwarding proxy that adds a bearer token, for clients that cannot send one.
//!
//! Bodies stream both ways untouched. `Host` and `Origin` are rewritten only where they name the
//! proxy itself; a wrong one is passed on, since refusing it is the job of the server behind.

mod renaming;

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

/// A proxy on a free loopback port; it runs until the process ends.
#[derive(Debug)]
pub struct BearerProxy {
    address: SocketAddr,
}

impl BearerProxy {
    /// Starts forwarding to `upstream` with that token.
    pub fn start(upstream: SocketAddr, token: &str) -> io::Result<Self> {
        Self::start_with(upstream, token, None)
    }

    /// The same for a client that knows one of several servers by the bare names of its tools and prompts, which the
    /// upstream shows with this prefix.
    pub fn start_renaming(upstream: SocketAddr, token: &str, prefix: &str) -> io::Result<Self> {
        Self::start_with(upstream, token, Some(prefix.to_owned()))
    }

    fn start_with(upstream: SocketAddr, token: &str, prefix: Option<String>) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let token = token.to_owned();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let route = Route {
                    own: address,
                    upstream,
                    token: token.clone(),
                };
                let prefix = prefix.clone();
                thread::spawn(move || match prefix {
                    Some(prefix) => renaming::forward(&route, client, &prefix),
                    None => route.forward(client),
                });
            }
        });
        Ok(Self { address })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

struct Route {
    own: SocketAddr,
    upstream: SocketAddr,
    token: String,
}

impl Route {
    /// Forwards one request per connection; both sides are told to close, so no framing of replies is needed.
    fn forward(&self, client: TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(client.try_clone()?);
        let head = read_head(&mut reader)?;
        let mut server = TcpStream::connect(self.upstream)?;
        server.set_nodelay(true)?;
        client.set_nodelay(true)?;
        server.write_all(self.rewritten(&head).as_bytes())?;
        let mut requests = server.try_clone()?;
        thread::spawn(move || {
            // Ends when the client goes away; the upstream's stream is then closed as well.
            let _ = io::copy(&mut reader, &mut requests);
            let _ = requests.shutdown(Shutdown::Both);
        });
        let mut client = client;
        let copied = io::copy(&mut server, &mut client);
        let _ = client.shutdown(Shutdown::Both);
        copied.map(|_| ())
    }

    fn rewritten(&self, head: &str) -> String {
        let mut out = String::new();
        for line in head.lines().filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            let kept = match name.to_ascii_lowercase().as_str() {
                "connection" | "keep-alive" | "authorization" => continue,
                "host" | "origin" => {
                    line.replace(&self.own.to_string(), &self.upstream.to_string())
                }
                "expect" if value.trim().eq_ignore_ascii_case("100-continue") => continue,
                _ => line.to_owned(),
            };
            out.push_str(&kept);
            out.push_str("\r\n");
        }
        out.push_str(&format!(
            "Authorization: Bearer {}\r\nConnection: close\r\n\r\n",
            self.token
        ));
        out
    }
}

fn read_head(reader: &mut impl BufRead) -> io::Result<String> {
    let mut head = String::new();
    loop {
        let before = head.len();
        if reader.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if head[before..].trim_end().is_empty() {
            return Ok(head);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use crate::HttpHost;

    fn seen_through(headers: &[(&str, &str)]) -> (String, SocketAddr, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let upstream = listener.local_addr().expect("it is bound");
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("the proxy comes");
            let mut reader = BufReader::new(stream.try_clone().expect("a socket can be cloned"));
            let head = read_head(&mut reader).expect("a whole head");
            let mut body = [0; 4];
            reader.read_exact(&mut body).expect("a whole body");
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                .expect("it is read");
            assert_eq!(&body, b"body");
            head
        });
        let proxy = BearerProxy::start(upstream, "t0k").expect("it starts");
        let own = proxy.address();
        let host = HttpHost::new(&format!("http://{own}/mcp")).expect("an http URL");
        let reply = host.send("POST", headers, b"body").expect("it answers");
        assert_eq!(reply.text().expect("a body"), "ok");
        (server.join().expect("the server ends"), own, upstream)
    }

    #[test]
    fn the_proxy_adds_the_token_and_rewrites_its_own_host_name() {
        let (head, own, upstream) = seen_through(&[("Authorization", "Bearer wrong")]);
        assert!(head.contains("Authorization: Bearer t0k\r\n"), "{head}");
        assert!(
            !head.contains("wrong") && !head.contains(&own.to_string()),
            "{head}"
        );
        assert!(head.contains(&format!("Host: {upstream}\r\n")), "{head}");
    }

    #[test]
    fn a_foreign_host_and_origin_are_passed_on() {
        let (head, _, _) =
            seen_through(&[("Host", "evil.example"), ("Origin", "http://evil.example")]);
        assert!(head.contains("Host: evil.example\r\n"), "{head}");
        assert!(head.contains("Origin: http://evil.example\r\n"), "{head}");
    }
}
