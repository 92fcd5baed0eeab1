//! A YAML file as far as an edit needs it: the keys of one server with their lines.

use std::ops::Range;

use granit_parser::{Event, Parser, ScalarStyle, Span, StructureStyle};

use super::{NotEdited, unusual};

/// A file of the usual form: one document, keys in lines of their own, no references.
#[derive(Debug)]
pub(super) struct Document {
    /// Without comments.
    nodes: Vec<(Event<'static>, Span)>,
    comments: Vec<(String, usize)>,
}

/// One server in a document.
#[derive(Debug)]
pub(super) struct Entry {
    /// The column of its keys.
    pub(super) indent: usize,
    /// The line of its name, counted from 0 like the others.
    name_line: usize,
    /// The line behind its last key's value; `None` if it cannot be told.
    end: Option<usize>,
    /// The nodes and lines of its key `box`.
    sandbox: Option<(Range<usize>, Range<usize>)>,
}

impl Document {
    pub(super) fn read(text: &str) -> Result<Self, NotEdited> {
        usual_bytes(text)?;
        let (mut nodes, mut comments) = (Vec::new(), Vec::new());
        let mut documents = 0;
        for next in Parser::new_from_str(text) {
            let (event, span) = next.map_err(|error| unusual(format!("not YAML: {error}")))?;
            match &event {
                Event::Comment(text, _) => {
                    comments.push((text.to_string(), line(span.start)));
                    continue;
                }
                Event::DocumentStart(..) => documents += 1,
                Event::Alias(_) => return Err(unusual("it has references (`*name`)")),
                Event::Scalar(_, _, anchor, tag)
                | Event::SequenceStart(_, anchor, tag)
                | Event::MappingStart(_, anchor, tag)
                    if (*anchor != 0 || tag.is_some()) =>
                {
                    return Err(unusual("it has anchors or tags (`&name`, `!name`)"));
                }
                _ => {}
            }
            nodes.push((owned(event)?, span));
        }
        match documents {
            1 => Ok(Self { nodes, comments }),
            _ => Err(unusual("it has no document, or several")),
        }
    }

    /// The server of this name under `servers`.
    pub(super) fn server(&self, name: &str) -> Result<Entry, NotEdited> {
        // The stream and the document begin first.
        let servers = self.value(2, "servers")?;
        let (key, value) = self
            .keys(servers)?
            .into_iter()
            .find(|(key, _)| self.is_text(*key, name))
            .ok_or_else(|| unusual(format!("`{name}` is not under `servers`")))?;
        let keys = self.keys(value)?;
        let (first, _) = keys
            .first()
            .ok_or_else(|| unusual(format!("`{name}` has no keys")))?;
        let (indent, name_line) = (self.column(*first), self.line(key));
        if self.line(*first) == name_line || keys.iter().any(|(key, _)| self.column(*key) != indent)
        {
            return Err(unusual(format!(
                "the keys of `{name}` are not in lines of their own"
            )));
        }
        let sandbox = match keys.iter().position(|(key, _)| self.is_text(*key, "box")) {
            None => None,
            Some(index) => {
                let (key, value) = keys[index];
                let after = self.after(value);
                let end = self
                    .last_line(value..after)
                    .ok_or_else(|| unusual("its `box` has an unusual form"))?;
                let lines = self.line(key)..end + 1;
                let next = keys.get(index + 1).map(|(key, _)| self.line(*key));
                if next.is_some_and(|next| next < lines.end) {
                    return Err(unusual("its `box` has an unusual form"));
                }
                let has_comment = self.comments.iter().any(|(_, line)| lines.contains(line));
                if has_comment {
                    return Err(unusual("its `box` has comments, which would be lost"));
                }
                Some((key..after, lines))
            }
        };
        let last = keys.last().map(|(_, value)| *value).unwrap_or(value);
        let end = self.last_line(last..self.after(last)).map(|line| line + 1);
        Ok(Entry {
            indent,
            name_line,
            end,
            sandbox,
        })
    }

    /// Whether two versions differ in the box alone.
    pub(super) fn is_same_besides_box(&self, own: &Entry, other: &Self, others: &Entry) -> bool {
        let comments = |document: &Self| {
            let texts = document.comments.iter().map(|(text, _)| text.clone());
            texts.collect::<Vec<String>>()
        };
        let events = |document: &Self, entry: &Entry| {
            let without = entry.sandbox.clone().map_or(0..0, |(nodes, _)| nodes);
            let nodes = document.nodes.iter().enumerate();
            let rest = nodes.filter(|(index, _)| !without.contains(index));
            rest.map(|(_, (event, _))| event.clone())
                .collect::<Vec<_>>()
        };
        comments(self) == comments(other) && events(self, own) == events(other, others)
    }

    /// The value of a key in the block mapping at this node.
    fn value(&self, mapping: usize, name: &str) -> Result<usize, NotEdited> {
        let keys = self.keys(mapping)?;
        let found = keys.into_iter().find(|(key, _)| self.is_text(*key, name));
        found
            .map(|(_, value)| value)
            .ok_or_else(|| unusual(format!("it has no key `{name}`")))
    }

    /// The nodes of keys and values of the block mapping at this node.
    fn keys(&self, mapping: usize) -> Result<Vec<(usize, usize)>, NotEdited> {
        match self.nodes.get(mapping) {
            Some((Event::MappingStart(StructureStyle::Block, ..), _)) => {}
            Some((Event::MappingStart(StructureStyle::Flow, ..), _)) => {
                return Err(unusual("it is written with braces (`{…}`)"));
            }
            _ => return Err(unusual("it is not made of keys and values")),
        }
        let mut keys = Vec::new();
        let mut node = mapping + 1;
        while !matches!(self.nodes.get(node), Some((Event::MappingEnd, _)) | None) {
            let value = self.after(node);
            keys.push((node, value));
            node = self.after(value);
        }
        Ok(keys)
    }

    /// The node behind this one and everything in it.
    fn after(&self, node: usize) -> usize {
        let mut depth = 0usize;
        for (index, (event, _)) in self.nodes.iter().enumerate().skip(node) {
            match event {
                Event::MappingStart(..) | Event::SequenceStart(..) => depth += 1,
                Event::MappingEnd | Event::SequenceEnd => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return index + 1;
            }
        }
        self.nodes.len()
    }

    /// The last line of these nodes; `None` where an end has no clear line.
    fn last_line(&self, nodes: Range<usize>) -> Option<usize> {
        let mut last = None;
        let mut styles = Vec::new();
        for (event, span) in self.nodes.get(nodes)? {
            let at = match event {
                Event::Scalar(text, style, ..) => match style {
                    ScalarStyle::Literal | ScalarStyle::Folded => return None,
                    // Nothing was written, and the position is that of something else.
                    _ if text.is_empty() && *style == ScalarStyle::Plain => return None,
                    _ => line(span.end),
                },
                Event::MappingStart(style, ..) | Event::SequenceStart(style, ..) => {
                    styles.push(*style);
                    line(span.start)
                }
                Event::MappingEnd | Event::SequenceEnd => match styles.pop()? {
                    StructureStyle::Flow => line(span.end),
                    // Known only when something else begins.
                    StructureStyle::Block => continue,
                },
                _ => return None,
            };
            last = last.max(Some(at));
        }
        last
    }

    fn is_text(&self, node: usize, text: &str) -> bool {
        matches!(&self.nodes[node].0, Event::Scalar(own, ..) if own == text)
    }

    fn line(&self, node: usize) -> usize {
        line(self.nodes[node].1.start)
    }

    fn column(&self, node: usize) -> usize {
        self.nodes[node].1.start.col()
    }
}

impl Entry {
    /// The lines that a new box can take the place of, the best first. An empty range puts it in.
    pub(super) fn places(&self) -> Vec<Range<usize>> {
        if let Some((_, lines)) = &self.sandbox {
            return vec![lines.clone()];
        }
        let front = self.name_line + 1;
        let places = [self.end, Some(front)];
        places
            .into_iter()
            .flatten()
            .map(|line| line..line)
            .collect()
    }
}

/// What a careful edit does not touch.
fn usual_bytes(text: &str) -> Result<(), NotEdited> {
    let indent_has_tab = |line: &str| {
        let space = line.chars().take_while(|c| c.is_whitespace());
        space.into_iter().any(|c| c == '\t')
    };
    if text.starts_with('\u{feff}') {
        return Err(unusual("it begins with a byte order mark"));
    }
    if text.contains('\r') {
        return Err(unusual("its lines end with CR LF"));
    }
    if text.lines().any(indent_has_tab) {
        return Err(unusual("it is indented with tabs"));
    }
    if !text.ends_with('\n') {
        return Err(unusual("its last line has no end"));
    }
    Ok(())
}

fn line(marker: granit_parser::Marker) -> usize {
    marker.line().saturating_sub(1)
}

/// The event without its tie to the text. Those that a usual file does not have are refused.
fn owned(event: Event<'_>) -> Result<Event<'static>, NotEdited> {
    Ok(match event {
        Event::Scalar(text, style, anchor, _) => {
            Event::Scalar(text.into_owned().into(), style, anchor, None)
        }
        Event::SequenceStart(style, anchor, _) => Event::SequenceStart(style, anchor, None),
        Event::MappingStart(style, anchor, _) => Event::MappingStart(style, anchor, None),
        Event::StreamStart => Event::StreamStart,
        Event::StreamEnd => Event::StreamEnd,
        Event::DocumentStart(explicit, version) => Event::DocumentStart(explicit, version),
        Event::DocumentEnd => Event::DocumentEnd,
        Event::SequenceEnd => Event::SequenceEnd,
        Event::MappingEnd => Event::MappingEnd,
        _ => return Err(unusual("it has parts that are not known")),
    })
}
