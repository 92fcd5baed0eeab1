//! Which files of the folder that it works in an agent obeys, as was seen of the real ones: settings that start commands,
//! variables that lead requests elsewhere, plugins, and files that are read into the prompt.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::events::Role;

/// Writes down, a line each, the files that this agent would have obeyed.
pub(super) fn note_obeyed(role: Role, argv: &[String], log: &Path) {
    let cwd = std::env::current_dir().unwrap_or_default();
    let obeyed = match role {
        Role::Claude => by_claude(&cwd, argv),
        Role::Gemini => by_gemini(&cwd, argv),
        Role::Codex => by_codex(&cwd, argv),
        Role::OpenCode => by_opencode(&cwd, argv),
    };
    let file = OpenOptions::new().create(true).append(true).open(log);
    for path in obeyed {
        // A test that looks for the line finds out that it is missing.
        let line = format!("{}\n", path.display());
        let _ = file
            .as_ref()
            .map(|mut file| file.write_all(line.as_bytes()));
    }
}

fn existing(folder: &Path, names: &[&str]) -> Vec<PathBuf> {
    let paths = names.iter().map(|name| folder.join(name));
    paths.filter(|path| path.exists()).collect()
}

fn has(argv: &[String], flag: &str) -> bool {
    argv.iter().any(|arg| arg == flag)
}

fn value<'a>(argv: &'a [String], flag: &str) -> Option<&'a str> {
    let at = argv.iter().position(|arg| arg == flag)?;
    argv.get(at + 1).map(String::as_str)
}

fn by_claude(cwd: &Path, argv: &[String]) -> Vec<PathBuf> {
    if value(argv, "--setting-sources") == Some("user") || has(argv, "--version") {
        return Vec::new();
    }
    let mut all = existing(
        cwd,
        &[".claude/settings.json", ".claude/settings.local.json"],
    );
    if !has(argv, "--strict-mcp-config") {
        all.extend(existing(cwd, &[".mcp.json"]));
    }
    all
}

/// A trusted folder's `.gemini/.env` is read in any case, `.env` unless the settings say otherwise; the first that is found
/// on the way up counts.
fn by_gemini(cwd: &Path, argv: &[String]) -> Vec<PathBuf> {
    if has(argv, "--version") {
        return Vec::new();
    }
    let home = std::env::var("GEMINI_CLI_HOME").unwrap_or_default();
    let settings = fs::read_to_string(Path::new(&home).join(".gemini/settings.json"));
    let settings: Value = settings
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    let ignores = settings["advanced"]["ignoreLocalEnv"] == true;
    let found = cwd.ancestors().find_map(|folder| {
        let [own, plain] = [".gemini/.env", ".env"].map(|name| folder.join(name));
        if own.exists() {
            Some(own)
        } else {
            (plain.exists() && !ignores).then_some(plain)
        }
    });
    let mut all: Vec<PathBuf> = found.into_iter().collect();
    let name = settings["context"]["fileName"]
        .as_str()
        .unwrap_or("GEMINI.md");
    let folders = [
        Some(cwd),
        value(argv, "--include-directories").map(Path::new),
    ];
    for folder in folders.into_iter().flatten() {
        let text = fs::read_to_string(folder.join(name)).unwrap_or_default();
        let imports = text
            .split_whitespace()
            .filter_map(|word| word.strip_prefix('@'));
        all.extend(imports.map(|import| folder.join(import)));
    }
    // Files of the step's own folder are the gateway's.
    all.retain(|path| !path.to_string_lossy().contains("/callgate-step-"));
    all
}

/// Only in folders that the user's own configuration trusts.
fn by_codex(cwd: &Path, argv: &[String]) -> Vec<PathBuf> {
    let home = std::env::var("HOME").unwrap_or_default();
    let config = fs::read_to_string(Path::new(&home).join(".codex/config.toml"));
    let config = config.unwrap_or_default();
    let trusted = cwd
        .ancestors()
        .any(|folder| config.contains(&format!("[projects.\"{}\"]", folder.display())));
    let taken_back = argv.iter().any(|arg| {
        arg.starts_with("projects={")
            && arg.contains(&format!(
                "\"{}\"={{trust_level=\"untrusted\"}}",
                cwd.display()
            ))
    });
    if trusted && !taken_back && !has(argv, "--version") {
        existing(cwd, &[".codex/config.toml"])
    } else {
        Vec::new()
    }
}

/// Two readers of configuration: the older one heeds `OPENCODE_DISABLE_PROJECT_CONFIG`, the newer one, at work in `run`
/// alone, does not, and looks nowhere but in the user's configuration when it is started there.
fn by_opencode(cwd: &Path, argv: &[String]) -> Vec<PathBuf> {
    if has(argv, "--version") {
        return Vec::new();
    }
    let config = std::env::var("XDG_CONFIG_HOME").unwrap_or_default();
    let is_config = cwd == Path::new(&config).join("opencode");
    let is_off = std::env::var("OPENCODE_DISABLE_PROJECT_CONFIG").as_deref() == Ok("1");
    let newer = argv.get(1).map(String::as_str) == Some("run") && !is_config;
    if is_off && !newer {
        return Vec::new();
    }
    let names = [
        "opencode.json",
        "opencode.jsonc",
        ".opencode/opencode.json",
        ".opencode/plugin",
        ".opencode/plugins",
    ];
    existing(cwd, &names)
}
