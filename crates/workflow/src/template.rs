//! Templates: `{{.inputs.name}}`, `{{json .states.plan.JSON}}`, `{{.states.ls.Output | trimSpace | escape}}`.
//!
//! A missing value is an error, never an empty text. There are values and functions, but no control flow: states are
//! for that. A piped value becomes the first argument of the next function.

use serde_json::Value;

/// A source of values for templates and conditions.
pub(crate) trait Lookup {
    /// The value at a path.
    fn look_up(&self, path: &[String]) -> Option<Value>;
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
    #[error("unknown function `{0}` (functions: json, escape, split, join, trimSpace)")]
    Function(String),
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
    Pipe(Pipe),
}

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
            rest = &inside[end + 2..];
            // As in Go templates, `{{-` and `-}}` trim the white space around them.
            if let Some(trimmed) = body.strip_prefix("- ") {
                (before, body) = (before.trim_end(), trimmed);
            }
            if let Some(trimmed) = body.strip_suffix(" -") {
                (rest, body) = (rest.trim_start(), trimmed);
            }
            pieces.push(Piece::Text(before.to_owned()));
            pieces.push(Piece::Pipe(Reader::read(body)?));
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
                Piece::Pipe(pipe) => out.push_str(&shown(&pipe.value(scope)?)),
            }
        }
        Ok(out)
    }

    /// The typed value of a template that is a single expression; otherwise the rendered text.
    pub(crate) fn value(&self, scope: &dyn Lookup) -> Result<Value, TemplateError> {
        match self.pieces.as_slice() {
            [Piece::Pipe(pipe)] => pipe.value(scope),
            _ => self.render(scope).map(Value::String),
        }
    }

    pub(crate) fn paths(&self) -> Vec<&[String]> {
        let mut paths = Vec::new();
        for piece in &self.pieces {
            if let Piece::Pipe(pipe) = piece {
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
                    function.call(&all)?
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
            _ => None,
        }
    }

    fn call(self, arguments: &[Value]) -> Result<Value, TemplateError> {
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
        if !is_name || matches!(word, "true" | "false") {
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
            '.' => self.path().map(Some),
            '"' | '`' => self.text(first).map(Some),
            _ => self.literal().map(Some),
        }
    }

    fn path(&mut self) -> Result<Argument, TemplateError> {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        let end = self.rest.find(|c: char| !is_part(c));
        let (path, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        let parts: Vec<String> = path[1..].split('.').map(str::to_owned).collect();
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
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn scope() -> Value {
        json!({
            "inputs": {"name": "it's", "n": 3, "list": ["a", "b"], "yes": true},
            "states": {"my-step": {"Output": " out\n", "ExitCode": 0, "JSON": {"a": [1, {"b": 2}]}}},
        })
    }

    #[test]
    fn templates_are_rendered() {
        for (template, expected) in [
            ("plain", "plain"),
            ("", ""),
            ("a {{.inputs.n}} b", "a 3 b"),
            ("{{ .inputs.yes }}", "true"),
            ("{{.inputs.list}}", r#"["a","b"]"#),
            ("{{.inputs.list.1}}", "b"),
            ("{{escape .inputs.name}}", r"'it'\''s'"),
            ("{{.inputs.name | escape}}", r"'it'\''s'"),
            ("{{trimSpace .states.my-step.Output}}", "out"),
            ("{{json .states.my-step.JSON}}", r#"{"a":[1,{"b":2}]}"#),
            ("{{.states.my-step.JSON.a.1.b}}", "2"),
            (r#"{{join .inputs.list ", "}}"#, "a, b"),
            (r#"{{.inputs.list | join "-"}}"#, "a-b"),
            (r#"{{split "x,y" ","}}"#, r#"["x","y"]"#),
            (r#"{{join (split "x,y" ",") `+`}}"#, "x+y"),
            (r#"{{json "}}"}}"#, r#""}}""#),
            ("{{json true}} {{json 1.5}}", "true 1.5"),
            ("a  {{- 1 -}}  b", "a1b"),
        ] {
            let read = Template::read(template).expect(template);
            let rendered = read.render(&scope());
            assert_eq!(rendered.as_deref(), Ok(expected), "{template}");
        }
    }

    #[test]
    fn templates_with_missing_values_are_errors() {
        for (template, expected) in [
            ("{{.inputs.none}}", "`.inputs.none` has no value"),
            ("{{.inputs.name.more}}", "`.inputs.name.more` has no value"),
            (
                "{{.states.none.Output}}",
                "`.states.none.Output` has no value",
            ),
            ("{{.inputs.list.7}}", "`.inputs.list.7` has no value"),
            (
                "{{join .inputs.name `,`}}",
                "`join` takes a list and a separator",
            ),
            (
                "{{split .inputs.name ``}}",
                "`split` takes a text and a separator",
            ),
        ] {
            let read = Template::read(template).expect(template);
            let error = read.render(&scope()).expect_err(template);
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn malformed_templates_are_refused() {
        for (template, expected) in [
            ("{{.a", "`{{` is not closed"),
            ("{{", "`{{` is not closed"),
            ("{{}}", "`` is not a valid template expression"),
            ("{{.}}", "`.` is not a valid template expression"),
            ("{{.a..b}}", "`.a..b` is not a valid template expression"),
            ("{{.a .b}}", "`.a .b` is not a valid template expression"),
            (
                "{{.a | .b}}",
                "`.a | .b` is not a valid template expression",
            ),
            (
                "{{if .a}}",
                "unknown function `if` (functions: json, escape, split, join, trimSpace)",
            ),
            (
                "{{inputs.a}}",
                "unknown function `inputs` (functions: json, escape, split, join, trimSpace)",
            ),
            ("{{(.a}}", "`(.a` is not a valid template expression"),
            ("{{$x}}", "`$x` is not a valid template expression"),
        ] {
            let error = Template::read(template).expect_err(template);
            assert_eq!(error.to_string(), expected);
        }
    }

    proptest! {
        #[test]
        fn reading_arbitrary_templates_never_panics(text in "[{}|.()a-z \"`\\\\$0-9é-]{0,40}") {
            if let Ok(template) = Template::read(&text) {
                let _ = template.render(&scope());
            }
        }

        #[test]
        fn text_without_braces_is_rendered_unchanged(text in "[^{]{0,60}") {
            let template = Template::read(&text).expect("there is nothing to read");
            prop_assert_eq!(template.render(&Value::Null), Ok(text));
        }

        #[test]
        fn escaped_text_is_one_shell_word(text in "[^\0]{0,40}") {
            let quoted = escaped(&text);
            let out = std::process::Command::new("sh")
                .args(["-c", &format!("printf %s {quoted}")])
                .output()
                .expect("there is a shell");
            prop_assert_eq!(String::from_utf8_lossy(&out.stdout), text);
        }
    }
}
