//! Refuses scripts that would exhaust the stack or the time of the parser or compiler. They are found by their
//! tokens alone: parsing them to find out would already recurse.

use ruff_python_ast::token::TokenKind;
use ruff_python_parser::{Mode, lexer::lex};

use super::ScriptRefused;
use crate::Limits;

/// Nesting depth of brackets.
const MAX_BRACKETS: usize = 100;
/// Nesting depth of blocks.
const MAX_BLOCKS: usize = 30;
/// The number of [`DEEPENING`] tokens in one statement.
const MAX_TERMS: usize = 1500;
/// Branches of one `if`.
const MAX_BRANCHES: usize = 500;
/// Tokens that make an expression one level deeper.
const DEEPENING: [TokenKind; 23] = [
    TokenKind::Plus,
    TokenKind::Minus,
    TokenKind::Star,
    TokenKind::Slash,
    TokenKind::DoubleSlash,
    TokenKind::DoubleStar,
    TokenKind::Percent,
    TokenKind::At,
    TokenKind::Vbar,
    TokenKind::Amper,
    TokenKind::CircumFlex,
    TokenKind::Tilde,
    TokenKind::LeftShift,
    TokenKind::RightShift,
    TokenKind::Dot,
    TokenKind::Not,
    TokenKind::And,
    TokenKind::Or,
    TokenKind::Lambda,
    TokenKind::Await,
    TokenKind::FStringStart,
    TokenKind::Equal,
    TokenKind::ColonEqual,
];

/// Refuses a script that is too large or too deeply nested to be parsed safely.
pub(super) fn check(source: &str, limits: &Limits) -> Result<(), ScriptRefused> {
    refuse_size_and_nul(source, limits)?;
    let mut lexer = lex(source, Mode::Module);
    let mut nesting = Nesting::new();
    loop {
        match lexer.next_token() {
            TokenKind::EndOfFile => return Ok(()),
            token => nesting.count(token),
        }
        nesting.check()?;
    }
}

fn refuse_size_and_nul(source: &str, limits: &Limits) -> Result<(), ScriptRefused> {
    if source.len() > limits.source_bytes {
        let (is, may) = (source.len(), limits.source_bytes);
        let message = format!(
            "the script is {is} bytes long, and {may} are allowed (code.source_kib): split it into several runs"
        );
        return Err(ScriptRefused {
            message,
            line: None,
        });
    }
    if source.contains('\0') {
        return Err(ScriptRefused {
            message: "the script contains a NUL character".to_owned(),
            line: None,
        });
    }
    Ok(())
}

/// How deeply the script is nested at the current token.
struct Nesting {
    /// The number of terms before each open bracket. Items of one bracket are siblings, so each starts from there.
    brackets: Vec<usize>,
    blocks: usize,
    terms: usize,
    branches: usize,
    line: u32,
}

impl Nesting {
    fn new() -> Self {
        Self {
            brackets: Vec::new(),
            blocks: 0,
            terms: 0,
            branches: 0,
            line: 1,
        }
    }

    fn count(&mut self, token: TokenKind) {
        match token {
            TokenKind::Lpar | TokenKind::Lsqb | TokenKind::Lbrace => self.brackets.push(self.terms),
            TokenKind::Rpar | TokenKind::Rsqb | TokenKind::Rbrace => {
                self.terms = self.brackets.pop().unwrap_or(self.terms) + 1;
            }
            TokenKind::Comma => self.terms = self.brackets.last().copied().unwrap_or(0),
            TokenKind::Indent => self.blocks += 1,
            TokenKind::Dedent => self.blocks = self.blocks.saturating_sub(1),
            TokenKind::Newline => {
                self.terms = 0;
                self.line += 1;
            }
            TokenKind::Semi => self.terms = 0,
            TokenKind::NonLogicalNewline => self.line += 1,
            TokenKind::Elif => self.branches += 1,
            TokenKind::If => {
                if self.terms == 0 {
                    self.branches = 0;
                }
                self.terms += 1;
            }
            token if DEEPENING.contains(&token) => self.terms += 1,
            _ => {}
        }
    }

    fn check(&self) -> Result<(), ScriptRefused> {
        let (what, limit) = if self.brackets.len() > MAX_BRACKETS {
            ("brackets are nested", MAX_BRACKETS)
        } else if self.blocks > MAX_BLOCKS {
            ("blocks are nested", MAX_BLOCKS)
        } else if self.branches > MAX_BRANCHES {
            ("an `if` has branches", MAX_BRANCHES)
        } else if self.terms > MAX_TERMS {
            ("one statement has terms", MAX_TERMS)
        } else {
            return Ok(());
        };
        Err(ScriptRefused {
            message: format!(
                "{what} beyond {limit}: use several statements, or a loop over a list"
            ),
            line: Some(self.line),
        })
    }
}
