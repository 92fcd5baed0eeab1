//! Arguments that hide where they lead.

use super::*;

#[test]
fn escapes_hide_where_an_argument_leads() {
    let bed = allowing();
    let mut host = host(&bed);
    let own = shown(&bed.path(OWN));
    let prose = shown(&bed.path("data/my own notes"));
    let spellings = [
        format!(r#"{{"x":"f\u0069le://{prose}"}}"#),
        format!(r#"{{"x":"\u0066\u0069\u006C\u0065\u003a//{prose}"}}"#),
        format!(r#"{{"x":"FILE\u003A//localhost{prose}"}}"#),
        format!(r#"{{"x":"{}"}}"#, prose.replace('/', r"\u002f")),
        format!(r#"{{"x":"{}"}}"#, prose.replace('/', r"\/")),
        format!(r#"{{"x":["a b","\u0009{own}"]}}"#),
        format!(r#"{{"{}":""}}"#, own.replace("callgate", r"callg\u0061te")),
        r#"{"x":"\u007e/.config/callgate/my notes"}"#.to_owned(),
    ];
    attack(
        "self_change",
        "JSON escapes hide that an argument leads to what governs",
    )
    .expect(Seen::Held)
    .tries(spellings, |arguments| {
        attempt(&bed, &mut host, "s__save", arguments)
    })
    .check();
}

#[test]
fn a_protected_path_is_hidden_inside_a_value() {
    let bed = allowing();
    let mut host = host(&bed);
    let own = shown(&bed.path(OWN));
    attack(
        "self_change",
        "the path stands inside an option, a list or JSON in a string",
    )
    .expect(Seen::Held)
    .tries(
        [
            json!({"x": json!({"path": own}).to_string()}),
            json!({"x": format!("-o{own}")}),
            json!({"x": format!("/tmp/a,{own},/tmp/b")}),
            json!({"x": format!("sqlite:{own}")}),
            json!({"x": json!([json!({"p": own}).to_string()]).to_string()}),
            json!({"path": "~/.config/call*/callgate.yam?"}),
            json!({"x": "$XDG_CONFIG_HOME/callgate/callgate.yaml"}),
        ],
        |arguments| saved(&bed, &mut host, arguments),
    )
    .check();
}
