//! A plugin of our SDK under a host that is none of ours.

use std::process::Command;

use callgate_testkit::goplugin::{
    host::RawHost,
    messages::{
        Execute, Executed, Health, HealthCheck, Info, Init, Nothing, Operation, Operations,
    },
};

use crate::example;

type Answer<T> = Result<T, (String, String)>;

#[tokio::test]
async fn a_go_plugin_host_accepts_sdk_plugins_with_and_without_tls() {
    for mutual_tls in [false, true] {
        let mut host = RawHost::start(&example(), mutual_tls)
            .await
            .expect("it shakes hands");
        let path = "/grpc.health.v1.Health/Check";
        let plugin = HealthCheck {
            service: "plugin".to_owned(),
        };
        let health: Answer<Health> = host.call(path, &plugin).await.expect("it answers");
        assert_eq!(health.expect("it is healthy").status, 1);
        let info: Answer<Info> = host
            .call("/plugin.v1.PluginService/GetInfo", &Nothing {})
            .await
            .expect("it answers");
        let info = info.expect("it tells");
        assert_eq!((&*info.name, &*info.version), ("example", "1.0.0"));
        let begun: Answer<Nothing> = host
            .call("/plugin.v1.PluginService/Init", &Init::default())
            .await
            .expect("it answers");
        begun.expect("it begins");
        let listed: Answer<Operations> = host
            .call("/plugin.v1.OperationService/ListOperations", &Nothing {})
            .await
            .expect("it answers");
        let listed = listed.expect("it lists").operations;
        let names: Vec<&str> = listed.iter().map(|one: &Operation| &*one.name).collect();
        assert_eq!(names, ["echo", "fail", "wait"]);
        assert_eq!(listed[0].inputs[1].default, "1");
        operations_run(&mut host).await;
        let over: Answer<Nothing> = host
            .call("/plugin.GRPCController/Shutdown", &Nothing {})
            .await
            .expect("it answers");
        over.expect("it ends");
        assert_eq!(host.ended().await.expect("it ends"), Some(0));
    }
}

async fn operations_run(host: &mut RawHost) {
    let path = "/plugin.v1.OperationService/Execute";
    let execute = |operation: &str, inputs: &[(&str, &str)]| Execute {
        operation: operation.to_owned(),
        inputs: inputs
            .iter()
            .map(|(name, raw)| ((*name).to_owned(), raw.as_bytes().to_vec()))
            .collect(),
    };
    let echo = execute("echo", &[("text", r#""ab""#), ("times", "2")]);
    let done: Answer<Executed> = host.call(path, &echo).await.expect("it answers");
    let done = done.expect("it is done");
    assert_eq!((done.success, &*done.output), (true, "abab"));
    assert_eq!(done.data["length"], b"4");
    for (wrong, error) in [
        (execute("fail", &[]), "it was asked to"),
        (execute("echo", &[]), "input `text` is missing"),
    ] {
        let failed: Answer<Executed> = host.call(path, &wrong).await.expect("it answers");
        let failed = failed.expect("a failure is an answer");
        assert_eq!((failed.success, &*failed.error), (false, error));
    }
    let unknown: Answer<Executed> = host
        .call(path, &execute("none", &[]))
        .await
        .expect("it answers");
    assert_eq!(unknown.expect_err("there is none").0, "5");
}

#[test]
fn a_plugin_started_by_hand_explains_itself() {
    let output = Command::new(example())
        .env_remove("AWF_PLUGIN")
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("this program is a plugin"), "{text}");
}
