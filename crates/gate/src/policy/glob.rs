//! Path patterns: `*` matches within a segment, `**` across segments. All patterns of a scope are
//! matched in one pass.

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use super::path::{PathBase, PathError, normalise};

/// The characters that are special in a path pattern.
const SPECIAL: [char; 6] = ['*', '?', '[', ']', '{', '}'];

/// What path patterns are resolved against.
#[derive(Clone, Copy)]
pub struct CompileContext<'a> {
    /// Resolves `~` and relative patterns.
    pub ground: &'a PathBase,
    /// The real location of a folder behind links; `None` where unknown.
    pub real: &'a dyn Fn(&str) -> Option<String>,
}

impl std::fmt::Debug for CompileContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompileContext")
            .field("ground", self.ground)
            .finish_non_exhaustive()
    }
}

/// Why a text is not a valid path pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadGlob {
    /// It matches no path.
    #[error("an empty path can never match")]
    Empty,
    /// Normalised paths never end in a slash.
    #[error("a path that ends in `/` can never match; write `{0}**`")]
    TrailingSlash(String),
    /// `**` beside other characters.
    #[error("`**` must stand alone between slashes")]
    Crowded,
    /// It cannot be made absolute.
    #[error("bad path: {0}")]
    Path(String),
    /// The syntax is wrong.
    #[error("bad glob: {0}")]
    Syntax(String),
}

/// Every pattern of a scope.
#[derive(Debug, Default)]
pub(super) struct Globs {
    set: GlobSet,
    /// The owner of each pattern in `set`.
    owners: Vec<PatternOwner>,
}

/// The rule of a pattern, and the index in the rule's `paths`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PatternOwner {
    pub(super) rule: usize,
    pub(super) path: usize,
}

/// Collects the patterns of a scope.
#[derive(Debug)]
pub(super) struct GlobsBuilder {
    set: GlobSetBuilder,
    owners: Vec<PatternOwner>,
}

impl Globs {
    /// The patterns that match an absolute path, in the order of the rules.
    pub(super) fn matching(&self, path: &str) -> Vec<PatternOwner> {
        let matched = self.set.matches(path);
        matched.into_iter().map(|at| self.owners[at]).collect()
    }
}

impl GlobsBuilder {
    pub(super) fn new() -> Self {
        Self {
            set: GlobSetBuilder::new(),
            owners: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, globs: &[Glob], owner: PatternOwner) {
        for glob in globs {
            self.set.add(glob.clone());
            self.owners.push(owner);
        }
    }

    pub(super) fn finish(self) -> Result<Globs, BadGlob> {
        let set = self.set.build();
        Ok(Globs {
            set: set.map_err(|error| BadGlob::Syntax(error.to_string()))?,
            owners: self.owners,
        })
    }
}

/// Compiles one path pattern. A pattern that ends in `/**` includes the folder itself, and a folder behind
/// links is matched under both names.
pub(super) fn read(text: &str, around: CompileContext<'_>) -> Result<Vec<Glob>, BadGlob> {
    let whole = absolute(text, around.ground)?;
    let mut texts = vec![whole.clone()];
    // Calls are also matched by their real location, so a rule on a linked folder needs both names.
    let (folder, rest) = literal_folder(&whole);
    if let Some(real) = (around.real)(&unescaped(folder)).filter(|real| *real != unescaped(folder))
    {
        texts.push(format!(
            "{}{rest}",
            globset::escape(real.trim_end_matches('/'))
        ));
    }
    // Otherwise `/etc/**` would not cover listing or deleting `/etc` itself.
    let folders: Vec<String> = texts
        .iter()
        .filter_map(|text| text.strip_suffix("/**"))
        .map(|folder| if folder.is_empty() { "/" } else { folder }.to_owned())
        .collect();
    texts.extend(folders);
    texts.iter().map(|text| build(text)).collect()
}

/// The pattern with `~` and relative paths resolved.
fn absolute(text: &str, ground: &PathBase) -> Result<String, BadGlob> {
    if text.is_empty() {
        return Err(BadGlob::Empty);
    }
    if text.len() > 1 && text.ends_with('/') {
        return Err(BadGlob::TrailingSlash(text.to_owned()));
    }
    if text
        .split('/')
        .any(|part| part.contains("**") && part != "**")
    {
        return Err(BadGlob::Crowded);
    }
    if text == "**" || text.starts_with("**/") {
        return Ok(format!("/{text}"));
    }
    // The base folder may contain glob characters, which must match literally.
    let escaped = PathBase {
        home: ground.home.as_deref().map(globset::escape),
        folder: globset::escape(&ground.folder),
    };
    let mut behind_wild = false;
    for part in text.split('/') {
        // Removing `*/..` as text would be wrong where the wildcard matches a link.
        if part == ".." && behind_wild {
            return Err(BadGlob::Path("`..` after a wildcard".to_owned()));
        }
        behind_wild |= part.contains(SPECIAL);
    }
    let climbs = |unclear: PathError| BadGlob::Path(unclear.to_string());
    normalise_upwards(text, &escaped).map_err(climbs)
}

/// Resolves a pattern. Unlike arguments, a policy's author may use `..` to leave the policy's folder.
fn normalise_upwards(text: &str, ground: &PathBase) -> Result<String, PathError> {
    if text.starts_with('/') || text.starts_with('~') {
        return normalise(text, ground);
    }
    normalise(&format!("{}/{text}", ground.folder), ground)
}

/// The leading folders without wildcards, and the rest of the pattern.
fn literal_folder(whole: &str) -> (&str, &str) {
    let mut end = 0;
    for (at, _) in whole.match_indices('/').skip(1) {
        if is_special(&whole[..at]) {
            break;
        }
        end = at;
    }
    whole.split_at(end)
}

/// Whether the text contains a wildcard; escaped characters do not count.
fn is_special(text: &str) -> bool {
    let mut rest = text.to_owned();
    for special in SPECIAL {
        rest = rest.replace(&format!("[{special}]"), "");
    }
    rest.contains(SPECIAL)
}

/// A literal text as it was before it was escaped.
fn unescaped(text: &str) -> String {
    let mut plain = text.to_owned();
    for special in SPECIAL {
        plain = plain.replace(&format!("[{special}]"), &special.to_string());
    }
    plain
}

fn build(text: &str) -> Result<Glob, BadGlob> {
    let built = GlobBuilder::new(text)
        .literal_separator(true)
        // A backslash is a legal character in a file name.
        .backslash_escape(false)
        .build();
    built.map_err(|error| BadGlob::Syntax(error.kind().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        let ground = PathBase {
            home: Some("/people/u".into()),
            folder: "/srv/re[p]o".into(),
        };
        let linked = |folder: &str| (folder == "/var/run").then(|| "/run".to_owned());
        let around = CompileContext {
            ground: &ground,
            real: &linked,
        };
        let globs = read(pattern, around).expect("it is right");
        let mut collecting = GlobsBuilder::new();
        collecting.add(&globs, PatternOwner { rule: 0, path: 0 });
        !collecting
            .finish()
            .expect("it is right")
            .matching(path)
            .is_empty()
    }

    #[test]
    fn path_globs_match_as_documented() {
        let yes = [
            ("/etc/**", "/etc/passwd"),
            ("/etc/**", "/etc/a/b"),
            ("/etc/**", "/etc"),
            ("/etc/*", "/etc/passwd"),
            ("/etc/*.conf", "/etc/a.conf"),
            ("~/.ssh/**", "/people/u/.ssh/id"),
            ("./**", "/srv/re[p]o/src/a"),
            ("./**", "/srv/re[p]o"),
            ("src/*.rs", "/srv/re[p]o/src/a.rs"),
            ("../other/**", "/srv/other/x"),
            ("**/.env", "/a/b/.env"),
            ("**/.env", "/.env"),
            ("**", "/a/b"),
            ("/**", "/a/b"),
            ("/**", "/"),
            ("/a/**/z", "/a/z"),
            ("/a/**/z", "/a/b/c/z"),
            ("/a/{b,c}/?", "/a/c/x"),
            ("/var/run/**", "/var/run/x"),
            ("/var/run/**", "/run/x"),
            ("/var/run/**", "/run"),
        ];
        for (pattern, path) in yes {
            assert!(matches(pattern, path), "{pattern} {path}");
        }
        let no = [
            ("/etc/**", "/etcetera"),
            ("/etc/*", "/etc/a/b"),
            ("/etc/*", "/etc"),
            ("/a/*/z", "/a/b/c/z"),
            ("/etc", "/etc/passwd"),
            ("*.pem", "/x.pem"),
            ("./**", "/srv/repo/src"),
            ("~/.ssh/*", "/people/u/.ssh/a/b"),
        ];
        for (pattern, path) in no {
            assert!(!matches(pattern, path), "{pattern} {path}");
        }
    }

    #[test]
    fn invalid_path_globs_are_refused() {
        let ground = PathBase {
            home: None,
            folder: "/srv".into(),
        };
        let around = CompileContext {
            ground: &ground,
            real: &|_| None,
        };
        for text in [
            "", "/etc/", "/a**", "/**b/c", "[", "/a/{b", "/*/../x", "/../x", "~/x", "~root/x",
        ] {
            assert!(read(text, around).is_err(), "{text}");
        }
    }
}
