//! Finds the names that a script binds, and those that it awaits.

use std::collections::HashSet;

use ruff_python_ast::{
    ExceptHandler, Expr, ExprContext, Parameter, Stmt,
    visitor::{Visitor, walk_except_handler, walk_expr, walk_parameter, walk_stmt},
};

/// What a script binds and awaits.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// All names bound in any scope, without imports.
    pub(super) bound: HashSet<String>,
    pub(super) imported: HashSet<String>,
    /// Parameters of functions, which keep their names.
    pub(super) parameters: HashSet<String>,
    /// Its top-level functions.
    pub(super) functions: Vec<String>,
    /// Functions and variables bound at the top level.
    pub(super) top: HashSet<String>,
    /// Variables assigned at the top level, in order, without functions and loop variables.
    pub(super) assigned: Vec<String>,
    /// Names that are passed to `await` or `gather`.
    pub(super) awaited: HashSet<String>,
}

impl Names {
    pub(super) fn of(suite: &[Stmt]) -> Self {
        let mut names = Self::default();
        names.visit_body(suite);
        names.functions = suite
            .iter()
            .filter_map(|stmt| match stmt {
                Stmt::FunctionDef(def) => Some(def.name.to_string()),
                _ => None,
            })
            .collect();
        let mut assigned = Vec::new();
        for stmt in suite {
            assignments(stmt, &mut assigned);
        }
        names.top.extend(names.functions.iter().cloned());
        names.top.extend(assigned.iter().cloned());
        for name in assigned {
            if !name.starts_with('_') && !names.assigned.contains(&name) {
                names.assigned.push(name);
            }
        }
        names
    }

    fn await_name(&mut self, expr: &Expr) {
        match expr {
            Expr::Name(name) => {
                self.awaited.insert(name.id.to_string());
            }
            Expr::Starred(starred) => self.await_name(&starred.value),
            _ => {}
        }
    }
}

/// Whether a call is `asyncio.gather` or `gather`.
pub(super) fn is_gather(function: &Expr) -> bool {
    match function {
        Expr::Attribute(attribute) => {
            let of_asyncio =
                matches!(&*attribute.value, Expr::Name(name) if name.id.as_str() == "asyncio");
            of_asyncio && attribute.attr.as_str() == "gather"
        }
        Expr::Name(name) => name.id.as_str() == "gather",
        _ => false,
    }
}

impl<'a> Visitor<'a> for Names {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::FunctionDef(def) => {
                self.bound.insert(def.name.to_string());
            }
            Stmt::ClassDef(class) => {
                self.bound.insert(class.name.to_string());
            }
            Stmt::Import(import) => {
                for alias in &import.names {
                    let name = alias.asname.as_ref().unwrap_or(&alias.name).as_str();
                    let root = name.split('.').next().unwrap_or_default().to_owned();
                    self.imported.insert(root);
                }
            }
            Stmt::ImportFrom(import) => {
                for alias in &import.names {
                    let name = alias.asname.as_ref().unwrap_or(&alias.name);
                    self.imported.insert(name.to_string());
                }
            }
            _ => {}
        }
        walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) if name.ctx != ExprContext::Load => {
                self.bound.insert(name.id.to_string());
            }
            Expr::Await(waiting) => self.await_name(&waiting.value),
            Expr::Call(call) if is_gather(&call.func) => {
                for argument in &call.arguments.args {
                    self.await_name(argument);
                }
            }
            _ => {}
        }
        walk_expr(self, expr);
    }

    fn visit_parameter(&mut self, parameter: &'a Parameter) {
        self.bound.insert(parameter.name.to_string());
        self.parameters.insert(parameter.name.to_string());
        walk_parameter(self, parameter);
    }

    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(caught) = handler;
        if let Some(name) = &caught.name {
            self.bound.insert(name.to_string());
        }
        walk_except_handler(self, handler);
    }
}

/// The names that a statement assigns, including those in its blocks.
fn assignments(stmt: &Stmt, assigned: &mut Vec<String>) {
    match stmt {
        Stmt::Assign(assign) => assign
            .targets
            .iter()
            .for_each(|target| targets(target, assigned)),
        Stmt::AugAssign(assign) => targets(&assign.target, assigned),
        Stmt::AnnAssign(assign) if assign.value.is_some() => targets(&assign.target, assigned),
        Stmt::If(branch) => {
            branch
                .body
                .iter()
                .for_each(|stmt| assignments(stmt, assigned));
            for clause in &branch.elif_else_clauses {
                clause
                    .body
                    .iter()
                    .for_each(|stmt| assignments(stmt, assigned));
            }
        }
        Stmt::For(repeat) => repeat
            .body
            .iter()
            .for_each(|stmt| assignments(stmt, assigned)),
        Stmt::While(repeat) => repeat
            .body
            .iter()
            .for_each(|stmt| assignments(stmt, assigned)),
        Stmt::With(with) => with
            .body
            .iter()
            .for_each(|stmt| assignments(stmt, assigned)),
        Stmt::Try(attempt) => {
            attempt
                .body
                .iter()
                .for_each(|stmt| assignments(stmt, assigned));
            for ExceptHandler::ExceptHandler(handler) in &attempt.handlers {
                handler
                    .body
                    .iter()
                    .for_each(|stmt| assignments(stmt, assigned));
            }
            attempt
                .orelse
                .iter()
                .for_each(|stmt| assignments(stmt, assigned));
            attempt
                .finalbody
                .iter()
                .for_each(|stmt| assignments(stmt, assigned));
        }
        _ => {}
    }
}

fn targets(target: &Expr, assigned: &mut Vec<String>) {
    match target {
        Expr::Name(name) => assigned.push(name.id.to_string()),
        Expr::Tuple(tuple) => tuple
            .elts
            .iter()
            .for_each(|target| targets(target, assigned)),
        Expr::List(list) => list
            .elts
            .iter()
            .for_each(|target| targets(target, assigned)),
        Expr::Starred(starred) => targets(&starred.value, assigned),
        _ => {}
    }
}
