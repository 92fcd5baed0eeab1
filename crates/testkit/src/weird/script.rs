//! Table: the requests that draw out every weird reply, each a raw line with its own odd id.

/// Notifications from the host that no version of MCP knows; an upstream sees them as they are.
pub const NOTIFICATIONS: &[&str] = &[
    r#"{"jsonrpc":"2.0","method":"notifications/vendor.up","params":{"n":1.0,"big":123456789012345678901234567890,"\u0078":[ ]}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed","params":{"_meta":{"x":-0}}}"#,
];

/// A step: its name, its raw id, its method, and its raw params, where `@P@` is the tool prefix.
type Step = (&'static str, &'static str, &'static str, &'static str);

const STEPS: &[Step] = &[
    ("list tools", "1", "tools/list", "{}"),
    (
        "list tools with unknown members",
        "\"list\"",
        "tools/list",
        r#"{"_meta":{"vendor.example/x":1.0},"x-unknown":null}"#,
    ),
    (
        "echo numbers",
        "-7",
        "tools/call",
        r#"{"name":"@P@echo_raw","arguments":{"big":123456789012345678901234567890,"huge":1e400,"zero":-0,"one":1,"one_point":1.0,"exp":1E+2}}"#,
    ),
    (
        "echo text",
        r#""\u0041""#,
        "tools/call",
        "{\"name\":\"@P@echo_raw\",\"arguments\":{\"t\":\"\\u0041\\/\\ud83d\\ude00\u{2028}é\\u0000\",\"\\u006bey\":\"\"}}",
    ),
    (
        "echo space",
        "9007199254740993",
        "tools/call",
        "{ \"name\" :\t\"@P@echo_raw\" , \"arguments\" : { \"a\" :\t[ ] , \"b\" : { } } }",
    ),
    (
        "echo keys",
        r#""""#,
        "tools/call",
        r#"{"arguments":{"Key":1,"key":2,"":null,"__proto__":[]},"x-unknown":{"n":1.0},"name":"@P@echo_raw","_meta":{"vendor.example/k":[1.0,null]}}"#,
    ),
    (
        "echo without arguments",
        "0",
        "tools/call",
        r#"{"name":"@P@echo_raw"}"#,
    ),
    (
        "echo nesting",
        "12",
        "tools/call",
        r#"{"name":"@P@echo_raw","arguments":{"nested":[[[[null]]]],"t":true}}"#,
    ),
    (
        "odd numbers",
        "13",
        "tools/call",
        r#"{"name":"@P@odd_numbers","arguments":{}}"#,
    ),
    (
        "odd content",
        "14",
        "tools/call",
        r#"{"name":"@P@odd_content","arguments":{}}"#,
    ),
    (
        "odd text",
        "15",
        "tools/call",
        r#"{"name":"@P@odd_text","arguments":{}}"#,
    ),
    (
        "odd space",
        "16",
        "tools/call",
        r#"{"name":"@P@odd_space","arguments":{}}"#,
    ),
    (
        "odd lines",
        "\"lines\"",
        "tools/call",
        r#"{"name":"@P@odd_lines","arguments":{}}"#,
    ),
    (
        "odd keys",
        "17",
        "tools/call",
        r#"{"name":"@P@odd_keys","arguments":{}}"#,
    ),
    (
        "odd envelope",
        "18",
        "tools/call",
        r#"{"name":"@P@odd_envelope","arguments":{}}"#,
    ),
    (
        "nothing",
        "19",
        "tools/call",
        r#"{"name":"@P@nothing","arguments":{}}"#,
    ),
    (
        "deep",
        "20",
        "tools/call",
        r#"{"name":"@P@deep","arguments":{}}"#,
    ),
    (
        "big",
        "21",
        "tools/call",
        r#"{"name":"@P@big","arguments":{}}"#,
    ),
    (
        "tool error",
        "22",
        "tools/call",
        r#"{"name":"@P@tool_error","arguments":{}}"#,
    ),
    (
        "rpc error",
        "23",
        "tools/call",
        r#"{"name":"@P@rpc_error","arguments":{}}"#,
    ),
    (
        "progress with a text token",
        "24",
        "tools/call",
        r#"{"name":"@P@progress","arguments":{},"_meta":{"progressToken":"\u0041-\/ 😀"}}"#,
    ),
    (
        "progress with a number token",
        "25",
        "tools/call",
        r#"{"_meta":{"x":1.0,"progressToken":9007199254740993},"name":"@P@progress"}"#,
    ),
    (
        "progress with an empty token",
        "26",
        "tools/call",
        r#"{"name":"@P@progress","arguments":{},"_meta":{"progressToken":""}}"#,
    ),
    (
        "set the level",
        "27",
        "logging/setLevel",
        r#"{"level":"debug"}"#,
    ),
    (
        "log",
        "28",
        "tools/call",
        r#"{"name":"@P@log","arguments":{}}"#,
    ),
    (
        "custom notifications",
        "29",
        "tools/call",
        r#"{"name":"@P@custom_notifications","arguments":{}}"#,
    ),
    (
        "sampling",
        "30",
        "tools/call",
        r#"{"name":"@P@ask_sampling","arguments":{}}"#,
    ),
    (
        "elicitation",
        "31",
        "tools/call",
        r#"{"name":"@P@ask_elicitation","arguments":{}}"#,
    ),
    (
        "roots",
        "32",
        "tools/call",
        r#"{"name":"@P@ask_roots","arguments":{}}"#,
    ),
    ("list resources", "33", "resources/list", r#"{}"#),
    ("list templates", "34", "resources/templates/list", r#"{}"#),
    (
        "read",
        "35",
        "resources/read",
        r#"{"uri":"weird://text","x":1.0}"#,
    ),
    (
        "subscribe",
        "36",
        "resources/subscribe",
        r#"{"uri":"weird://text"}"#,
    ),
    (
        "unsubscribe",
        "37",
        "resources/unsubscribe",
        r#"{"uri":"weird://text"}"#,
    ),
    ("list prompts", "38", "prompts/list", r#"{}"#),
    (
        "get a prompt",
        "39",
        "prompts/get",
        r#"{"name":"@P@greet","arguments":{"who":"\u0041"},"x":[1e400]}"#,
    ),
    (
        "complete",
        "40",
        "completion/complete",
        r#"{"ref":{"type":"ref/prompt","name":"@P@greet","x":null},"argument":{"name":"who","value":"\u0061"},"context":{"arguments":{}}}"#,
    ),
    ("ping", "41", "ping", "{}"),
];

/// Requests that only a gateway with one upstream and bare names passes on.
const CUSTOM_STEPS: &[Step] = &[
    (
        "a custom method",
        "42",
        "x/custom",
        r#"{"n":1.0,"big":123456789012345678901234567890}"#,
    ),
    (
        "a vendor's method",
        r#""v\/1""#,
        "vendor/thing.do",
        r#"{"k":[ ] , "t":"\ud83d\ude00"}"#,
    ),
    ("a scalar result", "43", "x/scalar", "{}"),
    ("a null result", "44", "x/null", "{}"),
    ("a custom error", "45", "x/error", r#"{"x":null}"#),
];

/// The whole script with bare tool names: each step's name and raw line.
pub fn requests() -> Vec<(&'static str, String)> {
    let steps = STEPS.iter().chain(CUSTOM_STEPS);
    steps.map(|step| line(step, "")).collect()
}

/// The script with a prefix before the names of tools and prompts.
///
/// With a prefix, methods that no version of MCP knows are left out: nothing says whose they are.
pub fn requests_with_prefix(prefix: &str) -> Vec<(&'static str, String)> {
    if prefix.is_empty() {
        return requests();
    }
    STEPS.iter().map(|step| line(step, prefix)).collect()
}

/// What each request of 2026-07-28 says about its host, as members of its `_meta`.
pub const OF_THE_HOST: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"weird","version":"1.0"}"#;

/// The steps that both eras have, with a handshake.
pub fn common_requests() -> Vec<(&'static str, String)> {
    common_steps().map(|step| line(step, "")).collect()
}

/// The same in the form of 2026-07-28.
pub fn stateless_requests() -> Vec<(&'static str, String)> {
    let steps = common_steps();
    let in_its_form = |(name, id, method, params): &Step| {
        let params = with_host(params, OF_THE_HOST);
        line(&(name, id, method, &params), "")
    };
    steps.map(in_its_form).collect()
}

/// Raw params of a request of 2026-07-28, with what it says about its host.
pub fn with_host(params: &str, of_the_host: &str) -> String {
    let own = r#""_meta":{"#;
    if params.contains(own) {
        params.replacen(own, &format!("{own}{of_the_host},"), 1)
    } else if params == "{}" {
        format!("{{{own}{of_the_host}}}}}")
    } else {
        params.replacen('{', &format!("{{{own}{of_the_host}}},"), 1)
    }
}

/// Servers of 2026-07-28 ask nothing in the middle of a call and say nothing that was not asked for.
fn common_steps() -> impl Iterator<Item = &'static Step> {
    const GONE: [&str; 4] = [
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "ping",
    ];
    const SPEAKING: [&str; 5] = [
        "@P@log\"",
        "@P@custom_notifications",
        "@P@ask_sampling",
        "@P@ask_elicitation",
        "@P@ask_roots",
    ];
    STEPS.iter().filter(|(_, _, method, params)| {
        !GONE.contains(method) && !SPEAKING.iter().any(|name| params.contains(name))
    })
}

fn line(step: &(&'static str, &str, &str, &str), prefix: &str) -> (&'static str, String) {
    let (name, id, method, params) = *step;
    let params = params.replace("@P@", prefix);
    (
        name,
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#),
    )
}
