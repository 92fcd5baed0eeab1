//! Skills and roles of agents: texts of the project or the user, which come before the prompt.
//!
//! They are looked for where AWF looks for them. A workflow names each; nothing is found by itself.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{beside, template::Template};

/// The most files that are listed of a skill.
const MAX_FILES: usize = 200;
/// How deep the files of a skill are listed.
const MAX_DEPTH: usize = 4;

/// A skill that a state names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Skill {
    Named(String),
    /// A folder, relative to the workflow's.
    Path(String),
}

/// What stands before an agent's prompt.
#[derive(Debug, Clone, Default)]
pub(crate) struct Before {
    pub(crate) skills: Vec<Skill>,
    /// Who the agent is: a name or a path, of a folder with `AGENTS.md`.
    pub(crate) role: Option<Template>,
}

/// Where skills and roles are looked for.
pub(crate) struct Places<'a> {
    /// The working folder of the run.
    pub(crate) workdir: &'a Path,
    /// The folder of the workflow.
    pub(crate) beside: &'a Path,
    pub(crate) variable: &'a dyn Fn(&str) -> Option<String>,
}

/// A kind of text, with the folders and the file that it is in.
struct Kind {
    word: &'static str,
    file: &'static str,
    /// A variable with folders that replace all others.
    variable: &'static str,
    /// Folders below the working folder.
    project: &'static [&'static str],
    /// The folder below AWF's own configuration.
    own: &'static str,
    /// Folders below the user's home.
    home: &'static [&'static str],
}

const SKILLS: Kind = Kind {
    word: "skill",
    file: "SKILL.md",
    variable: "AWF_SKILLS_PATH",
    project: &[".awf/skills", ".agents/skills", ".claude/skills"],
    own: "awf/skills",
    home: &[".agents/skills", ".claude/skills"],
};
const ROLES: Kind = Kind {
    word: "role",
    file: "AGENTS.md",
    variable: "AWF_ROLES_PATH",
    project: &[".awf/roles", ".agents/roles"],
    own: "awf/roles",
    home: &[".agents/roles"],
};

impl Skill {
    /// The skill as it stands in a prompt.
    pub(crate) fn text(&self, places: &Places<'_>) -> Result<String, String> {
        let folder = match self {
            Self::Named(name) => places.named(&SKILLS, name)?,
            Self::Path(path) => places.at(&SKILLS, path)?,
        };
        let content = read(&SKILLS, &folder)?;
        let folder = fs::canonicalize(&folder).unwrap_or(folder);
        let name = folder.file_name().unwrap_or_default().display();
        let mut files = Vec::new();
        list(&folder, &folder, 0, &mut files);
        files.sort();
        files.truncate(MAX_FILES);
        let files: Vec<String> = files
            .iter()
            .map(|file| format!("<file>{}</file>\n", file.display()))
            .collect();
        let files = match files.is_empty() {
            true => String::new(),
            false => format!(
                "\n\n<skill_resources>\n{}</skill_resources>",
                files.concat()
            ),
        };
        Ok(format!(
            "<skill_content name=\"{name}\">\n{content}\n\nSkill directory: {}\nRelative paths in this skill are relative to the skill directory.{files}\n</skill_content>",
            folder.display()
        ))
    }
}

/// The text of a role: a name, or the path of a folder.
pub(crate) fn role(role: &str, places: &Places<'_>) -> Result<String, String> {
    let is_path = role.contains(['/', '\\']) || role.starts_with(['.', '~']);
    let folder = match is_path {
        true => places.at(&ROLES, role)?,
        false => places.named(&ROLES, role)?,
    };
    read(&ROLES, &folder)
}

impl Places<'_> {
    fn named(&self, kind: &Kind, name: &str) -> Result<PathBuf, String> {
        let word = kind.word;
        if name.is_empty() || name.contains(['/', '\\']) || name.contains("..") {
            return Err(format!("`{name}` is not the name of a {word}"));
        }
        let folders = self.folders(kind);
        let mut found = folders.iter().map(|folder| folder.join(name));
        found
            .find(|folder| folder.join(kind.file).is_file())
            .ok_or_else(|| {
                let folders: Vec<String> = folders
                    .iter()
                    .map(|folder| format!("`{}`", folder.display()))
                    .collect();
                format!(
                    "unknown {word} `{name}`: it is not in {}",
                    folders.join(", ")
                )
            })
    }

    fn at(&self, kind: &Kind, path: &str) -> Result<PathBuf, String> {
        let home = (self.variable)("HOME").unwrap_or_default();
        let folder = match path.strip_prefix("~") {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                Path::new(&home).join(rest.trim_start_matches('/'))
            }
            Some(_) | None => self.beside.join(path),
        };
        match folder.join(kind.file).is_file() {
            true => Ok(folder),
            false => Err(format!(
                "unknown {} `{path}`: there is no `{}`",
                kind.word,
                folder.join(kind.file).display()
            )),
        }
    }

    fn folders(&self, kind: &Kind) -> Vec<PathBuf> {
        if let Some(list) = (self.variable)(kind.variable).filter(|list| !list.is_empty()) {
            return std::env::split_paths(&list).collect();
        }
        let home = (self.variable)("HOME").map(PathBuf::from);
        let config = (self.variable)("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty());
        let config = config.map(PathBuf::from);
        let config = config.or_else(|| Some(home.as_ref()?.join(".config")));
        let project = kind.project.iter().map(|folder| self.workdir.join(folder));
        let own = config.map(|config| config.join(kind.own));
        let users = home
            .iter()
            .flat_map(|home| kind.home.iter().map(|folder| home.join(folder)));
        project.chain(own).chain(users).collect()
    }
}

/// The text of a folder's file, without what stands between `---` at its beginning.
fn read(kind: &Kind, folder: &Path) -> Result<String, String> {
    let file = folder.join(kind.file);
    let text = beside::limited(&file).map_err(|error| format!("`{}`: {error}", file.display()))?;
    let rest = text.strip_prefix("---\n").and_then(|rest| {
        let end = rest.find("\n---\n").map(|end| (end, "\n---\n".len()));
        let (end, length) =
            end.or_else(|| rest.strip_suffix("\n---").map(|head| (head.len(), 4)))?;
        Some(&rest[end + length..])
    });
    Ok(rest.unwrap_or(&text).trim().to_owned())
}

/// The other files of a skill, which an agent can read with its tools.
fn list(root: &Path, folder: &Path, depth: usize, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        // Links are not followed: they could lead anywhere.
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && name != ".git" && name != "node_modules" => {
                if depth < MAX_DEPTH && into.len() < MAX_FILES {
                    list(root, &path, depth + 1, into);
                }
            }
            Ok(kind) if kind.is_file() && name != SKILLS.file => {
                into.extend(path.strip_prefix(root).map(Path::to_owned));
            }
            Ok(_) | Err(_) => {}
        }
    }
}
