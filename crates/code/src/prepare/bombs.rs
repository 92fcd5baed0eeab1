//! Texts that would make a parser or a compiler run out of stack or time: found by their tokens alone, which
//! takes no recursion.

use ruff_python_ast::token::TokenKind;
use ruff_python_parser::{Mode, lexer::lex};

use super::Refused;
use crate::Limits;

/// Brackets inside brackets.
const MAX_BRACKETS: usize = 100;
/// Blocks inside blocks.
const MAX_BLOCKS: usize = 30;
/// What makes one expression deeper, within one statement.
const MAX_TERMS: usize = 1500;
/// Branches of one `if`.
const MAX_BRANCHES: usize = 500;

pub(super) fn look(source: &str, limits: &Limits) -> Result<(), Refused> {
    let refused = |message: String, line| Err(Refused { message, line });
    if source.len() > limits.source_bytes {
        let (is, may) = (source.len(), limits.source_bytes);
        let message = format!(
            "the script is {is} bytes long, and {may} are allowed (code.source_kib): split it into several runs"
        );
        return refused(message, None);
    }
    if source.contains('\0') {
        return refused("the script contains a NUL character".to_owned(), None);
    }
    let mut lexer = lex(source, Mode::Module);
    // How many terms there were before each open bracket: what stands beside each other in one does not nest.
    let mut brackets: Vec<usize> = Vec::new();
    let (mut blocks, mut terms, mut branches) = (0usize, 0usize, 0usize);
    let mut line = 1;
    loop {
        match lexer.next_token() {
            TokenKind::EndOfFile => return Ok(()),
            TokenKind::Lpar | TokenKind::Lsqb | TokenKind::Lbrace => brackets.push(terms),
            TokenKind::Rpar | TokenKind::Rsqb | TokenKind::Rbrace => {
                terms = brackets.pop().unwrap_or(terms) + 1;
            }
            TokenKind::Comma => terms = brackets.last().copied().unwrap_or(0),
            TokenKind::Indent => blocks += 1,
            TokenKind::Dedent => blocks = blocks.saturating_sub(1),
            TokenKind::Newline => {
                terms = 0;
                line += 1;
            }
            TokenKind::Semi => terms = 0,
            TokenKind::NonLogicalNewline => line += 1,
            TokenKind::Elif => branches += 1,
            TokenKind::If => {
                if terms == 0 {
                    branches = 0;
                }
                terms += 1;
            }
            TokenKind::Plus
            | TokenKind::Minus
            | TokenKind::Star
            | TokenKind::Slash
            | TokenKind::DoubleSlash
            | TokenKind::DoubleStar
            | TokenKind::Percent
            | TokenKind::At
            | TokenKind::Vbar
            | TokenKind::Amper
            | TokenKind::CircumFlex
            | TokenKind::Tilde
            | TokenKind::LeftShift
            | TokenKind::RightShift
            | TokenKind::Dot
            | TokenKind::Not
            | TokenKind::And
            | TokenKind::Or
            | TokenKind::Lambda
            | TokenKind::Await
            | TokenKind::FStringStart
            | TokenKind::Equal
            | TokenKind::ColonEqual => terms += 1,
            _ => {}
        }
        let (what, limit) = if brackets.len() > MAX_BRACKETS {
            ("brackets are nested", MAX_BRACKETS)
        } else if blocks > MAX_BLOCKS {
            ("blocks are nested", MAX_BLOCKS)
        } else if branches > MAX_BRANCHES {
            ("an `if` has branches", MAX_BRANCHES)
        } else if terms > MAX_TERMS {
            ("one statement has terms", MAX_TERMS)
        } else {
            continue;
        };
        let message =
            format!("{what} beyond {limit}: use several statements, or a loop over a list");
        return refused(message, Some(line));
    }
}
