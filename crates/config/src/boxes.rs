//! Boxes as `callgate.yaml` has them, and what they mean: absolute paths that grant nothing that governs the gateway.

use std::{
    collections::BTreeMap,
    env, fmt, fs,
    path::{Component, Path, PathBuf},
};

use callgate_egress::DestinationRules;
use callgate_gate::{BoxMode, BoxSpec, Launch, Place, Problem, Protected, ServerSpec};
use callgate_process::environment::{self, MissingVariable};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, value::MapAccessDeserializer},
};
use serde_saphyr::Spanned;

use crate::{Config, model::NamedServer, protected};

/// The defaults of all boxes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BoxDefaults {
    /// The mode of boxes that set none.
    pub mode: BoxChoice,
}

/// How strictly a program is boxed, least strict first.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum BoxChoice {
    /// The program is not boxed: it may do all that its user may.
    Off,
    /// The program starts with the restrictions that the kernel can enforce; `doctor` names the
    /// others.
    BestEffort,
    /// The program starts only if the kernel can keep it from other files and hosts.
    #[default]
    Required,
}

impl BoxChoice {
    /// The word in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::BestEffort => "best_effort",
            Self::Required => "required",
        }
    }
}

/// The value of a key `box`: a map, or only a mode.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BoxEntry(pub BoxKeys);

/// What a boxed program may reach, besides the system's programs and libraries and its own program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BoxKeys {
    /// What happens if the kernel cannot enforce a restriction; default `box.mode`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<BoxChoice>,
    /// Files and folders that it may read and run, relative to this file; `~`, `${VAR}` and
    /// `${VAR:-default}` are expanded. Paths that do not exist are left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<PlacedText>,
    /// Files and folders that it may also change, written like `read`. They must exist when it
    /// starts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<PlacedText>,
    /// Hosts that it may connect to: `api.example.com` (ports 80 and 443), `example.com:8443`,
    /// `*.example.com`, an IP address or range, or `loopback`, `private`, `link_local` or
    /// `metadata`. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub net: Vec<PlacedText>,
}

/// A text and its position in the file, which does not count when values are compared.
#[derive(Debug, Clone)]
pub struct PlacedText {
    pub text: String,
    pub place: Place,
}

/// A box that cannot be used.
#[derive(Debug)]
pub(crate) enum BoxError {
    /// The file is wrong.
    Wrong(Box<Problem>),
    /// A variable is not set.
    Missing(MissingVariable),
}

impl From<MissingVariable> for BoxError {
    fn from(missing: MissingVariable) -> Self {
        Self::Missing(missing)
    }
}

/// The boxes of the programs beside servers. `Err` names a variable that is not set.
#[derive(Debug)]
pub(crate) struct ProgramBoxes {
    /// By the name of the plugin.
    pub(crate) plugins: BTreeMap<String, Result<BoxSpec, String>>,
    /// What every agent may reach besides its step; `None` if agents are not boxed.
    pub(crate) agents: Result<Option<BoxSpec>, String>,
}

/// Resolves the boxes of a configuration: those of servers in place, and the others. `Err` is an error in the file.
pub(crate) fn resolve(
    config: &Config,
    servers: &mut [ServerSpec],
    context: BoxContext<'_>,
) -> Result<ProgramBoxes, Box<Problem>> {
    for NamedServer { name, server, .. } in &config.servers.0 {
        let Some(BoxEntry(keys)) = &server.sandbox else {
            continue;
        };
        let resolved = keys.resolved(context);
        let Some(spec) = servers.iter_mut().find(|spec| spec.name == *name) else {
            continue;
        };
        match resolved {
            Ok(resolved) => spec.sandbox = resolved,
            Err(BoxError::Wrong(problem)) => return Err(problem),
            Err(BoxError::Missing(missing)) if spec.launch.is_enabled() => {
                spec.launch = Launch::Off {
                    reason: missing.to_string(),
                };
            }
            Err(BoxError::Missing(_)) => {}
        }
    }
    let mut boxes = ProgramBoxes {
        plugins: BTreeMap::new(),
        agents: unless_wrong(config.agents.keys().resolved(context))?,
    };
    for (name, plugin) in &config.plugins {
        let Some(BoxEntry(keys)) = &plugin.sandbox else {
            continue;
        };
        let own = Some(plugin.path.as_path());
        let resolved = keys.resolved(BoxContext { own, ..context });
        if let Some(resolved) = unless_wrong(resolved)?.transpose() {
            boxes.plugins.insert(name.clone(), resolved);
        }
    }
    Ok(boxes)
}

/// A box that lacks a variable fails when its program starts; one that is wrong fails at once.
fn unless_wrong(
    resolved: Result<Option<BoxSpec>, BoxError>,
) -> Result<Result<Option<BoxSpec>, String>, Box<Problem>> {
    match resolved {
        Ok(resolved) => Ok(Ok(resolved)),
        Err(BoxError::Missing(missing)) => Ok(Err(missing.to_string())),
        Err(BoxError::Wrong(problem)) => Err(problem),
    }
}

/// What the paths of boxes are read with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BoxContext<'a> {
    /// The folder of relative paths.
    pub(crate) base: &'a Path,
    pub(crate) defaults: BoxDefaults,
    /// The files that govern the gateway, which no box grants.
    pub(crate) protected: &'a Protected,
    /// The one of them that the program itself is in: the file or folder of a plugin. Its box can read it.
    pub(crate) own: Option<&'a Path>,
}

impl BoxKeys {
    /// The mode in effect; `None` if the box is switched off.
    fn mode(&self, defaults: BoxDefaults) -> Option<BoxMode> {
        match self.mode.unwrap_or(defaults.mode) {
            BoxChoice::Off => None,
            BoxChoice::BestEffort => Some(BoxMode::BestEffort),
            BoxChoice::Required => Some(BoxMode::Required),
        }
    }

    /// Whether only a mode is set.
    pub(crate) fn grants_nothing(&self) -> bool {
        self.texts().next().is_none()
    }

    /// Every text of the box, with its position.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &PlacedText> {
        self.read.iter().chain(&self.write).chain(&self.net)
    }

    /// The box with its paths made absolute and checked; `None` if it is switched off.
    pub(crate) fn resolved(&self, context: BoxContext<'_>) -> Result<Option<BoxSpec>, BoxError> {
        let Some(mode) = self.mode(context.defaults) else {
            return Ok(None);
        };
        let paths = |written: &[PlacedText], access| {
            let paths = written.iter().map(|path| context.path(path, access));
            paths.collect::<Result<Vec<PathBuf>, BoxError>>()
        };
        let mut read = paths(&self.read, Access::Read)?;
        let own = context.own.and_then(|own| std::path::absolute(own).ok());
        read.extend(own.filter(|own| !read.contains(own)));
        Ok(Some(BoxSpec {
            mode,
            hidden: context.hidden(),
            read,
            write: paths(&self.write, Access::Write)?,
            net: self
                .net
                .iter()
                .map(host)
                .collect::<Result<Vec<String>, BoxError>>()?,
        }))
    }
}

/// What a listed path is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

impl BoxContext<'_> {
    /// All protected places: whether a granted folder contains one is known only when the box is opened, because links change.
    fn hidden(&self) -> Vec<PathBuf> {
        let own = self.own_names();
        let places = self.protected.places().iter().map(PathBuf::from);
        places.filter(|place| !own.contains(place)).collect()
    }

    fn own_names(&self) -> Vec<PathBuf> {
        self.own.map(protected::names).unwrap_or_default()
    }

    /// Whether a path is the program's own, or in its own folder and in no protected place there.
    fn is_own(&self, path: &Path) -> bool {
        let own = self.own_names();
        let inside = |path: &Path| own.iter().any(|own| path.starts_with(own));
        let hidden = self.hidden().into_iter().filter(|place| inside(place));
        let hidden: Vec<PathBuf> = hidden.collect();
        // By each of its names: a link in the folder may lead out of it.
        protected::names(path)
            .iter()
            .all(|name| inside(name) && !hidden.iter().any(|place| name.starts_with(place)))
    }

    fn path(&self, written: &PlacedText, access: Access) -> Result<PathBuf, BoxError> {
        let wrong = |what: String| BoxError::Wrong(Box::new(Problem::at(written.place, what)));
        let text = environment::expand(&written.text, variable)?;
        if text.is_empty() || text.contains('\0') {
            return Err(wrong(format!("`{}` is not a path", written.text)));
        }
        let path = match text.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                let home = environment::expand("${HOME}", variable)?;
                Path::new(&home).join(rest.trim_start_matches('/'))
            }
            Some(_) | None => self.base.join(&text),
        };
        let path = std::path::absolute(&path)
            .map(|path| plain(&path))
            .map_err(|error| wrong(format!("`{text}`: {error}")))?;
        if access == Access::Read && self.is_own(&path) {
            return Ok(path);
        }
        match refused_grant(&path, self.protected) {
            None => Ok(path),
            Some(what) => Err(BoxError::Wrong(Box::new(
                Problem::at(written.place, format!("`{text}` cannot be granted: {what}"))
                    .help("grant only the folders that the program needs"),
            ))),
        }
    }
}

/// Why a box must not grant this path. A folder around one of the `protected` places can be granted, because the box hides the
/// places in it.
pub fn refused_grant(path: &Path, protected: &Protected) -> Option<String> {
    let home = env::home_dir();
    let temporary = env::temp_dir();
    for name in protected::names(path) {
        if protected.covers(&name.to_string_lossy()) {
            return Some("it is part of callgate's configuration or data".to_owned());
        }
        let is_above = |place: &Path| {
            let places = protected::names(place);
            places.iter().any(|place| place.starts_with(&name))
        };
        // Keys lie there, and files that other programs run.
        if home.as_deref().is_some_and(is_above) {
            return Some("it contains your whole home folder".to_owned());
        }
        if is_above(&temporary) {
            let temporary = temporary.display();
            return Some(format!(
                "it contains `{temporary}`, where other programs keep their sockets"
            ));
        }
    }
    None
}

/// The path without `..`, as links lead if it exists.
fn plain(path: &Path) -> PathBuf {
    if !path.components().any(|part| part == Component::ParentDir) {
        return path.to_owned();
    }
    fs::canonicalize(path).unwrap_or_else(|_| {
        let mut plain = PathBuf::new();
        for component in path.components() {
            match component {
                Component::CurDir => {}
                Component::ParentDir => {
                    plain.pop();
                }
                Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                    plain.push(component);
                }
            }
        }
        plain
    })
}

fn host(written: &PlacedText) -> Result<String, BoxError> {
    let text = environment::expand(&written.text, variable)?;
    match DestinationRules::parse([&text]) {
        Ok(_) => Ok(text),
        Err(bad) => Err(BoxError::Wrong(Box::new(
            Problem::at(written.place, bad.to_string()).help(bad.help()),
        ))),
    }
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}

/// The position is ignored: moving an entry within the file does not change it.
impl PartialEq for PlacedText {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl<'de> Deserialize<'de> for PlacedText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Spanned::<String>::deserialize(deserializer)?;
        Ok(Self {
            place: Place::of(&written.referenced),
            text: written.value,
        })
    }
}

impl Serialize for PlacedText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl JsonSchema for PlacedText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PlacedText".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

impl<'de> Deserialize<'de> for BoxEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = BoxEntry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map with `mode`, `read`, `write` or `net`, or `required`, `best_effort` or `off`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<BoxEntry, E> {
                let deserializer = de::value::StrDeserializer::<E>::new(text);
                BoxChoice::deserialize(deserializer).map(only_mode)
            }

            fn visit_bool<E: de::Error>(self, text: bool) -> Result<BoxEntry, E> {
                // YAML takes a plain `off` for `false`.
                match text {
                    false => Ok(only_mode(BoxChoice::Off)),
                    true => Err(E::invalid_value(de::Unexpected::Bool(true), &self)),
                }
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<BoxEntry, A::Error> {
                BoxKeys::deserialize(MapAccessDeserializer::new(map)).map(BoxEntry)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

fn only_mode(mode: BoxChoice) -> BoxEntry {
    BoxEntry(BoxKeys {
        mode: Some(mode),
        ..BoxKeys::default()
    })
}

impl Serialize for BoxEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.mode {
            Some(mode) if self.0.grants_nothing() => mode.serialize(serializer),
            Some(_) | None => self.0.serialize(serializer),
        }
    }
}

impl JsonSchema for BoxEntry {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "BoxEntry".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mode = generator.subschema_for::<BoxChoice>();
        let keys = generator.subschema_for::<BoxKeys>();
        json_schema!({"anyOf": [keys, mode]})
    }
}

#[cfg(test)]
mod tests;
