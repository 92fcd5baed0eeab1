#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| callgate_fuzzed::upstream_frames(data));
