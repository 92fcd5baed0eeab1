//! Webhooks: signed, retried, and sent once per approval.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use serde_json::Value;

use super::{ASKING, approval_of};
use crate::setup::Bed;
use crate::talk::{DEADLINE, call, parsed};

/// A request as it came: headers in lower case, and the body.
pub(crate) struct Told {
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Told {
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }
}

/// An address that takes messages; the first few are answered with an error.
pub(crate) fn listen(failures: usize) -> (String, Receiver<Told>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
    let (sender, told) = mpsc::channel();
    thread::spawn(move || {
        for (at, stream) in listener.incoming().flatten().enumerate() {
            let status = if at < failures { "500 No" } else { "200 OK" };
            if sender.send(take(stream, status)).is_err() {
                return;
            }
        }
    });
    (url, told)
}

fn take(mut stream: TcpStream, status: &str) -> Told {
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    let mut headers = Vec::new();
    let mut line = String::new();
    while reader.read_line(&mut line).expect("a head") > 0 && line.trim() != "" {
        if let Some((name, value)) = line.split_once(':') {
            headers.push((name.to_lowercase(), value.trim().to_owned()));
        }
        line.clear();
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length
        .and_then(|(_, value)| value.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).expect("it reads");
    Told {
        headers,
        body: String::from_utf8(body).expect("text"),
    }
}

/// An independent HMAC-SHA-256.
fn signed(secret: &str, text: &str) -> Option<String> {
    let script = "import hmac,hashlib,sys;print('sha256='+hmac.new(sys.argv[1].encode(),sys.argv[2].encode(),hashlib.sha256).hexdigest())";
    let output = Command::new("python3")
        .args(["-c", script, secret, text])
        .output()
        .ok()?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

#[test]
fn webhooks_are_sent_in_their_format_with_a_signature() {
    let (generic, told) = listen(1);
    let (slack, slacked) = listen(0);
    let bed = Bed::new(&format!(
        "{ASKING}approvals: {{base_url: 'https://gate.example', notify: [{{url: '{generic}', secret: 's3cret'}}, {{url: '{slack}', format: slack}}]}}\n"
    ));
    let mut host = bed.stdio_ready();
    let answer = call(&mut host, "n__wipe", r#"{"key":"<!channel>\u202e`x"}"#);
    let id = approval_of(&answer);
    let failed = told.recv_timeout(DEADLINE).expect("it is told");
    let again = told.recv_timeout(DEADLINE).expect("it is told again");
    assert_eq!(failed.body, again.body);
    let body = parsed(&again.body);
    assert_eq!(body["id"], id.as_str());
    assert_eq!(body["url"], format!("https://gate.example/approvals/{id}"));
    assert_eq!(body["type"], "approval_required");
    assert_eq!(
        (&body["tool"], &body["agent"]),
        (&"wipe".into(), &"testkit".into())
    );
    assert!(
        !again.body.contains("channel"),
        "no argument is told: {body}"
    );
    assert_eq!(again.header("x-callgate-delivery"), id);
    let text = format!("{}.{}", again.header("x-callgate-timestamp"), again.body);
    if let Some(expected) = signed("s3cret", &text) {
        assert_eq!(again.header("x-callgate-signature"), expected);
    }
    let slack = slacked.recv_timeout(DEADLINE).expect("it is told");
    assert_eq!(
        slack.header("x-callgate-signature"),
        "",
        "nothing to sign with"
    );
    let body: Value = parsed(&slack.body);
    assert!(
        body["text"].as_str().expect("text").contains("n:wipe"),
        "{body}"
    );
    assert!(
        !slack.body.contains("channel"),
        "no argument is told: {body}"
    );
    assert_eq!(
        body["blocks"][1]["elements"][0]["url"],
        format!("https://gate.example/approvals/{id}")
    );
    call(&mut host, "n__wipe", r#"{"key":"<!channel>\u202e`x"}"#);
    drop(host);
    assert!(slacked.try_recv().is_err(), "once per approval");
}
