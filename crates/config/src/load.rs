//! Finding and reading the configuration file.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use callgate_gate::Problem;
use callgate_process::regular_file;
use serde::{
    Deserialize,
    de::{self, IgnoredAny},
};
use serde_json::Value;

use crate::{
    CONFIG_FILE, Config, Failed, complaint, folders,
    foreign::ForeignServers,
    governing::Governing,
    model::PolicyChoice,
    project,
    trust::{Manifest, TrustList},
};

/// Keys that were renamed, each with its present name. The old names are still read.
const RENAMED_KEYS: [(&str, &str); 2] = [("audit", "activity"), ("upstream", "server_defaults")];

/// Where a configuration came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Named by the user, or the user's own file.
    User,
    /// Found in the working folder and trusted: it may tighten the user's settings, not loosen them.
    Project,
    /// There is no file.
    Defaults,
}

/// Where a configuration is read from, now and when it changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigSource {
    pub origin: Origin,
    pub file: Option<PathBuf>,
    /// The data folder that keeps what is trusted.
    pub trust_dir: PathBuf,
}

/// A configuration and where it was found.
#[derive(Debug)]
pub struct LoadedConfig {
    pub config: Config,
    pub source: ConfigSource,
    /// The text of the file, so that errors found later can point into it.
    pub text: String,
    /// The data folder that the user's own file names.
    pub data_dir: Option<PathBuf>,
    /// The user's own policy if the policy is a project's: both apply.
    pub users_policy: Option<PolicyChoice>,
    /// Notes for the user about how it was read.
    pub notes: Vec<String>,
    /// A file in the working folder that is ignored because it is not trusted.
    pub untrusted: Option<Untrusted>,
    /// The governing files of a project, with the content that was read when trust was checked.
    pub(super) governing: Option<Governing>,
}

/// A file in the working folder that is ignored because it is not trusted yet.
#[derive(Debug)]
pub struct Untrusted {
    pub file: PathBuf,
    /// The files that changed since they were trusted.
    pub changed: Vec<String>,
}

/// Finds the configuration: the named file, a trusted one in the working folder, the user's own,
/// none. `data_dir` is where trust is kept.
pub fn load(named: Option<&Path>, data_dir: &Path) -> Result<LoadedConfig, Failed> {
    if let Some(file) = named {
        return users(file, data_dir);
    }
    let here = PathBuf::from(CONFIG_FILE);
    let mut untrusted = None;
    if let Ok(content) = regular_file::read(&here) {
        match projects(&here, &content, data_dir)? {
            Ok(found) => return Ok(found),
            Err(not) => untrusted = Some(not),
        }
    }
    let found = own_or_none(data_dir)?;
    Ok(LoadedConfig { untrusted, ..found })
}

/// Reads a configuration again from its source. A missing file, or one that is no longer trusted, is an
/// error; the configuration in use stays.
pub fn again(source: &ConfigSource) -> Result<LoadedConfig, Failed> {
    let trust_dir = &source.trust_dir;
    let Some(file) = &source.file else {
        return own_or_none(trust_dir);
    };
    let found = match source.origin {
        Origin::User | Origin::Defaults => users(file, trust_dir)?,
        Origin::Project => {
            let content = content(file)?;
            projects(file, &content, trust_dir)?.map_err(|Untrusted { changed, .. }| {
                let what = format!(
                    "configuration `{}` changed after it was trusted ({})",
                    file.display(),
                    changed.join(", ")
                );
                Failed::config(what).help("review it, then run `callgate trust` again")
            })?
        }
    };
    if found.text.trim().is_empty() {
        // A program that writes a file in place truncates it first; reloading then would drop all settings.
        let what = format!("configuration `{}` is empty", file.display());
        return Err(Failed::config(what).help("write `servers: {}` for no servers"));
    }
    Ok(found)
}

/// The user's own file, or the defaults where there is none.
fn own_or_none(trust_dir: &Path) -> Result<LoadedConfig, Failed> {
    match folders::user_config().filter(|file| file.exists()) {
        Some(file) => users(&file, trust_dir),
        None => Ok(LoadedConfig {
            config: Config::default(),
            source: ConfigSource {
                origin: Origin::Defaults,
                file: None,
                trust_dir: trust_dir.to_owned(),
            },
            text: String::new(),
            data_dir: None,
            users_policy: None,
            notes: Vec::new(),
            untrusted: None,
            governing: None,
        }),
    }
}

fn users(file: &Path, trust_dir: &Path) -> Result<LoadedConfig, Failed> {
    let found = of_content(file, &content(file)?, trust_dir)?;
    let data_dir = found.config.data_dir.as_deref();
    let data_dir = data_dir.map(|folder| file.parent().unwrap_or(Path::new("")).join(folder));
    Ok(LoadedConfig { data_dir, ..found })
}

/// A file that the user named, with this content.
pub(super) fn of_content(
    file: &Path,
    content: &[u8],
    trust_dir: &Path,
) -> Result<LoadedConfig, Failed> {
    let source = ConfigSource {
        origin: Origin::User,
        file: Some(file.to_owned()),
        trust_dir: trust_dir.to_owned(),
    };
    read(file, content, source)
}

/// Everything that trust in a project's configuration covers.
pub fn manifest_of(file: &Path) -> Result<Manifest, Failed> {
    let wrong = |error| Failed::user(format!("`{}`: {error}", file.display()));
    let content = regular_file::read(file).map_err(wrong)?;
    let found = of_content(file, &content, Path::new(""))?;
    Ok(Governing::of(file, &content, &found.config)
        .manifest()
        .clone())
}

/// A project's file, with the user's settings where it may not decide; `Untrusted` unless it is trusted with its
/// current content.
fn projects(
    file: &Path,
    content: &[u8],
    trust_dir: &Path,
) -> Result<Result<LoadedConfig, Untrusted>, Failed> {
    let untrusted = |changed| Untrusted {
        file: file.to_owned(),
        changed,
    };
    let list = TrustList::load(trust_dir)?;
    // An untrusted file is not even parsed.
    if !list.covers(file, content) {
        let changed = list.changes(file, &Manifest::new());
        let itself = changed.map(|_| file.display().to_string());
        return Ok(Err(untrusted(itself.into_iter().collect())));
    }
    let source = ConfigSource {
        origin: Origin::Project,
        file: Some(file.to_owned()),
        trust_dir: trust_dir.to_owned(),
    };
    let mut found = read(file, content, source)?;
    let governing = Governing::of(file, content, &found.config);
    match list.changes(file, governing.manifest()) {
        Some(changed) if changed.is_empty() => found.governing = Some(governing),
        changed => return Ok(Err(untrusted(changed.unwrap_or_default()))),
    }
    let own = own_or_none(trust_dir)?;
    let mut written: Value = serde_saphyr::from_str(&found.text).unwrap_or_default();
    if let Some(keys) = written.as_object_mut() {
        // Under its old name a key would seem not to be set, and the project's value would not be compared.
        for (old, new) in RENAMED_KEYS {
            if let Some(value) = keys.remove(old) {
                keys.insert(new.to_owned(), value);
            }
        }
    }
    let ignored = project::tighten(&mut found.config, &written, &own.config);
    if !ignored.is_empty() {
        found.notes.push(format!(
            "`{}` is a project's file and can only tighten your settings; ignoring its keys: {}",
            file.display(),
            ignored.join(", ")
        ));
    }
    found.data_dir = own.data_dir;
    if found.config.policy != own.config.policy {
        found.users_policy = Some(own.config.policy.unwrap_or(PolicyChoice::Default));
    }
    Ok(Ok(found))
}

fn content(file: &Path) -> Result<Vec<u8>, Failed> {
    regular_file::read(file)
        .map_err(|error| Failed::config(format!("configuration `{}`: {error}", file.display())))
}

fn read(file: &Path, content: &[u8], source: ConfigSource) -> Result<LoadedConfig, Failed> {
    let Ok(text) = std::str::from_utf8(content) else {
        let what = format!("configuration `{}` is not valid UTF-8", file.display());
        return Err(Failed::config(what));
    };
    let (mut config, mut notes) =
        parse(text).map_err(|error| complaint::of_config(file, text, &Problem::found(&error)))?;
    let of_tenants = config.tenants.0.values_mut();
    let policies = of_tenants.map(|tenant| &mut tenant.policy);
    for policy in policies.chain([&mut config.policy]) {
        if let Some(PolicyChoice::File(policy)) = policy {
            *policy = file.parent().unwrap_or(Path::new("")).join(&policy);
        }
    }
    for plugin in config.plugins.values_mut() {
        plugin.path = file.parent().unwrap_or(Path::new("")).join(&plugin.path);
    }
    for root in config.builtins.roots.iter_mut().flatten() {
        *root = file.parent().unwrap_or(Path::new("")).join(&root);
    }
    if let Some(packs) = &mut config.code.packs {
        *packs = file.parent().unwrap_or(Path::new("")).join(&packs);
    }
    let (servers, understood) = std::mem::take(&mut config.mcp_servers).understood();
    config.servers.0.extend(servers);
    notes.extend(understood);
    Ok(LoadedConfig {
        config,
        source,
        text: text.to_owned(),
        data_dir: None,
        users_policy: None,
        notes,
        untrusted: None,
        governing: None,
    })
}

/// The part of another client's file that is used.
#[derive(Deserialize)]
struct ForeignFile {
    #[serde(rename = "mcpServers")]
    mcp_servers: ForeignServers,
}

/// Reads `callgate.yaml` or the file of another client, with notes about it.
fn parse(text: &str) -> Result<(Config, Vec<String>), serde_saphyr::Error> {
    if text.trim().is_empty() {
        return Ok((Config::default(), Vec::new()));
    }
    let keys: BTreeMap<String, IgnoredAny> = serde_saphyr::from_str(text).unwrap_or_default();
    let Some(others) = keys_of_another_tool(&keys) else {
        return Ok((serde_saphyr::from_str(text)?, renamed_keys(&keys)));
    };
    if let Some(key) = restricting_key(text, &keys) {
        let what = format!(
            "`{key}` restricts servers or tools in the client that wrote this file, and callgate does not read it; \
             write the servers into a `callgate.yaml` instead"
        );
        return Err(de::Error::custom(what));
    }
    let ForeignFile { mcp_servers } = serde_saphyr::from_str(text)?;
    let config = Config {
        mcp_servers,
        ..Config::default()
    };
    let note =
        (!others.is_empty()).then(|| format!("ignoring unknown keys: {}", others.join(", ")));
    Ok((config, note.into_iter().collect()))
}

/// The other keys of a file of another client: one that has `mcpServers` and no key of `callgate.yaml`. They
/// are ignored, while an unknown key in `callgate.yaml` is an error.
fn keys_of_another_tool(keys: &BTreeMap<String, IgnoredAny>) -> Option<Vec<String>> {
    let ours = serde_json::to_value(Config::default()).unwrap_or_default();
    let is_ours =
        |key: &String| ours.get(key).is_some() || RENAMED_KEYS.iter().any(|(old, _)| old == key);
    let foreign = keys.contains_key("mcpServers") && !keys.keys().any(is_ours);
    let others = keys
        .keys()
        .filter(|key| *key != "mcpServers" && *key != "$schema");
    foreign.then(|| others.map(|key| format!("`{key}`")).collect())
}

/// Keys beside `mcpServers` with which other clients restrict what may be started or called.
const RESTRICTING_KEYS: [&str; 15] = [
    "allowMCPServers",
    "allowedMcpServers",
    "coreTools",
    "deniedMcpServers",
    "disable_management",
    "disabledMcpServers",
    "disabledMcpjsonServers",
    "docker_isolation",
    "excludeMCPServers",
    "excludeTools",
    "mcp",
    "permissions",
    "profiles",
    "read_only_mode",
    "tools",
];

/// The first of them that a file sets to something. If the values cannot be read, each key that is there counts as set.
fn restricting_key(text: &str, keys: &BTreeMap<String, IgnoredAny>) -> Option<&'static str> {
    let values: Option<BTreeMap<String, Value>> = serde_saphyr::from_str(text).ok();
    let is_set = |key: &&str| match values.as_ref().and_then(|values| values.get(*key)) {
        None => values.is_none() && keys.contains_key(*key),
        Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::Array(values)) => !values.is_empty(),
        Some(Value::Object(members)) => !members.is_empty(),
        Some(Value::Bool(true) | Value::Number(_) | Value::String(_)) => true,
    };
    RESTRICTING_KEYS.into_iter().find(is_set)
}

/// A note for each key that is written under its old name.
fn renamed_keys(keys: &BTreeMap<String, IgnoredAny>) -> Vec<String> {
    RENAMED_KEYS
        .iter()
        .filter(|(old, _)| keys.contains_key(*old))
        .map(|(old, new)| format!("`{old}` is an old name of the key `{new}`; rename it"))
        .collect()
}
