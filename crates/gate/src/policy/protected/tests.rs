use super::{spelling::spelled, *};

fn ground() -> PathBase {
    PathBase {
        home: Some("/people/u".into()),
        folder: "/srv/repo".into(),
    }
}

fn protected() -> Protected {
    Protected::new(
        [
            "/people/u/.config/callgate",
            "/people/u/data/",
            "/srv/repo/callgate.yaml",
        ]
        .map(str::to_owned),
    )
}

#[test]
fn protected_places_cover_their_contents_and_nothing_else() {
    let protected = protected();
    for path in [
        "/people/u/data",
        "/people/u/data/x/y",
        "/People/U/DATA/x",
        "/srv/repo/callgate.yaml",
    ] {
        assert!(protected.covers(path), "{path}");
    }
    for path in [
        "/people/u/data2",
        "/people/u",
        "/srv/repo/callgate.yaml.bak",
        "/",
    ] {
        assert!(!protected.covers(path), "{path}");
    }
    for path in ["/people/u", "/people", "/srv/repo/", "/"] {
        assert!(protected.is_above(path), "{path}");
    }
    assert!(!protected.is_above("/people/v"));
    assert!(Protected::new(["/".to_owned(), String::new()]).is_empty());
}

#[test]
fn every_reading_of_a_protected_path_is_absolute() {
    for (text, expected) in [
        ("~/x", "/people/u/x"),
        ("${HOME}/x", "/people/u/x"),
        ("~v/x", "/people/v/x"),
        ("../x", "/srv/x"),
        ("../../../../x", "/x"),
        ("file:///a/b", "/a/b"),
        ("%2Fa%2Fb", "/a/b"),
        ("\\a\\b", "/a/b"),
        ("/a/b\0.txt", "/a/b"),
    ] {
        let found = spelled(text, &ground());
        assert!(found.contains(&expected.to_owned()), "{text}: {found:?}");
    }
    assert!(spelled("https://a/b", &ground()).is_empty());
}

#[test]
fn paths_in_command_lines_are_resolved() {
    let lead = |line: &str, path: &str| {
        let found = command::candidates(line, &ground(), "/srv/repo", &protected());
        found.into_iter().find(|one| one.path == path)
    };
    let config = "/people/u/.config/callgate/callgate.yaml";
    for line in [
        "echo x >~/.config/callgate/callgate.yaml",
        "cd ~/.config/callgate && cat callgate.yaml",
        "dd of=/people/u/.config/callgate/callgate.yaml",
        "cat '/people/u/.config/call'gate/callgate.yaml",
        "curl -d @/people/u/.config/callgate/callgate.yaml x",
    ] {
        assert!(lead(line, config).is_some(), "{line}");
    }
    let glob = lead(
        "cat ~/.conf*/callg*/callgate.yaml; ls ~/.conf*/cal?gate",
        "/people/u/.config/callgate",
    );
    assert!(glob.is_some());
    let above = |line: &str| lead(line, "/people/u").map(|one| one.takes_whole);
    assert_eq!(above("rm -rf ~"), Some(true));
    assert_eq!(above("rm x; cd ~"), Some(false));
    assert_eq!(above("ls"), None);
}

#[test]
fn protected_paths_are_found_anywhere_in_arguments_and_commands() {
    let found = |text: &str| {
        let json = Json::validate(text.as_bytes(), callgate_wire::Strictness::Full);
        let target = Target::Method {
            server: crate::ServerName::new("s").expect("it is a name"),
            method: "m".to_owned(),
            task: None,
        };
        let json = json.expect("it is JSON");
        let (ground, protected) = (ground(), protected());
        let walk = CandidateSearch::over(json, &target, &ground, &protected).expect("it is small");
        let leads = |path: &String| protected.covers(path);
        (walk.paths.iter().any(leads), walk.lines.len())
    };
    let config = "/people/u/.config/callgate/callgate.yaml";
    for text in [
        format!(r#"{{"x":"{config}"}}"#),
        format!(r#"{{"x":"-o{config}"}}"#),
        format!(r#"{{"x":"--out={config}"}}"#),
        format!(r#"{{"x":"sqlite:{config}"}}"#),
        format!(r#"{{"x":"/a,{config},/b"}}"#),
        format!(r#"{{"x":"{{\"path\":\"{config}\"}}"}}"#),
        r#"{"path":"~/.config/call*/callgate.yaml"}"#.to_owned(),
        r#"{"x":"$XDG_CONFIG_HOME/callgate/callgate.yaml"}"#.to_owned(),
        r#"{"x":"callgate.yaml"}"#.to_owned(),
        r#"{"x":"f\u0069le:///people/u/data/my notes"}"#.to_owned(),
        r#"{"x":"/proc/self/cwd/callgate.yaml"}"#.to_owned(),
    ] {
        assert_eq!(found(&text), (true, 0), "{text}");
    }
    for text in [
        r#"{"x":"plain words","n":[1,2,3]}"#,
        r#"{"pattern":"**/*","x":"https://a/people/u/data"}"#,
        r#"{"text":"see /people/u/data for more"}"#,
    ] {
        assert_eq!(found(text), (false, 0), "{text}");
    }
    assert_eq!(found(r#"{"command":"a","args":["b"]}"#).1, 2);
}
