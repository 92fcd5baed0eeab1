//! The ledger: limits are exact, and everything belongs to one token of one tenant.

use std::{sync::Barrier, thread, time::Duration};

use callgate_gate::{Digest, Owner, Prior, RateLimit};

use super::sample::{open, wait};
use crate::{Account, Backend, Ledger};

/// Long enough that no promise is checked across its end.
const WINDOW: Duration = Duration::from_secs(3600);

fn account(tenant: &str, token: &str, agent: Option<&str>) -> Account {
    Account {
        owner: Owner {
            tenant: tenant.to_owned(),
            principal: token.to_owned(),
        },
        agent: agent.map(Into::into),
    }
}

fn limit(max_requests: u64, window: Duration) -> RateLimit {
    RateLimit {
        scope: "mcp_tool".into(),
        max_requests,
        window,
    }
}

fn prior(pattern: &str) -> Prior {
    Prior {
        pattern: pattern.into(),
        window: WINDOW,
    }
}

/// Whether a request had room.
fn counts(ledger: &dyn Ledger, account: &Account, limit: &RateLimit) -> bool {
    let counted = wait(ledger.count(account, vec![limit.clone()])).expect("it counts");
    assert_eq!(counted.taken.len() + counted.used_up.len(), 1);
    counted.used_up.is_empty()
}

pub(super) fn rate_limits_are_exact_under_races_and_per_token(backend: &dyn Backend) {
    const RACERS: usize = 6;
    let ledger = open(backend).ledger;
    let (limit, ready) = (limit(50, WINDOW), Barrier::new(RACERS));
    let taken: usize = thread::scope(|scope| {
        let race = |n: usize| {
            let (ledger, limit, ready) = (&*ledger, &limit, &ready);
            scope.spawn(move || {
                // Another agent per thread: agent names are the caller's claim and must not raise the limit.
                let agent = format!("agent-{n}");
                let account = account("local", "a", Some(&agent));
                ready.wait();
                (0..20).filter(|_| counts(ledger, &account, limit)).count()
            })
        };
        let racers: Vec<_> = (0..RACERS).map(race).collect();
        racers
            .into_iter()
            .map(|one| one.join().expect("no panic"))
            .sum()
    });
    assert_eq!(taken, 50, "agents share the limit of their token");
    for other in [account("local", "b", None), account("acme", "a", None)] {
        assert!(counts(&*ledger, &other, &limit), "{other:?}");
    }
    let usage = wait(ledger.usage()).expect("a report");
    let own = usage
        .iter()
        .find(|one| (&*one.tenant, &*one.token) == ("local", "a"));
    let rate = &own.expect("it is reported").rates[0];
    assert_eq!((rate.used, rate.max_requests), (50, 50));
    assert_eq!(rate.agents.values().sum::<usize>(), 50);
    let short = self::limit(1, Duration::from_millis(200));
    let account = account("local", "c", None);
    assert!(counts(&*ledger, &account, &short));
    // The promise is about the end of a window, and the ledger has its own clock, so the test must wait.
    thread::sleep(Duration::from_millis(250));
    assert!(counts(&*ledger, &account, &short), "the window is over");
}

pub(super) fn history_and_spending_are_kept_per_token(backend: &dyn Backend) {
    let ledger = open(backend).ledger;
    let own = account("local", "a", None);
    let met = |account: &Account, pattern: &str| {
        let met = wait(ledger.met(account, vec![prior(pattern), prior("never:*")]));
        met.expect("an answer") == [prior(pattern)]
    };
    assert!(!met(&own, "read_*"));
    wait(ledger.note(&own, "fs", "read_file")).expect("it is noted");
    assert!(met(&own, "read_*") && met(&own, "fs:*"));
    let others = [
        account("local", "b", None),
        account("acme", "a", None),
        account("local", "a", Some("x")),
    ];
    assert!(others.iter().all(|other| !met(other, "read_*")));
    let reserve = |account: &Account, amount| {
        wait(ledger.reserve(&account.owner, amount)).expect("it is reserved")
    };
    let first = reserve(&own, 1.5);
    assert_eq!(first.before, 0.0);
    let second = reserve(&own, 1.0);
    assert_eq!(second.before, 1.5, "calls decided at once see each other's");
    ledger.give_back(second);
    assert_eq!(
        reserve(&own, -5.0).before,
        1.5,
        "a negative amount is nothing"
    );
    assert_eq!(reserve(&own, 0.0).before, 1.5);
    assert_eq!(reserve(&others[1], 0.0).before, 0.0);
    let (held, paid) = (Digest::of(b"held"), vec![limit(1, WINDOW)]);
    let known = || wait(ledger.paid(held)).expect("an answer");
    assert!(known().is_empty());
    wait(ledger.note_paid(held, paid.clone())).expect("it is noted");
    assert!(ledger.has_paid() && known() == paid);
    wait(ledger.settle_paid(held)).expect("it is settled");
    assert!(known().is_empty());
}

pub(super) fn a_tenant_that_fills_its_tables_locks_out_no_other(backend: &dyn Backend) {
    let ledger = open(backend).ledger;
    let neighbours = [account("local", "b", None), account("acme", "c", None)];
    for neighbour in &neighbours {
        wait(ledger.note(neighbour, "fs", "read")).expect("it is noted");
    }
    let limit = limit(1, WINDOW);
    // More than a token's table holds, so that entries are forgotten: only its own.
    for n in 0..15_000 {
        let agent = format!("agent-{n}");
        let busy = account("local", "a", Some(&agent));
        wait(ledger.note(&busy, "fs", "read")).expect("it is noted");
    }
    for n in 0..3000 {
        let token = format!("t{n}");
        assert!(
            counts(&*ledger, &account("local", &token, None), &limit),
            "{n}"
        );
    }
    for neighbour in &neighbours {
        let met = wait(ledger.met(neighbour, vec![prior("read")])).expect("an answer");
        assert_eq!(met.len(), 1, "{neighbour:?}");
        assert!(counts(&*ledger, neighbour, &limit), "{neighbour:?}");
        assert!(!counts(&*ledger, neighbour, &limit), "{neighbour:?}");
    }
}
