//! Every "Invariant:" paragraph of ARCHITECTURE.md names a test that exists, as ``(test: `name`)``.

use super::Tree;

const MAP: &str = "ARCHITECTURE.md";

pub(super) fn check(tree: &Tree) -> Vec<String> {
    let Some(map) = tree.file(MAP) else {
        return vec![format!("{MAP}: the file is missing")];
    };
    let mut violations = Vec::new();
    for (line, paragraph) in paragraphs(&map.text) {
        let names = tests_named(&paragraph);
        if names.is_empty() {
            violations.push(format!(
                "{MAP}:{line}: an invariant without ``(test: `name`)``"
            ));
        }
        for name in names.into_iter().filter(|name| !is_function(tree, name)) {
            violations.push(format!("{MAP}:{line}: there is no test function `{name}`"));
        }
    }
    violations
}

/// The paragraphs and list items that begin with "Invariant:", with the number of their first line.
fn paragraphs(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        let bare = line.trim_start_matches(['-', '*', ' ', '_', '>']);
        if bare.starts_with("Invariant:") {
            found.push((index + 1, String::new()));
            inside = true;
        } else if line.trim().is_empty() || line.starts_with(['#', '-', '*']) {
            inside = false;
        }
        if inside && let Some((_, paragraph)) = found.last_mut() {
            paragraph.push_str(line);
            paragraph.push(' ');
        }
    }
    found
}

/// The names in backticks after `(test:` or `(tests:`, without the modules before them.
fn tests_named(paragraph: &str) -> Vec<String> {
    let mut names = Vec::new();
    for part in paragraph.split("(test").skip(1) {
        let list = part.split(')').next().unwrap_or_default();
        for name in list.split('`').skip(1).step_by(2) {
            let last = name.rsplit("::").next().unwrap_or(name);
            names.push(last.trim().to_owned());
        }
    }
    names
}

fn is_function(tree: &Tree, name: &str) -> bool {
    let (plain, generic) = (format!("fn {name}("), format!("fn {name}<"));
    let mut sources = tree.with_extension(".rs");
    sources.any(|file| file.text.contains(&plain) || file.text.contains(&generic))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(map: &str) -> Vec<String> {
        check(&Tree::of(&[
            (MAP, map),
            (
                "crates/a/src/lib.rs",
                "fn it_holds() {}\nfn it_also_holds() {}\n",
            ),
        ]))
    }

    #[test]
    fn a_named_test_that_exists_passes() {
        let map = "# Map\n\n**Invariant:** wire imports\nnothing (tests: `it_holds`,\n`a::it_also_holds`).\n\n- Invariant: x (test: `it_holds`)\n- other\n";
        assert_eq!(found(map), Vec::<String>::new());
    }

    #[test]
    fn invariants_without_a_valid_test_name_are_found() {
        let expected = [
            "ARCHITECTURE.md:1: an invariant without ``(test: `name`)``",
            "ARCHITECTURE.md:3: there is no test function `gone`",
        ];
        assert_eq!(
            found("Invariant: nothing names this\n\nInvariant: x (test: `gone`)\n"),
            expected
        );
    }
}
