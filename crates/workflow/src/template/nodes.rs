//! The text and the actions of a template, and its control flow: `if`, `with`, `range` and variables.

use serde_json::Value;

use super::{
    TemplateError,
    pipe::{Frame, Pipe},
    shown,
};

/// A larger text is an error: nested loops over long lists would fill the memory.
pub(super) const MAX_RENDERED: usize = 64 << 20;
/// A template that takes more rounds is an error, for the same reason.
pub(super) const MAX_ROUNDS: usize = 1_000_000;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Text(String),
    /// With its text in the file.
    Pipe(Pipe, String),
    /// `$name := pipe`, or `$name = pipe` for a variable that is known already.
    Set {
        name: String,
        is_new: bool,
        pipe: Pipe,
        written: String,
    },
    Block(Box<Block>),
    Break,
    Continue,
}

/// `if`, `with` or `range` with all that belongs to it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Block {
    pub(super) kind: Kind,
    /// The variables that `range` or `with` set.
    pub(super) variables: Vec<String>,
    pub(super) pipe: Pipe,
    pub(super) body: Vec<Node>,
    pub(super) otherwise: Vec<Node>,
    pub(super) written: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    If,
    With,
    Range,
}

/// How the rendering of some nodes ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    On,
    Break,
    Continue,
}

impl Node {
    /// As it is written in the file.
    pub(super) fn written(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Pipe(_, written) | Self::Set { written, .. } => written,
            Self::Block(block) => &block.written,
            Self::Break | Self::Continue => "",
        }
    }
}

impl Kind {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::If => "if",
            Self::With => "with",
            Self::Range => "range",
        }
    }
}

pub(super) fn render(
    nodes: &[Node],
    frame: &mut Frame<'_>,
    out: &mut String,
) -> Result<Flow, TemplateError> {
    for node in nodes {
        let flow = match node {
            Node::Text(text) => {
                out.push_str(text);
                Flow::On
            }
            Node::Pipe(pipe, _) => {
                out.push_str(&shown(&pipe.value(frame)?));
                Flow::On
            }
            Node::Set {
                name, is_new, pipe, ..
            } => {
                let value = pipe.value(frame)?;
                frame.set(name, value, *is_new)?;
                Flow::On
            }
            Node::Block(block) => block.render(frame, out)?,
            Node::Break => Flow::Break,
            Node::Continue => Flow::Continue,
        };
        if out.len() > MAX_RENDERED {
            return Err(TemplateError::Large);
        }
        if flow != Flow::On {
            return Ok(flow);
        }
    }
    Ok(Flow::On)
}

impl Block {
    fn render(&self, frame: &mut Frame<'_>, out: &mut String) -> Result<Flow, TemplateError> {
        let value = self.pipe.value(frame)?;
        let mark = frame.mark();
        let flow = match self.kind {
            Kind::Range => self.rounds(value, frame, out),
            Kind::If | Kind::With => {
                let holds = is_true(&value);
                let nodes = if holds { &self.body } else { &self.otherwise };
                if let [name] = self.variables.as_slice() {
                    frame.set(name, value.clone(), true)?;
                }
                if holds && self.kind == Kind::With {
                    let before = frame.dot.replace(value);
                    let flow = render(nodes, frame, out);
                    frame.dot = before;
                    flow
                } else {
                    render(nodes, frame, out)
                }
            }
        };
        frame.forget(mark);
        flow
    }

    fn rounds(
        &self,
        value: Value,
        frame: &mut Frame<'_>,
        out: &mut String,
    ) -> Result<Flow, TemplateError> {
        let rounds: Vec<(Value, Value)> = match value {
            Value::Array(items) => (0_u64..).map(Value::from).zip(items).collect(),
            Value::Object(members) => members
                .into_iter()
                .map(|(key, value)| (Value::String(key), value))
                .collect(),
            Value::Number(count) => (0..count.as_u64().unwrap_or(0))
                .map(|at| (Value::from(at), Value::from(at)))
                .take(MAX_ROUNDS + 1)
                .collect(),
            Value::Null => Vec::new(),
            Value::Bool(_) | Value::String(_) => {
                let (name, wanted) = ("range", "a list, a map or a number");
                return Err(TemplateError::Arguments { name, wanted });
            }
        };
        if rounds.is_empty() {
            return render(&self.otherwise, frame, out);
        }
        for (key, item) in rounds {
            frame.rounds += 1;
            if frame.rounds > MAX_ROUNDS {
                return Err(TemplateError::Rounds);
            }
            let mark = frame.mark();
            match self.variables.as_slice() {
                [] => {}
                [one] => frame.set(one, item.clone(), true)?,
                [index, one, ..] => {
                    frame.set(index, key, true)?;
                    frame.set(one, item.clone(), true)?;
                }
            }
            let before = frame.dot.replace(item);
            let flow = render(&self.body, frame, out);
            frame.dot = before;
            frame.forget(mark);
            if flow? == Flow::Break {
                break;
            }
        }
        Ok(Flow::On)
    }
}

/// What `if` takes for true: everything but `false`, 0, nothing, and what is empty.
pub(super) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

/// The paths that the nodes look up.
pub(super) fn collect<'n>(nodes: &'n [Node], paths: &mut Vec<&'n [String]>) {
    for node in nodes {
        match node {
            Node::Text(_) | Node::Break | Node::Continue => {}
            Node::Pipe(pipe, _) | Node::Set { pipe, .. } => pipe.collect(paths),
            Node::Block(block) => {
                block.pipe.collect(paths);
                collect(&block.body, paths);
                collect(&block.otherwise, paths);
            }
        }
    }
}
