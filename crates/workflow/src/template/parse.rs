//! Parses a template: its texts and actions, and the blocks that they make.

use super::{
    TemplateError,
    nodes::{Block, Kind, Node},
    pipe::{Pipe, Reader},
};

/// How deep blocks can be nested: the depth comes from the file.
const MAX_DEPTH: usize = 64;

/// A part of a template between or inside of braces.
enum Piece<'t> {
    Text(&'t str),
    Action {
        body: &'t str,
        /// Where the action begins and ends in the text.
        from: usize,
        to: usize,
    },
}

pub(super) fn read(text: &str) -> Result<Vec<Node>, TemplateError> {
    let pieces = pieces(text)?;
    let mut parser = Parser {
        text,
        pieces: pieces.iter(),
        variables: Vec::new(),
    };
    let (nodes, end) = parser.nodes(Around::default())?;
    match end {
        None => Ok(nodes),
        Some(end) => Err(TemplateError::Stray(end.word.to_owned())),
    }
}

/// Splits a text at its braces. As in Go templates, `{{-` and `-}}` trim the white space around them, and `{{/* … */}}`
/// is a comment.
fn pieces(text: &str) -> Result<Vec<Piece<'_>>, TemplateError> {
    let mut pieces = Vec::new();
    let mut at = 0;
    let mut trims = false;
    while let Some(start) = text[at..].find("{{").map(|start| at + start) {
        let mut before = &text[at..start];
        let inside = &text[start + 2..];
        let end = end_of(inside).ok_or(TemplateError::Open)?;
        let mut body = &inside[..end];
        if trims {
            before = before.trim_start();
        }
        if let Some(trimmed) = body.strip_prefix('-')
            && trimmed.starts_with(char::is_whitespace)
        {
            (before, body) = (before.trim_end(), trimmed);
        }
        trims = body
            .strip_suffix('-')
            .is_some_and(|trimmed| trimmed.ends_with(char::is_whitespace));
        if trims {
            body = &body[..body.len() - 1];
        }
        pieces.push(Piece::Text(before));
        at = start + 2 + end + 2;
        let is_comment = body.trim().starts_with("/*") && body.trim().ends_with("*/");
        if !is_comment {
            let (from, to) = (start, at);
            pieces.push(Piece::Action { body, from, to });
        }
    }
    let rest = &text[at..];
    pieces.push(Piece::Text(if trims { rest.trim_start() } else { rest }));
    pieces.retain(|piece| !matches!(piece, Piece::Text("")));
    Ok(pieces)
}

/// The offset of the closing `}}` outside of quoted texts and comments.
fn end_of(text: &str) -> Option<usize> {
    let plain = text.strip_prefix('-').unwrap_or(text).trim_start();
    if plain.starts_with("/*") {
        let comment = text.find("*/")? + 2;
        return Some(comment + text[comment..].find("}}")?);
    }
    let mut quote = None;
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        match quote {
            Some(open) if c == open && !is_escaped => quote = None,
            Some('"') => is_escaped = c == '\\' && !is_escaped,
            Some(_) => {}
            None if matches!(c, '"' | '`') => quote = Some(c),
            None if c == '}' && text[at + 1..].starts_with('}') => return Some(at),
            None => {}
        }
    }
    None
}

/// The blocks around a list of nodes.
#[derive(Debug, Clone, Copy, Default)]
struct Around {
    depth: usize,
    in_range: bool,
    /// Whether a `with` or `range` gives the dot a value.
    has_dot: bool,
}

impl Around {
    fn inside(self, kind: Kind) -> Self {
        Self {
            depth: self.depth + 1,
            in_range: self.in_range || kind == Kind::Range,
            has_dot: self.has_dot || kind != Kind::If,
        }
    }
}

/// What ended a list of nodes: `end`, or `else` with the condition after it.
struct Closing<'t> {
    word: &'t str,
    /// After `else`: `if …` or `with …`, or nothing.
    rest: &'t str,
    /// Where the action begins and ends.
    from: usize,
    to: usize,
}

struct Parser<'t, 'p> {
    text: &'t str,
    pieces: std::slice::Iter<'p, Piece<'t>>,
    /// The variables that are known at this point.
    variables: Vec<String>,
}

impl<'t> Parser<'t, '_> {
    /// The nodes up to what closes their block, or up to the end of the text.
    fn nodes(&mut self, around: Around) -> Result<(Vec<Node>, Option<Closing<'t>>), TemplateError> {
        if around.depth > MAX_DEPTH {
            return Err(TemplateError::Deep);
        }
        let mut nodes = Vec::new();
        while let Some(piece) = self.pieces.next() {
            let (body, from, to) = match piece {
                Piece::Text(text) => {
                    nodes.push(Node::Text((*text).to_owned()));
                    continue;
                }
                Piece::Action { body, from, to } => (*body, *from, *to),
            };
            let (word, rest) = first_word(body);
            let stray = || TemplateError::Stray(word.to_owned());
            match word {
                "if" => nodes.push(self.block(Kind::If, rest, from, around)?),
                "with" => nodes.push(self.block(Kind::With, rest, from, around)?),
                "range" => nodes.push(self.block(Kind::Range, rest, from, around)?),
                "else" | "end" if around.depth == 0 => return Err(stray()),
                "end" if !rest.is_empty() => return Err(stray()),
                "else" | "end" => {
                    let closing = Closing {
                        word,
                        rest,
                        from,
                        to,
                    };
                    return Ok((nodes, Some(closing)));
                }
                "break" | "continue" if !around.in_range || !rest.is_empty() => return Err(stray()),
                "break" => nodes.push(Node::Break),
                "continue" => nodes.push(Node::Continue),
                _ => nodes.push(self.action(body, from, to, around)?),
            }
        }
        Ok((nodes, None))
    }

    /// A pipeline and the variables that it sets. Those that it uses must be known.
    fn assignment(
        &mut self,
        body: &str,
        around: Around,
    ) -> Result<(Vec<String>, bool, Pipe), TemplateError> {
        let (variables, is_new, pipe) = Reader::assignment(body, around.has_dot)?;
        let mut used = pipe.variables();
        if !is_new {
            used.extend(&variables);
        }
        if let Some(unknown) = used.iter().find(|name| !self.variables.contains(name)) {
            return Err(TemplateError::Variable((*unknown).clone()));
        }
        if is_new {
            self.variables.extend(variables.iter().cloned());
        }
        Ok((variables, is_new, pipe))
    }

    /// A value, or an assignment.
    fn action(
        &mut self,
        body: &str,
        from: usize,
        to: usize,
        around: Around,
    ) -> Result<Node, TemplateError> {
        let written = self.text[from..to].to_owned();
        let (variables, is_new, pipe) = self.assignment(body, around)?;
        match variables.as_slice() {
            [] => Ok(Node::Pipe(pipe, written)),
            [name] => Ok(Node::Set {
                name: name.clone(),
                is_new,
                pipe,
                written,
            }),
            [_, ..] => Err(TemplateError::Syntax(body.trim().to_owned())),
        }
    }

    fn block(
        &mut self,
        kind: Kind,
        head: &str,
        from: usize,
        around: Around,
    ) -> Result<Node, TemplateError> {
        if head.is_empty() {
            return Err(TemplateError::Syntax(kind.word().to_owned()));
        }
        let mark = self.variables.len();
        let (variables, is_new, pipe) = self.assignment(head, around)?;
        let inner = self.variables.len();
        let most = if kind == Kind::Range { 2 } else { 1 };
        if variables.len() > most || (!variables.is_empty() && !is_new) {
            return Err(TemplateError::Syntax(head.trim().to_owned()));
        }
        let word = kind.word();
        let unclosed = || TemplateError::NoEnd(word.to_owned());
        let (body, closing) = self.nodes(around.inside(kind))?;
        let mut closing = closing.ok_or_else(unclosed)?;
        self.variables.truncate(inner);
        let mut otherwise = Vec::new();
        if closing.word == "else" {
            let next = match first_word(closing.rest) {
                ("", _) => None,
                ("if", rest) => Some((Kind::If, rest)),
                ("with", rest) => Some((Kind::With, rest)),
                _ => return Err(TemplateError::Stray(closing.rest.trim().to_owned())),
            };
            match next {
                // `else if` shares the `end` of the whole block.
                Some((kind, rest)) => {
                    let deeper = around.inside(Kind::If);
                    let inner = self.block(kind, rest, closing.from, deeper)?;
                    closing.to = closing.from + inner.written().len();
                    otherwise.push(inner);
                }
                None => {
                    let (nodes, end) = self.nodes(around.inside(Kind::If))?;
                    closing = end.filter(|end| end.word == "end").ok_or_else(unclosed)?;
                    otherwise = nodes;
                }
            }
        }
        self.variables.truncate(mark);
        Ok(Node::Block(Box::new(Block {
            kind,
            variables,
            pipe,
            body,
            otherwise,
            written: self.text[from..closing.to].to_owned(),
        })))
    }
}

fn first_word(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_alphabetic());
    let (word, rest) = text.split_at(end.unwrap_or(text.len()));
    // A keyword can be followed by `(`, as in `if(…)`, but `end.x` is a name.
    if rest.starts_with(['.', '_', '-']) || rest.starts_with(|c: char| c.is_alphanumeric()) {
        return ("", text);
    }
    (word, rest.trim_start())
}
