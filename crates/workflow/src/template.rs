//! Templates in the syntax of Go's: `{{.inputs.name}}`, the same as `{{inputs.name}}`, `{{json .states.plan.JSON}}`,
//! `{{.states.ls.Output | trimSpace | escape}}`, `{{if eq .inputs.mode "full"}}…{{else}}…{{end}}`.
//!
//! A missing value is an error, never an empty text. Templates cannot define or include other templates.

mod function;
mod nodes;
mod parse;
mod pipe;

use serde_json::Value;

use nodes::Node;
use pipe::Frame;

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
    nodes: Vec<Node>,
}

/// Why a template is malformed, or cannot be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TemplateError {
    #[error("`{{{{` is not closed")]
    Open,
    #[error("`{0}` is not a valid template expression")]
    Syntax(String),
    #[error("`{0}` is not closed with `{{{{end}}}}`")]
    NoEnd(String),
    #[error("`{0}` does not belong to an `if`, `with` or `range`")]
    Stray(String),
    #[error("unknown variable `${0}`")]
    Variable(String),
    #[error("templates are nested too deeply")]
    Deep,
    #[error("the rendered text is larger than {} MiB", nodes::MAX_RENDERED >> 20)]
    Large,
    #[error("`range` takes more than {} rounds", nodes::MAX_ROUNDS)]
    Rounds,
    #[error("unknown function `{0}` (functions: {functions})", functions = function::names())]
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

impl Template {
    pub(crate) fn read(text: &str) -> Result<Self, TemplateError> {
        let nodes = parse::read(text)?;
        Ok(Self { nodes })
    }

    /// Renders the template to text.
    pub(crate) fn render(&self, scope: &dyn Lookup) -> Result<String, TemplateError> {
        let mut out = String::new();
        nodes::render(&self.nodes, &mut Frame::new(scope), &mut out)?;
        Ok(out)
    }

    /// Renders what has a value, and keeps the rest as it is written.
    pub(crate) fn preview(&self, scope: &dyn Lookup) -> String {
        let mut frame = Frame::new(scope);
        let node = |node: &Node| {
            let mut out = String::new();
            match nodes::render(std::slice::from_ref(node), &mut frame, &mut out) {
                Ok(_) => out,
                Err(_) => node.written().to_owned(),
            }
        };
        self.nodes.iter().map(node).collect()
    }

    /// The typed value of a template that is a single expression; otherwise the rendered text.
    pub(crate) fn value(&self, scope: &dyn Lookup) -> Result<Value, TemplateError> {
        match self.nodes.as_slice() {
            [Node::Pipe(pipe, _)] => pipe.value(&Frame::new(scope)),
            _ => self.render(scope).map(Value::String),
        }
    }

    /// The text of a template without values.
    pub(crate) fn constant(&self) -> Option<&str> {
        match self.nodes.as_slice() {
            [Node::Text(text)] => Some(text),
            _ => None,
        }
    }

    pub(crate) fn paths(&self) -> Vec<&[String]> {
        let mut paths = Vec::new();
        nodes::collect(&self.nodes, &mut paths);
        paths
    }
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

#[cfg(test)]
mod tests;
