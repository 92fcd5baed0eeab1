//! What must hold whatever bytes come in.
//!
//! Each target is a function that gives hostile bytes to the product's own code and panics when
//! a promise does not hold. A fuzzer looks for bytes that make one panic (`fuzz/` at the top of
//! the repository); the test here replays every input that is kept there, so that what was found
//! once stays mended. Nothing of the product may depend on this crate.

mod config;
mod envelope;
mod http_headers;
mod outline;
mod pieces;
mod place;
mod policy;
mod record_reader;
mod reference;
mod scanner;
mod sse;
mod upstream_frames;

pub use config::config;
pub use envelope::envelope;
pub use http_headers::http_headers;
pub use policy::policy;
pub use record_reader::record_reader;
pub use scanner::scanner;
pub use sse::sse;
pub use upstream_frames::upstream_frames;

/// One thing that is fuzzed.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name of its file in `fuzz/fuzz_targets` and of its folder in `fuzz/corpus`.
    pub name: &'static str,
    /// Gives one input to the product; it panics where a promise does not hold.
    pub run: fn(&[u8]),
}

/// Everything that is fuzzed.
pub const TARGETS: [Target; 8] = [
    Target {
        name: "config",
        run: config,
    },
    Target {
        name: "envelope",
        run: envelope,
    },
    Target {
        name: "http_headers",
        run: http_headers,
    },
    Target {
        name: "policy",
        run: policy,
    },
    Target {
        name: "record_reader",
        run: record_reader,
    },
    Target {
        name: "scanner",
        run: scanner,
    },
    Target {
        name: "sse",
        run: sse,
    },
    Target {
        name: "upstream_frames",
        run: upstream_frames,
    },
];
