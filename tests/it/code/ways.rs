//! How a host selects the view: by flag, token or configuration.

use super::{bed, ran};
use crate::approvals::{host_with, token};
use crate::setup::VERSION;
use crate::talk;

#[test]
fn the_code_view_is_selected_by_flag_token_or_configuration() {
    let bed = bed("policy: allow-all\n");
    let names = "[s.name for s in wix.list_sites().sites]";
    let mut command = bed.command(["stdio", "--view", "code"]);
    let mut host = callgate_testkit::StdioHost::spawn(&mut command).expect("the gateway starts");
    host.initialize(VERSION).expect("it shakes hands");
    assert_eq!(talk::names(&talk::list(&mut host, "")), ["run"]);
    assert_eq!(ran(&mut host, names), r#"["Alpha","Beta"]"#);
    drop(host);
    let served = bed.serve();
    let secret = token(
        &bed,
        &["--name", "coder", "--role", "agent", "--view", "code"],
    );
    let mut host = host_with(&served, &secret);
    assert_eq!(talk::tools(&mut host), ["run"]);
    assert_eq!(ran(&mut host, names), r#"["Alpha","Beta"]"#);
    assert!(talk::tools(&mut served.host_ready()).len() > 1);
    let bed = super::bed("policy: allow-all\nview: code\n");
    let served = bed.serve();
    assert_eq!(talk::tools(&mut served.host_ready()), ["run"]);
}
