//! A tool that changes what governs it.
