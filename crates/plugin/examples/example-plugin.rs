//! A small plugin: says things again, counts, and fails when asked to.

use std::{process::ExitCode, time::Duration};

use callgate_plugin::sdk::{Answer, Input, Operation, Server};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let echo = Operation::new("echo", "Says it again.")
        .input(Input::string("text").required().description("What to say."))
        .input(Input::integer("times").default("1"))
        .output("length", "integer", "how long it is");
    let fail = Operation::new("fail", "Fails.");
    let wait = Operation::new("wait", "Never answers.");
    let served = Server::new("example", "1.0.0")
        .description("An example.")
        .operation(echo, |inputs| async move {
            let times = inputs.get("times").and_then(|times| times.as_u64());
            let times = usize::try_from(times.unwrap_or(1)).unwrap_or(1).min(1000);
            let text = inputs.text("text").unwrap_or_default().repeat(times);
            let length = text.len();
            Answer::text(text).with("length", length)
        })
        .operation(fail, |_| async { Answer::failure("it was asked to") })
        .operation(wait, |_| async {
            tokio::time::sleep(Duration::MAX).await;
            Answer::default()
        })
        .serve()
        .await;
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
