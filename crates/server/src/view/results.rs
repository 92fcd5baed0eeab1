//! Large results: kept here under a handle while the host gets a preview, and read by pages. A handle is bound
//! to its token and session, or to its token where there are no sessions, and expires; the direct view never makes one.

mod pages;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use callgate_gate::{Host, Owner};
use callgate_wire::{Era, Frame, Json, Pieces, Strictness, quote};
use serde_json::Value;

use super::search::Unanswered;
use crate::Gateway;
use pages::{Kept, Page};

/// How long a result can be read.
const LIFE: Duration = Duration::from_secs(3600);
/// How much is kept for a tenant; beyond it the oldest results of the same token go, then those of its tenant.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// How much of a result is shown at once.
const PREVIEW_CHARS: usize = 2000;
/// Lines or records on a page where nothing is said.
const DEFAULT_LIMIT: usize = 100;

/// The results that are kept.
#[derive(Debug)]
pub(crate) struct Results {
    kept: Mutex<VecDeque<Entry>>,
    /// How much is kept for a tenant.
    max_bytes: usize,
}

impl Default for Results {
    fn default() -> Self {
        Self {
            kept: Mutex::default(),
            max_bytes: MAX_BYTES,
        }
    }
}

#[derive(Debug)]
struct Entry {
    handle: String,
    reader: Reader,
    since: Instant,
    kept: Arc<Kept>,
}

/// Who can read a result: a token, and of its hosts the session that the result was made in. Without sessions each request
/// stands for itself, and all of the token's can.
#[derive(Debug, PartialEq, Eq)]
struct Reader {
    owner: Owner,
    session: Option<String>,
}

impl Reader {
    fn of(host: &Host) -> Self {
        let session = match host.era {
            Era::Handshake => Some(host.who.session.clone()),
            Era::Stateless => None,
        };
        let owner = host.who.owner();
        Self { owner, session }
    }
}

impl Results {
    /// Keeps a text for this caller's session. `None` where it cannot be: then it stays as it is.
    fn keep(&self, host: &Host, text: String) -> Option<(String, Arc<Kept>)> {
        if text.len() > self.max_bytes {
            return None;
        }
        let mut random = [0u8; 16];
        getrandom::fill(&mut random).ok()?;
        let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let handle = format!("result_{digits}");
        let kept = Arc::new(Kept::new(text));
        let mut all = self.lock();
        all.push_back(Entry {
            handle: handle.clone(),
            reader: Reader::of(host),
            since: Instant::now(),
            kept: kept.clone(),
        });
        make_room(&mut all, &host.who.owner(), self.max_bytes);
        Some((handle, kept))
    }

    fn find(&self, host: &Host, handle: &str, now: Instant) -> Option<Arc<Kept>> {
        let mut all = self.lock();
        all.retain(|entry| now.duration_since(entry.since) < LIFE);
        let reader = Reader::of(host);
        let is_it = |entry: &&Entry| entry.handle == handle && entry.reader == reader;
        all.iter().find(is_it).map(|entry| entry.kept.clone())
    }

    /// Forgets the results of a session that ended.
    pub(crate) fn forget(&self, session: &str) {
        let is_its = |entry: &Entry| entry.reader.session.as_deref() == Some(session);
        self.lock().retain(|entry| !is_its(entry));
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops the oldest results until what the tenant of `owner` keeps fits. The newest one, which is the last, always stays.
fn make_room(all: &mut VecDeque<Entry>, owner: &Owner, max_bytes: usize) {
    let of_tenant = |entry: &&Entry| entry.reader.owner.tenant == owner.tenant;
    let kept = all.iter().filter(of_tenant).map(|entry| entry.kept.len());
    let mut over = kept.sum::<usize>().saturating_sub(max_bytes);
    let own = |entry: &Entry| entry.reader.owner == *owner;
    let tenants = |entry: &Entry| entry.reader.owner.tenant == owner.tenant;
    let rounds: [&dyn Fn(&Entry) -> bool; 2] = [&own, &tenants];
    for goes in rounds {
        let mut at = 0;
        while over > 0 && at + 1 < all.len() {
            if goes(&all[at]) {
                let dropped = all.remove(at).map_or(0, |entry| entry.kept.len());
                over = over.saturating_sub(dropped);
            } else {
                at += 1;
            }
        }
    }
}

/// The answer to a call, with a handle in place of what is too large. Everything that is not text stays as and
/// where it is.
pub(crate) fn shaped(results: &Results, host: &Host, limit: usize, answer: Pieces) -> Pieces {
    if answer.len() <= limit {
        return answer;
    }
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
    // Where a result has both, the text is the structured content once more, or tells of it.
    let whole = if chars > limit {
        text
    } else {
        structured_text.to_owned()
    };
    let preview: String = whole.chars().take(PREVIEW_CHARS).collect();
    let (handle, kept) = results.keep(host, whole)?;
    let told = told(&handle, &kept, &preview);
    let mut blocks = vec![format!(r#"{{"type":"text","text":{}}}"#, quote(&told))];
    for block in content.into_iter().flat_map(Json::elements) {
        if text_of(block).is_none() {
            blocks.push(block.as_text().to_owned());
        }
    }
    let edit = frame
        .edit()
        .set_result_member("content", &format!("[{}]", blocks.join(",")));
    let edit = match structured {
        Some(_) => edit.set_result_member("structuredContent", &summary(&handle, &kept)),
        None => edit,
    };
    Some(edit.pieces())
}

fn text_of(block: Json<'_>) -> Option<String> {
    let is_text = block.get("type").and_then(|kind| kind.as_str()).as_deref() == Some("text");
    is_text.then(|| block.get("text")?.as_str().map(|text| text.into_owned()))?
}

fn told(handle: &str, kept: &Kept, preview: &str) -> String {
    let (total, unit) = (kept.count(), kept.unit());
    format!(
        "[callgate] The result is too large to show: {} characters, {total} {unit}. Read it by pages with read_result, handle {handle}. It begins:\n{preview}",
        kept.chars(),
    )
}

fn summary(handle: &str, kept: &Kept) -> String {
    format!(
        r#"{{"handle":"{handle}","characters":{},"total":{},"unit":"{}"}}"#,
        kept.chars(),
        kept.count(),
        kept.unit()
    )
}

/// A text, or where it is too large its beginning with a handle.
pub(super) fn shortened(results: &Results, host: &Host, limit: usize, text: String) -> String {
    if text.len() <= limit || text.chars().count() <= limit {
        return text;
    }
    let preview: String = text.chars().take(PREVIEW_CHARS.min(limit)).collect();
    match results.keep(host, text.clone()) {
        Some((handle, kept)) => told(&handle, &kept, &preview),
        None => text,
    }
}

/// A value under a handle, as JSON that tells of it. `None` where it cannot be kept.
pub(super) fn kept(
    results: &Results,
    host: &Host,
    json: String,
    preview_chars: usize,
) -> Option<String> {
    let preview: String = json.chars().take(preview_chars).collect();
    let (handle, kept) = results.keep(host, json)?;
    let summary = summary(&handle, &kept);
    let summary = summary.strip_suffix('}').unwrap_or(&summary);
    Some(format!(r#"{summary},"preview":{}}}"#, quote(&preview)))
}

/// Answers `read_result`.
pub(super) fn answer(
    gateway: &Gateway,
    host: &Host,
    arguments: &Value,
) -> Result<String, Unanswered> {
    let wrong = |text: &str| Unanswered::arguments(text);
    let handle = arguments.get("handle").and_then(Value::as_str);
    let handle =
        handle.ok_or_else(|| wrong("`handle` is required: as the call's answer gave it"))?;
    let number = |key: &str, otherwise| match arguments.get(key).filter(|value| !value.is_null()) {
        None => Ok(otherwise),
        Some(value) => {
            let number = value
                .as_u64()
                .and_then(|number| usize::try_from(number).ok());
            number.ok_or_else(|| wrong(&format!("`{key}` must be a number from 0")))
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
    let kept = results.find(host, handle, Instant::now()).ok_or_else(|| {
        let text =
            "there is no such result in this session: it may have expired; call the tool again";
        Unanswered::new("RESULT_NOT_FOUND", text)
    })?;
    Ok(kept.page(handle, &page))
}

#[cfg(test)]
mod tests {
    use callgate_gate::{Grant, Who};

    use super::*;

    fn host(principal: &str, session: &str, era: Era) -> Host {
        Host {
            who: Who {
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
        let (handle, _) = results.keep(&owner, "text".to_owned()).unwrap();
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
        let (handle, _) = results.keep(&owner, "text".to_owned()).unwrap();
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
            who: Who {
                tenant: "acme".to_owned(),
                ..host("p", "one", Era::Stateless).who
            },
            ..host("p", "one", Era::Stateless)
        };
        let (neighbour, flood) = (
            host("q", "one", Era::Stateless),
            host("p", "one", Era::Stateless),
        );
        let keep = |host: &Host, bytes| results.keep(host, "x".repeat(bytes)).unwrap().0;
        let (theirs, beside) = (keep(&acme, 10), keep(&neighbour, 10));
        let first = keep(&flood, 500);
        let last: Vec<String> = (0..4).map(|_| keep(&flood, 500)).collect();
        let found = |host, handle: &str| results.find(host, handle, Instant::now()).is_some();
        assert!(found(&acme, &theirs) && found(&neighbour, &beside) && found(&flood, &last[3]));
        assert!(!found(&flood, &first));
        keep(&flood, 1000);
        assert!(!found(&neighbour, &beside), "the newest one stays");
        assert!(found(&acme, &theirs));
    }

    #[test]
    fn a_result_handle_expires() {
        let results = Results::default();
        let owner = host("p", "one", Era::Handshake);
        let (handle, _) = results.keep(&owner, "text".to_owned()).unwrap();
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
