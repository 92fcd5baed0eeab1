//! Strips what models put around code: fences, backticks, prompts, common indentation.

/// The code in a command. Lines keep their numbers, except for a fence's own.
pub fn cleaned(command: &str) -> String {
    let text = command.replace("\r\n", "\n").replace('\r', "\n");
    let text = unfenced(&text);
    let text = unquoted(text);
    let text = unprompted(text);
    unindented(&text)
}

fn unfenced(text: &str) -> &str {
    let trimmed = text.trim();
    for fence in ["```", "~~~"] {
        let Some(rest) = trimmed.strip_prefix(fence) else {
            continue;
        };
        let Some(body) = rest.strip_suffix(fence) else {
            continue;
        };
        // The rest of the fence's line is a language tag if it could be one; otherwise it is code.
        let (first, others) = body.split_once('\n').unwrap_or(("", body));
        let is_language = first
            .trim()
            .chars()
            .all(|letter| letter.is_alphanumeric() || "-_+.".contains(letter));
        return if is_language { others } else { body };
    }
    text
}

fn unquoted(text: &str) -> &str {
    let trimmed = text.trim();
    let inner = trimmed
        .strip_prefix('`')
        .and_then(|rest| rest.strip_suffix('`'));
    inner.filter(|inner| !inner.contains('`')).unwrap_or(text)
}

/// Removes the prompts of an interactive session. In a session with several prompts, lines without one are output
/// and are blanked, so that line numbers stay.
fn unprompted(text: &str) -> String {
    let first = text.lines().find(|line| !line.trim().is_empty());
    let has_prompt = |line: &str| line.trim_start().starts_with(">>>");
    if !first.is_some_and(has_prompt) {
        return text.to_owned();
    }
    let is_session = text.lines().filter(|line| has_prompt(line)).count() > 1;
    let mut lines = Vec::new();
    for line in text.lines() {
        let trimmed = line.trim_start();
        let code = [">>>", "..."].iter().find_map(|prompt| {
            let rest = trimmed.strip_prefix(prompt)?;
            (rest.is_empty() || rest.starts_with(' '))
                .then(|| rest.strip_prefix(' ').unwrap_or(rest))
        });
        let glued = trimmed.strip_prefix(">>>");
        lines.push(match (code.or(glued), is_session) {
            (Some(code), _) => code,
            (None, false) => line,
            (None, true) => "",
        });
    }
    lines.join("\n")
}

fn unindented(text: &str) -> String {
    let indent = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let code = || text.lines().filter(|line| !line.trim().is_empty());
    let common = code().map(indent).min().unwrap_or(0);
    let first = code().next().unwrap_or_default();
    let margin = &first[..common.min(indent(first))];
    if margin.is_empty() || !code().all(|line| line.starts_with(margin)) {
        return text.to_owned();
    }
    let lines: Vec<&str> = text
        .lines()
        .map(|line| line.strip_prefix(margin).unwrap_or(""))
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_and_backticks_around_code_are_removed() {
        let cases = [
            ("x = 1", "x = 1"),
            ("```python\nx = 1\ny = 2\n```", "x = 1\ny = 2\n"),
            ("```\nx = 1\n```", "x = 1\n"),
            ("```x = 1```", "x = 1"),
            ("~~~py\nx\n~~~", "x\n"),
            ("`wix.list_sites()`", "wix.list_sites()"),
            ("a = '`'", "a = '`'"),
            ("  x = 1\n  if x:\n    y = 2", "x = 1\nif x:\n  y = 2"),
            ("\tx = 1\n\ty = 2", "x = 1\ny = 2"),
            ("x = 1\r\ny = 2\r\n", "x = 1\ny = 2\n"),
            (">>> x = 1", "x = 1"),
            (">>> x = 1\n>>> x\n1\n", "x = 1\nx\n"),
            (">>> for i in a:\n...     f(i)\n", "for i in a:\n    f(i)"),
            (">>>x", "x"),
            ("if a:\n  b", "if a:\n  b"),
            ("", ""),
        ];
        for (command, code) in cases {
            assert_eq!(cleaned(command), code, "{command:?}");
        }
    }
}
