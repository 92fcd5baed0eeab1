//! Prepared lists: which tools somebody sees, and the text of the pages they come on. They are made when they are
//! first asked for and kept until the snapshot or the policy is another, so that a list costs no more than sending it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use bytes::Bytes;
use callgate_gate::{Catalog, Host, Policy, Viewer};
use callgate_wire::Era;

use super::{Wanted, for_era, pages};

/// For how many different viewers lists are kept; beyond it all are forgotten.
const MAX_KEPT: usize = 64;
/// How much text is kept, but for the list that was made last; beyond it all is forgotten.
const MAX_KEPT_BYTES: usize = 16 * 1024 * 1024;

/// What lists are made from.
pub(super) struct Basis {
    pub(super) catalog: Arc<Catalog>,
    pub(super) policy: Arc<Policy>,
}

/// The lists that are kept.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    kept: Mutex<Kept>,
}

/// The results of a list, page by page.
type Pages = Arc<[Bytes]>;

#[derive(Debug, Default)]
struct Kept {
    /// What they were made from. It is known by its place in memory, which nothing else can have as long as this
    /// is here, and does not live longer for it.
    catalog: Weak<Catalog>,
    policy: Weak<Policy>,
    lists: HashMap<(Wanted, Era, Viewer), Pages>,
    /// How long the texts are that differ from each other.
    bytes: usize,
}

impl Lists {
    /// The pages that this host sees. Whoever asks while they are made waits for them.
    pub(super) fn pages(&self, basis: &Basis, wanted: Wanted, host: &Host) -> Pages {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if !kept.is_of(basis) {
            *kept = Kept {
                catalog: Arc::downgrade(&basis.catalog),
                policy: Arc::downgrade(&basis.policy),
                ..Kept::default()
            };
        }
        let key = (wanted, host.era, host.who.viewer());
        if let Some(known) = kept.lists.get(&key) {
            return known.clone();
        }
        let made = made(basis, wanted, host);
        kept.keep(key, made)
    }
}

impl Kept {
    fn is_of(&self, basis: &Basis) -> bool {
        Weak::as_ptr(&self.catalog) == Arc::as_ptr(&basis.catalog)
            && Weak::as_ptr(&self.policy) == Arc::as_ptr(&basis.policy)
    }

    /// Keeps a list. Most viewers see the same, and then have the same text.
    fn keep(&mut self, key: (Wanted, Era, Viewer), made: Vec<Bytes>) -> Pages {
        let length = made.iter().map(Bytes::len).sum::<usize>();
        let alike = self.lists.values().find(|known| ***known == *made);
        let list = match alike {
            Some(known) => known.clone(),
            None => {
                self.bytes += length;
                made.into()
            }
        };
        if self.lists.len() >= MAX_KEPT || self.bytes > MAX_KEPT_BYTES {
            self.lists.clear();
            self.bytes = length;
        }
        self.lists.insert(key, list.clone());
        list
    }
}

fn made(basis: &Basis, wanted: Wanted, host: &Host) -> Vec<Bytes> {
    let Basis { catalog, policy } = basis;
    let pages = match wanted {
        Wanted::Tools => {
            let tools = catalog.listed_to(policy, &host.who);
            let tools = tools.map(|tool| &tool.shown_descriptor);
            pages(wanted, catalog, tools)
        }
        Wanted::Items(kind) => {
            let items = catalog.items(kind, policy, Some(&host.who));
            let items = items.map(|item| &item.shown_descriptor);
            pages(wanted, catalog, items)
        }
    };
    let pages = pages.into_iter();
    pages.map(|page| for_era(host.era, wanted, page)).collect()
}

#[cfg(test)]
mod tests {
    use callgate_gate::{Builtin, Grant, Listing, Naming, Operation, ServerName, Tool, Who};

    use super::*;

    fn catalog(tools: usize) -> Arc<Catalog> {
        let listing = |name: &str| {
            let server = ServerName::new(name).expect("it is a name");
            let tool = |n| {
                let text = format!(r#"{{"name":"t{n}","inputSchema":{{}}}}"#);
                Tool::from_descriptor(&server, text.into()).expect("it is a tool")
            };
            Listing {
                listed: true,
                tools: Some((0..tools).map(tool).collect()),
                ..Listing::unknown(server.clone())
            }
        };
        let listings = vec![listing("a"), listing("b")];
        Arc::new(Catalog::build(Naming::default(), listings).0)
    }

    fn basis(tools: usize) -> Basis {
        Basis {
            catalog: catalog(tools),
            policy: Arc::new(Policy::new(Builtin::AllowAll, HashMap::new())),
        }
    }

    fn host(agent: &str, era: Era, servers: Option<Vec<String>>) -> Host {
        let who = Who {
            tenant: "local".to_owned(),
            principal: "token".to_owned(),
            agent: agent.to_owned(),
            session: "s".to_owned(),
            grant: Grant::new(servers, Operation::Destructive),
        };
        Host {
            who,
            client_info: None,
            capabilities: "{}".to_owned(),
            era,
        }
    }

    fn first(pages: &Pages) -> String {
        String::from_utf8(pages[0].to_vec()).expect("it is text")
    }

    #[test]
    fn a_list_is_built_once_for_all_hosts_with_the_same_view() {
        let (lists, basis) = (Lists::default(), basis(3));
        let pages = |host: &Host| lists.pages(&basis, Wanted::Tools, host);
        let one = host("x", Era::Handshake, None);
        let (first, again) = (pages(&one), pages(&one));
        assert!(Arc::ptr_eq(&first, &again));
        let other = pages(&host("y", Era::Handshake, None));
        assert!(Arc::ptr_eq(&first, &other), "another name, the same list");
        let stateless = pages(&host("x", Era::Stateless, None));
        assert_ne!(*first, *stateless, "another era says more");
        let limited = pages(&host("x", Era::Handshake, Some(vec!["b".to_owned()])));
        let text = self::first(&limited);
        assert!(text.contains("b__t0") && !text.contains("a__t0"), "{text}");
        assert!(Arc::ptr_eq(&first, &pages(&one)));
    }

    #[test]
    fn a_new_snapshot_or_policy_rebuilds_the_list() {
        let lists = Lists::default();
        let mut basis = basis(1);
        let host = host("x", Era::Handshake, None);
        let one = lists.pages(&basis, Wanted::Tools, &host);
        basis.policy = Arc::new(Policy::new(Builtin::Default, HashMap::new()));
        let two = lists.pages(&basis, Wanted::Tools, &host);
        assert!(!Arc::ptr_eq(&one, &two));
        basis.catalog = catalog(2);
        let three = lists.pages(&basis, Wanted::Tools, &host);
        assert!(!self::first(&two).contains("b__t1") && self::first(&three).contains("b__t1"));
    }

    #[test]
    fn the_list_cache_is_bounded() {
        let (lists, basis) = (Lists::default(), basis(1100));
        for n in 0..3 * MAX_KEPT {
            let host = host(&format!("agent {n}"), Era::Handshake, None);
            let pages = lists.pages(&basis, Wanted::Tools, &host);
            assert_eq!(pages.len(), 3, "2,200 tools");
        }
        let kept = lists.kept.lock().expect("the lock is not poisoned");
        assert!(kept.lists.len() <= MAX_KEPT);
        let distinct: usize = kept
            .lists
            .values()
            .next()
            .map_or(0, |list| list.iter().map(Bytes::len).sum());
        assert_eq!(kept.bytes, distinct, "all have one text");
    }

    #[test]
    fn a_list_above_the_cache_limit_is_cached_alone() {
        let mut kept = Kept::default();
        let key = |agent: &str| {
            let host = host(agent, Era::Handshake, None);
            (Wanted::Tools, Era::Handshake, host.who.viewer())
        };
        let text = |letter: &str| vec![Bytes::from(letter.repeat(MAX_KEPT_BYTES + 1))];
        for agent in ["a", "b"] {
            kept.keep(key(agent), text(agent));
            assert_eq!((kept.lists.len(), kept.bytes), (1, MAX_KEPT_BYTES + 1));
        }
        kept.keep(key("c"), vec![Bytes::from_static(b"short")]);
        assert_eq!((kept.lists.len(), kept.bytes), (1, 5));
    }
}
