//! The approval page in a browser: one-time login links, its own forms only, no foreign content.

use callgate_testkit::{HttpHost, HttpReply};

use super::{ASKING, approval_of, assert_wiped, decisions, token, told, wipe};
use crate::evidence::{ledger, run, stdout};
use crate::setup::{Bed, Served};
use crate::talk::call;

/// A minimal browser: an address and a cookie.
struct Browser {
    base: String,
    cookie: String,
}

impl Browser {
    fn new(served: &Served) -> Self {
        Self {
            base: served.url.replace("/mcp", ""),
            cookie: String::new(),
        }
    }

    fn send(&self, method: &str, place: &str, headers: &[(&str, &str)], body: &str) -> HttpReply {
        let host = HttpHost::new(&format!("{}{place}", self.base)).expect("an http URL");
        let own = [
            ("Cookie", self.cookie.as_str()),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        let all = [&own[..], headers].concat();
        host.send(method, &all, body.as_bytes())
            .expect("it answers")
    }

    fn get(&self, place: &str) -> (u16, String) {
        let reply = self.send("GET", place, &[], "");
        (reply.status, reply.text().expect("a page"))
    }

    fn post(&self, place: &str, body: &str) -> u16 {
        let origin = [("Origin", self.base.as_str())];
        self.send("POST", place, &origin, body).status
    }

    fn log_in(&mut self, form: &str) -> u16 {
        let origin = [("Origin", self.base.as_str())];
        let reply = self.send("POST", "/login", &origin, form);
        if let Some(cookie) = reply.header("set-cookie") {
            assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
            let pair = cookie.split(';').next().expect("a cookie has a value");
            self.cookie = pair.to_owned();
        }
        reply.status
    }
}

/// A page as an admin sees it.
pub(crate) fn shown(served: &Served, place: &str) -> String {
    let mut browser = Browser::new(served);
    browser.log_in(&format!("token={}", served.admin_token));
    browser.get(place).1
}

fn csrf(page: &str) -> &str {
    let start = page
        .find(r#"name="csrf" value=""#)
        .expect("a form of our own");
    &page[start + 19..start + 19 + 64]
}

fn code(bed: &Bed) -> String {
    let link = stdout(&run(bed, &["approvals", "link"]));
    let (_, code) = link.trim().rsplit_once("/login/").expect("a link");
    code.to_owned()
}

#[test]
fn a_login_link_works_once_and_the_page_decides_approvals() {
    let bed = Bed::new(ASKING);
    let served = bed.serve();
    let mut host = served.host_ready();
    let arguments = r#"{"key":"a","note":"<script>alert(1)</script>\u202e"}"#;
    let id = approval_of(&call(&mut host, "n__wipe", arguments));
    let place = format!("/approvals/{id}");
    let mut browser = Browser::new(&served);
    assert_eq!(browser.get(&place).0, 401);
    assert_eq!(browser.get("/approvals").0, 401);
    let code = code(&bed);
    assert_eq!(
        browser.get(&format!("/login/{code}")).0,
        200,
        "looking uses nothing up"
    );
    assert_eq!(browser.log_in(&format!("code={code}")), 303);
    let (status, list) = browser.get("/approvals");
    assert_eq!(status, 200);
    assert!(list.contains(&place) && list.contains("n:wipe"), "{list}");
    let (_, page) = browser.get(&place);
    assert!(page.contains("&lt;script&gt;alert(1)"), "{page}");
    assert!(page.contains("<mark>⟨U+202E⟩</mark>"), "{page}");
    assert!(
        !page.contains("<script>") && !page.contains('\u{202e}'),
        "{page}"
    );
    let form = format!("csrf={}&answer=approve", csrf(&page));
    assert_eq!(browser.post(&place, &form), 303);
    let done = call(&mut host, "n__wipe", arguments);
    assert_wiped(&done, "a");
    let (_, page) = browser.get(&place);
    assert!(
        page.contains("used") && page.contains("the call went ahead"),
        "{page}"
    );
    assert_eq!(browser.post(&place, &form), 303, "the same decision again");
    let opposite = form.replace("approve", "deny");
    assert_eq!(browser.post(&place, &opposite), 409);
    assert_eq!(
        decisions(&bed)[0]["reason"],
        "admin approved `n:wipe` (page)"
    );
    let mut other = Browser::new(&served);
    assert_eq!(
        other.log_in(&format!("code={code}")),
        401,
        "a replayed link"
    );
    assert_eq!(other.log_in("code=forged"), 401, "a forged link");
}

#[test]
fn cross_site_forms_decide_nothing() {
    let bed = Bed::new(ASKING);
    let served = bed.serve();
    let mut host = served.host_ready();
    let id = approval_of(&wipe(&mut host, "a"));
    let place = format!("/approvals/{id}");
    let mut browser = Browser::new(&served);
    browser.log_in(&format!("token={}", served.admin_token));
    let (_, page) = browser.get(&place);
    let good = format!("csrf={}&answer=approve", csrf(&page));
    for (origin, form, expected) in [
        ("http://evil.example", good.as_str(), 403),
        ("null", good.as_str(), 403),
        (browser.base.as_str(), "csrf=x&answer=approve", 403),
        (browser.base.as_str(), "answer=approve", 422),
    ] {
        let status = browser
            .send("POST", &place, &[("Origin", origin)], form)
            .status;
        assert_eq!(status, expected, "{origin} {form}");
    }
    let mut second = Browser::new(&served);
    second.log_in(&format!("token={}", served.admin_token));
    assert_eq!(second.post(&place, &good), 403, "a form of another session");
    let stranger = Browser::new(&served);
    assert_eq!(stranger.post(&place, &good), 401, "a form without a cookie");
    let route = format!("/v1/status/{id}");
    assert_eq!(
        told(&served, &served.admin_token, "GET", &route).1["status"],
        "pending"
    );
    assert_eq!(ledger(&bed), Vec::<String>::new());
}

#[test]
fn the_page_runs_only_its_own_scripts_and_refuses_framing() {
    let bed = Bed::new(ASKING);
    let served = bed.serve();
    let browser = Browser::new(&served);
    let reply = browser.send("GET", "/login", &[], "");
    let policy = reply.header("content-security-policy").expect("a policy");
    assert!(
        policy.starts_with("default-src 'none'") && !policy.contains("unsafe"),
        "{policy}"
    );
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    assert_eq!(reply.header("x-frame-options"), Some("DENY"));
    assert_eq!(reply.header("referrer-policy"), Some("same-origin"));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    let page = reply.text().expect("a page");
    assert!(
        !page.contains("onclick") && !page.contains("style="),
        "{page}"
    );
    let reply = browser.send("GET", "/approvals", &[("Sec-Fetch-Site", "cross-site")], "");
    assert!(reply.text().expect("a page").contains("Continue"));
    for asset in ["/assets/page.js", "/assets/page.css"] {
        assert_eq!(browser.get(asset).0, 200, "{asset}");
    }
}

#[test]
fn only_approvers_can_log_in_and_revoked_tokens_are_logged_out() {
    let bed = Bed::new(ASKING);
    let served = bed.serve();
    let mut browser = Browser::new(&served);
    assert_eq!(
        browser.log_in(&format!("token={}", served.token)),
        401,
        "an agent"
    );
    let eve = token(&bed, &["--name", "eve", "--role", "approver"]);
    assert_eq!(browser.log_in(&format!("token={eve}")), 303);
    assert_eq!(browser.get("/approvals").0, 200);
    stdout(&run(&bed, &["token", "revoke", "eve"]));
    assert_eq!(browser.get("/approvals").0, 401);
    browser.log_in(&format!("token={}", served.admin_token));
    let (_, page) = browser.get("/approvals");
    assert_eq!(
        browser.post("/logout", &format!("csrf={}", csrf(&page))),
        303
    );
    assert_eq!(browser.get("/approvals").0, 401);
}

#[test]
fn an_open_page_is_notified_of_changes() {
    let bed = Bed::new(ASKING);
    let served = bed.serve();
    let mut browser = Browser::new(&served);
    assert_eq!(browser.get("/approvals/stream").0, 401);
    browser.log_in(&format!("token={}", served.admin_token));
    let mut heard = browser.send("GET", "/approvals/stream", &[], "").events();
    let mut host = served.host_ready();
    wipe(&mut host, "a");
    let event = heard
        .next_event()
        .expect("it goes on")
        .expect("it stays open");
    assert_eq!(event.name.as_deref(), Some("changed"));
}
