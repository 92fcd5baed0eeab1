//! Paths that lead where policy says no.
