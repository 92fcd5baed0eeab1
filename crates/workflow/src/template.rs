//! Templates: `{{.inputs.name}}`, the same as `{{inputs.name}}`, `{{json .states.plan.JSON}}`, `{{.states.ls.Output | trimSpace | escape}}`.
//!
//! A missing value is an error, never an empty text. There are values and functions, but no control flow: states are
//! for that. A piped value becomes the first argument of the next function.

use serde_json::Value;

/// A source of values for templates and conditions.
pub(crate) trait Lookup {
    /// The value at a path.
    fn look_up(&self, path: &[String]) -> Option<Value>;

    /// The content of a file, for `readFile`.
    fn file(&self, path: &str) -> Result<String, String> {
        Err(format!("`{path}` cannot be read here"))
    }
}

impl Lookup for Value {
    fn look_up(&self, path: &[String]) -> Option<Value> {
        below(self, path).cloned()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Template {
    pieces: Vec<Piece>,
}

/// Why a template is malformed, or cannot be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TemplateError {
    #[error("`{{{{` is not closed")]
    Open,
    #[error("`{0}` is not a valid template expression")]
    Syntax(String),
    #[error("unknown function `{0}` (functions: json, escape, split, join, trimSpace, readFile)")]
    Function(String),
    #[error("readFile: {0}")]
    File(String),
    #[error("`{name}` takes {wanted}")]
    Arguments {
        name: &'static str,
        wanted: &'static str,
    },
    #[error("`{0}` has no value")]
    Missing(String),
}

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Text(String),
    /// With its text in the file.
    Pipe(Pipe, String),
}

/// The first parts of paths. They can stand without a dot in front.
pub(crate) const ROOTS: [&str; 10] = [
    "inputs",
    "states",
    "env",
    "workflow",
    "loop",
    "error",
    "context",
    "vars",
    "awf",
    "parameters",
];

/// A pipeline: each command gets the result of the previous one.
#[derive(Debug, Clone, PartialEq)]
struct Pipe(Vec<Command>);

#[derive(Debug, Clone, PartialEq)]
enum Command {
    Value(Argument),
    Call(Function, Vec<Argument>),
}

#[derive(Debug, Clone, PartialEq)]
enum Argument {
    Path(Vec<String>),
    Literal(Value),
    Pipe(Pipe),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    Json,
    Escape,
    Split,
    Join,
    TrimSpace,
    ReadFile,
}

impl Template {
    pub(crate) fn read(text: &str) -> Result<Self, TemplateError> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find("{{") {
            let mut before = &rest[..start];
            let inside = &rest[start + 2..];
            let end = end_of(inside).ok_or(TemplateError::Open)?;
            let mut body = &inside[..end];
            let written = rest[start..start + end + 4].to_owned();
            rest = &inside[end + 2..];
            // As in Go templates, `{{-` and `-}}` trim the white space around them.
            if let Some(trimmed) = body.strip_prefix("- ") {
                (before, body) = (before.trim_end(), trimmed);
            }
            if let Some(trimmed) = body.strip_suffix(" -") {
                (rest, body) = (rest.trim_start(), trimmed);
            }
            pieces.push(Piece::Text(before.to_owned()));
            pieces.push(Piece::Pipe(Reader::read(body)?, written));
        }
        pieces.push(Piece::Text(rest.to_owned()));
        pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
        Ok(Self { pieces })
    }

    /// Renders the template to text.
    pub(crate) fn render(&self, scope: &dyn Lookup) -> Result<String, TemplateError> {
        let mut out = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Pipe(pipe, _) => out.push_str(&shown(&pipe.value(scope)?)),
            }
        }
        Ok(out)
    }

    /// Renders what has a value, and keeps the rest as it is written.
    pub(crate) fn preview(&self, scope: &dyn Lookup) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Pipe(pipe, written) => pipe
                .value(scope)
                .map_or_else(|_| written.clone(), |value| shown(&value)),
        };
        self.pieces.iter().map(piece).collect()
    }

    /// The typed value of a template that is a single expression; otherwise the rendered text.
    pub(crate) fn value(&self, scope: &dyn Lookup) -> Result<Value, TemplateError> {
        match self.pieces.as_slice() {
            [Piece::Pipe(pipe, _)] => pipe.value(scope),
            _ => self.render(scope).map(Value::String),
        }
    }

    /// The text of a template without values.
    pub(crate) fn constant(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    pub(crate) fn paths(&self) -> Vec<&[String]> {
        let mut paths = Vec::new();
        for piece in &self.pieces {
            if let Piece::Pipe(pipe, _) = piece {
                pipe.collect(&mut paths);
            }
        }
        paths
    }
}

/// The offset of the closing `}}` outside of quoted texts.
fn end_of(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut previous = ' ';
    for (at, c) in text.char_indices() {
        match quote {
            Some(open) if c == open && (previous != '\\' || open == '`') => quote = None,
            Some(_) => {}
            None if matches!(c, '"' | '`') => quote = Some(c),
            None if c == '}' && text[at + 1..].starts_with('}') => return Some(at),
            None => {}
        }
        previous = c;
    }
    None
}

/// A value as text.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// The value at a path inside of another value.
pub(crate) fn below<'a>(whole: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(whole, |value, part| match value {
        Value::Object(members) => members.get(part),
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}

impl Pipe {
    fn value(&self, scope: &dyn Lookup) -> Result<Value, TemplateError> {
        let mut piped: Option<Value> = None;
        for command in &self.0 {
            piped = Some(match command {
                Command::Value(argument) => argument.value(scope)?,
                Command::Call(function, arguments) => {
                    let arguments = arguments.iter().map(|argument| argument.value(scope));
                    let arguments: Result<Vec<Value>, _> = arguments.collect();
                    let all: Vec<Value> = piped.take().into_iter().chain(arguments?).collect();
                    function.call(&all, scope)?
                }
            });
        }
        Ok(piped.unwrap_or_default())
    }

    fn collect<'a>(&'a self, paths: &mut Vec<&'a [String]>) {
        for command in &self.0 {
            let arguments = match command {
                Command::Value(argument) => std::slice::from_ref(argument),
                Command::Call(_, arguments) => arguments,
            };
            for argument in arguments {
                match argument {
                    Argument::Path(path) => paths.push(path),
                    Argument::Pipe(pipe) => pipe.collect(paths),
                    Argument::Literal(_) => {}
                }
            }
        }
    }
}

impl Argument {
    fn value(&self, scope: &dyn Lookup) -> Result<Value, TemplateError> {
        match self {
            Self::Literal(value) => Ok(value.clone()),
            Self::Pipe(pipe) => pipe.value(scope),
            Self::Path(path) => scope
                .look_up(path)
                .ok_or_else(|| TemplateError::Missing(format!(".{}", path.join(".")))),
        }
    }
}

impl Function {
    fn of(name: &str) -> Option<Self> {
        match name {
            "json" => Some(Self::Json),
            "escape" => Some(Self::Escape),
            "split" => Some(Self::Split),
            "join" => Some(Self::Join),
            "trimSpace" => Some(Self::TrimSpace),
            "readFile" => Some(Self::ReadFile),
            _ => None,
        }
    }

    fn call(self, arguments: &[Value], scope: &dyn Lookup) -> Result<Value, TemplateError> {
        match (self, arguments) {
            (Self::Json, [value]) => Ok(value.to_string().into()),
            (Self::Escape, [value]) => Ok(escaped(&shown(value)).into()),
            (Self::TrimSpace, [value]) => Ok(shown(value).trim().into()),
            (Self::Split, [value, Value::String(by)]) if !by.is_empty() => {
                Ok(shown(value).split(by.as_str()).collect())
            }
            (Self::Join, [Value::Array(items), Value::String(by)]) => {
                let items: Vec<String> = items.iter().map(shown).collect();
                Ok(items.join(by).into())
            }
            (Self::ReadFile, [value]) => {
                let content = scope.file(shown(value).trim());
                content.map(Value::String).map_err(TemplateError::File)
            }
            (Self::ReadFile, _) => Err(wants("readFile", "a path")),
            (Self::Json, _) => Err(wants("json", "a value")),
            (Self::Escape, _) => Err(wants("escape", "a value")),
            (Self::TrimSpace, _) => Err(wants("trimSpace", "a value")),
            (Self::Split, _) => Err(wants("split", "a text and a separator")),
            (Self::Join, _) => Err(wants("join", "a list and a separator")),
        }
    }
}

fn wants(name: &'static str, wanted: &'static str) -> TemplateError {
    TemplateError::Arguments { name, wanted }
}

/// Quotes a text as a single shell word.
fn escaped(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Parses the text between the braces.
struct Reader<'a> {
    whole: &'a str,
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn read(body: &'a str) -> Result<Pipe, TemplateError> {
        let mut reader = Self {
            whole: body,
            rest: body,
        };
        let pipe = reader.pipe(0)?;
        reader.space();
        if reader.rest.is_empty() {
            Ok(pipe)
        } else {
            Err(reader.wrong())
        }
    }

    fn wrong(&self) -> TemplateError {
        TemplateError::Syntax(self.whole.trim().to_owned())
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn pipe(&mut self, depth: usize) -> Result<Pipe, TemplateError> {
        // Bounds the recursion: the depth of brackets comes from the file.
        if depth > 16 {
            return Err(self.wrong());
        }
        let mut commands = vec![self.command(depth)?];
        loop {
            self.space();
            match self.rest.strip_prefix('|') {
                Some(rest) => self.rest = rest,
                None => return Ok(Pipe(commands)),
            }
            let command = self.command(depth)?;
            if matches!(command, Command::Value(_)) {
                return Err(self.wrong());
            }
            commands.push(command);
        }
    }

    fn command(&mut self, depth: usize) -> Result<Command, TemplateError> {
        self.space();
        let letters = self.rest.find(|c: char| !c.is_ascii_alphanumeric());
        let word = &self.rest[..letters.unwrap_or(self.rest.len())];
        let is_name = word.starts_with(|c: char| c.is_ascii_alphabetic());
        if !is_name || matches!(word, "true" | "false") || self.is_at_root() {
            let argument = self.argument(depth)?;
            return argument.map(Command::Value).ok_or_else(|| self.wrong());
        }
        let function =
            Function::of(word).ok_or_else(|| TemplateError::Function(word.to_owned()))?;
        self.rest = &self.rest[word.len()..];
        let mut arguments = Vec::new();
        while let Some(argument) = self.argument(depth)? {
            arguments.push(argument);
        }
        Ok(Command::Call(function, arguments))
    }

    fn argument(&mut self, depth: usize) -> Result<Option<Argument>, TemplateError> {
        self.space();
        let Some(first) = self.rest.chars().next() else {
            return Ok(None);
        };
        match first {
            '|' | ')' => Ok(None),
            '(' => {
                self.rest = &self.rest[1..];
                let pipe = self.pipe(depth + 1)?;
                self.space();
                self.rest = self.rest.strip_prefix(')').ok_or_else(|| self.wrong())?;
                Ok(Some(Argument::Pipe(pipe)))
            }
            '.' => {
                self.rest = &self.rest[1..];
                self.path().map(Some)
            }
            _ if self.is_at_root() => self.path().map(Some),
            '"' | '`' => self.text(first).map(Some),
            _ => self.literal().map(Some),
        }
    }

    /// Whether a path without a dot in front is next, such as `inputs.name`.
    fn is_at_root(&self) -> bool {
        let (word, _) = self.rest.split_once('.').unwrap_or_default();
        ROOTS.contains(&word)
    }

    /// The path after its first dot, if it has one in front.
    fn path(&mut self) -> Result<Argument, TemplateError> {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        let end = self.rest.find(|c: char| !is_part(c));
        let (path, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        let parts: Vec<String> = path.split('.').map(str::to_owned).collect();
        if parts.iter().any(String::is_empty) {
            return Err(self.wrong());
        }
        self.rest = rest;
        Ok(Argument::Path(parts))
    }

    fn text(&mut self, quote: char) -> Result<Argument, TemplateError> {
        let inside = &self.rest[1..];
        if quote == '`' {
            let (text, rest) = inside.split_once('`').ok_or_else(|| self.wrong())?;
            self.rest = rest;
            return Ok(Argument::Literal(text.into()));
        }
        let mut escaped = false;
        let end = inside.find(|c: char| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        let end = end.ok_or_else(|| self.wrong())?;
        let value = serde_json::from_str(&self.rest[..end + 2]).map_err(|_| self.wrong())?;
        self.rest = &self.rest[end + 2..];
        Ok(Argument::Literal(value))
    }

    fn literal(&mut self) -> Result<Argument, TemplateError> {
        let end = self
            .rest
            .find(|c: char| c.is_whitespace() || matches!(c, '|' | ')'));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        let value = match word {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => {
                let number = word.parse::<serde_json::Number>();
                Value::Number(number.map_err(|_| self.wrong())?)
            }
        };
        self.rest = rest;
        Ok(Argument::Literal(value))
    }
}

#[cfg(test)]
mod tests;
