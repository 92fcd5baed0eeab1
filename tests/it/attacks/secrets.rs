//! Secrets that would be stored, shown or sent in readable form.

mod forms;
mod wrapping;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use callgate_testkit::{HttpHost, wait_until};
use serde_json::{Value, json};

use self::forms::{Form, forms};
use self::wrapping::{WRAPPINGS, Wrapping};
use super::{CANNED, Seen, attack, can, plain_tool};
use crate::evidence::{run, stdout};
use crate::setup::{Bed, Served};
use crate::talk::{DEADLINE, call, parsed};

/// Everything that a gateway stores or shows, with a server `s` whose tools echo their arguments.
struct Watched {
    bed: Bed,
    served: Served,
    hooked: Receiver<String>,
}

impl Watched {
    fn new() -> Self {
        let (hook, hooked) = hook();
        let bed = Bed::new(&format!(
            "servers:\n{CANNED}policy: policy.yaml\napprovals: {{notify: [{{url: '{hook}'}}]}}\n"
        ));
        let policy = "version: '1'\nrules: [{scope: mcp_tool, require_approval: [{pattern: 's:held'}], deny: [{pattern: 's:denied'}], allow: [{pattern: '*'}]}]\n";
        super::write(&bed.path("policy.yaml"), policy);
        can(&bed, &["echo", "held", "denied"].map(plain_tool));
        let served = bed.serve();
        Self {
            bed,
            served,
            hooked,
        }
    }

    fn admin(&self, path: &str) -> HttpHost {
        let host = HttpHost::new(&self.served.url.replace("/mcp", path)).expect("an http URL");
        host.header(
            "Authorization",
            &format!("Bearer {}", self.served.admin_token),
        )
    }

    /// All that was stored or shown so far, as one text.
    fn everything(&self, events: &str) -> Vec<(String, String)> {
        let mut all = vec![("events".to_owned(), events.to_owned())];
        for path in [
            "/metrics",
            "/api/v1/activity?limit=1000",
            "/api/v1/activity/export",
        ] {
            let reply = self.admin(path).send("GET", &[], b"").expect("it answers");
            all.push((path.to_owned(), reply.text().expect("text")));
        }
        let stderr = self.served.process.stderr().join("\n");
        all.push(("stderr".to_owned(), stderr));
        let hooked: String = self.hooked.try_iter().collect();
        all.push(("webhook".to_owned(), hooked));
        let listed = stdout(&run(
            &self.bed,
            &["activity", "list", "--json", "--limit", "1000"],
        ));
        all.push(("activity list".to_owned(), listed));
        kept(&self.bed.path("data"), &mut all);
        all
    }
}

/// The bytes of every file below a folder.
fn kept(folder: &Path, all: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            kept(&path, all);
        } else if let Ok(bytes) = fs::read(&path) {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            all.push((path.display().to_string(), text));
        }
    }
}

/// An address that takes messages.
fn hook() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
    let (sender, told) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let Some(body) = take(stream) else { continue };
            if sender.send(body).is_err() {
                return;
            }
        }
    });
    (url, told)
}

fn take(mut stream: TcpStream) -> Option<String> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut length = 0;
    let mut line = String::new();
    while reader.read_line(&mut line).ok()? > 0 && !line.trim().is_empty() {
        let lower = line.to_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    stream.write_all(answer).ok()?;
    String::from_utf8(body).ok()
}

/// Where any of the secrets can be read. Ten characters in a row are as good as the whole.
fn leaks(forms: &[Form], places: &[(String, String)]) -> Vec<String> {
    let mut found = Vec::new();
    for form in forms {
        let part = &form.secret[form.secret.len() - form.secret.len().min(10)..];
        for (place, text) in places {
            if text.contains(part) {
                found.push(format!("{} in {place}", form.name));
            }
        }
    }
    found
}

/// Makes one call of a tool per wrapping, and says where the secret can be read afterwards.
fn tried(watched: &Watched, tools: &[&str], forms: &[Form], wrappings: &[Wrapping]) -> Vec<String> {
    let mut host = watched.served.host_ready();
    let mut ears = watched.admin("/events");
    ears.set_deadline(Duration::from_secs(10));
    let mut stream = ears.listen().expect("an admin may listen");
    let mut last = String::new();
    for form in forms {
        for wrapping in wrappings.iter().filter(|wrapping| wrapping.fits(form)) {
            for tool in tools {
                let arguments = wrapping.arguments("k", form);
                let response = call(&mut host, &format!("s__{tool}"), &arguments);
                if *tool == "echo" {
                    let passed = response.to_string();
                    assert!(
                        passed.contains("first line") || !passed.contains("isError\":true"),
                        "{passed}"
                    );
                }
            }
        }
    }
    // The last call is one that can be told from the others, so that all events before it were heard.
    call(&mut host, "s__echo", r#"{"key":"the last"}"#);
    let records = records_of(watched);
    if let Some(record) = records
        .iter()
        .find(|record| record["arguments"]["key"] == "the last")
    {
        record["id"]
            .as_str()
            .unwrap_or_default()
            .clone_into(&mut last);
    }
    let mut events = String::new();
    while let Ok(Some(event)) = stream.next_event() {
        events.push_str(&event.data);
        events.push('\n');
        if event.name.as_deref() == Some("call.finished") && event.data.contains(&last) {
            break;
        }
    }
    leaks(forms, &watched.everything(&events))
}

fn records_of(watched: &Watched) -> Vec<Value> {
    let reply = watched
        .admin("/api/v1/activity?limit=5")
        .send("GET", &[], b"");
    let page = parsed(&reply.expect("it answers").text().expect("text"));
    page["activities"].as_array().cloned().unwrap_or_default()
}

#[test]
fn a_hundred_forms_of_secrets_are_neither_stored_nor_shown() {
    let forms = forms();
    assert!(forms.len() >= 100, "{}", forms.len());
    let watched = Watched::new();
    attack(
        "secrets",
        "any of a hundred forms is in arguments and in an answer",
    )
    .expect(Seen::Harmless)
    .tries(["every form in every wrapping"], |_| {
        seen(&tried(&watched, &["echo"], &forms, &WRAPPINGS))
    })
    .check();
}

fn some(names: &[&str]) -> Vec<Form> {
    let mut forms = forms();
    forms.retain(|form| names.iter().any(|name| form.name.contains(name)));
    assert!(!forms.is_empty(), "{names:?}");
    forms
}

/// An attack of forms by their names, each of which is a spelling.
fn hidden(cause: &'static str, names: &[&str]) -> super::Attack {
    let watched = Watched::new();
    attack("secrets", cause)
        .expect(Seen::Harmless)
        .tries(some(names), |form| {
            let found = tried(&watched, &["echo"], std::slice::from_ref(form), &WRAPPINGS);
            seen(&found)
        })
}

fn seen(found: &[String]) -> Seen {
    match found {
        [] => Seen::Harmless,
        found => {
            eprintln!("{found:#?}");
            Seen::Passed
        }
    }
}

#[test]
fn named_cloud_keys_are_not_stored() {
    hidden(
        "the secret half of a cloud key stands beside its name",
        &["AWS s", "Azure"],
    )
    .check();
}

#[test]
fn passwords_in_urls_are_not_stored() {
    hidden(
        "an address of a database or a page has a password in it",
        &["URL", "Go database"],
    )
    .check();
}

#[test]
fn provider_tokens_are_not_stored() {
    let names = [
        "GitLab", "Stripe", "npm", "PyPI", "Hugging", "SendGrid", "Slack", "Vault", "Digital",
        "Google",
    ];
    hidden("a provider's token is known by how it begins", &names).check();
}

#[test]
fn cookies_are_not_stored() {
    hidden("a cookie is the key to a session", &["cookie"]).check();
}

#[test]
fn kube_and_docker_credentials_are_not_stored() {
    hidden(
        "a configuration of kube or docker is read",
        &["kube", "Docker login"],
    )
    .check();
}

#[test]
fn passwords_under_short_names_and_in_options_are_not_stored() {
    let names = [
        "short name",
        "password option",
        "user option",
        "netrc",
        "database keywords",
        "passphrase",
        "element",
    ];
    hidden("a password has another name than `password=`", &names).check();
}

#[test]
fn authorization_headers_of_any_scheme_are_not_stored() {
    hidden(
        "a header authorizes with a scheme that is not Bearer",
        &["authorization", "header"],
    )
    .check();
}

#[test]
fn webhook_urls_are_not_stored() {
    hidden(
        "the address of a hook is the secret itself",
        &["hook", "Telegram"],
    )
    .check();
}

#[test]
fn private_keys_are_not_stored() {
    hidden(
        "a private key is read or written",
        &["RSA", "PKCS", "OpenSSH", "PGP"],
    )
    .check();
}

#[test]
fn secrets_of_held_and_denied_calls_are_not_stored() {
    let watched = Watched::new();
    let forms = some(&[
        "GitHub personal",
        "database URL of P",
        "cookie that",
        "AWS secret key",
        "RSA",
    ]);
    attack(
        "secrets",
        "a call that is held or refused has a secret in its arguments",
    )
    .expect(Seen::Harmless)
    .tries([["held", "denied"]], |tools| {
        let found = tried(&watched, tools, &forms, &[Wrapping::Text, Wrapping::Nested]);
        let asked = wait_until(DEADLINE, || {
            let listed = run(&watched.bed, &["approvals", "list", "--json"]);
            String::from_utf8_lossy(&listed.stdout).contains("s:held")
        });
        assert!(asked, "a person is asked");
        seen(&found)
    })
    .check();
}

#[test]
fn text_after_a_private_key_stays_on_record() {
    let watched = Watched::new();
    let begin = format!("-----BEGIN {}ATE KEY-----", "PRIV");
    let end = format!("-----END {}ATE KEY-----", "PRIV");
    let spellings = [
        format!("echo '{begin}' ; rm -rf /srv/everything"),
        format!("echo '{begin}\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n{end}' ; rm -rf /srv/everything"),
        format!("{begin}; rm -rf /srv/everything; {end}"),
        format!("{begin} rm -rf /srv/everything"),
    ];
    attack(
        "secrets",
        "a beginning of a key hides the rest of a command from the record",
    )
    .expect(Seen::Harmless)
    .tries(spellings, |command| {
        let arguments = json!({"key": "k", "command": command}).to_string();
        call(&mut watched.served.host_ready(), "s__echo", &arguments);
        let shown = records_of(&watched).iter().any(|record| {
            record["arguments"]
                .to_string()
                .contains("rm -rf /srv/everything")
        });
        if shown { Seen::Harmless } else { Seen::Passed }
    })
    .check();
}

#[test]
fn text_that_resembles_a_secret_stays_on_record() {
    let watched = Watched::new();
    let spellings = [
        json!({"max_tokens": 100, "path": "/srv/app/secretary.txt", "query": "reset my password please"}),
        json!({"url": "https://api.example:8443/v1/items?page=2#top", "author": "me@example.org"}),
        json!({"command": "grep -rn 'token' src | sort -u && task-runner --basic information"}),
        json!({"text": "The cookie jar is at ssh://git@git.example/o/r.git, key features: speed"}),
        json!({"sql": "select id, pwd_changed_at from users where token_count > 3"}),
    ];
    attack(
        "secrets",
        "words of plain text are taken for secrets and the record is blotted",
    )
    .expect(Seen::Harmless)
    .tries(spellings, |arguments| {
        call(
            &mut watched.served.host_ready(),
            "s__echo",
            &arguments.to_string(),
        );
        let kept = records_of(&watched)
            .iter()
            .any(|record| record["arguments"] == *arguments);
        if kept { Seen::Harmless } else { Seen::Passed }
    })
    .check();
}
