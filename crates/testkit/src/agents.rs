//! Fake coding agents: how each finds its tool server, and how its events look.

mod events;
mod project;
mod server;

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use events::Role;
use server::ToolServer;

/// What a fake agent does.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentScript {
    /// What it says its version is.
    pub version: String,
    /// The calls that it makes.
    pub calls: Vec<FakeCall>,
    /// Tools of its own that it says it used.
    pub native: Vec<FakeCall>,
    /// Tools of its own that it says it refused to its model.
    pub native_refused: Vec<FakeCall>,
    /// What it says in the end.
    pub text: String,
    /// What it does wrong.
    pub misbehave: Misbehave,
    /// Where it writes down what it was given, a JSON object a line.
    pub log: PathBuf,
}

/// One call in a script.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct FakeCall {
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
}

/// What a fake agent does wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Misbehave {
    /// Nothing.
    #[default]
    No,
    /// It never starts its tool server, and says that all is well.
    NoServer,
    /// It starts its tool server and kills it before it lists anything.
    ServerCrashes,
    /// It kills its tool server during a call, and says that all is well.
    ServerCrashesInCall,
    /// It ends with exit code 0 and no final event.
    NoFinal,
    /// It ends badly after its final event.
    FinalThenFails,
    /// Its final event says that it failed; its exit code says that it did not.
    SaysFailed,
    /// It never ends.
    Hangs,
    /// It never ends, whatever signal it gets.
    HangsDeaf,
    /// It ends with exit code 0 when it is told to stop, as some do.
    ExitsWellWhenTold,
}

impl AgentScript {
    /// Makes a folder of programs in which each agent is this fake. Its script is `script.json` beside that folder.
    ///
    /// # Panics
    /// When the folder cannot be written.
    pub fn install(folder: &Path) {
        fs::create_dir_all(folder).expect("a fresh folder is writable");
        let program = crate::bin("fake-agent");
        for name in ["claude", "gemini", "codex", "opencode"] {
            std::os::unix::fs::symlink(&program, folder.join(name)).expect("it is fresh");
        }
    }
}

/// The whole program.
pub fn main() -> Result<ExitCode> {
    let argv: Vec<String> = std::env::args().collect();
    let name = Path::new(&argv[0])
        .file_name()
        .and_then(|name| name.to_str());
    let role = Role::of(name.context("it was started under a name")?)?;
    let script = script_file(&argv[0]).context("a script beside the program's folder")?;
    let script: AgentScript = serde_json::from_str(&fs::read_to_string(&script)?)?;
    project::note_obeyed(role, &argv, &script.log.with_file_name("obeyed"));
    if let Some(answer) = role.about_itself(&argv[1..], &script.version) {
        println!("{answer}");
        return Ok(ExitCode::SUCCESS);
    }
    let mut stdin = String::new();
    std::io::stdin().read_to_string(&mut stdin)?;
    let cwd = std::env::current_dir()?;
    let mut log = json!({
        "argv": argv,
        "stdin": stdin,
        "env": environment(),
        "cwd": cwd,
        "home": home_files(),
    });
    let ended = act(role, &script, &argv, &mut log);
    let mut file = fs::File::options()
        .create(true)
        .append(true)
        .open(&script.log)?;
    writeln!(file, "{log}")?;
    ended
}

/// The script, found by the `PATH` alone: a step passes on no variable that would name it.
fn script_file(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut folders = std::env::split_paths(&path);
    let folder = folders.find(|folder| folder.join(program).exists())?;
    Some(folder.join(program).parent()?.parent()?.join("script.json"))
}

fn environment() -> Value {
    let all = std::env::vars().map(|(name, value)| (name, Value::String(value)));
    all.collect::<serde_json::Map<_, _>>().into()
}

/// The files of a home that a step made, with their text. The user's home is left out.
fn home_files() -> Value {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let mut files = serde_json::Map::new();
    let mut folders = vec![home.clone()];
    if !home.to_string_lossy().contains("/callgate-step-") {
        folders.clear();
    }
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if let (Ok(name), Ok(text)) =
                (path.strip_prefix(&home), fs::read_to_string(&path))
            {
                files.insert(name.display().to_string(), text.into());
            }
        }
    }
    files.into()
}

fn act(role: Role, script: &AgentScript, argv: &[String], log: &mut Value) -> Result<ExitCode> {
    handle_signals(script.misbehave)?;
    if script.misbehave == Misbehave::NoServer {
        eprintln!("no login was found");
        role.done(&script.text);
        return Ok(ExitCode::SUCCESS);
    }
    let Ok(command) = role.server(argv) else {
        // No tool server was configured.
        role.began();
        role.done(&script.text);
        return Ok(ExitCode::SUCCESS);
    };
    let mut server = ToolServer::start(&command)?;
    if script.misbehave == Misbehave::ServerCrashes {
        server.kill();
        role.done(&script.text);
        return Ok(ExitCode::SUCCESS);
    }
    server.initialize(role.name())?;
    log["tools"] = json!(server.tools()?);
    role.began();
    for native in &script.native {
        role.native(&native.tool, &native.arguments);
    }
    for refused in &script.native_refused {
        role.native_refused(&refused.tool, &refused.arguments);
    }
    let Some(results) = make_calls(role, script, &mut server)? else {
        role.done(&script.text);
        return Ok(ExitCode::SUCCESS);
    };
    log["results"] = json!(results);
    finish(role, script, server)
}

/// Ignores signals to stop, or ends well at the first of them, where that is the misbehaviour.
fn handle_signals(misbehave: Misbehave) -> Result<()> {
    let stop = [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT];
    if misbehave == Misbehave::HangsDeaf {
        for signal in stop {
            signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
        }
    }
    if misbehave == Misbehave::ExitsWellWhenTold {
        let mut signals = signal_hook::iterator::Signals::new(stop)?;
        thread::spawn(move || {
            if signals.forever().next().is_some() {
                std::process::exit(0);
            }
        });
    }
    Ok(())
}

/// Makes the calls of the script. `None` if the server is killed during one of them.
fn make_calls(
    role: Role,
    script: &AgentScript,
    server: &mut ToolServer,
) -> Result<Option<Vec<Value>>> {
    let mut results = Vec::new();
    for call in &script.calls {
        role.call(&call.tool, &call.arguments);
        if script.misbehave == Misbehave::ServerCrashesInCall {
            server.send_call(&call.tool, &call.arguments)?;
            server.kill();
            return Ok(None);
        }
        results.push(server.call(&call.tool, &call.arguments)?);
    }
    Ok(Some(results))
}

/// Ends as the script says, after all calls.
fn finish(role: Role, script: &AgentScript, server: ToolServer) -> Result<ExitCode> {
    match script.misbehave {
        Misbehave::Hangs | Misbehave::HangsDeaf | Misbehave::ExitsWellWhenTold => loop {
            thread::sleep(Duration::from_secs(3600));
        },
        Misbehave::NoFinal => {}
        Misbehave::SaysFailed => role.failed("it did not work"),
        Misbehave::FinalThenFails => {
            role.done(&script.text);
            return Ok(ExitCode::from(9));
        }
        Misbehave::No => role.done(&script.text),
        Misbehave::NoServer | Misbehave::ServerCrashes | Misbehave::ServerCrashesInCall => {
            bail!("it has ended already")
        }
    }
    server.close();
    Ok(ExitCode::SUCCESS)
}
