//! The rewriting: text edits, none of which adds or removes a line.

use std::collections::HashSet;

use ruff_python_ast::{
    Expr, ExprAttribute, ExprCall, ExprContext, ExprSubscript, ModModule, Stmt, StmtReturn,
    visitor::{Visitor, walk_expr, walk_stmt},
};
use ruff_python_parser::Parsed;
use ruff_text_size::{Ranged, TextRange, TextSize};

use super::{
    ATTRIBUTE, LATER, PreparedPack, RETURN, VIA,
    names::{Names, is_gather},
};

/// The script that is rewritten, and the names around it.
pub(super) struct Context<'a> {
    pub(super) source: &'a str,
    pub(super) names: &'a Names,
    pub(super) packs: &'a [String],
    pub(super) local: &'a [PreparedPack],
    /// The name of the local pack, if the script is one.
    pub(super) own: Option<&'a str>,
}

/// The mangled name of a local pack's top-level name.
pub(super) fn mangled(pack: &str, name: &str) -> String {
    format!("_cg_p_{pack}_{name}")
}

/// The text with all edits applied.
pub(super) fn rewritten(parsed: &Parsed<ModModule>, context: &Context<'_>) -> String {
    let mut rewriter = Rewriter {
        context,
        edits: Vec::new(),
        later: HashSet::new(),
        functions: 0,
        may_await: false,
    };
    rewriter.visit_body(parsed.suite());
    let mut edits = rewriter.edits;
    // A stable sort: of two edits at one offset the outer one was added first and must stay first.
    edits.sort_by_key(|edit| edit.range.start());
    let mut text = String::with_capacity(context.source.len() * 2);
    let mut at = 0;
    for Edit { range, text: new } in edits {
        text.push_str(&context.source[at..range.start().to_usize()]);
        text.push_str(&new);
        at = range.end().to_usize();
    }
    text.push_str(&context.source[at..]);
    text
}

struct Edit {
    range: TextRange,
    text: String,
}

struct Rewriter<'a> {
    context: &'a Context<'a>,
    edits: Vec<Edit>,
    /// Offsets of the tool calls that return a future.
    later: HashSet<TextSize>,
    /// The depth of enclosing functions. At 0 a `return` ends the run.
    functions: usize,
    /// Whether an `await` can be inserted here.
    may_await: bool,
}

impl Rewriter<'_> {
    fn replace(&mut self, range: TextRange, text: impl Into<String>) {
        let text = text.into();
        self.edits.push(Edit { range, text });
    }

    fn insert(&mut self, at: TextSize, text: impl Into<String>) {
        self.replace(TextRange::empty(at), text);
    }

    /// Whether a name can only mean a pack: the script does not bind it in any scope.
    fn is_free(&self, name: &str) -> bool {
        let names = self.context.names;
        !names.bound.contains(name)
            && (!names.imported.contains(name)
                || self.context.packs.iter().any(|pack| pack == name))
    }

    /// The pack and tool that an expression names.
    fn tool<'e>(&self, function: &'e Expr) -> Option<(&'e str, &'e ExprAttribute)> {
        let Expr::Attribute(attribute) = function else {
            return None;
        };
        let Expr::Name(base) = &*attribute.value else {
            return None;
        };
        let base = base.id.as_str();
        let is_pack = self.context.packs.iter().any(|pack| pack == base)
            || self.context.local.iter().any(|pack| pack.name == base);
        (is_pack && self.is_free(base)).then_some((base, attribute))
    }

    /// The mangled name if `pack.tool` is a function of a local pack.
    fn local(&self, pack: &str, tool: &str) -> Option<String> {
        let local = self.context.local.iter().find(|local| local.name == pack)?;
        local.functions.contains(tool).then(|| mangled(pack, tool))
    }

    /// Marks the tool calls in an awaited expression.
    fn mark_later(&mut self, expr: &Expr) {
        match expr {
            Expr::Call(call) if self.tool(&call.func).is_some() => {
                self.later.insert(call.start());
            }
            Expr::Starred(starred) => self.mark_later(&starred.value),
            Expr::List(list) => list.elts.iter().for_each(|item| self.mark_later(item)),
            Expr::Tuple(tuple) => tuple.elts.iter().for_each(|item| self.mark_later(item)),
            Expr::ListComp(all) => self.mark_later(&all.elt),
            Expr::Generator(all) => self.mark_later(&all.elt),
            Expr::If(either) => {
                self.mark_later(&either.body);
                self.mark_later(&either.orelse);
            }
            _ => {}
        }
    }

    fn returned(&mut self, stmt: &StmtReturn) {
        let keyword = TextRange::at(stmt.start(), TextSize::from(6));
        match &stmt.value {
            None => self.replace(keyword, format!("{RETURN}()")),
            Some(value) => {
                self.replace(keyword, format!("{RETURN}(("));
                self.visit_expr(value);
                self.insert(stmt.end(), "))");
            }
        }
    }

    /// Rewrites `del a[k]` to `a.pop(k)`: the interpreter has no `del`.
    fn deleted(&mut self, at: TextSize, target: &ExprSubscript) {
        self.replace(TextRange::new(at, target.start()), "");
        self.visit_expr(&target.value);
        let from = target.value.end().to_usize();
        let bracket = self.context.source[from..].find('[').unwrap_or_default();
        let bracket = u32::try_from(from + bracket).unwrap_or_default();
        self.replace(TextRange::at(bracket.into(), TextSize::from(1)), ".pop(");
        self.visit_expr(&target.slice);
        let end = TextRange::new(target.end() - TextSize::from(1), target.end());
        self.replace(end, ")");
    }

    fn call(&mut self, call: &ExprCall) {
        if is_gather(&call.func) {
            for argument in &call.arguments.args {
                self.mark_later(argument);
            }
        }
        if let Expr::Attribute(method) = &*call.func
            && let Expr::Name(list) = &*method.value
            && method.attr.as_str() == "append"
            && self.context.names.awaited.contains(list.id.as_str())
        {
            for argument in &call.arguments.args {
                self.mark_later(argument);
            }
        }
        match (self.tool(&call.func), &*call.func) {
            (Some((pack, attribute)), _) => {
                if let Some(name) = self.local(pack, attribute.attr.as_str()) {
                    self.replace(attribute.range(), name);
                } else {
                    self.call_of_tool(call, attribute);
                }
            }
            // The interpreter resolves methods itself; only the receiver can be a tool result.
            (None, Expr::Attribute(method)) => self.visit_expr(&method.value),
            (None, function) => self.visit_expr(function),
        }
        self.visit_arguments(&call.arguments);
    }

    fn call_of_tool(&mut self, call: &ExprCall, attribute: &ExprAttribute) {
        let is_later = self.later.contains(&call.start());
        let waits_here = !is_later && self.may_await;
        if waits_here {
            self.insert(call.start(), "(await ");
        }
        if is_later || waits_here {
            self.insert(attribute.end(), LATER);
        }
        if let Some(own) = self.context.own {
            self.insert(attribute.end(), format!("{VIA}{own}"));
        }
        if waits_here {
            self.insert(call.end(), ")");
        }
    }

    fn attribute(&mut self, attribute: &ExprAttribute) {
        if let Expr::Name(base) = &*attribute.value
            && let Some(name) = self.local(base.id.as_str(), attribute.attr.as_str())
            && self.is_free(base.id.as_str())
        {
            self.replace(attribute.range(), name);
            return;
        }
        let is_read = attribute.ctx == ExprContext::Load && !self.is_foreign(&attribute.value);
        let Some(dot) = self.dot_of(attribute).filter(|_| is_read) else {
            self.visit_expr(&attribute.value);
            return;
        };
        self.insert(attribute.start(), format!("{ATTRIBUTE}("));
        self.visit_expr(&attribute.value);
        self.replace(TextRange::at(dot, TextSize::from(1)), ",");
        let name = format!("\"{}\")", attribute.attr.as_str());
        self.replace(attribute.attr.range(), name);
    }

    /// Whether a value is a module, pack or built-in class, or an attribute path from one. Its attributes are not keys
    /// of a result, so they are not rewritten.
    fn is_foreign(&self, value: &Expr) -> bool {
        match value {
            Expr::Name(name) => {
                let name = name.id.as_str();
                !self.context.names.bound.contains(name)
            }
            Expr::Attribute(attribute) => self.is_foreign(&attribute.value),
            _ => false,
        }
    }

    /// The offset of an attribute's dot. Spaces and line breaks may follow it.
    fn dot_of(&self, attribute: &ExprAttribute) -> Option<TextSize> {
        let from = attribute.value.end().to_usize();
        let between = &self.context.source[from..attribute.attr.start().to_usize()];
        let at = between.rfind('.')?;
        let is_clear = between[at + 1..]
            .chars()
            .all(|letter| letter.is_whitespace() || letter == '\\');
        let at = u32::try_from(from + at).ok()?;
        is_clear.then(|| TextSize::from(at))
    }

    /// Walks an expression in which an `await` cannot be inserted.
    fn without_await(&mut self, walk: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.may_await, false);
        walk(self);
        self.may_await = before;
    }
}

impl<'a> Visitor<'a> for Rewriter<'_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Import(import)
                if import.names.iter().all(|name| {
                    self.context
                        .packs
                        .iter()
                        .any(|pack| pack == name.name.as_str())
                }) =>
            {
                self.replace(stmt.range(), "pass");
            }
            Stmt::Delete(delete) => match delete.targets.as_slice() {
                [Expr::Subscript(target)] => self.deleted(stmt.start(), target),
                _ => walk_stmt(self, stmt),
            },
            Stmt::Return(stmt) if self.functions == 0 => self.returned(stmt),
            Stmt::FunctionDef(def) => {
                if let Some(own) = self.context.own.filter(|_| self.functions == 0) {
                    self.replace(def.name.range(), mangled(own, def.name.as_str()));
                }
                let before = std::mem::replace(&mut self.may_await, def.is_async);
                self.functions += 1;
                walk_stmt(self, stmt);
                self.functions -= 1;
                self.may_await = before;
            }
            Stmt::Assign(assign) => {
                let is_awaited = assign.targets.iter().any(|target| {
                    matches!(target, Expr::Name(name) if self.context.names.awaited.contains(name.id.as_str()))
                });
                if is_awaited {
                    self.mark_later(&assign.value);
                }
                walk_stmt(self, stmt);
            }
            _ => walk_stmt(self, stmt),
        }
    }

    fn visit_annotation(&mut self, _annotation: &'a Expr) {}

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Call(call) => self.call(call),
            Expr::Attribute(attribute) => self.attribute(attribute),
            Expr::Await(waiting) => {
                self.mark_later(&waiting.value);
                walk_expr(self, expr);
            }
            Expr::Name(name) => {
                let Some(own) = self.context.own else { return };
                let (id, names) = (name.id.as_str(), self.context.names);
                if names.top.contains(id) && !names.parameters.contains(id) {
                    self.replace(name.range(), mangled(own, id));
                }
            }
            Expr::Lambda(_)
            | Expr::ListComp(_)
            | Expr::SetComp(_)
            | Expr::DictComp(_)
            | Expr::Generator(_) => self.without_await(|rewriter| walk_expr(rewriter, expr)),
            _ => walk_expr(self, expr),
        }
    }
}
