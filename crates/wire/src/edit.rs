//! Changes of a frame as splices: the touched spans differ and everything else stays byte for byte.
//! Only what a gateway owns can be changed: the id, members of `params`, `result` and `_meta`.

use bytes::Bytes;
use memchr::memchr2_iter;

use crate::escape::{key_is, quote_into};
use crate::frame::{Frame, FrameKind};
use crate::id::Id;
use crate::json::Json;
use crate::pieces::{COPIED_BYTES, Pieces};
use crate::scan::{Member, Span, Strictness};

/// Splices that most changes need at most.
const USUAL_SPLICES: usize = 4;

/// A change under construction; nothing happens before [`Edit::finish`].
#[derive(Debug)]
pub struct Edit<'f> {
    frame: &'f Frame,
    id: Option<Id>,
    body: Vec<Setting>,
    meta: Vec<Setting>,
    /// For each member of the frame's `_meta`, whether it is removed.
    removed: Vec<bool>,
    /// For each member of `params` or `result`, whether it is removed.
    removed_members: Vec<bool>,
}

#[derive(Debug)]
struct Setting {
    key: String,
    raw: String,
}

/// A replacement of one range of the frame's bytes.
#[derive(Debug)]
struct Splice {
    start: usize,
    end: usize,
    text: String,
}

impl<'f> Edit<'f> {
    pub(crate) fn new(frame: &'f Frame) -> Edit<'f> {
        Edit {
            frame,
            id: None,
            body: Vec::new(),
            meta: Vec::new(),
            removed: Vec::new(),
            removed_members: Vec::new(),
        }
    }

    /// Replaces the id. A notification has none and stays one.
    pub fn id(mut self, id: &Id) -> Edit<'f> {
        self.id = Some(id.clone());
        self
    }

    /// Sets a member of `params` to a JSON text; creates `params` if there is none. Replies, and `params`
    /// given as an array, stay unchanged.
    pub fn param(mut self, key: &str, raw: &str) -> Edit<'f> {
        match self.frame.kind() {
            FrameKind::Request | FrameKind::Notification => set(&mut self.body, key, raw),
            FrameKind::Result | FrameKind::Error => {}
        }
        self
    }

    /// Sets a member of a successful reply's `result` to a JSON text. Other frames, and a result
    /// that is not an object, stay as they are.
    pub fn set_result_member(mut self, key: &str, raw: &str) -> Edit<'f> {
        match self.frame.kind() {
            FrameKind::Result => set(&mut self.body, key, raw),
            FrameKind::Request | FrameKind::Notification | FrameKind::Error => {}
        }
        self
    }

    /// Sets a member of `_meta` in `params` or `result` to a JSON text; creates `_meta` (and `params`) if there
    /// is none. It wins over a removal, and loses against a `_meta` that is set as a whole. Error replies stay
    /// unchanged.
    pub fn meta(mut self, key: &str, raw: &str) -> Edit<'f> {
        set(&mut self.meta, key, raw);
        self
    }

    /// Removes the members of the frame's `_meta` whose unescaped keys match. A `_meta` that this empties is
    /// removed too.
    pub fn remove_meta(mut self, mut chosen: impl FnMut(&str) -> bool) -> Edit<'f> {
        let members = &self.frame.outline().meta;
        self.removed.resize(members.len(), false);
        for (member, removed) in members.iter().zip(&mut self.removed) {
            let key = Json::trusted(member.key.of(self.frame.bytes())).as_str();
            *removed |= key.is_some_and(|key| chosen(&key));
        }
        self
    }

    /// Removes members of `params` or `result` by their unescaped keys. One that is also set stays.
    pub fn remove_members(mut self, keys: &[&str]) -> Edit<'f> {
        let members = &self.frame.outline().body;
        self.removed_members.resize(members.len(), false);
        for (member, removed) in members.iter().zip(&mut self.removed_members) {
            let key = member.key.of(self.frame.bytes());
            *removed |= keys.iter().any(|chosen| key_is(key, chosen));
        }
        self
    }

    /// The changed message; the frame's own bytes if nothing changed.
    pub fn finish(self) -> Bytes {
        let splices = self.splices();
        if splices.is_empty() {
            return self.frame.bytes().clone();
        }
        splice(self.frame.bytes(), &splices).into()
    }

    /// The changed message; unchanged parts of a large one are shared and not copied.
    pub fn pieces(self) -> Pieces {
        let text = self.frame.bytes();
        let splices = self.splices();
        if splices.is_empty() {
            return text.clone().into();
        }
        if text.len() <= COPIED_BYTES {
            return Bytes::from(splice(text, &splices)).into();
        }
        let mut pieces = Vec::with_capacity(USUAL_SPLICES);
        // Collects the new bytes and the short unchanged ranges beside them.
        let mut copied = Vec::new();
        let mut at = 0;
        for splice in splices {
            share(text.slice(at..splice.start), &mut copied, &mut pieces);
            copied.extend_from_slice(splice.text.as_bytes());
            at = splice.end;
        }
        share(text.slice(at..), &mut copied, &mut pieces);
        pieces.push(copied.into());
        pieces.into_iter().collect()
    }

    /// The changed message as one line: raw line breaks between tokens become spaces, and a line
    /// feed ends it.
    pub fn finish_line(self) -> Bytes {
        let splices = self.splices();
        let breaks = |splice: &Splice| splice.text.contains(['\n', '\r']);
        let line_breaks = self.frame.has_line_breaks() || splices.iter().any(breaks);
        one_line(splice(self.frame.bytes(), &splices), line_breaks)
    }

    /// All changes in the order of the text.
    fn splices(&self) -> Vec<Splice> {
        let mut out = Vec::with_capacity(USUAL_SPLICES);
        let text = self.frame.bytes();
        if let Some(id) = &self.id {
            let ids = self.frame.outline().top.iter();
            let ids = ids.filter(|member| key_is(member.key.of(text), "id"));
            out.extend(ids.map(|member| replace(member.value, id.raw())));
        }
        match self.frame.body() {
            _ if self.changes_only_the_id() => {}
            Some(body) if text[body.start as usize] == b'{' => self.change_body(body, &mut out),
            Some(_) => {}
            None => self.make_params(&mut out),
        }
        // Stable, so that an insertion stays before a removal that starts at the same offset.
        out.sort_by_key(|splice| splice.start);
        out
    }

    fn changes_only_the_id(&self) -> bool {
        let sets = !(self.body.is_empty() && self.meta.is_empty());
        let removes = !(self.removed.is_empty() && self.removed_members.is_empty());
        !sets && !removes
    }

    /// For a request without `params`.
    fn make_params(&self, out: &mut Vec<Splice>) {
        let is_request = self.frame.method().is_some();
        if !is_request || (self.body.is_empty() && self.meta.is_empty()) {
            return;
        }
        let meta = self.whole_meta();
        let params = object(self.body.iter().chain(&meta));
        let setting = Setting {
            key: "params".to_owned(),
            raw: params,
        };
        let envelope = self.object(self.frame.outline().value, &self.frame.outline().top);
        envelope.change(&[&setting], &[], out);
    }

    fn change_body(&self, body: Span, out: &mut Vec<Splice>) {
        let outline = self.frame.outline();
        let text = self.frame.bytes();
        let mut settings: Vec<&Setting> = self.body.iter().collect();
        let mut removed = self.removed_members.clone();
        let is_meta = |member: &&Member| key_is(member.key.of(text), "_meta");
        let found = outline.body.iter().rfind(is_meta);
        let whole = self.whole_meta();
        match found {
            _ if self.sets_whole_meta() => {}
            Some(found) if text[found.value.start as usize] == b'{' => {
                let alone = outline.body.iter().filter(is_meta).count() == 1;
                if alone && self.empties_meta() {
                    removed.resize(outline.body.len(), false);
                    for (member, removed) in outline.body.iter().zip(&mut removed) {
                        *removed |= is_meta(&member);
                    }
                } else {
                    let meta: Vec<&Setting> = self.meta.iter().collect();
                    let object = self.object(found.value, &outline.meta);
                    object.change(&meta, &self.removed, out);
                }
            }
            Some(_) | None => settings.extend(&whole),
        }
        self.object(body, &outline.body)
            .change(&settings, &removed, out);
    }

    /// A new `_meta` from the members to set; for a frame without one.
    fn whole_meta(&self) -> Option<Setting> {
        (!self.meta.is_empty() && !self.sets_whole_meta()).then(|| Setting {
            key: "_meta".to_owned(),
            raw: object(self.meta.iter()),
        })
    }

    fn sets_whole_meta(&self) -> bool {
        self.body.iter().any(|setting| setting.key == "_meta")
    }

    /// Whether removals empty a `_meta` that had members.
    fn empties_meta(&self) -> bool {
        self.meta.is_empty() && !self.removed.is_empty() && self.removed.iter().all(|gone| *gone)
    }

    fn object<'o>(&'o self, span: Span, members: &'o [Member]) -> Object<'o> {
        Object {
            text: self.frame.bytes(),
            span,
            members,
        }
    }
}

/// An object in the frame's text whose members change.
struct Object<'o> {
    text: &'o [u8],
    span: Span,
    members: &'o [Member],
}

impl Object<'_> {
    fn change(&self, settings: &[&Setting], removed: &[bool], out: &mut Vec<Splice>) {
        let setting_of = |member: &Member| {
            let key = member.key.of(self.text);
            settings.iter().find(|setting| key_is(key, &setting.key))
        };
        let mut present = Vec::new();
        let mut last_kept = None;
        let mut removals = Vec::new();
        for (index, member) in self.members.iter().enumerate() {
            if let Some(setting) = setting_of(member) {
                out.push(replace(member.value, &setting.raw));
                present.push(setting.key.as_str());
                last_kept = Some(member.value.end);
            } else if removed.get(index).copied().unwrap_or(false) {
                removals.push(self.removal(index, last_kept.is_some()));
            } else {
                last_kept = Some(member.value.end);
            }
        }
        let absent = settings
            .iter()
            .filter(|setting| !present.contains(&setting.key.as_str()));
        let text = members_text(absent.copied());
        if !text.is_empty() {
            let (at, comma) = match last_kept {
                Some(end) => (end as usize, ","),
                None => (self.span.start as usize + 1, ""),
            };
            out.push(Splice {
                start: at,
                end: at,
                text: format!("{comma}{text}"),
            });
        }
        out.extend(removals);
    }

    /// After a member that stays, a removed one takes the comma before it; otherwise the comma after it, if
    /// there is one.
    fn removal(&self, index: usize, behind_kept: bool) -> Splice {
        let member = self.members[index];
        let (start, end) = match (behind_kept, self.members.get(index + 1)) {
            (true, _) => (self.members[index - 1].value.end, member.value.end),
            (false, Some(next)) => (member.key.start, next.key.start),
            (false, None) => (member.key.start, member.value.end),
        };
        replace(Span { start, end }, "")
    }
}

/// Adds a setting; the later of two for the same key wins.
fn set(settings: &mut Vec<Setting>, key: &str, raw: &str) {
    debug_assert!(
        Json::validate(raw.as_bytes(), Strictness::Envelope).is_ok(),
        "a member is set to JSON text"
    );
    settings.retain(|setting| setting.key != key);
    settings.push(Setting {
        key: key.to_owned(),
        raw: raw.to_owned(),
    });
}

fn replace(span: Span, text: &str) -> Splice {
    Splice {
        start: span.start as usize,
        end: span.end as usize,
        text: text.to_owned(),
    }
}

fn object<'s>(settings: impl Iterator<Item = &'s Setting>) -> String {
    format!("{{{}}}", members_text(settings))
}

fn members_text<'s>(settings: impl Iterator<Item = &'s Setting>) -> String {
    let mut out = String::new();
    for setting in settings {
        if !out.is_empty() {
            out.push(',');
        }
        quote_into(&setting.key, &mut out);
        out.push(':');
        out.push_str(&setting.raw);
    }
    out
}

fn splice(text: &[u8], splices: &[Splice]) -> Vec<u8> {
    let added: usize = splices.iter().map(|splice| splice.text.len()).sum();
    // One byte more than the text, for the line feed of a line.
    let mut out = Vec::with_capacity(text.len() + added + 1);
    let mut at = 0;
    for splice in splices {
        out.extend_from_slice(&text[at..splice.start]);
        out.extend_from_slice(splice.text.as_bytes());
        at = splice.end;
    }
    out.extend_from_slice(&text[at..]);
    out
}

/// Adds an unchanged range: a long one as a piece of its own after the bytes copied so far, a short one as a
/// copy.
fn share(stretch: Bytes, copied: &mut Vec<u8>, pieces: &mut Vec<Bytes>) {
    if stretch.len() <= COPIED_BYTES {
        copied.extend_from_slice(&stretch);
    } else {
        pieces.push(std::mem::take(copied).into());
        pieces.push(stretch);
    }
}

/// Strings have no raw line breaks, so each one in a valid text is between tokens.
fn one_line(mut text: Vec<u8>, line_breaks: bool) -> Bytes {
    if line_breaks {
        let places: Vec<_> = memchr2_iter(b'\n', b'\r', &text).collect();
        for place in places {
            text[place] = b' ';
        }
    }
    text.push(b'\n');
    text.into()
}

#[cfg(test)]
mod tests;
