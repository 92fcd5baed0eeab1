//! Plugins and lists of plugins that arrive or change after trust.

use super::*;

#[test]
fn a_listed_plugin_changes_after_trust() {
    attack("trust", "a plugin that was found is started without trust")
        .expect(Seen::Refused)
        .tries(["never trusted", "program", "list"], |what| {
            let bed = Bed::new("");
            let program = bed.path("tools/awf-plugin-p");
            let script = format!("#!/bin/sh\ntouch {}\n", bed.path("started").display());
            write(&program, &script);
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs::set_permissions(&program, mode).expect("it is ours");
            let list = bed.path(".awf/plugins.yaml");
            write(&list, "plugins: {p: {path: ../tools/awf-plugin-p}}\n");
            if *what != "never trusted" {
                let ran = run(typed(&bed, ["trust"]).arg(&list));
                assert_eq!(ran.code, Some(0), "{}", ran.stderr);
            }
            match *what {
                "program" => write(&program, &format!("{script}# more\n")),
                "list" => write(&list, "plugins: {p: {path: ../tools/awf-plugin-p, config: {a: 1}}}\n"),
                _ => {}
            }
            let relay = json!({"plugin_tools": [{"plugin": "p", "expose": ["x"]}], "root_dir": bed.path("")});
            write(&bed.path("relay.json"), &relay.to_string());
            let ran = run(typed(&bed, ["mcp-serve", "--config"]).arg(bed.path("relay.json")));
            assert_eq!(ran.code, Some(1), "{}", ran.stderr);
            match bed.path("started").exists() {
                true => Seen::Passed,
                false => Seen::Refused,
            }
        })
        .check();
}

#[test]
fn a_plugin_list_that_arrives_after_trust_is_used() {
    attack(
        "trust",
        "a plugin, a list of plugins or a workflow arrives in a trusted project",
    )
    .expect(Seen::Refused)
    .tries(
        [
            (".callgate/plugins.yaml", "plugins: {}\n"),
            (".awf/plugins/p/plugin.yaml", "name: p\n"),
            (".callgate/workflows/w.yaml", "name: w\n"),
            (".awf/workflows/w.yaml", "name: w\n"),
        ],
        |(file, text)| {
            let bed = project("", &[plain_tool("save")]);
            trust(&bed);
            write(&bed.path(file), text);
            if file.contains("/plugins/") {
                let program = bed.path(".awf/plugins/p/awf-plugin-p");
                write(&program, "#!/bin/sh\n");
                let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
                fs::set_permissions(&program, mode).expect("it is ours");
            }
            called(&bed, "save")
        },
    )
    .check();
}
