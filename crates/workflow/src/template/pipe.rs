//! Pipelines: `.states.ls.Output | trimSpace | escape`. Each command gets the result of the one before.

use serde_json::Value;

use super::{Lookup, ROOTS, TemplateError, below, function::Function};

/// How deep brackets can be nested: the depth comes from the file.
const MAX_DEPTH: usize = 16;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pipe(Vec<Command>);

#[derive(Debug, Clone, PartialEq)]
enum Command {
    Value(Argument),
    Call(Function, Vec<Argument>),
}

#[derive(Debug, Clone, PartialEq)]
enum Argument {
    /// From the values of the run.
    Path(Vec<String>),
    /// From the value of the innermost `with` or `range`.
    Dot(Vec<String>),
    Variable(String, Vec<String>),
    Literal(Value),
    /// In brackets, with a path into its value.
    Pipe(Pipe, Vec<String>),
}

/// The values during one rendering.
pub(super) struct Frame<'s> {
    pub(super) scope: &'s dyn Lookup,
    /// The value of the innermost `with` or `range`.
    pub(super) dot: Option<Value>,
    /// How many rounds of `range` there were.
    pub(super) rounds: usize,
    variables: Vec<(String, Value)>,
}

impl<'s> Frame<'s> {
    pub(super) fn new(scope: &'s dyn Lookup) -> Self {
        Self {
            scope,
            dot: None,
            rounds: 0,
            variables: Vec::new(),
        }
    }

    /// The number of variables so far: those that a block sets end with it.
    pub(super) fn mark(&self) -> usize {
        self.variables.len()
    }

    pub(super) fn forget(&mut self, mark: usize) {
        self.variables.truncate(mark);
    }

    pub(super) fn set(
        &mut self,
        name: &str,
        value: Value,
        is_new: bool,
    ) -> Result<(), TemplateError> {
        if is_new {
            self.variables.push((name.to_owned(), value));
            return Ok(());
        }
        let mut known = self.variables.iter_mut().rev();
        let known = known.find(|(known, _)| known == name);
        let missing = || TemplateError::Missing(format!("${name}"));
        known.ok_or_else(missing)?.1 = value;
        Ok(())
    }

    fn variable(&self, name: &str) -> Option<&Value> {
        let mut known = self.variables.iter().rev();
        let (_, value) = known.find(|(known, _)| known == name)?;
        Some(value)
    }
}

impl Pipe {
    pub(super) fn value(&self, frame: &Frame<'_>) -> Result<Value, TemplateError> {
        let mut piped: Option<Value> = None;
        for command in &self.0 {
            piped = Some(match command {
                Command::Value(argument) => argument.value(frame)?,
                Command::Call(function, arguments) => {
                    function.evaluate(arguments.len(), piped.take(), frame.scope, &mut |at| {
                        arguments[at].value(frame)
                    })?
                }
            });
        }
        Ok(piped.unwrap_or_default())
    }

    /// The variables that the pipeline uses.
    pub(super) fn variables(&self) -> Vec<&String> {
        let mut variables = Vec::new();
        for argument in self.arguments() {
            match argument {
                Argument::Variable(name, _) => variables.push(name),
                Argument::Pipe(pipe, _) => variables.extend(pipe.variables()),
                Argument::Path(_) | Argument::Dot(_) | Argument::Literal(_) => {}
            }
        }
        variables
    }

    fn arguments(&self) -> impl Iterator<Item = &Argument> {
        self.0.iter().flat_map(|command| match command {
            Command::Value(argument) => std::slice::from_ref(argument),
            Command::Call(_, arguments) => arguments.as_slice(),
        })
    }

    pub(super) fn collect<'a>(&'a self, paths: &mut Vec<&'a [String]>) {
        for argument in self.arguments() {
            match argument {
                Argument::Path(path) => paths.push(path),
                Argument::Pipe(pipe, _) => pipe.collect(paths),
                Argument::Dot(_) | Argument::Variable(..) | Argument::Literal(_) => {}
            }
        }
    }
}

impl Argument {
    fn value(&self, frame: &Frame<'_>) -> Result<Value, TemplateError> {
        let missing = |name: String| TemplateError::Missing(name);
        match self {
            Self::Literal(value) => Ok(value.clone()),
            Self::Path(path) => frame
                .scope
                .look_up(path)
                .ok_or_else(|| missing(format!(".{}", path.join(".")))),
            Self::Dot(path) => {
                let found = frame.dot.as_ref().and_then(|dot| below(dot, path));
                let found = found.cloned();
                found.ok_or_else(|| missing(format!(".{}", path.join("."))))
            }
            Self::Variable(name, path) => {
                let found = frame.variable(name).and_then(|value| below(value, path));
                let whole = || missing([&[format!("${name}")], path.as_slice()].concat().join("."));
                found.cloned().ok_or_else(whole)
            }
            Self::Pipe(pipe, path) => {
                let value = pipe.value(frame)?;
                let found = below(&value, path).cloned();
                found.ok_or_else(|| missing(format!("(…).{}", path.join("."))))
            }
        }
    }
}

/// Parses the text between the braces.
pub(super) struct Reader<'a> {
    whole: &'a str,
    rest: &'a str,
    /// Whether a `with` or `range` around it gives the dot a value.
    has_dot: bool,
}

/// The variables that an action sets, whether they are new, and the value.
type Assignment = (Vec<String>, bool, Pipe);

impl<'a> Reader<'a> {
    /// A pipeline, perhaps with `$x :=`, `$i, $x :=` or `$x =` in front.
    pub(super) fn assignment(body: &'a str, has_dot: bool) -> Result<Assignment, TemplateError> {
        let mut reader = Self {
            whole: body,
            rest: body,
            has_dot,
        };
        let (variables, is_new) = reader.targets();
        let pipe = reader.pipe(0)?;
        reader.space();
        if !reader.rest.is_empty() {
            return Err(reader.wrong());
        }
        Ok((variables, is_new, pipe))
    }

    /// The variables in front of `:=` or `=`; none if there is no assignment.
    fn targets(&mut self) -> (Vec<String>, bool) {
        let Some((head, rest)) = self.rest.split_once('=') else {
            return (Vec::new(), false);
        };
        let is_new = head.ends_with(':');
        let names = head.trim_end_matches(':').split(',').map(str::trim);
        let name = |name: &str| {
            let name = name.strip_prefix('$')?;
            let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_');
            (!name.is_empty() && is_name).then(|| name.to_owned())
        };
        match names.map(name).collect::<Option<Vec<String>>>() {
            Some(names) => {
                self.rest = rest;
                (names, is_new)
            }
            None => (Vec::new(), false),
        }
    }

    fn wrong(&self) -> TemplateError {
        TemplateError::Syntax(self.whole.trim().to_owned())
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn pipe(&mut self, depth: usize) -> Result<Pipe, TemplateError> {
        if depth > MAX_DEPTH {
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
        if !is_name || matches!(word, "true" | "false" | "nil") || self.is_at_root() {
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
                let path = self.path_below()?;
                Ok(Some(Argument::Pipe(pipe, path)))
            }
            '.' => self.dotted().map(Some),
            '$' => self.variable().map(Some),
            _ if self.is_at_root() => self.path().map(|path| Some(Argument::Path(path))),
            '"' | '`' => self.text(first).map(Some),
            _ => self.literal().map(Some),
        }
    }

    /// Whether a path without a dot in front is next, such as `inputs.name`.
    fn is_at_root(&self) -> bool {
        let (word, _) = self.rest.split_once('.').unwrap_or_default();
        ROOTS.contains(&word)
    }

    /// A dot alone, or a path after a dot. Inside of `with` and `range` both are about the value there, except that a
    /// path to a value of the run needs no `$` in front.
    fn dotted(&mut self) -> Result<Argument, TemplateError> {
        self.rest = &self.rest[1..];
        if self.has_dot && !self.rest.starts_with(is_part) {
            return Ok(Argument::Dot(Vec::new()));
        }
        let path = self.path()?;
        Ok(match self.has_dot && !ROOTS.contains(&path[0].as_str()) {
            true => Argument::Dot(path),
            false => Argument::Path(path),
        })
    }

    /// `$name.path`, or `$.path` for the values of the run.
    fn variable(&mut self) -> Result<Argument, TemplateError> {
        self.rest = &self.rest[1..];
        if let Some(rest) = self.rest.strip_prefix('.') {
            self.rest = rest;
            return self.path().map(Argument::Path);
        }
        let end = self.rest.find(|c: char| !(c.is_alphanumeric() || c == '_'));
        let (name, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        if name.is_empty() {
            return Err(self.wrong());
        }
        self.rest = rest;
        let path = self.path_below()?;
        Ok(Argument::Variable(name.to_owned(), path))
    }

    /// A path after a value, if there is one.
    fn path_below(&mut self) -> Result<Vec<String>, TemplateError> {
        match self.rest.strip_prefix('.') {
            Some(rest) => {
                self.rest = rest;
                self.path()
            }
            None => Ok(Vec::new()),
        }
    }

    /// The path after its first dot, if it has one in front.
    fn path(&mut self) -> Result<Vec<String>, TemplateError> {
        let end = self.rest.find(|c: char| !is_part(c) && c != '.');
        let (path, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        let parts: Vec<String> = path.split('.').map(str::to_owned).collect();
        if parts.iter().any(String::is_empty) {
            return Err(self.wrong());
        }
        self.rest = rest;
        Ok(parts)
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
            .find(|c: char| c.is_whitespace() || matches!(c, '|' | ')' | '('));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        let value = match word {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "nil" => Value::Null,
            _ => {
                let number = word.parse::<serde_json::Number>();
                Value::Number(number.map_err(|_| self.wrong())?)
            }
        };
        self.rest = rest;
        Ok(Argument::Literal(value))
    }
}

/// Whether a character is part of a name in a path.
fn is_part(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-')
}
