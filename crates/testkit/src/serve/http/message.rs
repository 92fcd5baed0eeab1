//! HTTP/1.1 as far as a fake upstream needs it: requests whole, responses whole or as events.

use std::io::{self, BufRead, Read, Write};
use std::net::TcpStream;

/// A request, read to its end.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// A response that is a stream of events, in chunks.
#[derive(Debug)]
pub(super) struct Events {
    stream: TcpStream,
}

impl Request {
    /// The next request of a connection; `None` when it has ended.
    pub(super) fn read(reader: &mut impl BufRead) -> io::Result<Option<Self>> {
        let first = line(reader)?;
        let mut words = first.split(' ');
        let (Some(method), Some(path)) = (words.next(), words.next()) else {
            return Ok(None);
        };
        let mut headers = Vec::new();
        loop {
            let line = line(reader)?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut request = Self {
            method: method.to_owned(),
            path: path.to_owned(),
            headers,
            body: Vec::new(),
        };
        if request.header("transfer-encoding").is_some() {
            read_chunks(reader, &mut request.body)?;
        } else {
            let length = request.header("content-length");
            let length = length.and_then(|text| text.parse().ok()).unwrap_or(0);
            reader.take(length).read_to_end(&mut request.body)?;
        }
        Ok(Some(request))
    }

    /// The first header of that name, which is given in lower case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Writes a whole response.
pub(super) fn respond(
    mut stream: &TcpStream,
    status: u16,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<()> {
    let mut whole = head(status, headers);
    whole.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    stream.write_all(&[whole.as_bytes(), body].concat())
}

impl Events {
    /// Begins a stream of events.
    pub(super) fn begin(mut stream: TcpStream, headers: &[(&str, &str)]) -> io::Result<Self> {
        let mut whole = head(200, headers);
        whole.push_str("content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n");
        stream.write_all(whole.as_bytes())?;
        Ok(Self { stream })
    }

    /// Writes an event; its data is split at line feeds, for that is how the format carries them.
    pub(super) fn event(&mut self, name: &str, data: &[u8]) -> io::Result<()> {
        let mut text = format!("event: {name}\n").into_bytes();
        for line in data.split(|byte| *byte == b'\n') {
            text.extend_from_slice(b"data: ");
            text.extend_from_slice(line);
            text.push(b'\n');
        }
        text.push(b'\n');
        self.raw(&text)
    }

    /// Writes any bytes as one chunk.
    pub(super) fn raw(&mut self, text: &[u8]) -> io::Result<()> {
        let size = format!("{:x}\r\n", text.len());
        self.stream
            .write_all(&[size.as_bytes(), text, b"\r\n"].concat())
    }

    /// Ends the stream; the connection can be used on.
    pub(super) fn end(&mut self) -> io::Result<()> {
        self.stream.write_all(b"0\r\n\r\n")
    }
}

fn head(status: u16, headers: &[(&str, &str)]) -> String {
    let mut head = format!("HTTP/1.1 {status} Fixture\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head
}

fn read_chunks(reader: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let size = u64::from_str_radix(line(reader)?.trim(), 16);
        let size = size.map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        reader.by_ref().take(size).read_to_end(body)?;
        line(reader)?;
        if size == 0 {
            return Ok(());
        }
    }
}

fn line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}
