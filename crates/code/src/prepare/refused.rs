//! What a script may not have: ways out of the box, and syntax that the interpreter lacks, each with what to
//! write instead. The box does not rest on this; it is here for its answers.

use ruff_python_ast::{
    Expr, ExprContext, Stmt,
    visitor::{Visitor, walk_expr, walk_stmt},
};
use ruff_text_size::{Ranged, TextSize};

use super::{OURS, Refused, line_of};
use crate::{
    Limits,
    words::{MODULES, REFUSED},
};

pub(super) fn look(
    source: &str,
    suite: &[Stmt],
    packs: &[String],
    limits: &Limits,
) -> Result<(), Refused> {
    let mut looking = SpinningSocket {
        source,
        packs,
        nesting: limits.nesting,
        depth: 0,
        found: None,
    };
    looking.visit_body(suite);
    match looking.found {
        Some(refused) => Err(refused),
        None => Ok(()),
    }
}

struct SpinningSocket<'a> {
    source: &'a str,
    packs: &'a [String],
    nesting: usize,
    depth: usize,
    found: Option<Refused>,
}

impl SpinningSocket<'_> {
    fn refuse(&mut self, at: TextSize, message: String) {
        let line = Some(line_of(self.source, at));
        self.found.get_or_insert(Refused { message, line });
    }

    fn import(&mut self, module: &str, at: TextSize) {
        let root = module.split('.').next().unwrap_or_default();
        if MODULES.contains(&root) || self.packs.iter().any(|pack| pack == root) {
            return;
        }
        let message = format!(
            "`{module}` cannot be imported: a script has no files, network, environment or processes. Use the packs for that; modules: {}",
            MODULES[1..].join(", ")
        );
        self.refuse(at, message);
    }

    /// A function in a function, of any kind.
    fn deeper(&mut self, at: TextSize, walk: impl FnOnce(&mut Self)) {
        self.depth += 1;
        if self.depth > self.nesting {
            let limit = self.nesting;
            let message = format!(
                "functions are nested deeper than {limit} (code.nesting): define them beside each other"
            );
            self.refuse(at, message);
        } else {
            walk(self);
        }
        self.depth -= 1;
    }
}

impl<'a> Visitor<'a> for SpinningSocket<'_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        if self.found.is_some() {
            return;
        }
        let at = stmt.start();
        match stmt {
            Stmt::Import(import) => {
                for alias in &import.names {
                    self.import(alias.name.as_str(), at);
                }
            }
            Stmt::ImportFrom(import) => match &import.module {
                Some(module) if self.packs.iter().any(|pack| pack == module.as_str()) => {
                    let message = format!(
                        "a pack is not imported: call `{module}.{}(...)`",
                        import
                            .names
                            .first()
                            .map_or("tool", |name| name.name.as_str())
                    );
                    self.refuse(at, message);
                }
                Some(module) => self.import(module.as_str(), at),
                None => self.refuse(at, "there is nothing to import from `.`".to_owned()),
            },
            Stmt::FunctionDef(_) | Stmt::ClassDef(_) => {
                self.deeper(at, |looking| walk_stmt(looking, stmt));
                return;
            }
            Stmt::Delete(delete) if !matches!(delete.targets.as_slice(), [Expr::Subscript(target)] if !target.slice.is_slice_expr()) =>
            {
                let message =
                    "`del` takes one key or index here: `del a[k]`; a name need not be deleted";
                self.refuse(at, message.to_owned());
            }
            Stmt::Match(_) => {
                self.refuse(
                    at,
                    "`match` is not supported: use `if` and `elif`".to_owned(),
                );
            }
            Stmt::With(with) if with.is_async => {
                let message = "`async with` is not supported: call the tool directly".to_owned();
                self.refuse(at, message);
            }
            _ => {}
        }
        walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        if self.found.is_some() {
            return;
        }
        let at = expr.start();
        match expr {
            Expr::Lambda(_) => {
                self.deeper(at, |looking| walk_expr(looking, expr));
                return;
            }
            Expr::Name(name) => {
                let id = name.id.as_str();
                if id.starts_with(OURS) {
                    self.refuse(at, format!("names that begin with `{OURS}` are taken"));
                } else if REFUSED.contains(&id) && name.ctx == ExprContext::Load {
                    let message = format!(
                        "`{id}` is not available: a script has no files and no code but its own. Use the packs"
                    );
                    self.refuse(at, message);
                }
            }
            Expr::Attribute(attribute) => {
                let name = attribute.attr.as_str();
                let is_inner = name.starts_with("__") && name.ends_with("__");
                if (is_inner && name != "__name__") || name.contains("__cg_") {
                    self.refuse(at, format!("`.{name}` is not available"));
                }
            }
            Expr::Yield(_) | Expr::YieldFrom(_) => {
                let message = "`yield` is not supported: build a list and return it".to_owned();
                self.refuse(at, message);
            }
            _ => {}
        }
        walk_expr(self, expr);
    }
}
