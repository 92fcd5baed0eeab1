//! From connections to the hosts of a box.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use callgate_egress::{
    AddressKind, ConnectionReport, Destination, DestinationRules, Host, Outcome, Refusal, Resolver,
    SystemResolver,
};
use callgate_gate::network::AddressRange;
use callgate_process::watch::Use;

use super::Learned;

/// The ports of an entry without a port.
const WEB_PORTS: [u16; 2] = [80, 443];

/// How long looking up one name may take.
const LOOKUP: Duration = Duration::from_secs(5);

pub(super) async fn learn(
    uses: &[Use],
    reports: &[ConnectionReport],
    own_port: Option<u16>,
    learned: &mut Learned,
) {
    let direct = direct(uses, own_port);
    let names = asked(uses, &direct).await;
    list(reports, &direct, &names, learned);
    for one in uses {
        match one {
            Use::Datagram(address) => learned.withhold(
                format!("UDP to {address}"),
                "a box has TCP connections only; names are resolved without it",
            ),
            Use::Listen(address) => learned.remark(format!(
                "it listens on {address}; in a box nothing from outside can connect to it"
            )),
            _ => {}
        }
    }
}

/// The TCP connections that did not go through the proxy or to the program itself.
fn direct(uses: &[Use], own_port: Option<u16>) -> BTreeSet<SocketAddr> {
    let listens = |port: u16| {
        uses.iter()
            .any(|one| matches!(one, Use::Listen(address) if address.port() == port))
    };
    let connections = uses.iter().filter_map(|one| match one {
        Use::Connect(address) => Some(*address),
        _ => None,
    });
    connections
        .filter(|address| {
            let is_own = own_port == Some(address.port()) || listens(address.port());
            !(address.ip().is_loopback() && is_own)
        })
        .collect()
}

/// The names that the program asked for, by the addresses that they lead to now.
async fn asked(uses: &[Use], direct: &BTreeSet<SocketAddr>) -> BTreeMap<IpAddr, String> {
    let mut found = BTreeMap::new();
    if direct.is_empty() {
        return found;
    }
    let resolver = SystemResolver::default();
    for one in uses {
        let Use::Name(name) = one else { continue };
        let addresses = tokio::time::timeout(LOOKUP, resolver.resolve(name)).await;
        for address in addresses.into_iter().flatten().flatten() {
            found
                .entry(address.to_canonical())
                .or_insert_with(|| name.clone());
        }
    }
    found
}

fn list(
    reports: &[ConnectionReport],
    direct: &BTreeSet<SocketAddr>,
    names: &BTreeMap<IpAddr, String>,
    learned: &mut Learned,
) {
    let mut contacts: BTreeSet<(Destination, Option<IpAddr>)> = BTreeSet::new();
    for report in reports {
        let Some(destination) = report.destination.clone() else {
            continue;
        };
        match report.outcome {
            Outcome::Opened | Outcome::Closed(_) | Outcome::Failed(_) => {
                let literal = match destination.host {
                    Host::Address(address) => Some(address),
                    Host::Name(_) => None,
                };
                let address = report.address.map(|address| address.ip()).or(literal);
                contacts.insert((destination, address));
            }
            Outcome::Refused(Refusal::Address(kind)) => {
                withhold(&destination, kind, learned);
            }
            Outcome::Refused(Refusal::NotListed) => {
                if let Host::Address(address) = destination.host {
                    withhold(&destination, AddressKind::of(address), learned);
                }
            }
            Outcome::Refused(_) => {}
        }
    }
    for address in direct {
        let ip = address.ip().to_canonical();
        let host = match names.get(&ip) {
            Some(name) => Host::Name(name.clone()),
            None => Host::Address(ip),
        };
        let port = address.port();
        contacts.insert((Destination { host, port }, Some(ip)));
    }
    let mut entries = BTreeSet::new();
    for (destination, address) in &contacts {
        let kind = address.map_or(AddressKind::Public, AddressKind::of);
        let Some(entry) = entry(destination, kind, learned) else {
            continue;
        };
        // A server chooses the names that it asks for, and one like `private` is a whole range in `net`.
        if means(&entry, destination) {
            entries.insert(entry);
        } else {
            learned.withhold(
                destination.to_string(),
                "in `net` its name means something else",
            );
        }
    }
    learned.net = entries.into_iter().collect();
}

/// Whether an entry of `net` lists this host and no other.
fn means(entry: &str, destination: &Destination) -> bool {
    DestinationRules::parse([entry]).is_ok_and(|rules| {
        let listed = rules.exact();
        listed.contains(destination) && listed.iter().all(|one| one.host == destination.host)
    })
}

/// How `net` lists a destination whose address is of this kind.
fn entry(destination: &Destination, kind: AddressKind, learned: &mut Learned) -> Option<String> {
    let is_web = WEB_PORTS.contains(&destination.port);
    let range = match kind {
        AddressKind::Public => {
            if matches!(destination.host, Host::Address(_)) {
                learned.remark(format!(
                    "it connected to {destination} and the name is not known; if it belongs to a name, list that instead"
                ));
            }
            if !is_web && matches!(destination.host, Host::Name(_)) {
                learned.remark(format!(
                    "`{destination}` is listed with its port, so its owner can also let it lead into your network"
                ));
            }
            return Some(match (is_web, &destination.host) {
                (true, Host::Address(IpAddr::V6(address))) => format!("[{address}]"),
                (true, host) => host.to_string(),
                (false, _) => destination.to_string(),
            });
        }
        AddressKind::Range(range @ (AddressRange::Loopback | AddressRange::Private)) => range,
        AddressKind::Range(AddressRange::LinkLocal | AddressRange::Metadata)
        | AddressKind::Reserved => {
            withhold(destination, kind, learned);
            return None;
        }
    };
    learned.remark(format!(
        "`{destination}` is not on the internet but in the range `{}`; check that it is meant",
        range.as_str()
    ));
    // With its port, because a name without one leads to public addresses only.
    Some(destination.to_string())
}

fn withhold(destination: &Destination, kind: AddressKind, learned: &mut Learned) {
    learned.withhold(
        destination.to_string(),
        format!("its address is of the kind `{kind}`, which a person has to list"),
    );
}

#[cfg(test)]
mod tests {
    use callgate_egress::Failure;

    use super::*;

    fn report(outcome: Outcome, host: &str, port: u16, address: Option<&str>) -> ConnectionReport {
        let host = match host.parse() {
            Ok(address) => Host::Address(address),
            Err(_) => Host::Name(host.to_owned()),
        };
        ConnectionReport {
            outcome,
            destination: Some(Destination { host, port }),
            address: address.map(|text| SocketAddr::new(text.parse().unwrap(), port)),
            traffic: None,
            count: 1,
        }
    }

    fn learned(reports: &[ConnectionReport], uses: &[Use]) -> Learned {
        let mut learned = Learned::default();
        let names = BTreeMap::from([("192.0.9.9".parse().unwrap(), "direct.example".to_owned())]);
        list(reports, &direct(uses, Some(4000)), &names, &mut learned);
        learned
    }

    #[test]
    fn public_hosts_are_listed_by_name_and_with_their_port_if_it_is_unusual() {
        let opened = Outcome::Opened;
        let learned = learned(
            &[
                report(opened, "api.example.com", 443, Some("93.184.216.34")),
                report(opened, "api.example.com", 80, Some("93.184.216.34")),
                report(opened, "db.example.com", 5432, Some("93.184.216.35")),
                report(
                    Outcome::Failed(Failure::NameNotFound),
                    "gone.example",
                    443,
                    None,
                ),
            ],
            &[],
        );
        let expected = ["api.example.com", "db.example.com:5432", "gone.example"];
        assert_eq!(learned.net, expected);
        assert_eq!(learned.withheld, vec![]);
        let expected = "`db.example.com:5432` is listed with its port, so its owner can also let it lead into your network";
        assert_eq!(learned.remarks, [expected]);
    }

    #[test]
    fn a_name_that_means_a_range_or_a_pattern_is_withheld() {
        let failed = Outcome::Failed(Failure::NameNotFound);
        for (name, port) in [
            ("private", 443),
            ("private", 5432),
            ("loopback", 80),
            ("link_local", 443),
            ("metadata", 443),
            ("link-local", 443),
            ("*", 443),
            ("*.example.com", 443),
            ("10.0.0.0/8", 443),
            ("api.example.com:*", 443),
            ("api.example.com\n      - private", 443),
        ] {
            let learned = learned(&[report(failed, name, port, None)], &[]);
            assert_eq!(learned.net, Vec::<String>::new(), "{name}");
            assert_eq!(learned.withheld.len(), 1, "{name}");
        }
    }

    #[test]
    fn hosts_of_the_own_network_keep_their_port_and_are_remarked_on() {
        let opened = Outcome::Opened;
        let learned = learned(
            &[
                report(opened, "wiki.internal", 443, Some("10.1.2.3")),
                report(opened, "127.0.0.1", 8080, Some("127.0.0.1")),
            ],
            &[],
        );
        assert_eq!(learned.net, ["127.0.0.1:8080", "wiki.internal:443"]);
        assert_eq!(learned.remarks.len(), 2, "{:?}", learned.remarks);
    }

    #[test]
    fn metadata_services_are_withheld_however_they_were_tried() {
        let refused = Outcome::Refused(Refusal::NotListed);
        let direct = Use::Connect("169.254.169.254:80".parse().unwrap());
        let through = report(refused, "169.254.169.254", 80, None);
        for (reports, uses) in [(vec![through], vec![]), (vec![], vec![direct])] {
            let learned = learned(&reports, &uses);
            assert_eq!(learned.net, Vec::<String>::new());
            assert_eq!(learned.withheld.len(), 1);
        }
    }

    #[test]
    fn direct_connections_have_the_name_that_was_asked_for() {
        let uses = [
            Use::Connect("192.0.9.9:443".parse().unwrap()),
            Use::Connect("192.0.9.8:443".parse().unwrap()),
            // The proxy, and a port of the program itself.
            Use::Connect("127.0.0.1:4000".parse().unwrap()),
            Use::Connect("127.0.0.1:5000".parse().unwrap()),
            Use::Listen("127.0.0.1:5000".parse().unwrap()),
        ];
        let learned = learned(&[], &uses);
        assert_eq!(learned.net, ["192.0.9.8", "direct.example"]);
        assert_eq!(learned.remarks.len(), 1);
    }
}
