//! What is started, what it says, and what becomes of plugins that do it wrong.

use std::time::{Duration, Instant};

use callgate_plugin::{Plugin, PluginError, PluginTools};
use callgate_testkit::{
    DataDir,
    goplugin::plugin::{RawPlugin, Wrong},
    processes_with, wait_until,
};
use serde_json::json;

use crate::{example, spec};

/// A wrong plugin is a clear error within five seconds; a slow machine may need some more.
const WRONG_WITHIN: Duration = Duration::from_secs(20);

fn installed(place: &DataDir, raw: &RawPlugin) -> callgate_plugin::PluginSpec {
    let mut spec = spec(raw.install(place.path(), "raw"));
    let marker = place.path().display().to_string();
    spec.env.push(("PLUGIN_TEST".to_owned(), marker));
    spec
}

fn assert_nothing_left(place: &DataDir) {
    let marker = place.path().display().to_string();
    let gone = || processes_with(&marker).is_empty();
    assert!(
        wait_until(Duration::from_secs(8), gone),
        "{:?}",
        processes_with(&marker)
    );
}

#[tokio::test]
async fn operations_are_mapped_over_every_transport() {
    for (plain, tcp) in [(true, false), (false, false), (false, true)] {
        let place = DataDir::new();
        let raw = RawPlugin {
            plain,
            tcp,
            ..RawPlugin::with_all(place.path().join("log"))
        };
        let mut spec = installed(&place, &raw);
        spec.config.insert("a".to_owned(), json!({"b": [1]}));
        let plugin = Plugin::start(spec).await.expect("it starts");
        let names: Vec<&str> = plugin.operations().collect();
        assert_eq!(names, ["echo", "fail", "crash", "huge", "wait"]);
        let echo = plugin.descriptor("echo").expect("it is there");
        assert_eq!(
            echo.expect("it can be mapped"),
            json!({
                "name": "echo",
                "description": "Does echo. Outputs: text (string): what was given.",
                "inputSchema": {
                    "type": "object",
                    "properties": {
                        "text": {"type": "string"},
                        "times": {"type": "integer", "default": 3},
                    },
                    "required": ["text"],
                },
                "_meta": {"anthropic/maxResultSizeChars": 500_000},
            })
        );
        assert!(plugin.descriptor("nothing").is_none());
        plugin.stop().await;
        assert_eq!(place.read("log"), "init {\"a\":{\"b\":[1]}}\nshutdown\n");
        assert_nothing_left(&place);
    }
}

#[tokio::test]
async fn each_plugin_fault_has_a_clear_error() {
    for (wrong, expected) in [
        (
            Wrong::Cookie,
            "the plugin exited before its handshake (exit code 1); stderr: This binary is a plugin",
        ),
        (
            Wrong::Ends,
            "the plugin exited before its handshake (exit code 7)",
        ),
        (
            Wrong::CoreVersion,
            "handshake version 2 is not supported; expected 1",
        ),
        (
            Wrong::AppVersion,
            "plugin protocol version 9 is not supported; expected 1",
        ),
        (
            Wrong::Line,
            "invalid go-plugin handshake line: `listening on everything`",
        ),
        (Wrong::Silent, "the plugin was not ready within 5 s"),
        (
            Wrong::NotServing,
            "the plugin's health check does not report SERVING",
        ),
        (Wrong::Certificate, "cannot connect to the plugin:"),
        (Wrong::Init, "`Init` failed: no such setting"),
    ] {
        let place = DataDir::new();
        let raw = RawPlugin {
            wrong,
            ..RawPlugin::default()
        };
        let began = Instant::now();
        let error = Plugin::start(installed(&place, &raw)).await;
        let error = error.expect_err("it is wrong");
        assert!(
            error.to_string().starts_with(expected),
            "{wrong:?}: {error}"
        );
        assert!(began.elapsed() < WRONG_WITHIN, "{wrong:?}");
        assert_nothing_left(&place);
    }
}

#[tokio::test]
async fn a_missing_plugin_program_is_named() {
    let error = Plugin::start(spec("/nowhere/plugin".into())).await;
    let error = error.expect_err("there is nothing");
    assert!(
        matches!(&error, PluginError::EndedEarly { stderr, .. } if stderr.contains("/nowhere/plugin")),
        "{error}"
    );
}

#[tokio::test]
async fn unmappable_operations_are_left_out_unless_requested() {
    let place = DataDir::new();
    let raw = RawPlugin {
        operations: vec![
            ("good".to_owned(), vec!["a:string".to_owned()]),
            ("bad".to_owned(), vec!["b:float".to_owned()]),
            ("worse".to_owned(), vec!["c:string::regex".to_owned()]),
        ],
        ..RawPlugin::default()
    };
    let plugin = Plugin::start(installed(&place, &raw))
        .await
        .expect("it starts");
    let (_, left_out) = PluginTools::all(plugin.clone()).expect("its name is good");
    let left_out: Vec<String> = left_out.iter().map(ToString::to_string).collect();
    assert_eq!(
        left_out,
        [
            "plugin `raw`, operation `bad`, input `b`: type `float` cannot be mapped",
            "plugin `raw`, operation `worse`, input `c`: validation `regex` cannot be mapped",
        ]
    );
    for (operation, expected) in [
        (
            "bad",
            "plugin `raw`, operation `bad`, input `b`: type `float` cannot be mapped",
        ),
        ("none", "plugin `raw` has no operation `none`"),
    ] {
        let error = PluginTools::new(plugin.clone(), [operation]);
        assert_eq!(error.expect_err("it is wrong").to_string(), expected);
    }
    plugin.stop().await;
}

#[tokio::test]
async fn plugins_built_with_the_sdk_start_and_list_operations() {
    let plugin = Plugin::start(spec(example())).await.expect("it starts");
    let names: Vec<&str> = plugin.operations().collect();
    assert_eq!(names, ["echo", "fail", "wait"]);
    PluginTools::new(plugin.clone(), names).expect("they can be mapped");
    plugin.stop().await;
}
