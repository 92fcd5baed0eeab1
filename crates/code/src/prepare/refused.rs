//! Refuses sandbox escapes and unsupported syntax, each with what to write instead. The sandbox does not depend on
//! these checks: they exist for their error messages.

use ruff_python_ast::{
    Expr, ExprContext, Stmt,
    visitor::{Visitor, walk_expr, walk_stmt},
};
use ruff_text_size::{Ranged, TextSize};

use super::{OURS, ScriptRefused, line_of};
use crate::{
    Limits,
    words::{MODULES, REFUSED},
};

pub(super) fn check(
    source: &str,
    suite: &[Stmt],
    packs: &[String],
    limits: &Limits,
) -> Result<(), ScriptRefused> {
    let mut visitor = RefusalVisitor {
        source,
        packs,
        nesting: limits.nesting,
        depth: 0,
        found: None,
    };
    visitor.visit_body(suite);
    match visitor.found {
        Some(refused) => Err(refused),
        None => Ok(()),
    }
}

struct RefusalVisitor<'a> {
    source: &'a str,
    packs: &'a [String],
    nesting: usize,
    depth: usize,
    found: Option<ScriptRefused>,
}

impl RefusalVisitor<'_> {
    fn refuse(&mut self, at: TextSize, message: String) {
        let line = Some(line_of(self.source, at));
        self.found.get_or_insert(ScriptRefused { message, line });
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

    /// Enters a function, class or lambda.
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

impl<'a> Visitor<'a> for RefusalVisitor<'_> {
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
                        "packs need no import: call `{module}.{}(...)`",
                        import
                            .names
                            .first()
                            .map_or("tool", |name| name.name.as_str())
                    );
                    self.refuse(at, message);
                }
                Some(module) => self.import(module.as_str(), at),
                None => self.refuse(at, "relative imports are not supported".to_owned()),
            },
            Stmt::FunctionDef(_) | Stmt::ClassDef(_) => {
                self.deeper(at, |visitor| walk_stmt(visitor, stmt));
                return;
            }
            Stmt::Delete(delete) if !matches!(delete.targets.as_slice(), [Expr::Subscript(target)] if !target.slice.is_slice_expr()) =>
            {
                let message = "`del` takes a single key or index, as in `del a[k]`; names need not be deleted";
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
                self.deeper(at, |visitor| walk_expr(visitor, expr));
                return;
            }
            Expr::Name(name) => {
                let id = name.id.as_str();
                if id.starts_with(OURS) {
                    self.refuse(at, format!("names beginning with `{OURS}` are reserved"));
                } else if REFUSED.contains(&id) && name.ctx == ExprContext::Load {
                    let message = format!(
                        "`{id}` is not available: a script cannot read files or run other code. Use the packs"
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
