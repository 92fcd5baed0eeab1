use super::*;

/// The box of a server with this value of `box`.
fn entry(value: &str) -> Result<BoxEntry, String> {
    let text = format!("servers: {{x: {{command: x, box: {value}}}}}");
    let config: Result<Config, _> = serde_saphyr::from_str(&text);
    let config = config.map_err(|error| Problem::found(&error).what)?;
    let server = config.servers.0.into_iter().next().expect("a server");
    Ok(server.server.sandbox.expect("a box"))
}

fn resolved(value: &str, protected: &[&str]) -> Result<Option<BoxSpec>, Problem> {
    let protected = Protected::new(protected.iter().map(|place| (*place).to_owned()));
    let context = BoxContext {
        base: Path::new("/srv/project"),
        defaults: BoxDefaults::default(),
        protected: &protected,
    };
    let BoxEntry(keys) = entry(value).expect("it can be read");
    keys.resolved(context).map_err(|error| match error {
        BoxError::Wrong(problem) => *problem,
        BoxError::Missing(missing) => Problem::at(Place::default(), missing.to_string()),
    })
}

#[test]
fn a_box_is_a_map_or_only_a_mode() {
    let mode = |mode| {
        BoxEntry(BoxKeys {
            mode: Some(mode),
            ..BoxKeys::default()
        })
    };
    assert_eq!(entry("off"), Ok(mode(BoxChoice::Off)));
    assert_eq!(entry("'off'"), Ok(mode(BoxChoice::Off)));
    assert_eq!(entry("best_effort"), Ok(mode(BoxChoice::BestEffort)));
    assert_eq!(entry("{mode: required}"), Ok(mode(BoxChoice::Required)));
    assert_eq!(entry("{}"), Ok(BoxEntry::default()));
    let BoxEntry(keys) = entry("{read: [a, b], write: [c], net: [d]}").expect("a box");
    let texts: Vec<&str> = keys.texts().map(|text| text.text.as_str()).collect();
    assert_eq!(texts, ["a", "b", "c", "d"]);
    for wrong in ["on", "strict", "[a]", "{reed: [a]}", "{read: a}", "3"] {
        assert!(entry(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn paths_become_absolute_and_modes_have_a_default() {
    let spec = resolved(
        "{read: [docs, ../other/./x, /opt/x], write: ['~/notes']}",
        &[],
    );
    let spec = spec.expect("it is right").expect("it is on");
    let home = env::home_dir().expect("a home folder");
    assert_eq!(spec.mode, BoxMode::Required);
    assert_eq!(
        spec.read,
        [
            Path::new("/srv/project/docs"),
            Path::new("/srv/other/x"),
            Path::new("/opt/x")
        ]
    );
    assert_eq!(spec.write, [home.join("notes")]);
    assert_eq!(resolved("off", &[]), Ok(None));
    let weak = resolved("{mode: best_effort}", &[]).expect("it is right");
    assert_eq!(weak.expect("it is on").mode, BoxMode::BestEffort);
}

#[test]
fn files_that_govern_the_gateway_cannot_be_granted_and_folders_around_them_can() {
    let protected = ["/srv/project/callgate.yaml", "/srv/data"];
    for value in [
        "{read: [callgate.yaml]}",
        "{read: [/srv/data]}",
        "{write: [/srv/data/log]}",
        "{write: [../data]}",
    ] {
        let problem = resolved(value, &protected).expect_err(value);
        let expected = "cannot be granted: it is part of callgate's configuration or data";
        assert!(problem.what.ends_with(expected), "{value}: {problem:?}");
        assert!(problem.help.is_some());
    }
    for (value, hidden) in [
        ("{write: ['.']}", ["/srv/project/callgate.yaml"].as_slice()),
        (
            "{read: [/srv]}",
            &["/srv/data", "/srv/project/callgate.yaml"],
        ),
        ("{read: [/opt]}", &[]),
    ] {
        let spec = resolved(value, &protected).expect("it is right");
        let hidden: Vec<PathBuf> = hidden.iter().map(PathBuf::from).collect();
        assert_eq!(spec.expect("it is on").hidden, hidden, "{value}");
    }
}

#[test]
fn the_home_folder_and_the_folder_of_temporary_files_are_not_granted_as_a_whole() {
    for path in ["/", "~", "~/", "~/..", "/.."] {
        let problem = resolved(&format!("{{read: ['{path}']}}"), &[]).expect_err(path);
        assert!(
            problem.what.contains("your whole home folder"),
            "{path}: {problem:?}"
        );
    }
    let temporary = env::temp_dir();
    let problem = resolved(&format!("{{write: ['{}']}}", temporary.display()), &[]);
    let problem = problem.expect_err("it has sockets");
    assert!(problem.what.contains("sockets"), "{problem:?}");
    let inside = temporary.join("of-one-server");
    let granted = resolved(&format!("{{write: ['{}']}}", inside.display()), &[]);
    assert_eq!(
        granted.expect("it is right").expect("it is on").write,
        [inside]
    );
}

#[test]
fn hosts_are_checked_where_they_are_written() {
    let spec = resolved(
        "{net: [api.example.com, 'db.internal:5432', '*.example', loopback]}",
        &[],
    );
    let spec = spec.expect("it is right").expect("it is on");
    assert_eq!(
        spec.net,
        [
            "api.example.com",
            "db.internal:5432",
            "*.example",
            "loopback"
        ]
    );
    let problem = resolved("{net: [good.example, 'https://api.example.com/v1']}", &[]);
    let problem = problem.expect_err("a URL");
    assert_eq!(
        problem.what,
        "`https://api.example.com/v1` is not a destination: it is a URL"
    );
    assert_eq!(problem.help.as_deref(), Some("write `api.example.com:443`"));
    assert_eq!(problem.place.line, 1);
    assert!(problem.place.column > 40, "{:?}", problem.place);
}

#[test]
fn a_missing_variable_is_named() {
    let problem = resolved("{read: ['${CALLGATE_TEST_NOT_SET}/x']}", &[]);
    let problem = problem.expect_err("it is not set");
    assert!(
        problem.what.contains("CALLGATE_TEST_NOT_SET"),
        "{problem:?}"
    );
}
