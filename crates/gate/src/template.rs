//! URI templates: whether a URI can come from a template. Reads RFC 6570 generously and never expands; expansion
//! is up to the servers.

/// A parsed URI template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    parts: Vec<Part>,
    literal_bytes: usize,
}

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
        let length = |part: &Part| match part {
            Part::Literal(text) => text.len(),
            Part::Value | Part::InSegment | Part::Any => 0,
        };
        let literal_bytes = parts.iter().map(length).sum();
        Self {
            parts,
            literal_bytes,
        }
    }

    /// The number of literal bytes: of two matching templates the one with more is more specific.
    pub(crate) fn literal_bytes(&self) -> usize {
        self.literal_bytes
    }

    /// Whether `uri` can come from it.
    pub(crate) fn matches(&self, uri: &str) -> bool {
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
            Self::Value | Self::InSegment => !matches!(byte, b'/' | b'?' | b'#'),
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
    fn hostile_uri_templates_match_in_bounded_time() {
        let template = Template::new(&"{+a}x".repeat(200));
        assert!(!template.matches(&"x".repeat(5000).replacen('x', "y", 4900)));
    }
}
