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
        own: None,
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
    // All of them, also where no folder around them is granted now: a link may lead there when the box is opened.
    for value in ["{write: ['.']}", "{read: [/srv]}", "{read: [/opt]}"] {
        let spec = resolved(value, &protected).expect("it is right");
        let mut hidden = spec.expect("it is on").hidden;
        hidden.sort();
        let expected = ["/srv/data", "/srv/project/callgate.yaml"].map(PathBuf::from);
        assert_eq!(hidden, expected, "{value}");
    }
}

#[test]
fn a_plugin_reads_its_own_folder_and_changes_nothing_in_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("it exists");
    let own = root.join("plugins/own");
    fs::create_dir_all(&own).expect("it is ours");
    fs::create_dir(root.join("plugins/other")).expect("it is ours");
    std::os::unix::fs::symlink("../other", own.join("link")).expect("it is ours");
    let (other, inner) = (root.join("plugins/other"), own.join("callgate.yaml"));
    let places = [&own, &other, &inner].map(|place| place.display().to_string());
    let protected = Protected::new(places);
    let context = BoxContext {
        base: &root,
        defaults: BoxDefaults::default(),
        protected: &protected,
        own: Some(&own),
    };
    let resolved = |value: &str| {
        let BoxEntry(keys) = entry(value).expect("it can be read");
        keys.resolved(context)
    };
    for value in [
        "{}",
        "{read: [plugins/own]}",
        "{read: [plugins/own/data, plugins]}",
        "{write: [.]}",
    ] {
        let spec = resolved(value).expect("it is right").expect("it is on");
        assert!(spec.read.contains(&own), "{value}: {spec:?}");
        assert_eq!(spec.hidden, [other.clone(), inner.clone()], "{value}");
    }
    for value in [
        "{write: [plugins/own]}",
        "{write: [plugins/own/data]}",
        "{read: [plugins/other]}",
        "{read: [plugins/own/link]}",
        "{read: [plugins/own/callgate.yaml]}",
        "{read: [plugins/own/../other]}",
    ] {
        assert!(
            matches!(resolved(value), Err(BoxError::Wrong(_))),
            "{value}"
        );
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
