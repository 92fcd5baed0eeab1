//! Which server a URI belongs to that does not name its server. A URI belongs to at most one server: the first that
//! lists it, a template that it matches, or a tool that names it. What a later server says about the same URI is shown
//! wrapped, so that no server can receive requests that are meant for another one.

use foldhash::HashMap;

use crate::{ServerName, item::looks_wrapped, template::Template};

/// The URIs and templates that are shown as their servers spell them.
#[derive(Debug, Default)]
pub(super) struct Claims {
    uris: HashMap<String, ServerName>,
    templates: HashMap<String, ClaimedTemplate>,
    /// Whether a URI may look as if it named its server: a single server's URIs are shown as they are.
    pub(super) may_look_wrapped: bool,
}

#[derive(Debug)]
struct ClaimedTemplate {
    template: Template,
    server: ServerName,
}

/// A URI, or a template of URIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling<'a> {
    Uri(&'a str),
    Template(&'a str),
}

impl Claims {
    /// Claims a spelling for a server, unless another one has it or some of the URIs of it.
    pub(super) fn take(&mut self, server: &ServerName, spelling: Spelling<'_>) {
        match spelling {
            Spelling::Uri(uri) => {
                let is_free = self.owner(uri).is_none_or(|owner| owner == server);
                if is_free && (self.may_look_wrapped || !looks_wrapped(uri)) {
                    self.uris.insert(uri.to_owned(), server.clone());
                }
            }
            Spelling::Template(text) => {
                let template = Template::new(text);
                if self.is_free(server, &template) {
                    let server = server.clone();
                    let claimed = ClaimedTemplate { template, server };
                    self.templates.insert(text.to_owned(), claimed);
                }
            }
        }
    }

    /// Whether a server's spelling is shown as it is.
    pub(super) fn has(&self, server: &ServerName, spelling: Spelling<'_>) -> bool {
        let owner = match spelling {
            Spelling::Uri(uri) => self.uris.get(uri),
            Spelling::Template(text) => self.templates.get(text).map(|claimed| &claimed.server),
        };
        owner == Some(server)
    }

    /// The server that has claimed a URI.
    pub(super) fn owner(&self, uri: &str) -> Option<&ServerName> {
        let listed = self.uris.get(uri);
        // All templates that match are of one server, or the later one would not be here.
        let matching = || {
            let mut templates = self.templates.values();
            let found = templates.find(|claimed| claimed.template.matches(uri))?;
            Some(&found.server)
        };
        listed.or_else(matching)
    }

    /// Claims again what a server had claimed before, so that no server takes over a URI that hosts know as another's.
    pub(super) fn take_again(
        &mut self,
        server: &ServerName,
        spelling: Spelling<'_>,
        before: &Self,
    ) {
        if before.has(server, spelling) {
            self.take(server, spelling);
        }
    }

    /// Whether no URI of the template belongs to another server or names its server.
    fn is_free(&self, server: &ServerName, template: &Template) -> bool {
        let names_server = template.overlaps(&Template::of_wrapped());
        let mut other_uris = self.uris.iter().filter(|(_, owner)| *owner != server);
        let templates = self.templates.values();
        let mut other_templates = templates.filter(|claimed| claimed.server != *server);
        (self.may_look_wrapped || !names_server)
            && !other_uris.any(|(uri, _)| template.matches(uri))
            && !other_templates.any(|claimed| claimed.template.overlaps(template))
    }
}
