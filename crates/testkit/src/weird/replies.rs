//! Table: literal replies. Each is legal JSON and legal MCP, and each has something a careless proxy loses.

/// Stands for the raw id of the request in a whole-line reply.
pub const ID: &str = "@ID@";

/// `initialize`, without the version that is put before it.
pub const INITIALIZE_REST: &str = r#""capabilities":{"tools":{"listChanged":true,"x-vendor":{"a":[]}},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true,"":null},"logging":{},"completions":{},"experimental":{"vendor/thing":{"level":123456789012345678901234567890}},"x-unknown":[1.0,1,-0,1e400]},"serverInfo":{"name":"weird","version":"1.0","title":"W\u0065ird \/ server","x-build":{"n":1E+2}},"instructions":"odd \u2028 but legal","_meta":{"vendor.example/k":null},"x-top":{"Key":1,"key":2}"#;

/// The whole result of `server/discover`.
pub const DISCOVER: &str = r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"resources":{},"prompts":{},"completions":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"weird","version":"1.0"}}}"#;

/// The descriptors of `tools/list`, one per tool, in order.
pub const TOOLS: &[(&str, &str)] = &[
    (
        "echo_raw",
        r#"{"name":"echo_raw","description":"returns the raw params","inputSchema":{"type":"object","additionalProperties":true,"x-vendor":{"max":123456789012345678901234567890,"one":1.0,"inf":1e400,"neg":-0}},"annotations":{"readOnlyHint":true,"x-risk":[null,{}],"title":"E\u0063ho"},"x-unknown":{"nested":[[],{},""]},"_meta":{"vendor.example/a":1.10}}"#,
    ),
    (
        "odd_numbers",
        r#"{ "name" : "odd_numbers" ,	"inputSchema" : { "type" : "object" } , "description":"numbers" , "annotations" : { "readOnlyHint" : true } }"#,
    ),
    (
        "odd_content",
        r#"{"inputSchema":{"type":"object"},"name":"odd\u005fcontent","description":"content \"types\" \/ unknown","annotations":{"readOnlyHint":true},"icons":[{"src":"data:,","sizes":[],"x":null}]}"#,
    ),
    (
        "odd_text",
        r#"{"name":"odd_text","inputSchema":{"type":"object"},"description":"\ud83d\ude00 😀 \u2028","annotations":{"readOnlyHint":true}}"#,
    ),
    (
        "odd_space",
        r#"{"name":"odd_space","inputSchema":{"type":"object"},"description":"","annotations":{"readOnlyHint":true}}"#,
    ),
    (
        "odd_lines",
        r#"{"name":"odd_lines","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#,
    ),
    (
        "odd_keys",
        r#"{"name":"odd_keys","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"X-Case":1,"x-case":2,"x-Case":3,"":{"":""}}"#,
    ),
    (
        "odd_envelope",
        r#"{"name":"odd_envelope","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#,
    ),
    (
        "nothing",
        r#"{"name":"nothing","inputSchema":{"type":"object","properties":{},"required":[]},"outputSchema":{"type":"object","x":null},"annotations":{"readOnlyHint":true}}"#,
    ),
    (
        "deep",
        r#"{"name":"deep","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#,
    ),
    (
        "big",
        r#"{"name":"big","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#,
    ),
    (
        "progress",
        r#"{"name":"progress","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#,
    ),
    (
        "log",
        r#"{"name":"log","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#,
    ),
    (
        "custom_notifications",
        r#"{"name":"custom_notifications","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#,
    ),
    (
        "ask_sampling",
        r#"{"name":"ask_sampling","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#,
    ),
    (
        "ask_elicitation",
        r#"{"name":"ask_elicitation","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#,
    ),
    (
        "ask_roots",
        r#"{"name":"ask_roots","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#,
    ),
    (
        "tool_error",
        r#"{"name":"tool_error","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#,
    ),
    (
        "rpc_error",
        r#"{"name":"rpc_error","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#,
    ),
];

/// The result-level members of `tools/list` beside the tools.
pub const TOOLS_REST: &str = r#""_meta":{"vendor.example/list":[1.0]},"x-list":{"k":-0}"#;

/// Whole-line replies of tools, by tool.
pub const CALLS: &[(&str, &str)] = &[
    (
        "odd_numbers",
        r#"{"jsonrpc":"2.0","id":@ID@,"result":{"content":[{"type":"text","text":"numbers","n":123456789012345678901234567890}],"structuredContent":{"big":123456789012345678901234567890,"huge":1e400,"tiny":1E-400,"negative_zero":-0,"one":1,"one_point":1.0,"trailing":0.10,"upper":1E+5,"max":18446744073709551616,"min":-9223372036854775809}}}"#,
    ),
    (
        "odd_content",
        r#"{"jsonrpc":"2.0","id":@ID@,"result":{"content":[{"type":"hologram","voxels":[],"x":null},{"type":"text","text":"","annotations":{"audience":[],"priority":0.0,"x":{}},"_meta":{}},{"type":"resource","resource":{"uri":"weird://a","text":"t","x-extra":[null]}},{"type":"resource_link","uri":"weird://b","name":"b","size":1e3,"x":1},{"x-first":true,"type":"audio","data":"","mimeType":"audio\/wav"}],"isError":false,"x-result":{"":[]},"_meta":{"vendor.example/m":{"deep":[1.0,{"k":null}]}}}}"#,
    ),
    (
        "odd_text",
        "{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"\\u0041\\/\\u2028\\ud83d\\ude00\\b\\f\\u0000\\u001f\u{2028}\u{2029}\u{feff}\u{7f}é\u{301}\"},{\"\\u0074ype\":\"te\\u0078t\",\"text\":\"escaped keys\"}]}}",
    ),
    (
        "odd_space",
        "  {\t\"jsonrpc\" : \"2.0\" ,\"id\"\t:  @ID@ ,  \"result\" : {\t\"content\" : [ { \"type\" : \"text\" ,\t\"text\" : \"spaced\" } ] , \"empty\" : [ ] , \"none\" : { } } }\t ",
    ),
    (
        "odd_lines",
        "{\n  \"jsonrpc\": \"2.0\",\n\n  \"id\": @ID@,\n  \"result\": {\n\t\"content\": [ ],\n    \"n\": 1.0\n  }\n}",
    ),
    (
        "odd_keys",
        r#"{"jsonrpc":"2.0","id":@ID@,"result":{"content":[],"structuredContent":{"Key":1,"key":2,"KEY":3,"kE\u0079":4,"deep":[{"twin":1,"twin":2,"twi\u006e":3}],"__proto__":{"x":1},"":0}}}"#,
    ),
    (
        "odd_envelope",
        r#"{"x-trace":{"a":1.0},"result":{"content":[]},"id":@ID@,"jsonrpc":"2.0","x-after":null}"#,
    ),
    (
        "nothing",
        r#"{"jsonrpc":"2.0","id":@ID@,"result":{"content":[],"structuredContent":null,"_meta":{},"x":null,"y":{},"z":[],"w":""}}"#,
    ),
    (
        "tool_error",
        r#"{"jsonrpc":"2.0","id":@ID@,"result":{"isError":true,"content":[{"type":"text","text":"failed","x-code":1.50}],"x-cause":{"errno":-0}}}"#,
    ),
    (
        "rpc_error",
        r#"{"jsonrpc":"2.0","id":@ID@,"error":{"code":-31999,"message":"cust\u006fm","data":{"big":123456789012345678901234567890,"list":[1.0,1e400],"none":null},"x-extra":[]}}"#,
    ),
];

/// Whole-line replies of other methods.
pub const METHODS: &[(&str, &str)] = &[
    (
        "x/custom",
        r#"{"jsonrpc":"2.0","id":@ID@,"result":{"any":[1.0,null,{"":-0}],"text":"\u0041"}}"#,
    ),
    (
        "vendor/thing.do",
        r#"{"jsonrpc":"2.0","id":@ID@,"result":{"did":123456789012345678901234567890 , "x":{}}}"#,
    ),
    (
        "x/scalar",
        r#"{"jsonrpc":"2.0","id":@ID@,"result":"just text"}"#,
    ),
    ("x/null", r#"{"jsonrpc":"2.0","id":@ID@,"result":null}"#),
    (
        "x/error",
        r#"{"jsonrpc":"2.0","id":@ID@,"error":{"code":4242,"message":"","data":[1e400,{"k":"\ud83d\ude00"}]}}"#,
    ),
    (
        "resources/list",
        r#"{"jsonrpc":"2.0","id":@ID@,"result":{"resources":[{"uri":"weird://text","name":"t\u0065xt","size":1e2,"x-extra":{"n":1.0}},{"name":"blob","uri":"weird://blob","annotations":{"priority":1.0,"x":[]},"mimeType":null}]}}"#,
    ),
    (
        "resources/templates/list",
        r#"{"jsonrpc":"2.0","id":@ID@,"result":{"resourceTemplates":[{"uriTemplate":"weird://{a}\/{b}","name":"t","x":-0}]}}"#,
    ),
    (
        "resources/read",
        r#"{"jsonrpc":"2.0","id":@ID@,"result":{"contents":[{"uri":"weird://text","text":"\u0041\/","x-etag":123456789012345678901234567890},{"uri":"weird://text#2","blob":""}],"x":[ ]}}"#,
    ),
    (
        "resources/subscribe",
        r#"{"jsonrpc":"2.0","id":@ID@,"result":{}}"#,
    ),
    (
        "resources/unsubscribe",
        r#"{"jsonrpc":"2.0","id":@ID@,"result":{}}"#,
    ),
    (
        "prompts/list",
        r#"{"jsonrpc":"2.0","id":@ID@,"result":{"prompts":[{"name":"greet","arguments":[{"name":"who","x-kind":1.0}],"x":{"k":null}}]}}"#,
    ),
    (
        "prompts/get",
        r#"{"jsonrpc":"2.0","id":@ID@,"result":{"messages":[{"role":"user","content":{"type":"text","text":"hi \ud83d\ude00","x":[1e400]},"x-weight":1.0}],"x-more":{}}}"#,
    ),
    (
        "completion/complete",
        r#"{"jsonrpc":"2.0","id":@ID@,"result":{"completion":{"values":["\u0061"],"total":1.0,"hasMore":false,"x":null}}}"#,
    ),
    (
        "logging/setLevel",
        r#"{"jsonrpc":"2.0","id":@ID@,"result":{}}"#,
    ),
    ("ping", r#"{"jsonrpc":"2.0","id":@ID@,"result":{}}"#),
];

/// Progress of the `progress` tool; the raw token takes the place of `@TOKEN@`.
pub const PROGRESS: &[&str] = &[
    r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":@TOKEN@,"progress":0.10,"total":1e400,"message":"\u0041","x-eta":{"s":1.0}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications\/progress","params":{"x-first":null,"progress":123456789012345678901234567890,"progressToken":@TOKEN@,"_meta":{"k":-0}}}"#,
    r#"{"params":{"progress":1E+2 , "progressToken" : @TOKEN@ },"method":"notifications/progress","jsonrpc":"2.0"}"#,
];

/// Log messages of the `log` tool.
pub const LOGS: &[&str] = &[
    r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":{"n":123456789012345678901234567890,"k":[null,1.0]},"logger":"l\u006fg","x":{}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"emergency","data":null}}"#,
];

/// Notifications of the `custom_notifications` tool that no version of MCP knows.
pub const CUSTOM: &[&str] = &[
    r#"{"jsonrpc":"2.0","method":"notifications/vendor.hello","params":{"n":1.0,"big":123456789012345678901234567890}}"#,
    r#"{"jsonrpc":"2.0","method":"vendor\/event","params":{"":[ ] , "text":"\ud83d\ude00"}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/vendor.bare"}"#,
];

/// The questions of the asking tools: the tool, the raw id and the whole line.
pub const QUESTIONS: &[(&str, &str, &str)] = &[
    (
        "ask_sampling",
        r#""q-\u0041/1""#,
        r#"{"jsonrpc":"2.0","id":"q-\u0041/1","method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"\u0041","x":1.0},"x-w":-0}],"maxTokens":100,"temperature":1.0,"x-unknown":{"big":123456789012345678901234567890},"metadata":{}}}"#,
    ),
    (
        "ask_elicitation",
        "9007199254740993",
        r#"{"jsonrpc":"2.0","id":9007199254740993,"method":"elicitation/create","params":{"message":"\ud83d\ude00?","requestedSchema":{"type":"object","properties":{"n":{"type":"number","minimum":1e400,"x":null}},"x-order":[]},"x-mode":"odd"}}"#,
    ),
    (
        "ask_roots",
        "-1",
        r#"{"jsonrpc":"2.0","id":-1,"method":"roots/list","params":{"_meta":{"vendor.example/k":1.0}}}"#,
    ),
];

/// Under which key the same questions are asked in answers.
pub const QUESTION_KEY: &str = "odd key/\u{e9}";

/// The raw state that goes with them.
pub const REQUEST_STATE: &str = r#""st\u0061te \/ \ud83d\ude00 =""#;

/// The host's answer to sampling.
pub const SAMPLING_ANSWER: &str = r#"{"role":"assistant","content":{"type":"text","text":"\u0041\/","x":[1.0]},"model":"m","stopReason":"odd","x-usage":{"n":123456789012345678901234567890}}"#;

/// The host's answer to an elicitation.
pub const ELICITATION_ANSWER: &str =
    r#"{"action":"accept","content":{"n":1e400,"m":-0 ,	"x":1.0},"x-by":{"who":"\ud83d\ude00"}}"#;

/// The host's answer to a question for roots.
pub const ROOTS_ANSWER: &str =
    r#"{"roots":[{"uri":"file:\/\/\/tmp","name":null,"x-ro":true}],"_meta":{"n":1.0}}"#;

/// A result with a hundred levels of nesting.
pub fn deep() -> String {
    let open = r#"{"a":["#.repeat(50);
    let close = "]}".repeat(50);
    format!(
        r#"{{"jsonrpc":"2.0","id":@ID@,"result":{{"content":[],"structuredContent":{open}1.0{close}}}}}"#
    )
}

/// A result with one mebibyte of text in which every kind of escape occurs.
pub fn big() -> String {
    let unit = r"abcdefg\u0041\/é\ud83d\ude00";
    let text = unit.repeat((1 << 20) / unit.len() + 1);
    format!(
        r#"{{"jsonrpc":"2.0","id":@ID@,"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#
    )
}
