//! Prepared lists: the rendered pages for each distinct view of the catalog. They are built on first use and cached until
//! the snapshot or the policy changes, so serving a list costs no more than sending it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use bytes::Bytes;
use callgate_gate::{Catalog, Host, Policy, Viewer};
use callgate_wire::Era;

use super::{ListKind, for_era, pages};

/// The limit of cached lists. When it is exceeded, the cache is emptied.
const MAX_CACHED_LISTS: usize = 64;
/// The limit of cached text. When it is exceeded, only the newest list is kept.
const MAX_CACHED_BYTES: usize = 16 * 1024 * 1024;

/// The inputs that lists are built from.
pub(super) struct Basis {
    pub(super) catalog: Arc<Catalog>,
    pub(super) policy: Arc<Policy>,
}

#[derive(Debug, Default)]
pub(crate) struct Lists {
    cache: Mutex<ListCache>,
}

/// The results of a list, page by page.
type Pages = Arc<[Bytes]>;

#[derive(Debug, Default)]
struct ListCache {
    /// The catalog that the lists were built from. Compared by address: a `Weak` keeps the address from being reused
    /// without keeping the catalog alive.
    catalog: Weak<Catalog>,
    policy: Weak<Policy>,
    lists: HashMap<(ListKind, Era, Viewer), Pages>,
    /// The total length of the distinct texts.
    bytes: usize,
}

impl Lists {
    /// The pages that this host sees. Concurrent requests wait for the one that builds them.
    pub(super) fn pages(&self, basis: &Basis, wanted: ListKind, host: &Host) -> Pages {
        // Held while a list is built, so that concurrent requests for the same list wait instead of building it again.
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if !cache.is_of(basis) {
            *cache = ListCache {
                catalog: Arc::downgrade(&basis.catalog),
                policy: Arc::downgrade(&basis.policy),
                ..ListCache::default()
            };
        }
        let key = (wanted, host.era, host.identity.viewer());
        if let Some(known) = cache.lists.get(&key) {
            return known.clone();
        }
        let made = made(basis, wanted, host);
        cache.store(key, made)
    }
}

impl ListCache {
    fn is_of(&self, basis: &Basis) -> bool {
        Weak::as_ptr(&self.catalog) == Arc::as_ptr(&basis.catalog)
            && Weak::as_ptr(&self.policy) == Arc::as_ptr(&basis.policy)
    }

    /// Caches a list. Most viewers see the same tools, so equal lists share one text.
    fn store(&mut self, key: (ListKind, Era, Viewer), made: Vec<Bytes>) -> Pages {
        let length = made.iter().map(Bytes::len).sum::<usize>();
        let alike = self.lists.values().find(|known| ***known == *made);
        let list = match alike {
            Some(known) => known.clone(),
            None => {
                self.bytes += length;
                made.into()
            }
        };
        // Emptied instead of evicting the oldest: rebuilding is cheap, and the limit only has to stop a client that
        // varies its agent name from growing the cache.
        if self.lists.len() >= MAX_CACHED_LISTS || self.bytes > MAX_CACHED_BYTES {
            self.lists.clear();
            self.bytes = length;
        }
        self.lists.insert(key, list.clone());
        list
    }
}

fn made(basis: &Basis, wanted: ListKind, host: &Host) -> Vec<Bytes> {
    let Basis { catalog, policy } = basis;
    let pages = match wanted {
        ListKind::Tools => {
            let tools = catalog.listed_to(policy, &host.identity);
            let tools = tools.map(|tool| &tool.shown_descriptor);
            pages(wanted, catalog, tools)
        }
        ListKind::Items(kind) => {
            let items = catalog.items(kind, policy, Some(&host.identity));
            let items = items.map(|item| &item.shown_descriptor);
            pages(wanted, catalog, items)
        }
    };
    let pages = pages.into_iter();
    pages.map(|page| for_era(host.era, wanted, page)).collect()
}

#[cfg(test)]
mod tests {
    use callgate_gate::{
        Builtin, CallerIdentity, Grant, Listing, Naming, Operation, ServerName, Tool,
    };

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
        let identity = CallerIdentity {
            tenant: "local".to_owned(),
            principal: "token".to_owned(),
            agent: agent.to_owned(),
            session: "s".to_owned(),
            grant: Grant::new(servers, Operation::Destructive),
        };
        Host {
            identity,
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
        let pages = |host: &Host| lists.pages(&basis, ListKind::Tools, host);
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
        let one = lists.pages(&basis, ListKind::Tools, &host);
        basis.policy = Arc::new(Policy::new(Builtin::Default, HashMap::new()));
        let two = lists.pages(&basis, ListKind::Tools, &host);
        assert!(!Arc::ptr_eq(&one, &two));
        basis.catalog = catalog(2);
        let three = lists.pages(&basis, ListKind::Tools, &host);
        assert!(!self::first(&two).contains("b__t1") && self::first(&three).contains("b__t1"));
    }

    #[test]
    fn the_list_cache_is_bounded() {
        let (lists, basis) = (Lists::default(), basis(1100));
        for n in 0..3 * MAX_CACHED_LISTS {
            let host = host(&format!("agent {n}"), Era::Handshake, None);
            let pages = lists.pages(&basis, ListKind::Tools, &host);
            assert_eq!(pages.len(), 3, "2,200 tools");
        }
        let cache = lists.cache.lock().expect("the lock is not poisoned");
        assert!(cache.lists.len() <= MAX_CACHED_LISTS);
        let distinct: usize = cache
            .lists
            .values()
            .next()
            .map_or(0, |list| list.iter().map(Bytes::len).sum());
        assert_eq!(cache.bytes, distinct, "all have one text");
    }

    #[test]
    fn a_list_above_the_cache_limit_is_cached_alone() {
        let mut cache = ListCache::default();
        let key = |agent: &str| {
            let host = host(agent, Era::Handshake, None);
            (ListKind::Tools, Era::Handshake, host.identity.viewer())
        };
        let text = |letter: &str| vec![Bytes::from(letter.repeat(MAX_CACHED_BYTES + 1))];
        for agent in ["a", "b"] {
            cache.store(key(agent), text(agent));
            assert_eq!((cache.lists.len(), cache.bytes), (1, MAX_CACHED_BYTES + 1));
        }
        cache.store(key("c"), vec![Bytes::from_static(b"short")]);
        assert_eq!((cache.lists.len(), cache.bytes), (1, 5));
    }
}
