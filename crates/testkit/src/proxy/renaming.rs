//! Names between a client that knows one server by bare names and a gateway that shows several under prefixes:
//! requests get the prefix of one server, and lists lose it, together with what other servers list.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;

use serde_json::Value;

use super::{Route, read_head};

/// The lists whose items have names.
const LISTS: [&str; 2] = ["tools", "prompts"];

/// Forwards one request and its response, each with its names changed.
pub(super) fn forward(route: &Route, client: TcpStream, prefix: &str) -> io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let head = read_head(&mut reader)?;
    let length = header(&head, "content-length").and_then(|value| value.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    let body = changed(&body, |message| with_prefix(message, prefix));
    let mut server = TcpStream::connect(route.upstream)?;
    server.set_nodelay(true)?;
    client.set_nodelay(true)?;
    server.write_all(request_head(&route.rewritten(&head), &body, prefix).as_bytes())?;
    server.write_all(&body)?;
    let requests = server.try_clone()?;
    thread::spawn(move || {
        // Ends when the client goes away; the upstream's stream is then closed as well.
        let _ = io::copy(&mut reader, &mut io::sink());
        let _ = requests.shutdown(Shutdown::Both);
    });
    let mut client = client;
    let answered = answer(server, &mut client, prefix);
    let _ = client.shutdown(Shutdown::Both);
    answered
}

/// The head of a request of HTTP/1.0, so that the response is not cut into chunks.
fn request_head(head: &str, body: &[u8], prefix: &str) -> String {
    let mut out = String::new();
    for (number, line) in head.lines().filter(|line| !line.is_empty()).enumerate() {
        let name = line.split(':').next().unwrap_or_default();
        let line = match name.to_ascii_lowercase().as_str() {
            _ if number == 0 => line.replace("HTTP/1.1", "HTTP/1.0"),
            "content-length" => format!("Content-Length: {}", body.len()),
            "mcp-name" if names_tool_or_prompt(body) => {
                line.replacen(": ", &format!(": {prefix}"), 1)
            }
            _ => line.to_owned(),
        };
        out.push_str(&line);
        out.push_str("\r\n");
    }
    out + "\r\n"
}

fn names_tool_or_prompt(body: &[u8]) -> bool {
    let message: Value = serde_json::from_slice(body).unwrap_or_default();
    matches!(
        message["method"].as_str(),
        Some("tools/call" | "prompts/get")
    )
}

fn answer(server: TcpStream, client: &mut TcpStream, prefix: &str) -> io::Result<()> {
    let mut reader = BufReader::new(server);
    let head = read_head(&mut reader)?;
    let is_stream = header(&head, "content-type").is_some_and(|kind| kind.contains("event-stream"));
    let kept = head.lines().filter(|line| {
        let name = line.split(':').next().unwrap_or_default();
        !line.is_empty()
            && !["content-length", "connection"].contains(&name.to_ascii_lowercase().as_str())
    });
    let mut kept = kept.collect::<Vec<_>>().join("\r\n");
    kept.push_str("\r\nConnection: close\r\n");
    let without = |message: &mut Value| without_prefix(message, prefix);
    if !is_stream {
        let mut body = Vec::new();
        reader.read_to_end(&mut body)?;
        let body = changed(&body, without);
        kept.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        client.write_all(kept.as_bytes())?;
        return client.write_all(&body);
    }
    client.write_all(format!("{kept}\r\n").as_bytes())?;
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        if let Some(data) = line.strip_prefix(b"data: ") {
            let data = changed(data.trim_ascii_end(), without);
            line = [b"data: ", data.as_slice(), b"\n"].concat();
        }
        client.write_all(&line)?;
        line.clear();
    }
    Ok(())
}

fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// The body with each of its messages changed; what is not JSON stays.
fn changed(body: &[u8], change: impl Fn(&mut Value)) -> Vec<u8> {
    let Ok(mut message) = serde_json::from_slice::<Value>(body) else {
        return body.to_vec();
    };
    let before = message.clone();
    match &mut message {
        Value::Array(all) => all.iter_mut().for_each(change),
        one => change(one),
    }
    match message == before {
        true => body.to_vec(),
        false => message.to_string().into_bytes(),
    }
}

fn with_prefix(message: &mut Value, prefix: &str) {
    let place = match message["method"].as_str() {
        Some("tools/call" | "prompts/get") => "/params/name",
        Some("completion/complete") => "/params/ref/name",
        Some(_) | None => return,
    };
    if let Some(Value::String(name)) = message.pointer_mut(place) {
        name.insert_str(0, prefix);
    }
}

fn without_prefix(message: &mut Value, prefix: &str) {
    for list in LISTS {
        let items = message.pointer_mut(&format!("/result/{list}"));
        let Some(Value::Array(items)) = items else {
            continue;
        };
        items.retain_mut(|item| {
            let own = item["name"]
                .as_str()
                .and_then(|name| name.strip_prefix(prefix));
            let own = own.map(str::to_owned);
            let is_own = own.is_some();
            if let Some(own) = own {
                item["name"] = own.into();
            }
            is_own
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> String {
        let changed = changed(text.as_bytes(), |message| with_prefix(message, "a__"));
        String::from_utf8(changed).expect("text")
    }

    #[test]
    fn only_names_of_tools_and_prompts_change() {
        let call = r#"{"method":"tools/call","params":{"name":"a__t"}}"#;
        assert_eq!(with(&call.replace("a__", "")), call);
        let other = r#"{ "method":"resources/read","params":{"name":"t"}}"#;
        assert_eq!(with(other), other);
        let listed = r#"{"result":{"tools":[{"name":"a__t"},{"name":"b__t"}]}}"#;
        let own = changed(listed.as_bytes(), |message| without_prefix(message, "a__"));
        assert_eq!(own, br#"{"result":{"tools":[{"name":"t"}]}}"#);
        assert_eq!(changed(b"not JSON", |_| {}), b"not JSON");
    }
}
