//! A stored result, paged by lines, or by records if it is a JSON array.

use callgate_wire::{Json, JsonKind, Strictness, quote};
use regex::{Regex, RegexBuilder};

/// Longer lines are split, so that any result can be paged.
const MAX_LINE_CHARS: usize = 4000;
/// The limit of a compiled search pattern.
const PATTERN_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct StoredResult {
    text: String,
    chars: usize,
    /// The start and end of each line or record in the text.
    parts: Vec<(usize, usize)>,
    is_records: bool,
}

/// A request for one page.
#[derive(Debug)]
pub(super) struct Page {
    /// The first line or record to return, or to search from.
    pub(super) offset: usize,
    pub(super) limit: usize,
    pub(super) search: Option<Regex>,
    /// The limit of a page, in characters.
    pub(super) chars: usize,
}

/// Compiles a search. The engine matches in linear time, so a hostile pattern can only be too large.
pub(super) fn pattern(text: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(text).size_limit(PATTERN_BYTES).build();
    built.map_err(|error| format!("`search` is not a valid regular expression: {error}"))
}

impl StoredResult {
    pub(super) fn new(text: String) -> Self {
        let records = records(&text);
        let is_records = records.is_some();
        Self {
            chars: text.chars().count(),
            parts: records.unwrap_or_else(|| lines(&text)),
            text,
            is_records,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    pub(super) fn chars(&self) -> usize {
        self.chars
    }

    /// The number of lines or records.
    pub(super) fn count(&self) -> usize {
        self.parts.len()
    }

    pub(super) fn unit(&self) -> &'static str {
        if self.is_records { "records" } else { "lines" }
    }

    /// One page as a JSON object. It has at least one line or record, if there is one left.
    pub(super) fn page(&self, handle: &str, page: &Page) -> String {
        let mut items = Vec::new();
        let mut chars = 0;
        let mut next = None;
        for (at, (start, end)) in self.parts.iter().enumerate().skip(page.offset) {
            let part = &self.text[*start..*end];
            if page
                .search
                .as_ref()
                .is_some_and(|search| !search.is_match(part))
            {
                continue;
            }
            chars += part.chars().count();
            if items.len() == page.limit || (chars > page.chars && !items.is_empty()) {
                next = Some(at);
                break;
            }
            items.push((at, part));
        }
        let item = |(at, part): &(usize, &str)| {
            let value = if self.is_records {
                (*part).to_owned()
            } else {
                quote(part)
            };
            match page.search {
                Some(_) => format!(r#"{{"at":{at},"value":{value}}}"#),
                None => value,
            }
        };
        let values: Vec<String> = items.iter().map(item).collect();
        let next = next.map_or("null".to_owned(), |next| next.to_string());
        let (unit, total, offset) = (self.unit(), self.count(), page.offset);
        format!(
            r#"{{"handle":{},"total":{total},"offset":{offset},"next_offset":{next},"{unit}":[{}]}}"#,
            quote(handle),
            values.join(",")
        )
    }
}

/// The elements of a JSON array, or of an object's longest array; `None` for other text.
fn records(text: &str) -> Option<Vec<(usize, usize)>> {
    let json = Json::validate(text.as_bytes(), Strictness::Envelope).ok()?;
    let array = match json.kind() {
        JsonKind::Array => json,
        JsonKind::Object => {
            let arrays = json.members().map(|(_, value)| value);
            let arrays = arrays.filter(|value| value.kind() == JsonKind::Array);
            let longest = arrays.max_by_key(|array| array.bytes().len())?;
            // Paging by records hides the other members, so the array must be most of the text.
            (longest.bytes().len() * 2 > text.len()).then_some(longest)?
        }
        JsonKind::Null | JsonKind::Bool | JsonKind::Number | JsonKind::String => return None,
    };
    // Scanned JSON borrows from its text, so an element's position is the distance of the two pointers.
    let base = text.as_ptr() as usize;
    let place = |element: Json<'_>| {
        let start = element.bytes().as_ptr() as usize - base;
        (start, start + element.bytes().len())
    };
    Some(array.elements().map(place).collect())
}

fn lines(text: &str) -> Vec<(usize, usize)> {
    let mut parts = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let shown = line.trim_end_matches(['\n', '\r']);
        let mut at = 0;
        while let Some((length, _)) = shown[at..].char_indices().nth(MAX_LINE_CHARS) {
            parts.push((start + at, start + at + length));
            at += length;
        }
        parts.push((start + at, start + shown.len()));
        start += line.len();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str, offset: usize, limit: usize, search: Option<&str>) -> String {
        let search = search.map(|text| pattern(text).unwrap());
        let page = Page {
            offset,
            limit,
            search,
            chars: 1000,
        };
        StoredResult::new(text.to_owned()).page("h", &page)
    }

    #[test]
    fn text_results_are_paged_and_searched_by_line() {
        let text = "a\nb\r\n\nab";
        assert_eq!(
            page(text, 0, 2, None),
            r#"{"handle":"h","total":4,"offset":0,"next_offset":2,"lines":["a","b"]}"#
        );
        assert_eq!(
            page(text, 2, 9, None),
            r#"{"handle":"h","total":4,"offset":2,"next_offset":null,"lines":["","ab"]}"#
        );
        assert_eq!(
            page(text, 0, 1, Some("^a")),
            r#"{"handle":"h","total":4,"offset":0,"next_offset":3,"lines":[{"at":0,"value":"a"}]}"#
        );
        assert!(pattern("(").is_err());
    }

    #[test]
    fn array_results_are_paged_by_record() {
        let expected =
            r#"{"handle":"h","total":3,"offset":1,"next_offset":2,"records":[{"n": 2}]}"#;
        assert_eq!(page(r#"[{"n":1},{"n": 2},3]"#, 1, 1, None), expected);
        assert_eq!(
            page(r#"{"items":[{"n":1},{"n": 2},3],"x":1}"#, 1, 1, None),
            expected
        );
        assert!(page(r#"{"much":"text beside","items":[1]}"#, 0, 1, None).contains("\"lines\""));
    }

    #[test]
    fn an_overlong_line_is_split_without_loss() {
        let text = "ä".repeat(MAX_LINE_CHARS * 2 + 1);
        let kept = StoredResult::new(text.clone());
        assert_eq!(kept.count(), 3);
        let joined: String = kept
            .parts
            .iter()
            .map(|(start, end)| &kept.text[*start..*end])
            .collect();
        assert_eq!(joined, text);
        assert_eq!(
            page(&"q".repeat(3000), 0, 5, None).matches('q').count(),
            3000
        );
    }
}
