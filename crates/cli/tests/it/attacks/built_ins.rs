//! Built-in tools made to reach what they must not.
