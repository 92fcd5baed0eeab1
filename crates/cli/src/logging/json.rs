//! Log lines for programs: one JSON object a line, its fields in the order in which they were given.
//!
//! There is a line for every call, so lines are built by hand in a buffer that is reused.

use std::{
    cell::RefCell,
    error::Error,
    fmt::{self, Write as _},
};

use callgate_record::InstantWriter;
use callgate_wire::quote_into;
use jiff::Timestamp;
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context};

use super::lines::Lines;

thread_local! {
    static LINE: RefCell<Line> = const { RefCell::new(Line::new()) };
}

/// A line that is being written.
struct Line {
    text: String,
    instants: InstantWriter,
}

impl Line {
    const fn new() -> Self {
        Self {
            text: String::new(),
            instants: InstantWriter::new(),
        }
    }
}

/// Writes every event as a line of JSON.
#[derive(Debug)]
pub(super) struct JsonLines(pub(super) &'static Lines);

impl<S: Subscriber> Layer<S> for JsonLines {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let level = *event.metadata().level();
        LINE.with_borrow_mut(|Line { text, instants }| {
            text.clear();
            text.push_str(r#"{"timestamp":""#);
            instants.write(Timestamp::now(), text);
            text.push_str(r#"","level":""#);
            text.push_str(level.as_str());
            text.push('"');
            event.record(&mut Fields(text));
            text.push_str("}\n");
            self.0.take(text.as_bytes(), level <= Level::WARN);
        });
    }
}

struct Fields<'a>(&'a mut String);

impl Fields<'_> {
    /// Not escaped: the names of fields are identifiers of our own code.
    fn name(&mut self, field: &Field) {
        self.0.push_str(",\"");
        self.0.push_str(field.name());
        self.0.push_str("\":");
    }

    fn text(&mut self, text: &str) {
        quote_into(text, self.0);
    }

    fn plain(&mut self, field: &Field, value: impl fmt::Display) {
        self.name(field);
        // Writing to memory does not fail.
        let _ = write!(self.0, "{value}");
    }
}

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.name(field);
        self.text(value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.record_str(field, &value.to_string());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.plain(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.plain(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.plain(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.name(field);
        // JSON has no NaN and no infinity, so those become null.
        let number = serde_json::to_string(&value).unwrap_or_else(|_| "null".to_owned());
        self.0.push_str(&number);
    }
}
