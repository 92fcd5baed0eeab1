//! Files in a work folder that would steer a coding agent past the gate.

use std::fs;

use callgate_testkit::agents::AgentScript;
use callgate_testkit::goplugin::plugin::RawPlugin;

use super::{Seen, attack, write};
use crate::agents::{KNOWN, Stage};
use crate::shell::run;

const CLASS: &str = "agents";

/// A place where agents are fakes that obey what the real ones obey, with a plugin for additive steps.
fn stage() -> Stage {
    let stage = Stage::new();
    let raw = RawPlugin::with_all(stage.bed.path("plugin.log"));
    raw.install(&stage.bed.path("data/plugins"), "raw");
    stage.script(AgentScript {
        version: KNOWN[0].to_owned(),
        text: "done".to_owned(),
        ..AgentScript::default()
    });
    stage
}

/// Runs a step in a folder with this file and says what became of the file.
fn step(stage: &Stage, provider: &str, mode: &str, file: &str) -> Seen {
    write(&stage.bed.path("desk").join(file), "see @other.txt\n");
    let mut args = vec![provider, "--prompt", "x"];
    if mode == "additive" {
        args.extend(["--mode", "additive", "--plugin", "raw:echo"]);
    }
    let ran = run(&mut stage.agent(&args));
    let obeyed = stage.bed.read("obeyed");
    match (obeyed.is_empty(), ran.code) {
        (false, _) => Seen::Passed,
        (true, Some(0)) => Seen::Harmless,
        (true, _) if ran.stderr.contains("remove it, or run the step") => Seen::Refused,
        (true, code) => panic!("{provider} {mode} {file}: {code:?} {}", ran.stderr),
    }
}

/// A file of the work folder for a provider, in steps of both modes.
fn try_files(cause: &'static str, provider: &str, mode: &str, files: &[&str]) {
    attack(CLASS, cause)
        .expect_any(&[Seen::Harmless, Seen::Refused])
        .tries(files, |file| step(&stage(), provider, mode, file))
        .check();
}

const OF_CLAUDE: [&str; 3] = [
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".mcp.json",
];

#[test]
fn settings_of_the_work_folder_reach_claude() {
    try_files(
        "settings in the work folder run commands in a step of Claude, or send its key elsewhere",
        "claude",
        "full",
        &OF_CLAUDE,
    );
}

#[test]
fn settings_of_the_work_folder_reach_claude_in_additive_steps() {
    try_files(
        "settings in the work folder run commands in an additive step of Claude",
        "claude",
        "additive",
        &OF_CLAUDE,
    );
}

#[test]
fn variables_of_the_work_folder_reach_gemini() {
    try_files(
        "a file of variables in the work folder sends Gemini's key to another address",
        "gemini",
        "full",
        &[".env", ".gemini/.env"],
    );
}

#[test]
fn variables_of_the_work_folder_reach_gemini_in_additive_steps() {
    try_files(
        "a file of variables in the work folder sends the key of an additive step of Gemini elsewhere",
        "gemini",
        "additive",
        &[".env", ".gemini/.env"],
    );
}

#[test]
fn imports_of_the_work_folder_reach_gemini() {
    try_files(
        "GEMINI.md in the work folder reads other files into the prompt",
        "gemini",
        "full",
        &["GEMINI.md"],
    );
}

const OF_OPENCODE: [&str; 4] = [
    ".opencode/plugin/evil.ts",
    "opencode.json",
    ".opencode/plugins/evil.ts",
    "opencode.jsonc",
];

#[test]
fn plugins_of_the_work_folder_reach_opencode() {
    try_files(
        "a plugin or configuration in the work folder runs in a step of OpenCode, or when it is asked for its configuration",
        "opencode",
        "full",
        &OF_OPENCODE,
    );
}

#[test]
fn plugins_of_the_work_folder_reach_opencode_in_additive_steps() {
    try_files(
        "a plugin or configuration in the work folder runs in an additive step of OpenCode",
        "opencode",
        "additive",
        &OF_OPENCODE,
    );
}

#[test]
fn the_opencode_agent_has_a_predictable_name() {
    let name = |stage: &Stage| {
        let argv = stage.argv();
        let at = argv.iter().position(|arg| arg == "--agent");
        at.and_then(|at| argv.get(at + 1)).cloned()
    };
    attack(
        CLASS,
        "a configuration gives the agent that OpenCode runs under more permissions, because it knows its name",
    )
    .expect(Seen::Harmless)
    .tries(["gateway", "callgate"], |known| {
        let stage = stage();
        let mut names = Vec::new();
        for _ in 0..2 {
            let ran = run(&mut stage.agent(&["opencode", "--prompt", "x"]));
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
            names.push(name(&stage).expect("it has a name"));
        }
        if names[0] == names[1] || names[0] == **known {
            Seen::Passed
        } else {
            Seen::Harmless
        }
    })
    .check();
}

#[test]
fn configuration_of_the_work_folder_reaches_codex() {
    attack(
        CLASS,
        "configuration in a work folder that the user trusts starts servers in a step of Codex",
    )
    .expect(Seen::Harmless)
    .tries(["full", "additive"], |mode| {
        let stage = stage();
        let desk = stage.bed.path("desk").display().to_string();
        let trust = format!("[projects.\"{desk}\"]\ntrust_level = \"trusted\"\n");
        fs::write(stage.bed.path("home/.codex/config.toml"), trust).expect("it is ours");
        step(&stage, "codex", mode, ".codex/config.toml")
    })
    .check();
}
