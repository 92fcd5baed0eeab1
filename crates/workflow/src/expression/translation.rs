//! Translates conditions from workflow files to CEL.
//!
//! Files may use `and`, `or`, `not`, `contains`, `startsWith` and `endsWith` between two values, and paths that CEL cannot spell: `states.my-test.ExitCode`,
//! `loop.item`, `states.a.JSON.list.0`, all with or without a dot in front. Each path becomes a variable.
//!
//! A condition with only these, texts, numbers, comparisons, `&&`, `||`, `!` and brackets keeps the meaning it had
//! before conditions were CEL: a backslash in a text is a backslash, and `!a == b` is `!(a == b)`.

use std::{mem, sync::LazyLock};

use regex::Regex;
use serde_json::{Number, Value};

const ROOTS: [&str; 8] = [
    "inputs", "states", "env", "workflow", "loop", "error", "context", "vars",
];
const KEYWORDS: [&str; 6] = ["and", "or", "not", "contains", "startsWith", "endsWith"];
const PLAIN_SIGNS: [&str; 11] = ["==", "!=", "<=", ">=", "&&", "||", "<", ">", "!", "(", ")"];

/// Words and operators. A minus is part of a word inside of it, and before a number.
const OTHERS: &str = r"-?\d[\w.-]*|[\w.][\w.-]*|[=!<>]=|&&|\|\||\S";

static PLAIN: LazyLock<Regex> = LazyLock::new(|| tokens(r#"'[^']*'|"[^"]*""#));
static CEL: LazyLock<Regex> = LazyLock::new(|| {
    tokens(concat!(
        r#"(?s:[rR](?:'''.*?'''|""".*?"""|'[^']*'|"[^"]*")"#,
        r#"|[bB]?(?:'''(?:\\.|[^\\])*?'''|"""(?:\\.|[^\\])*?"""|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"))"#
    ))
});

fn tokens(texts: &str) -> Regex {
    Regex::new(&format!("{texts}|{OTHERS}")).expect("the patterns are right")
}

/// A condition in CEL.
pub(super) struct Translated {
    pub(super) cel: String,
    /// Variable `n` is named by this prefix and `n`. The condition itself contains no such name.
    pub(super) prefix: String,
    /// The paths that the variables stand for.
    pub(super) uses: Vec<PathUse>,
}

/// A path in a condition.
#[derive(Debug, Clone)]
pub(super) struct PathUse {
    pub(super) path: Vec<String>,
    /// Whether it is the argument of `has`: the variable is then true if there is a value.
    pub(super) is_tested: bool,
}

pub(super) fn translate(text: &str) -> Translated {
    let split = |by: &Regex| by.find_iter(text).map(|found| found.as_str()).collect();
    let plain: Vec<&str> = split(&PLAIN);
    let is_plain = is_plain(&plain);
    let mut prefix = "path".to_owned();
    while text.contains(&prefix) {
        prefix.push('_');
    }
    let mut writer = Writer {
        is_plain,
        into: Translated {
            cel: String::with_capacity(text.len()),
            prefix,
            uses: Vec::new(),
        },
        brackets: vec![Bracket::default()],
        contains: false,
        after_value: false,
    };
    writer.all(&if is_plain { plain } else { split(&CEL) });
    writer.into
}

/// Whether a condition uses nothing that only CEL has, such as calls, or texts with a prefix or escaped quotes.
fn is_plain(tokens: &[&str]) -> bool {
    let is_known = |token: &&str| is_text(token) || is_word(token) || PLAIN_SIGNS.contains(token);
    let is_call = |pair: &[&str]| {
        is_word(pair[0]) && !KEYWORDS.contains(&pair[0]) && (pair[1] == "(" || is_text(pair[1]))
    };
    tokens.iter().all(is_known) && !tokens.windows(2).any(is_call)
}

fn is_text(token: &str) -> bool {
    token.len() > 1 && token.ends_with(['\'', '"'])
}

fn is_word(token: &str) -> bool {
    let token = token.strip_prefix('-').unwrap_or(token);
    token.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '.'))
}

struct Writer {
    is_plain: bool,
    into: Translated,
    brackets: Vec<Bracket>,
    /// Whether the next operand is the argument of `contains`, `startsWith` or `endsWith`.
    contains: bool,
    /// Whether an operand has just ended, so that a dot selects from it.
    after_value: bool,
}

/// An open bracket, or the whole condition.
#[derive(Default)]
struct Bracket {
    /// How many `!(` to close after the current comparison.
    negations: usize,
    /// Whether the bracket is the argument of `contains`, `startsWith` or `endsWith`.
    contains: bool,
}

impl Writer {
    fn all(&mut self, mut rest: &[&str]) {
        while let [token, after @ ..] = rest {
            rest = after;
            match (*token, after) {
                ("has", ["(", word, ")", after @ ..]) if self.is_path(word) => {
                    let variable = self.variable(word, true);
                    self.operand(&variable);
                    rest = after;
                }
                ("workflow.Duration" | ".workflow.Duration", ["(", ")", after @ ..]) => {
                    let variable = self.variable("workflow.Duration()", false);
                    self.operand(&variable);
                    rest = after;
                }
                ("and", _) => self.operator("&&"),
                ("or", _) => self.operator("||"),
                ("&&" | "||" | "," | "?" | ":", _) => self.operator(token),
                ("not", _) => self.negation(),
                ("!", _) if self.is_plain => self.negation(),
                ("contains" | "startsWith" | "endsWith", _) => {
                    self.write(&format!(".{token}("));
                    self.contains = true;
                }
                ("(" | "[" | "{", _) => {
                    self.write(token);
                    self.brackets.push(Bracket {
                        negations: 0,
                        contains: mem::take(&mut self.contains),
                    });
                }
                (")" | "]" | "}", _) => {
                    self.end_negations();
                    self.contains = self.brackets.pop().is_some_and(|bracket| bracket.contains);
                    self.operand(token);
                }
                (text, _) if is_text(text) && self.is_plain => {
                    let inside = Value::from(&text[1..text.len() - 1]);
                    self.operand(&inside.to_string());
                }
                (text, _) if is_text(text) => self.operand(text),
                (word, ["(", ..]) if is_word(word) => self.call(word),
                (word, _) if is_word(word) && word != "in" => self.word(word),
                (sign, _) => self.write(sign),
            }
        }
        self.end_negations();
    }

    fn word(&mut self, word: &str) {
        let plain = word.strip_prefix('.').unwrap_or(word);
        let written = match plain.parse::<Number>() {
            _ if self.after_value => word.to_owned(),
            // In CEL an integer beyond `int` must be marked as unsigned.
            Ok(number) if number.is_u64() && !number.is_i64() => format!("{number}u"),
            Ok(number) => number.to_string(),
            Err(_) if self.is_path(word) => self.variable(word, false),
            Err(_) => plain.to_owned(),
        };
        self.operand(&written);
    }

    /// A function, or a path with a function of its value: `states.a.Output.startsWith`.
    fn call(&mut self, word: &str) {
        match word.rsplit_once('.') {
            Some((path, function)) if !self.after_value && self.is_path(path) => {
                let variable = self.variable(path, false);
                self.write(&format!("{variable}.{function}"));
            }
            _ => self.write(word),
        }
    }

    /// In full CEL other dotted words may be fields of a loop variable, so only known roots count as paths.
    fn is_path(&self, word: &str) -> bool {
        let begins = |part: &str| part.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        let word = word.strip_prefix('.').unwrap_or(word);
        word.split_once('.').is_some_and(|(root, rest)| {
            let is_rooted = ROOTS.contains(&root) || (self.is_plain && begins(root));
            is_rooted && rest.split('.').all(begins)
        })
    }

    fn variable(&mut self, word: &str, is_tested: bool) -> String {
        let word = word.strip_prefix('.').unwrap_or(word);
        let variable = format!("{}{}", self.into.prefix, self.into.uses.len());
        self.into.uses.push(PathUse {
            path: word.split('.').map(str::to_owned).collect(),
            is_tested,
        });
        variable
    }

    fn operand(&mut self, operand: &str) {
        self.write(operand);
        if mem::take(&mut self.contains) {
            self.write(")");
        }
        self.after_value = true;
    }

    fn operator(&mut self, operator: &str) {
        self.end_negations();
        self.write(operator);
    }

    fn negation(&mut self) {
        self.write("!(");
        if let Some(bracket) = self.brackets.last_mut() {
            bracket.negations += 1;
        }
    }

    fn end_negations(&mut self) {
        let open = self
            .brackets
            .last_mut()
            .map(|bracket| mem::take(&mut bracket.negations));
        self.write(&")".repeat(open.unwrap_or(0)));
    }

    fn write(&mut self, text: &str) {
        self.into.cel.push_str(text);
        self.into.cel.push(' ');
        self.after_value = false;
    }
}
