//! The page of approvals in a real browser, headless: logged in by a link, a call seen with everything that
//! is hidden in it, approved, and seen to go ahead. The pictures of the guide are taken here.

mod browser;

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use callgate_testkit::{DataDir, Host, HttpHost, StdioHost, bin, callgate, wait_until};

use self::browser::Browser;
use crate::command::root;

const VERSION: &str = "2025-11-25";
const START: Duration = Duration::from_secs(30);
const SEEN: Duration = Duration::from_secs(10);

/// Arguments with a change of a file, and with invisible characters.
const ARGUMENTS: &str = r#"{"key":"invoice\u202efdp.exe","note":"pay\u200b now <b>please</b>","path":"notes/todo.txt","old_string":"buy milk\ncall home\n","new_string":"buy milk\ncall back\n"}"#;

pub(super) fn run() -> Result<()> {
    let stage = Stage::new()?;
    let mut host = stage.host()?;
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"n__wipe","arguments":{ARGUMENTS}}}}}"#
    );
    let browser = Browser::start()?;
    log_in(&browser, &stage)?;
    hold_call(&browser, &mut host, &line)?;
    browser.click("main table a")?;
    check_approval_page(&browser)?;
    let id = browser.run("return location.pathname.split('/').pop()")?;
    let id = id.as_str().context("the page is an approval's")?.to_owned();
    browser.picture_of_text(&format!(
        "$ callgate approvals show {id}\n{}",
        stage.command(&["approvals", "show", &id])?
    ))?;
    browser.go(&format!("{}/approvals/{id}", stage.base))?;
    approve_call(&browser, &mut host, &line)?;
    let blocked = browser.logs()?;
    ensure!(blocked.is_empty(), "the browser complains: {blocked:?}");
    println!("page: logged in, reviewed, approved, forwarded; the pictures are in docs/pictures");
    Ok(())
}

fn log_in(browser: &Browser, stage: &Stage) -> Result<()> {
    browser.go(&stage.command(&["approvals", "link"])?)?;
    browser.click("button.yes")?;
    ensure!(
        browser.text("main")?.contains("No pending approvals"),
        "an empty list"
    );
    Ok(())
}

/// Makes a call that needs approval, which the open list of approvals then shows.
fn hold_call(browser: &Browser, host: &mut HttpHost, line: &str) -> Result<()> {
    let answer = exchange(host, line)?;
    ensure!(answer.contains("requires approval"), "it is held: {answer}");
    wait(
        || Ok(browser.text("main")?.contains("n:wipe")),
        "the open list shows it",
    )?;
    browser.shoot("approvals-list.png")
}

/// The page shows every argument as text, and marks characters that a reader would not see.
fn check_approval_page(browser: &Browser) -> Result<()> {
    let shown = browser.text("main")?;
    for expected in [
        "⟨U+202E⟩",
        "⟨U+200B⟩",
        "<b>please</b>",
        "call back",
        "pending",
    ] {
        ensure!(shown.contains(expected), "`{expected}` is not in: {shown}");
    }
    let marks = browser.run("return document.querySelectorAll('mark').length")?;
    ensure!(
        marks.as_u64() >= Some(2),
        "hidden characters are marked: {marks}"
    );
    let foreign = browser.run("return document.querySelectorAll('main b').length")?;
    ensure!(
        foreign.as_u64() == Some(0),
        "no markup of the agent's: {foreign}"
    );
    let hidden =
        browser.run(r"return /[\u202e\u200b]/.test(document.documentElement.innerHTML)")?;
    ensure!(hidden.as_bool() == Some(false), "nothing is left hidden");
    browser.shoot("approvals-page.png")
}

/// Approves the call on its page; the same call then goes ahead, which the open page shows.
fn approve_call(browser: &Browser, host: &mut HttpHost, line: &str) -> Result<()> {
    browser.click("button.yes")?;
    wait(
        || Ok(browser.text("main")?.contains("approved by admin (page)")),
        "it is approved",
    )?;
    let done = exchange(host, line)?;
    ensure!(done.contains("wipe invoice"), "it goes ahead: {done}");
    wait(
        || Ok(browser.text("main")?.contains("the call went ahead")),
        "the open page shows it",
    )?;
    browser.shoot("approvals-used.png")
}

/// A gateway with one server.
struct Stage {
    dir: DataDir,
    base: String,
    _gateway: StdioHost,
}

impl Stage {
    fn new() -> Result<Self> {
        let dir = DataDir::new();
        let counter = bin("counter-upstream");
        dir.file(
            "callgate.yaml",
            &format!("servers: {{n: {{command: '{}'}}}}\n", counter.display()),
        );
        let mut serve = of(&dir, &["serve", "--listen", "127.0.0.1:0"]);
        let gateway = StdioHost::spawn(&mut serve)?;
        let line = gateway.wait_stderr(START, |line| line.starts_with("listening "))?;
        let base = line
            .trim_start_matches("listening ")
            .trim_end_matches("/mcp");
        Ok(Self {
            base: base.to_owned(),
            _gateway: gateway,
            dir,
        })
    }

    fn host(&self) -> Result<HttpHost> {
        let token = self.dir.read("data/agent.token");
        let bearer = format!("Bearer {}", token.trim());
        let mut host =
            HttpHost::new(&format!("{}/mcp", self.base))?.header("Authorization", &bearer);
        host.initialize(VERSION)?;
        Ok(host)
    }

    /// What a command of the product prints.
    fn command(&self, args: &[&str]) -> Result<String> {
        let output = of(&self.dir, args).output()?;
        ensure!(output.status.success(), "{args:?} failed");
        Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
    }
}

fn of(dir: &DataDir, args: &[&str]) -> Command {
    let mut command = Command::new(callgate());
    command.args(args);
    command
        .arg("--config")
        .arg(dir.path().join("callgate.yaml"));
    command.arg("--data-dir").arg(dir.path().join("data"));
    command
}

fn exchange(host: &mut HttpHost, line: &str) -> Result<String> {
    Ok(host.exchange(line, &mut |_| None)?.concat())
}

/// Looks until it is so.
fn wait(mut look: impl FnMut() -> Result<bool>, what: &str) -> Result<()> {
    let mut seen = Ok(false);
    wait_until(SEEN, || {
        seen = look();
        !matches!(seen, Ok(false))
    });
    ensure!(seen?, "not within {SEEN:?}: {what}");
    Ok(())
}

/// Keeps a picture for the guide.
fn keep(name: &str, picture: &[u8]) -> Result<()> {
    let path = root().join("docs/pictures").join(name);
    fs::write(&path, picture).with_context(|| format!("cannot write {}", path.display()))
}
