//! Chromium, driven by its own driver over WebDriver.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use callgate_testkit::{HttpHost, wait_until};
use serde_json::{Value, json};

use super::keep;
use crate::command::{command, exists, run};

/// Under this key WebDriver names an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
const START: Duration = Duration::from_secs(30);

/// A browser with one window. It ends when this is dropped.
pub(super) struct Browser {
    driver: Child,
    base: String,
    session: String,
}

impl Browser {
    /// Starts a browser, which is Debian's, and is installed first where that is allowed.
    pub(super) fn start() -> Result<Self> {
        if !exists("chromedriver", "--version") {
            eprintln!("soak: installing Chromium");
            run(command("apt-get").args(["install", "-y", "-q", "chromium", "chromium-driver"]))
                .context("install `chromium` and `chromium-driver` first")?;
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut browser = Self {
            driver,
            base: format!("http://127.0.0.1:{port}"),
            session: String::new(),
        };
        let ready = wait_until(START, || browser.send("GET", "/status", &json!({})).is_ok());
        ensure!(ready, "the browser driver does not answer");
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"args": [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                "--window-size=1100,1000", "--force-color-profile=srgb",
            ]},
        }}});
        let made = browser.send("POST", "/session", &wanted)?;
        let id = made["sessionId"].as_str().context("a session has an id")?;
        browser.session = format!("/session/{id}");
        Ok(browser)
    }

    pub(super) fn go(&self, url: &str) -> Result<()> {
        self.ask("/url", &json!({"url": url}))?;
        Ok(())
    }

    /// Clicks the first element that a selector finds.
    pub(super) fn click(&self, selector: &str) -> Result<()> {
        self.with(selector, |element| {
            self.ask(&format!("/element/{element}/click"), &json!({}))
        })?;
        Ok(())
    }

    /// The text of an element, as a person sees it.
    pub(super) fn text(&self, selector: &str) -> Result<String> {
        let text = self.with(selector, |element| {
            let place = format!("{}/element/{element}/text", self.session);
            self.send("GET", &place, &json!({}))
        })?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// Runs a script from outside of the page.
    pub(super) fn run(&self, script: &str) -> Result<Value> {
        self.ask("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Keeps a picture of the page.
    pub(super) fn shoot(&self, name: &str) -> Result<()> {
        let picture = self.send("GET", &format!("{}/screenshot", self.session), &json!({}))?;
        let text = picture.as_str().context("a picture is text")?;
        keep(name, &decoded(text)?)
    }

    /// Keeps a picture of what a terminal shows.
    pub(super) fn picture_of_text(&self, text: &str) -> Result<()> {
        self.go("about:blank")?;
        let script = format!(
            "document.body.style = 'background:#16181d;margin:0';\
             const pre = document.createElement('pre');\
             pre.style = 'color:#e6e6e6;font:15px/1.45 monospace;padding:20px;white-space:pre-wrap';\
             pre.textContent = {}; document.body.append(pre);",
            Value::from(text)
        );
        self.run(&script)?;
        self.shoot("approvals-terminal.png")
    }

    /// What the browser complained about since the last look.
    pub(super) fn logs(&self) -> Result<Vec<String>> {
        let all = self.ask("/se/log", &json!({"type": "browser"}))?;
        let all = all.as_array().cloned().unwrap_or_default();
        let severe = all.iter().filter(|entry| entry["level"] == "SEVERE");
        // There is no icon, and a browser always asks for one.
        let messages = severe.filter_map(|entry| entry["message"].as_str());
        let ours = messages.filter(|message| !message.contains("favicon"));
        Ok(ours.map(str::to_owned).collect())
    }

    /// Does something with an element; once more where the page was put in place anew in between.
    fn with(&self, selector: &str, act: impl Fn(&str) -> Result<Value>) -> Result<Value> {
        let first = act(&self.element(selector)?);
        match first {
            Err(error) if error.to_string().contains("stale element") => {
                act(&self.element(selector)?)
            }
            done => done,
        }
    }

    fn element(&self, selector: &str) -> Result<String> {
        let wanted = json!({"using": "css selector", "value": selector});
        let found = self.ask("/element", &wanted)?;
        let id = found[ELEMENT].as_str();
        Ok(id.with_context(|| format!("no `{selector}`"))?.to_owned())
    }

    fn ask(&self, place: &str, body: &Value) -> Result<Value> {
        self.send("POST", &format!("{}{place}", self.session), body)
    }

    fn send(&self, method: &str, place: &str, body: &Value) -> Result<Value> {
        let host = HttpHost::new(&format!("{}{place}", self.base))?;
        let body = if method == "GET" {
            String::new()
        } else {
            body.to_string()
        };
        let headers = [("Content-Type", "application/json")];
        let reply = host.send(method, &headers, body.as_bytes())?;
        let status = reply.status;
        let mut answer: Value = serde_json::from_str(&reply.text()?)?;
        if status != 200 {
            bail!("WebDriver {place} was answered {status}: {answer}");
        }
        Ok(answer["value"].take())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _ = self.send("DELETE", &self.session, &json!({}));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// Base64 without line breaks.
fn decoded(text: &str) -> Result<Vec<u8>> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0);
    for byte in text.trim_end_matches('=').bytes() {
        let value = ALPHABET.iter().position(|known| *known == byte);
        bits = bits << 6 | u32::try_from(value.context("it is not base64")?)?;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push(u8::try_from(bits >> count & 0xff)?);
        }
    }
    Ok(out)
}
