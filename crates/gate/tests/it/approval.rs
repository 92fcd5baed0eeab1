//! What a person's yes holds for: exactly the call that was held.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use callgate_gate::{
    ApprovalId, Builtin, Call, CompileContext, Consent, Facts, Grant, Hold, Host, Layer, Operation,
    Policy, Rules, Target, Tool, Verdict, decide,
};
use callgate_wire::{Frame, Strictness};

use crate::given::{call, described, named};

const DELETE: &str = r#"{"name":"delete","description":"deletes"}"#;

fn asked_of(tool: Tool, params: &str) -> Call {
    let mut call = call(Target::Tool(Arc::new(tool)));
    let text = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}"#);
    call.attempt.frame = Frame::parse(Bytes::from(text), Strictness::Full).expect("a frame");
    call
}

fn held_by(policy: &Policy, call: Call) -> Hold {
    match decide(call, policy, &Facts::default()) {
        Verdict::Hold(hold) => hold,
        other => panic!("it is not held: {other:?}"),
    }
}

fn held(call: Call) -> Hold {
    held_by(&Policy::default(), call)
}

fn rules(text: &str) -> Policy {
    let ground = callgate_gate::PathBase {
        home: None,
        folder: "/".to_owned(),
    };
    let around = CompileContext {
        ground: &ground,
        real: &|folder: &str| Some(folder.to_owned()),
    };
    let rules = Rules::read(text, around).expect("the rules are right");
    Policy::of(vec![Layer::Rules(Arc::new(rules))], Default::default())
}

fn approved(hold: &Hold) -> Consent {
    Consent::approved(ApprovalId::from_random([7; 16]), hold.binding())
}

fn plain() -> Call {
    asked_of(
        described("fs", DELETE),
        r#"{"name":"fs__delete","arguments":{"a":1}}"#,
    )
}

fn as_host(change: impl FnOnce(&mut Host)) -> Call {
    let mut call = plain();
    let mut host = (*call.attempt.host).clone();
    change(&mut host);
    call.attempt.host = Arc::new(host);
    call
}

#[test]
fn any_change_of_a_call_changes_its_binding() {
    let of = |tool: Tool, params: &str| held(asked_of(tool, params)).binding();
    let same = held(plain()).binding();
    let params = r#"{"name":"fs__delete","arguments":{"a":1}}"#;
    let others = [
        of(
            described("fs", DELETE),
            r#"{"name":"fs__delete","arguments":{"a":2}}"#,
        ),
        of(
            described("fs", DELETE),
            r#"{"name":"fs__delete","arguments":{"a": 1}}"#,
        ),
        of(described("fs", DELETE), r#"{"name":"fs__delete"}"#),
        of(
            described("fs", DELETE),
            r#"{"name":"fs__delete","arguments":{"a":1},"task":{}}"#,
        ),
        of(named("fs", "delete"), params),
        of(described("other", DELETE), params),
        of(
            described("fs", r#"{"name":"delete_all","description":"deletes"}"#),
            params,
        ),
        held(as_host(|host| {
            host.identity.principal = "somebody".to_owned()
        }))
        .binding(),
        held(as_host(|host| host.identity.agent = "another".to_owned())).binding(),
        held_by(
            &Policy::default().tenants(HashMap::from([("elsewhere".to_owned(), Arc::default())])),
            as_host(|host| host.identity.tenant = "elsewhere".to_owned()),
        )
        .binding(),
    ];
    for (at, other) in others.iter().enumerate() {
        assert_ne!(*other, same, "change {at}");
    }
}

#[test]
fn metadata_and_session_do_not_change_a_binding() {
    let same = held(plain()).binding();
    for params in [
        r#"{"name":"fs:delete","arguments":{"a":1}}"#,
        r#"{"name":"fs__delete","arguments":{"a":1},"_meta":{"dev.callgate/approval_id":"x","progressToken":3}}"#,
        r#"{"_meta":{},"name":"fs__delete","arguments":{"a":1},"requestState":"s","inputResponses":{}}"#,
    ] {
        let hold = held(asked_of(described("fs", DELETE), params));
        assert_eq!(hold.binding(), same, "{params}");
    }
    let later = held(as_host(|host| host.identity.session = "s2".to_owned()));
    assert_eq!(
        later.binding(),
        same,
        "an ended session does not prevent it"
    );
}

#[test]
fn a_binding_depends_on_the_asking_rule_and_on_no_other() {
    let asking = "version: \"1\"\nrules: [{scope: mcp_tool, require_approval: [{pattern: \"fs:delete\"}], allow: [{pattern: \"*:*\"}]}]\n";
    let unrelated = asking.replace(
        "allow: [{pattern: \"*:*\"}]",
        "allow: [{pattern: \"fs:*\"}]",
    );
    let other = asking.replace("fs:delete", "fs:del*");
    let of = |text: &str| held_by(&rules(text), plain()).binding();
    assert_eq!(of(asking), of(&unrelated));
    assert_ne!(of(asking), of(&other));
}

#[test]
fn an_approval_releases_only_its_own_call() {
    let hold = held(plain());
    let consent = approved(&hold);
    let Verdict::Permit(permit) = hold.release(consent) else {
        panic!("it is released");
    };
    let id = ApprovalId::from_random([7; 16]);
    assert_eq!(permit.approval(), Some(&id));

    let consent = approved(&held(plain()));
    let other = held(as_host(|host| host.identity.agent = "another".to_owned()));
    let Verdict::Hold(_) = other.release(consent) else {
        panic!("it is for another call");
    };
}

#[test]
fn a_confirmation_does_not_count_as_approval() {
    let hold = held(plain());
    let confirmed = Consent::confirmed(hold.binding());
    let Verdict::Hold(_) = hold.release(confirmed) else {
        panic!("it needs approval");
    };
    let policy =
        rules("version: \"1\"\nrules: [{scope: mcp_tool, confirm: [{pattern: \"*:*\"}]}]\n");
    let hold = held_by(&policy, plain());
    assert!(hold.asks_for_confirmation());
    let confirmed = Consent::confirmed(hold.binding());
    let Verdict::Permit(permit) = hold.release(confirmed) else {
        panic!("a confirmation is enough");
    };
    assert_eq!(permit.approval(), None);
}

#[test]
fn a_token_ceiling_denies_before_approval_is_asked() {
    let limited = as_host(|host| host.identity.grant = Grant::new(None, Operation::Write));
    let policy = Policy::new(Builtin::AllowAll, Default::default());
    match decide(limited, &policy, &Facts::default()) {
        Verdict::Deny(denied) => assert_eq!(denied.ruling().rule, "deny:token:ceiling"),
        other => panic!("it is refused: {other:?}"),
    }
}
