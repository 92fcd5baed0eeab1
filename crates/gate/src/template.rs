//! URI templates: whether a URI can come from a template. Reads RFC 6570 generously and never expands; expansion
//! is up to the servers.

use crate::item::WRAPPED;

/// A parsed URI template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    parts: Vec<Part>,
}

/// Templates whose lengths multiply to more than this are taken to overlap, instead of being compared.
const MAX_COMPARED: usize = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    /// `{x}`: at least one character, and none that begins another part of a URI.
    Value,
    /// `{.x}` and `{;x}`: any characters of one segment, or none.
    InSegment,
    /// `{+x}`, `{#x}`, `{/x}`, `{?x}`, `{&x}`, `{x*}`: any characters, or none.
    Any,
}

impl Template {
    /// Parses a template. Text outside of expressions is literal.
    pub(crate) fn new(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, expression, after)) = next_expression(rest) {
            if !before.is_empty() {
                parts.push(Part::Literal(before.to_owned()));
            }
            parts.push(Part::of(expression));
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(rest.to_owned()));
        }
        Self { parts }
    }

    /// The template of all URIs that name their server.
    pub(crate) fn of_wrapped() -> Self {
        Self {
            parts: vec![Part::Literal(WRAPPED.to_owned()), Part::Any],
        }
    }

    /// Whether a URI exists that both match.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let [one, two] = [self.start(), other.start()];
        let common = one.len().min(two.len());
        // Most templates differ in their schemes.
        if one.as_bytes()[..common] != two.as_bytes()[..common] {
            return false;
        }
        let (one, two) = (self.steps(), other.steps());
        let width = two.len() + 1;
        let Some(states) = width.checked_mul(one.len() + 1) else {
            return true;
        };
        if states > MAX_COMPARED {
            return true;
        }
        // A search over pairs of places in both templates that the same text leads to.
        let mut seen = vec![false; states];
        let mut open = vec![(0, 0)];
        while let Some((i, j)) = open.pop() {
            if std::mem::replace(&mut seen[i * width + j], true) {
                continue;
            }
            let (left, right) = match (one.get(i), two.get(j)) {
                (None, None) => return true,
                (left, right) => (left, right),
            };
            if left.is_some_and(|step| step.may_repeat()) {
                open.push((i + 1, j));
            }
            if right.is_some_and(|step| step.may_repeat()) {
                open.push((i, j + 1));
            }
            if let (Some(left), Some(right)) = (left, right)
                && left.meets(*right)
            {
                let next = |at: usize, step: &Step| at + usize::from(!step.may_repeat());
                open.push((next(i, left), next(j, right)));
            }
        }
        false
    }

    /// The text that every match begins with.
    fn start(&self) -> &str {
        match self.parts.first() {
            Some(Part::Literal(text)) => text,
            Some(Part::Value | Part::InSegment | Part::Any) | None => "",
        }
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for part in &self.parts {
            match part {
                Part::Literal(text) => steps.extend(text.bytes().map(Step::Byte)),
                Part::Value => steps.extend([Step::InSegment, Step::AnyInSegment]),
                Part::InSegment => steps.push(Step::AnyInSegment),
                Part::Any => steps.push(Step::AnyBytes),
            }
        }
        steps
    }

    /// Whether `uri` can come from it.
    pub(crate) fn matches(&self, uri: &str) -> bool {
        if !uri.starts_with(self.start()) {
            return false;
        }
        // The offsets of the URI that are reachable after each part. Linear in template and URI for any input,
        // because templates come from servers and URIs from hosts; backtracking could be made exponential.
        let bytes = uri.as_bytes();
        let mut reached = vec![false; bytes.len() + 1];
        reached[0] = true;
        for part in &self.parts {
            reached = part.advance(bytes, &reached);
        }
        reached[bytes.len()]
    }
}

/// What one place of a template takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Byte(u8),
    /// One byte of a segment.
    InSegment,
    /// Any number of bytes of a segment.
    AnyInSegment,
    AnyBytes,
}

impl Step {
    /// Whether it takes any number of bytes.
    fn may_repeat(self) -> bool {
        match self {
            Self::AnyInSegment | Self::AnyBytes => true,
            Self::Byte(_) | Self::InSegment => false,
        }
    }

    /// Whether some byte is taken by both.
    fn meets(self, other: Self) -> bool {
        match (self, other) {
            (Self::Byte(one), Self::Byte(two)) => one == two,
            (Self::Byte(byte), class) | (class, Self::Byte(byte)) => class.takes(byte),
            (
                Self::InSegment | Self::AnyInSegment | Self::AnyBytes,
                Self::InSegment | Self::AnyInSegment | Self::AnyBytes,
            ) => true,
        }
    }

    fn takes(self, byte: u8) -> bool {
        match self {
            Self::Byte(own) => own == byte,
            Self::InSegment | Self::AnyInSegment => is_in_segment(byte),
            Self::AnyBytes => true,
        }
    }
}

/// Whether a byte begins no other part of a URI.
fn is_in_segment(byte: u8) -> bool {
    !matches!(byte, b'/' | b'?' | b'#')
}

impl Part {
    fn of(expression: &str) -> Self {
        match expression.as_bytes().first() {
            Some(b'+' | b'#' | b'/' | b'?' | b'&') => Self::Any,
            // An exploded value can contain separators.
            Some(_) if expression.ends_with('*') => Self::Any,
            Some(b'.' | b';') => Self::InSegment,
            Some(_) | None => Self::Value,
        }
    }

    fn advance(&self, uri: &[u8], from: &[bool]) -> Vec<bool> {
        let mut to = vec![false; from.len()];
        if let Self::Literal(text) = self {
            for (at, _) in from.iter().enumerate().filter(|(_, reached)| **reached) {
                if uri[at..].starts_with(text.as_bytes()) {
                    to[at + text.len()] = true;
                }
            }
            return to;
        }
        let mut running = false;
        for at in 0..from.len() {
            // `running`: the part can extend from some reachable offset to here.
            running = running && at > 0 && self.takes(uri[at - 1]);
            to[at] = match self {
                Self::Value => running,
                Self::InSegment | Self::Any | Self::Literal(_) => running || from[at],
            };
            running |= from[at];
        }
        to
    }

    fn takes(&self, byte: u8) -> bool {
        match self {
            Self::Any => true,
            Self::Value | Self::InSegment => is_in_segment(byte),
            Self::Literal(_) => false,
        }
    }
}

fn next_expression(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('{')?;
    let (expression, after) = rest.split_once('}')?;
    Some((before, expression, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uri_templates_match_as_documented() {
        let cases: [(&str, &[&str], &[&str]); 9] = [
            ("a://b", &["a://b"], &["a://bc", "a://", ""]),
            (
                "test://template/{id}/data",
                &["test://template/5/data", "test://template/a%2Fb/data"],
                &["test://template//data", "test://template/a/b/data"],
            ),
            ("f:///{+path}", &["f:///", "f:///a/b?c#d"], &["f://a"]),
            ("f:///{path*}", &["f:///a/b"], &["g:///a"]),
            ("a://{x}{?q,r}", &["a://1", "a://1?q=2&r=3"], &["a://"]),
            ("a://{x}{.ext}", &["a://1", "a://1.json"], &["a://1/2"]),
            ("a://{x}/{y}", &["a://1/2"], &["a://1", "a://1/2/3"]),
            ("a://{x}-{y}", &["a://1-2", "a://1-2-3"], &["a://-2"]),
            ("a://{open", &["a://{open"], &["a://x"]),
        ];
        for (template, matching, others) in cases {
            let read = Template::new(template);
            for uri in matching {
                assert!(read.matches(uri), "{template} {uri}");
            }
            for uri in others {
                assert!(!read.matches(uri), "{template} {uri}");
            }
        }
    }

    #[test]
    fn templates_overlap_if_some_uri_matches_both() {
        let cases = [
            ("a://{x}", "a://{y}", true),
            ("a://{x}", "b://{x}", false),
            ("{+any}", "b://{x}", true),
            ("a://{x}/b", "a://c/{y}", true),
            ("a://{x}/b", "a://c/{y}/d", false),
            ("a://{x}", "a://", false),
            ("a://{+x}", "a://", true),
            ("a://{x}{.ext}", "a://b", true),
            ("a://{x}.txt", "a://{y}.md", false),
            ("a://{x}.txt", "a://n{y}", true),
            ("a://b", "a://b", true),
            ("a://b", "a://bc", false),
            ("{+any}", "callgate://{+x}", true),
            ("file:///{+path}", "callgate://{+x}", false),
        ];
        for (one, two, expected) in cases {
            let (one, two) = (Template::new(one), Template::new(two));
            assert_eq!(one.overlaps(&two), expected, "{one:?} {two:?}");
            assert_eq!(two.overlaps(&one), expected, "{two:?} {one:?}");
        }
    }

    #[test]
    fn hostile_uri_templates_match_in_bounded_time() {
        let template = Template::new(&"{+a}x".repeat(200));
        assert!(!template.matches(&"x".repeat(5000).replacen('x', "y", 4900)));
    }
}
