//! Rule ids, and which patterns can match the name of a tool.

use crate::{Place, Problem, ServerName, policy::rule::Fields};

/// The last parts of a rule's ids: its pattern as written, each of its paths or domains, or its actions.
pub(super) fn of(pattern: Option<&String>, fields: &Fields) -> Vec<String> {
    if let Some(pattern) = pattern {
        return vec![pattern.clone()];
    }
    if let Some(paths) = &fields.paths {
        return paths.clone();
    }
    if let Some(domains) = &fields.domains {
        return domains
            .iter()
            .map(|domain| domain.as_str().to_owned())
            .collect();
    }
    match &fields.actions {
        Some(actions) => vec![actions.join(",")],
        None => vec!["*".to_owned()],
    }
}

/// Whether a pattern can match `server:tool`.
pub(super) fn check_tool_pattern(pattern: &str) -> Result<(), Problem> {
    let problem = |what: String| Problem::at(Place::default(), what);
    if pattern == "*" {
        return Ok(());
    }
    let Some((server, _)) = pattern.split_once(':') else {
        let what = format!("`{pattern}` can never match: tools are called `server:tool`");
        return Err(problem(what).help(format!("did you mean `*:{pattern}`?")));
    };
    // A `*` can match any letters, so only the literal letters must fit a server name.
    let letters: String = server.split('*').collect();
    let is_possible = server == "builtin"
        || (server.contains('*') && letters.is_empty())
        || (server.contains('*') && letters.len() <= 32 && is_name_like(&letters))
        || ServerName::new(server).is_ok();
    if is_possible {
        return Ok(());
    }
    Err(problem(format!(
        "`{pattern}` can never match: `{server}` is not a valid server name"
    )))
}

fn is_name_like(letters: &str) -> bool {
    letters
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}
