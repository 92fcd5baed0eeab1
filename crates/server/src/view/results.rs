//! Large results: the host gets a preview and a handle, and reads the stored result by pages. A handle is bound to its token
//! and session, or only to its token in the stateless era, and expires. The direct view never creates handles.

mod pages;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use callgate_gate::{Host, Owner};
use callgate_wire::{Era, Frame, Json, Pieces, Strictness, quote};
use serde_json::Value;

use super::search::ViewError;
use crate::Gateway;
use pages::{Page, StoredResult};

/// How long a result is stored.
const LIFE: Duration = Duration::from_secs(3600);
/// The limit per tenant. Beyond it the oldest results of the same token are removed, then those of its tenant.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// The length of a preview.
const PREVIEW_CHARS: usize = 2000;
/// The default number of lines or records per page.
const DEFAULT_LIMIT: usize = 100;

#[derive(Debug)]
pub(crate) struct Results {
    stored: Mutex<VecDeque<Entry>>,
    /// The limit per tenant, in bytes.
    max_bytes: usize,
}

impl Default for Results {
    fn default() -> Self {
        Self {
            stored: Mutex::default(),
            max_bytes: MAX_BYTES,
        }
    }
}

#[derive(Debug)]
struct Entry {
    handle: String,
    reader: Reader,
    since: Instant,
    stored: Arc<StoredResult>,
}

/// Who can read a result: the token that made it, and there only the same session. The stateless era has no sessions, so
/// every request of the token can.
#[derive(Debug, PartialEq, Eq)]
struct Reader {
    owner: Owner,
    session: Option<String>,
}

impl Reader {
    fn of(host: &Host) -> Self {
        let session = match host.era {
            Era::Handshake => Some(host.identity.session.clone()),
            Era::Stateless => None,
        };
        let owner = host.identity.owner();
        Self { owner, session }
    }
}

impl Results {
    /// Stores a text for this caller. `None` when it is larger than the limit; it is then sent whole.
    fn store(&self, host: &Host, text: String) -> Option<(String, Arc<StoredResult>)> {
        if text.len() > self.max_bytes {
            return None;
        }
        // Random and not counted: a handle in another caller's text must not be guessable.
        let mut random = [0u8; 16];
        getrandom::fill(&mut random).ok()?;
        let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let handle = format!("result_{digits}");
        let stored = Arc::new(StoredResult::new(text));
        let mut all = self.lock();
        all.push_back(Entry {
            handle: handle.clone(),
            reader: Reader::of(host),
            since: Instant::now(),
            stored: stored.clone(),
        });
        make_room(&mut all, &host.identity.owner(), self.max_bytes);
        Some((handle, stored))
    }

    fn find(&self, host: &Host, handle: &str, now: Instant) -> Option<Arc<StoredResult>> {
        let mut all = self.lock();
        // Expired results are removed when any result is read; there is no timer for them.
        all.retain(|entry| now.duration_since(entry.since) < LIFE);
        let reader = Reader::of(host);
        let is_it = |entry: &&Entry| entry.handle == handle && entry.reader == reader;
        all.iter().find(is_it).map(|entry| entry.stored.clone())
    }

    /// Removes the results of a session that ended.
    pub(crate) fn forget(&self, session: &str) {
        let is_its = |entry: &Entry| entry.reader.session.as_deref() == Some(session);
        self.lock().retain(|entry| !is_its(entry));
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes the oldest results until the tenant of `owner` is within its limit. The newest one, the last, always stays.
fn make_room(all: &mut VecDeque<Entry>, owner: &Owner, max_bytes: usize) {
    let of_tenant = |entry: &&Entry| entry.reader.owner.tenant == owner.tenant;
    let stored = all.iter().filter(of_tenant).map(|entry| entry.stored.len());
    let mut over = stored.sum::<usize>().saturating_sub(max_bytes);
    let own = |entry: &Entry| entry.reader.owner == *owner;
    let tenants = |entry: &Entry| entry.reader.owner.tenant == owner.tenant;
    // The token's own results first: a token that stores much should not displace those of others.
    let rounds: [&dyn Fn(&Entry) -> bool; 2] = [&own, &tenants];
    for goes in rounds {
        let mut at = 0;
        while over > 0 && at + 1 < all.len() {
            if goes(&all[at]) {
                let dropped = all.remove(at).map_or(0, |entry| entry.stored.len());
                over = over.saturating_sub(dropped);
            } else {
                at += 1;
            }
        }
    }
}

/// The answer to a call, with a handle in place of text that is too long. Other content is unchanged.
pub(crate) fn shaped(results: &Results, host: &Host, limit: usize, answer: Pieces) -> Pieces {
    if answer.len() <= limit {
        return answer;
    }
    // A text has at most as many characters as bytes, so most answers never get here to be parsed.
    let bytes = answer.into_bytes();
    match shorter(results, host, limit, &bytes) {
        Some(shorter) => shorter,
        None => bytes.into(),
    }
}

fn shorter(results: &Results, host: &Host, limit: usize, bytes: &bytes::Bytes) -> Option<Pieces> {
    let frame = Frame::parse(bytes.clone(), Strictness::Envelope).ok()?;
    let content = frame.result_member("content");
    let structured = frame.result_member("structuredContent");
    let texts: Vec<_> = content
        .into_iter()
        .flat_map(Json::elements)
        .filter_map(text_of)
        .collect();
    let text = texts.join("\n");
    let structured_text = structured.map_or("", |json| json.as_text());
    let chars = text.chars().count();
    if chars.max(structured_text.chars().count()) <= limit {
        return None;
    }
    // A result with both usually repeats the structured content as text, so one of them is enough to store.
    let whole = if chars > limit {
        text
    } else {
        structured_text.to_owned()
    };
    let preview: String = whole.chars().take(PREVIEW_CHARS).collect();
    let (handle, stored) = results.store(host, whole)?;
    let notice = notice(&handle, &stored, &preview);
    let mut blocks = vec![format!(r#"{{"type":"text","text":{}}}"#, quote(&notice))];
    for block in content.into_iter().flat_map(Json::elements) {
        if text_of(block).is_none() {
            blocks.push(block.as_text().to_owned());
        }
    }
    let edit = frame
        .edit()
        .set_result_member("content", &format!("[{}]", blocks.join(",")));
    let edit = match structured {
        Some(_) => edit.set_result_member("structuredContent", &summary(&handle, &stored)),
        None => edit,
    };
    Some(edit.pieces())
}

fn text_of(block: Json<'_>) -> Option<String> {
    let is_text = block.get("type").and_then(|kind| kind.as_str()).as_deref() == Some("text");
    is_text.then(|| block.get("text")?.as_str().map(|text| text.into_owned()))?
}

fn notice(handle: &str, stored: &StoredResult, preview: &str) -> String {
    let (total, unit) = (stored.count(), stored.unit());
    format!(
        "[callgate] The result is too large to show: {} characters, {total} {unit}. Read it by pages with read_result, handle {handle}. It begins:\n{preview}",
        stored.chars(),
    )
}

fn summary(handle: &str, stored: &StoredResult) -> String {
    format!(
        r#"{{"handle":"{handle}","characters":{},"total":{},"unit":"{}"}}"#,
        stored.chars(),
        stored.count(),
        stored.unit()
    )
}

/// A text, or its beginning with a handle if it is too long.
pub(super) fn shortened(results: &Results, host: &Host, limit: usize, text: String) -> String {
    if text.len() <= limit || text.chars().count() <= limit {
        return text;
    }
    let preview: String = text.chars().take(PREVIEW_CHARS.min(limit)).collect();
    match results.store(host, text.clone()) {
        Some((handle, stored)) => notice(&handle, &stored, &preview),
        None => text,
    }
}

/// Stores a value and returns the JSON that describes its handle. `None` when it cannot be stored.
pub(super) fn stored(
    results: &Results,
    host: &Host,
    json: String,
    preview_chars: usize,
) -> Option<String> {
    let preview: String = json.chars().take(preview_chars).collect();
    let (handle, stored) = results.store(host, json)?;
    let summary = summary(&handle, &stored);
    let summary = summary.strip_suffix('}').unwrap_or(&summary);
    Some(format!(r#"{summary},"preview":{}}}"#, quote(&preview)))
}

/// Answers `read_result`, for the `search` view and for scripts.
pub(super) fn answer(
    gateway: &Gateway,
    host: &Host,
    arguments: &Value,
) -> Result<String, ViewError> {
    let wrong = |text: &str| ViewError::arguments(text);
    let handle = arguments.get("handle").and_then(Value::as_str);
    let handle =
        handle.ok_or_else(|| wrong("`handle` is required: copy it from the call's answer"))?;
    let number = |key: &str, otherwise| match arguments.get(key).filter(|value| !value.is_null()) {
        None => Ok(otherwise),
        Some(value) => {
            let number = value
                .as_u64()
                .and_then(|number| usize::try_from(number).ok());
            number.ok_or_else(|| wrong(&format!("`{key}` must be a non-negative integer")))
        }
    };
    let search = arguments.get("search").filter(|search| !search.is_null());
    let search = match search {
        None => None,
        Some(search) => {
            let text = search
                .as_str()
                .ok_or_else(|| wrong("`search` must be a string"))?;
            Some(pages::pattern(text).map_err(|text| wrong(&text))?)
        }
    };
    let page = Page {
        offset: number("offset", 0)?,
        limit: number("limit", DEFAULT_LIMIT)?.max(1),
        search,
        chars: gateway.views.settings().inline_chars,
    };
    let results = &gateway.views.results;
    let stored = results.find(host, handle, Instant::now()).ok_or_else(|| {
        let text = "no such result in this session; it may have expired, so call the tool again";
        ViewError::new("RESULT_NOT_FOUND", text)
    })?;
    Ok(stored.page(handle, &page))
}

#[cfg(test)]
mod tests {
    use callgate_gate::{CallerIdentity, Grant};

    use super::*;

    fn host(principal: &str, session: &str, era: Era) -> Host {
        Host {
            identity: CallerIdentity {
                tenant: "local".to_owned(),
                principal: principal.to_owned(),
                agent: "a".to_owned(),
                session: session.to_owned(),
                grant: Grant::default(),
            },
            client_info: None,
            capabilities: "{}".to_owned(),
            era,
        }
    }

    #[test]
    fn a_result_handle_belongs_to_its_session() {
        let results = Results::default();
        let owner = host("p", "one", Era::Handshake);
        let (handle, _) = results.store(&owner, "text".to_owned()).unwrap();
        let found = |host| results.find(&host, &handle, Instant::now()).is_some();
        assert!(found(owner));
        assert!(!found(host("p", "two", Era::Handshake)));
        assert!(!found(host("p", "one", Era::Stateless)));
        results.forget("one");
        assert!(!found(host("p", "one", Era::Handshake)));
    }

    #[test]
    fn a_stateless_result_handle_belongs_to_its_principal() {
        let results = Results::default();
        let owner = host("p", "one", Era::Stateless);
        let (handle, _) = results.store(&owner, "text".to_owned()).unwrap();
        let found = |host| results.find(&host, &handle, Instant::now()).is_some();
        assert!(found(host("p", "two", Era::Stateless)));
        assert!(!found(host("q", "one", Era::Stateless)));
    }

    #[test]
    fn a_full_result_store_evicts_the_same_tokens_results_first() {
        let results = Results {
            max_bytes: 1000,
            ..Results::default()
        };
        let acme = Host {
            identity: CallerIdentity {
                tenant: "acme".to_owned(),
                ..host("p", "one", Era::Stateless).identity
            },
            ..host("p", "one", Era::Stateless)
        };
        let (neighbour, flood) = (
            host("q", "one", Era::Stateless),
            host("p", "one", Era::Stateless),
        );
        let store = |host: &Host, bytes| results.store(host, "x".repeat(bytes)).unwrap().0;
        let (theirs, beside) = (store(&acme, 10), store(&neighbour, 10));
        let first = store(&flood, 500);
        let last: Vec<String> = (0..4).map(|_| store(&flood, 500)).collect();
        let found = |host, handle: &str| results.find(host, handle, Instant::now()).is_some();
        assert!(found(&acme, &theirs) && found(&neighbour, &beside) && found(&flood, &last[3]));
        assert!(!found(&flood, &first));
        store(&flood, 1000);
        assert!(!found(&neighbour, &beside), "the newest one stays");
        assert!(found(&acme, &theirs));
    }

    #[test]
    fn a_result_handle_expires() {
        let results = Results::default();
        let owner = host("p", "one", Era::Handshake);
        let (handle, _) = results.store(&owner, "text".to_owned()).unwrap();
        let before = Instant::now();
        let minute = Duration::from_secs(60);
        assert!(
            results
                .find(&owner, &handle, before + LIFE - minute)
                .is_some()
        );
        assert!(
            results
                .find(&owner, &handle, before + LIFE + minute)
                .is_none()
        );
    }
}
