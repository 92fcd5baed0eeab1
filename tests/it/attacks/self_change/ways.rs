//! Other doors, modes and moments at which a change of governing files would pass.

use super::*;

#[test]
fn a_permissive_policy_lets_a_configuration_change_pass() {
    attack(
        "self_change",
        "what policy asks for least lets a call to the configuration pass",
    )
    .expect_any(&[Seen::Held, Seen::Refused])
    .tries(
        [
            "policy: allow-all\npolicy_mode: fast\n",
            "policy: rules.yaml\n",
            "policy: default\nguard: {url: 'http://127.0.0.1:1', fail_mode: allow}\n",
            "policy: allow-all\npins: off\n",
        ],
        |config| {
            let bed = bed_with_own_config(config);
            write(&bed.path("home/.config/callgate/rules.yaml"), POLICY);
            let mut host = host(&bed);
            let seen = saved(&bed, &mut host, &json!({"x": 1}));
            assert_eq!(seen, Seen::Passed, "plain calls go on: {config}");
            saved(&bed, &mut host, &json!({"path": bed.path(OWN)}))
        },
    )
    .check();
}

#[cfg(feature = "code")]
#[test]
fn another_door_lets_a_configuration_change_pass() {
    attack("self_change", "a call to the configuration comes through another door")
        .expect_any(&[Seen::Held, Seen::Refused])
        .tries(["serve", "code", "call", "search", "mcp-serve"], |door| {
            let bed = allowing();
            let own = shown(&bed.path(OWN));
            let arguments = json!({"path": own});
            match *door {
                "call" => {
                    let ran = run(typed(&bed, ["call", "s:save"]).arg(arguments.to_string()));
                    let seen = !bed.read("ledger").is_empty();
                    judged(&json!({"error": ran.code}), seen)
                }
                "serve" => {
                    let mut command = typed(&bed, ["serve", "--listen", "127.0.0.1:0"]);
                    let served = StdioHost::spawn(&mut command).expect("it starts");
                    let line = served.wait_stderr(DEADLINE, |line| line.starts_with("listening "));
                    let line = line.expect("it says where");
                    let token = bed.read("data/agent.token");
                    let host = HttpHost::new(line.trim_start_matches("listening "));
                    let mut host = host.expect("it listens").header("Authorization", &format!("Bearer {}", token.trim()));
                    host.initialize(VERSION).expect("it shakes hands");
                    saved(&bed, &mut host, &arguments)
                }
                "mcp-serve" => {
                    let relay = json!({"root_dir": bed.path("")});
                    write(&bed.path("relay.json"), &relay.to_string());
                    let mut command = typed(&bed, ["mcp-serve", "--config"]);
                    command.arg(bed.path("relay.json"));
                    let mut host = StdioHost::connect(&mut command, VERSION).expect("it runs");
                    let before = bed.read(OWN);
                    let arguments = json!({"file_path": own, "content": "x"});
                    let response = call(&mut host, "Write", &arguments.to_string());
                    judged(&response, bed.read(OWN) != before)
                }
                view => {
                    let mut command = typed(&bed, ["stdio", "--view", view]);
                    let mut host = StdioHost::connect(&mut command, VERSION).expect("it runs");
                    let (tool, arguments) = match view {
                        "code" => ("run", json!({"command": format!("s.save(path='{own}')")})),
                        _ => (
                            "call_tool_destructive",
                            json!({"name": "s:save", "args_json": arguments.to_string(), "intent": {"operation_type": "destructive"}}),
                        ),
                    };
                    let response = call(&mut host, tool, &arguments.to_string());
                    let reached = !bed.read("ledger").is_empty();
                    judged(&json!({"error": response}), reached)
                }
            }
        })
        .check();
}

#[test]
fn an_approved_configuration_change_covers_no_other_call() {
    let bed = allowing();
    let mut host = host(&bed);
    let own = json!({"path": bed.path(OWN)});
    assert!(matches!(
        saved(&bed, &mut host, &own),
        Seen::Held | Seen::Passed
    ));
    let pending = run(&mut typed(&bed, ["approvals", "list", "--json"]));
    let pending = parsed(pending.stdout.lines().next().unwrap_or("[]"));
    let id = pending[0]["id"]
        .as_str()
        .or(pending["id"].as_str())
        .unwrap_or("none")
        .to_owned();
    run(&mut typed(&bed, ["approvals", "approve", &id]));
    attack(
        "self_change",
        "one approval lets other calls to governing files pass",
    )
    .expect(Seen::Held)
    .tries(
        [
            json!({"path": bed.path("data/admin.token")}),
            json!({"path": bed.path(OWN), "more": 1}),
        ],
        |arguments| saved(&bed, &mut host, arguments),
    )
    .check();
}

#[test]
fn a_policy_is_loosened_while_a_gateway_runs() {
    let strict = "version: '1'\nrules: [{scope: mcp_tool, deny: [{pattern: '*:wipe'}], require_approval: [{pattern: '*:save'}], allow: [{pattern: '*:show'}]}]\n";
    attack(
        "self_change",
        "policy is loosened by hand while a gateway runs, and no person is told",
    )
    .expect(Seen::Detected)
    .tries(
        [
            (
                "rules.yaml",
                strict.replace("deny: [{pattern: '*:wipe'}], ", ""),
            ),
            ("callgate.yaml", "allow-all".to_owned()),
            ("rules.yaml", strict.replace("'*:show'", "'*'")),
            (
                "rules.yaml",
                strict.replace("require_approval: [{pattern: '*:save'}], ", ""),
            ),
            ("rules.yaml", strict.replace("'*:wipe'", "'*:wipes'")),
            ("callgate.lock", "read".to_owned()),
            ("callgate.yaml", "fast".to_owned()),
        ],
        |(file, text)| {
            let bed = bed_with_own_config("policy: rules.yaml\n");
            let at = |name: &str| bed.path("home/.config/callgate").join(name);
            write(&at("rules.yaml"), strict);
            let mut host = host(&bed);
            attempt(&bed, &mut host, "s__show", "{}");
            let before = fs::read_to_string(at(file)).expect("it is there");
            let now = match (*file, text.as_str()) {
                ("callgate.yaml", "fast") => format!("{before}policy_mode: fast\n"),
                ("callgate.yaml", _) => before.replace("rules.yaml", "allow-all"),
                ("callgate.lock", class) => before.replace(
                    "class: write\n",
                    &format!("class: write\n      override: {class}\n"),
                ),
                (_, text) => text.to_owned(),
            };
            assert_ne!(before, now);
            write(&at(file), &now);
            host.wait_stderr(DEADLINE, |line| line.contains(".reloaded"))
                .expect("it counts");
            let doctor = run(&mut typed(&bed, ["doctor"]));
            let told = host
                .stderr()
                .iter()
                .any(|line| line.contains("policy.loosened"));
            match told && doctor.stdout.contains("loosened") {
                true => Seen::Detected,
                false => Seen::Passed,
            }
        },
    )
    .check();
}
