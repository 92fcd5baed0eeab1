//! Grep: lines that match a regular expression, found by ripgrep's own searcher.

use std::{fmt::Write, fs::File, io, path::Path};

use globset::GlobMatcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch,
};

use super::{
    files,
    walk::{self, MAX_WALK_TIME, Next, WalkEnd},
};
use crate::{
    answer::{FileToolResult, ToolFailed, texts},
    arguments::{ArgumentError, Arguments},
    provider::FileTools,
};

/// The most text in one result.
const MAX_BYTES: usize = 256 * 1024;
/// Longer lines are cut.
const MAX_LINE_CHARS: usize = 2000;
/// More context is silently capped.
const MAX_CONTEXT: u64 = 1000;

/// What the result shows for each file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Content,
    Files,
    Count,
}

pub(crate) fn run(tools: &FileTools, arguments: Arguments<'_>) -> FileToolResult {
    let pattern = arguments.text("pattern")?;
    let path = arguments.path_or_here("path")?;
    let glob = arguments.optional_text("glob")?;
    let mode = mode(arguments)?;
    let context = arguments.number("context")?.unwrap_or(0).min(MAX_CONTEXT);
    let matcher = RegexMatcherBuilder::new()
        .case_insensitive(arguments.flag("case_insensitive")?)
        .line_terminator(Some(b'\n'))
        .build(&pattern)
        .map_err(|error| {
            ToolFailed::message(format!(
                "`{pattern}` is not a valid regular expression: {error}"
            ))
        })?;
    let glob = glob.map(|glob| GlobFilter::new(&glob)).transpose()?;
    let at = tools.roots.place(&path)?;
    let mut search = Search {
        matcher,
        searcher: searcher(mode, usize::try_from(context).unwrap_or_default()),
        mode,
        out: String::new(),
        full: false,
    };
    let folder = at.whole();
    let end = if files::is_folder(&at)? {
        walk::files((&folder, &tools.roots), &tools.is_cancelled, |path| {
            let inside = path.strip_prefix(&folder).unwrap_or(&path);
            if glob.as_ref().is_some_and(|glob| !glob.takes(inside)) {
                return Next::GoOn;
            }
            match files::open_below(&at, inside) {
                Some(file) => search.file(&file, &tools.roots.shown(&path)),
                None => Next::GoOn,
            }
        })
    } else {
        let file = files::open(&at)?;
        search.file(&file, &tools.roots.shown(&folder));
        WalkEnd::Complete
    };
    Ok(shown(search, end))
}

fn mode(arguments: Arguments<'_>) -> Result<Mode, ArgumentError> {
    let name = "output_mode";
    match arguments.optional_text(name)?.as_deref() {
        None | Some("content") => Ok(Mode::Content),
        Some("files_with_matches") => Ok(Mode::Files),
        Some("count") => Ok(Mode::Count),
        Some(_) => Err(ArgumentError::WrongType {
            name,
            expected: "content, files_with_matches or count",
        }),
    }
}

fn searcher(mode: Mode, context: usize) -> Searcher {
    let context = match mode {
        Mode::Content => context,
        Mode::Files | Mode::Count => 0,
    };
    SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .line_number(true)
        .before_context(context)
        .after_context(context)
        .build()
}

/// Which files are searched. As with ripgrep's `-g`, a glob without `/` matches the file name alone.
struct GlobFilter {
    matcher: GlobMatcher,
    by_name: bool,
}

impl GlobFilter {
    fn new(glob: &str) -> Result<Self, ToolFailed> {
        Ok(Self {
            matcher: walk::matcher(glob.trim_start_matches("./"))?,
            by_name: !glob.contains('/'),
        })
    }

    fn takes(&self, inside: &Path) -> bool {
        match (self.by_name, inside.file_name()) {
            (true, Some(name)) => self.matcher.is_match(name),
            (true, None) | (false, _) => self.matcher.is_match(inside),
        }
    }
}

struct Search {
    matcher: RegexMatcher,
    searcher: Searcher,
    mode: Mode,
    out: String,
    /// Whether `out` has reached its limit.
    full: bool,
}

impl Search {
    /// Searches one open file. Unreadable and binary files are skipped.
    fn file(&mut self, file: &File, shown: &str) -> Next {
        let mut hits = Hits {
            shown,
            mode: self.mode,
            out: String::new(),
            count: 0,
            binary: false,
            room: MAX_BYTES.saturating_sub(self.out.len()),
        };
        let searched = self.searcher.search_file(&self.matcher, file, &mut hits);
        if searched.is_err() || hits.binary || hits.count == 0 {
            return Next::GoOn;
        }
        match self.mode {
            Mode::Content => self.out.push_str(&hits.out),
            Mode::Files => self.out.push_str(&format!("{shown}\n")),
            Mode::Count => self.out.push_str(&format!("{shown}:{}\n", hits.count)),
        }
        self.full = self.out.len() >= MAX_BYTES;
        if self.full { Next::Stop } else { Next::GoOn }
    }
}

/// The matches in one file.
struct Hits<'a> {
    shown: &'a str,
    mode: Mode,
    out: String,
    count: u64,
    binary: bool,
    room: usize,
}

impl Hits<'_> {
    fn line(&mut self, mark: char, number: Option<u64>, bytes: &[u8]) -> bool {
        if self.mode == Mode::Content {
            let text = String::from_utf8_lossy(bytes);
            let text = text.trim_end_matches(['\n', '\r']);
            let cut: String = text.chars().take(MAX_LINE_CHARS).collect();
            let more = if cut.len() < text.len() { "…" } else { "" };
            let (shown, number) = (self.shown, number.unwrap_or_default());
            // Writing to a string does not fail.
            let _ = writeln!(self.out, "{shown}{mark}{number}{mark}{cut}{more}");
        }
        self.out.len() < self.room
    }
}

impl Sink for Hits<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.count += 1;
        let go_on = self.line(':', found.line_number(), found.bytes());
        Ok(go_on && self.mode != Mode::Files)
    }

    fn context(&mut self, _: &Searcher, around: &SinkContext<'_>) -> io::Result<bool> {
        Ok(self.line('-', around.line_number(), around.bytes()))
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        if self.mode == Mode::Content {
            self.out.push_str("--\n");
        }
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> io::Result<()> {
        self.binary = end.binary_byte_offset().is_some();
        Ok(())
    }
}

fn shown(search: Search, end: WalkEnd) -> callgate_wire::ToolResult {
    let text = if search.out.is_empty() {
        "[no matches]".to_owned()
    } else {
        search.out.trim_end_matches('\n').to_owned()
    };
    let cut = search
        .full
        .then(|| "[more matches omitted: narrow the pattern or the path]".to_owned());
    let late = (end == WalkEnd::TooLong).then(|| {
        format!(
            "[stopped after {} s; narrow the path]",
            MAX_WALK_TIME.as_secs()
        )
    });
    texts([text].into_iter().chain(cut).chain(late))
}
