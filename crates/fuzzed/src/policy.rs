//! The policy file: whatever is in it, it is understood in one way, or refused at places in it.

use callgate_gate::{CompileContext, PathBase, Place, Rules};

use crate::place;

/// Reads the input as a policy file.
pub fn policy(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let ground = PathBase {
        home: Some("/user".to_owned()),
        folder: "/work".to_owned(),
    };
    let read = || {
        let real = |_: &str| None;
        let around = CompileContext {
            ground: &ground,
            real: &real,
        };
        Rules::read(text, around)
    };
    match (read(), read()) {
        (Ok(rules), Ok(again)) => {
            assert_eq!(rules.digest(), again.digest(), "one text is one policy");
        }
        (Err(problems), Err(again)) => {
            assert_eq!(problems, again, "one text has the same problems");
            assert!(!problems.is_empty(), "refused without a word");
            for problem in &problems {
                assert!(!problem.what.trim().is_empty(), "{problem:?}");
                let shown = problem.shown("policy", "policy.yaml", text);
                assert!(shown.contains(&problem.what), "{shown}");
                let Place { line, column } = problem.place;
                if problem.place != Place::default() {
                    place::check(text, line, column, &shown);
                }
            }
        }
        (Ok(_), Err(problems)) | (Err(problems), Ok(_)) => {
            panic!("read once, and then not: {problems:?}")
        }
    }
}
