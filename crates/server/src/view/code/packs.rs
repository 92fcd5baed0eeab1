//! Packs: servers and their tools under names that scripts can write. A name in any style resolves to one tool, or to an
//! error that lists the candidates.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use callgate_code::{LocalPack, is_reserved};
use callgate_gate::{Host, Tool};

use super::arguments::Callable;
use crate::Gateway;

pub(super) const OWN: [&str; 2] = ["proxy", "tools"];
/// The length at which the summary of packs is cut.
const MAX_SUMMARY_CHARS: usize = 700;

#[derive(Debug)]
pub(super) struct Packs {
    servers: Vec<Pack>,
    local: Vec<LocalPack>,
    /// Resolved names, since scripts call the same tool in loops.
    found: Mutex<HashMap<(String, String), Arc<Callable>>>,
}

#[derive(Debug)]
struct Pack {
    name: String,
    server: String,
    tools: Vec<Arc<Tool>>,
}

/// A server's name as a Python identifier.
pub(super) fn pack_name(server: &str) -> String {
    let mut name: String = server
        .chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() {
                letter
            } else {
                '_'
            }
        })
        .collect();
    if name.starts_with(|first: char| first.is_ascii_digit()) || name.is_empty() {
        name.insert(0, '_');
    }
    // A keyword, builtin or built-in pack of this name would shadow the server.
    if is_reserved(&name) || OWN.contains(&name.as_str()) {
        name.push('_');
    }
    name
}

/// A name in snake case: `ListWixSites`, `list-wix-sites` and `list_wix_sites` become one.
pub(super) fn snake(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    let letters: Vec<char> = name.chars().collect();
    for (at, letter) in letters.iter().enumerate() {
        if !letter.is_alphanumeric() {
            if !snake.ends_with('_') {
                snake.push('_');
            }
            continue;
        }
        let before = at.checked_sub(1).map(|at| letters[at]);
        let after = letters.get(at + 1);
        let begins = letter.is_uppercase()
            && before.is_some_and(|before| {
                before.is_lowercase()
                    || before.is_numeric()
                    || (before.is_uppercase() && after.is_some_and(|after| after.is_lowercase()))
            });
        if begins && !snake.ends_with('_') {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake.trim_matches('_').to_owned()
}

impl Packs {
    pub(super) fn of(gateway: &Gateway, host: &Host, local: Vec<LocalPack>) -> Self {
        let mut servers: Vec<Pack> = Vec::new();
        // Servers without tools are included: a script that uses one then gets an error that says why.
        for row in gateway.status.rows() {
            if host.identity.grant.includes(&row.name) {
                servers.push(Pack::new(&row.name));
            }
        }
        let providers = gateway.path.providers();
        let (catalog, policy) = (providers.catalog(), providers.policy());
        for tool in catalog.listed_to(&policy, &host.identity) {
            let server = tool.server.as_str();
            let at = servers.iter().position(|pack| pack.server == server);
            let at = at.unwrap_or_else(|| {
                servers.push(Pack::new(server));
                servers.len() - 1
            });
            servers[at].tools.push(tool.clone());
        }
        Self {
            servers,
            local,
            found: Mutex::default(),
        }
    }

    /// All pack names, including the built-in ones.
    pub(super) fn names(&self) -> Vec<String> {
        // Local packs first: they take precedence over a server of the same name.
        let mut names: Vec<String> = self.local.iter().map(|pack| pack.name.clone()).collect();
        for pack in &self.servers {
            if !names.contains(&pack.name) {
                names.push(pack.name.clone());
            }
        }
        names.extend(OWN.map(str::to_owned));
        names
    }

    pub(super) fn local(&self) -> &[LocalPack] {
        &self.local
    }

    /// Whether a local pack shadows this server.
    pub(super) fn is_shadowed(&self, server: &str) -> bool {
        let name = pack_name(server);
        self.local.iter().any(|local| local.name == name)
    }

    /// The tools of a pack, by the pack's or the server's name.
    pub(super) fn tools(&self, pack: &str) -> Result<&[Arc<Tool>], String> {
        self.pack(pack).map(|pack| pack.tools.as_slice())
    }

    /// The tool that a script's name resolves to.
    pub(super) fn tool(&self, pack: &str, tool: &str) -> Result<Arc<Callable>, String> {
        let key = (pack.to_owned(), tool.to_owned());
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tool) = found.get(&key) {
            return Ok(tool.clone());
        }
        let resolved = Arc::new(Callable::new(self.resolved(pack, tool)?));
        found.insert(key, resolved.clone());
        Ok(resolved)
    }

    fn resolved(&self, pack: &str, tool: &str) -> Result<Arc<Tool>, String> {
        let of = self.pack(pack)?;
        if let Some(exact) = of.tools.iter().find(|known| known.name == tool) {
            return Ok(exact.clone());
        }
        // An exact name wins first: two tools may differ only in style.
        let wanted = snake(tool);
        let meant: Vec<&Arc<Tool>> = of
            .tools
            .iter()
            .filter(|known| snake(&known.name) == wanted)
            .collect();
        match meant.as_slice() {
            [only] => Ok((*only).clone()),
            [] if of.tools.is_empty() => Err(format!(
                "the pack `{pack}` has no tools now: see proxy.list_servers()"
            )),
            [] => Err(format!(
                "the pack `{pack}` has no tool `{tool}`; it has: {}",
                of.names().join(", ")
            )),
            several => {
                let names: Vec<&str> = several.iter().map(|tool| tool.name.as_str()).collect();
                Err(format!(
                    "`{tool}` could be {}: write getattr({pack}, \"{}\")(...)",
                    names.join(" or "),
                    // `getattr` reaches the exact name, which may not be an identifier.
                    names[0]
                ))
            }
        }
    }

    fn pack(&self, name: &str) -> Result<&Pack, String> {
        let meant: Vec<&Pack> = self
            .servers
            .iter()
            .filter(|pack| pack.name == name || pack.server == name)
            .collect();
        match meant.as_slice() {
            [only] => Ok(only),
            [] => Err(format!(
                "there is no pack `{name}`; packs: {}",
                self.names().join(", ")
            )),
            several => {
                let names: Vec<&str> = several.iter().map(|pack| pack.server.as_str()).collect();
                Err(format!(
                    "`{name}` could be the server {}",
                    names.join(" or ")
                ))
            }
        }
    }

    /// The connected packs, in one line.
    pub(super) fn summary(&self) -> String {
        let mut line = String::from("Packs:");
        let mut left = self.local.len() + self.servers.len();
        let local = self.local.iter().map(|pack| (pack.name.as_str(), None));
        let servers = self.servers.iter();
        let servers = servers.map(|pack| (pack.name.as_str(), Some(pack.tools.len())));
        for (name, tools) in local.chain(servers) {
            if line.len() > MAX_SUMMARY_CHARS {
                line.push_str(&format!(" and {left} more,"));
                break;
            }
            left -= 1;
            line.push_str(&match tools {
                Some(tools) => format!(" {name} ({tools}),"),
                None => format!(" {name} (local),"),
            });
        }
        if line.ends_with(':') {
            return "No server is connected yet.".to_owned();
        }
        format!("{}.", line.trim_end_matches(','))
    }
}

impl Pack {
    fn new(server: &str) -> Self {
        Self {
            name: pack_name(server),
            server: server.to_owned(),
            tools: Vec::new(),
        }
    }

    fn names(&self) -> Vec<String> {
        self.tools.iter().map(|tool| snake(&tool.name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_names_of_any_style_become_snake_case() {
        let cases = [
            ("ListWixSites", "list_wix_sites"),
            ("list-wix-sites", "list_wix_sites"),
            ("listWixSites", "list_wix_sites"),
            ("list_wix_sites", "list_wix_sites"),
            ("get.HTTPResponse", "get_http_response"),
            ("API2Call", "api2_call"),
        ];
        for (name, expected) in cases {
            assert_eq!(snake(name), expected);
        }
    }

    #[test]
    fn every_server_gets_a_valid_pack_name() {
        let cases = [
            ("wix", "wix"),
            ("my-server", "my_server"),
            ("7zip", "_7zip"),
            ("json", "json_"),
            ("tools", "tools_"),
            ("print", "print_"),
            ("open", "open_"),
            ("zip", "zip_"),
        ];
        for (server, pack) in cases {
            assert_eq!(pack_name(server), pack);
        }
    }
}
