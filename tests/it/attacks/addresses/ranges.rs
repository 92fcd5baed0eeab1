//! Addresses of ranges that a rule names by a word.

use super::{CLASS, but, fetched, network};
use crate::attacks::{Seen, attack};

#[test]
fn addresses_of_the_loopback_range_are_refused() {
    let (bed, mut host) = network(&but("loopback"));
    attack(CLASS, "an address of the range `loopback`")
        .expect(Seen::Refused)
        .tries(
            [
                "http://127.0.0.2/",
                "http://localhost:80/",
                "http://[::1]/",
                "http://0.0.0.0/",
                "http://[::]/",
                "http://a.localhost/",
                "http://[::ffff:127.9.9.9]/",
                "http://LOCALHOST./",
                "http://0/",
                "localhost:3000",
                "127.0.0.1:80",
            ],
            |address| fetched(&bed, &mut host, address),
        )
        .check();
}

#[test]
fn addresses_of_the_private_range_are_refused() {
    let (bed, mut host) = network(&but("private"));
    attack(CLASS, "an address of the range `private`")
        .expect(Seen::Refused)
        .tries(
            [
                "http://10.1.2.3/",
                "http://192.168.0.1/",
                "http://[fc00::1]/",
                "http://172.31.255.255/",
                "http://3232235521/",
                "http://[::ffff:10.0.0.1]/",
                "http://100.64.0.1/",
                "http://[64:ff9b::a00:1]/",
            ],
            |address| fetched(&bed, &mut host, address),
        )
        .check();
}

#[test]
fn addresses_of_the_link_local_range_are_refused() {
    let (bed, mut host) = network(&but("link_local"));
    attack(CLASS, "an address of the range `link_local`")
        .expect(Seen::Refused)
        .tries(
            [
                "http://169.254.1.1/",
                "http://[fe80::1]/",
                "http://[::ffff:169.254.0.1]/",
                "http://[febf::1]/",
                "http://[fe80::1%25eth0]/",
            ],
            |address| fetched(&bed, &mut host, address),
        )
        .check();
}

#[test]
fn addresses_of_the_metadata_range_are_refused() {
    let (bed, mut host) = network(&but("metadata"));
    attack(CLASS, "an address of the range `metadata`")
        .expect(Seen::Refused)
        .tries(
            [
                "http://169.254.169.254/latest/meta-data/",
                "http://[fd00:ec2::254]/",
                "http://metadata.google.internal/",
                "http://100.100.100.200/",
                "http://2852039166/",
                "http://[::ffff:a9fe:a9fe]/",
                "http://METADATA.google.internal./",
                "http://169.254.170.2/v2/credentials",
                "http://metadata/",
                "http://0xa9fea9fe/",
            ],
            |address| fetched(&bed, &mut host, address),
        )
        .check();
}
