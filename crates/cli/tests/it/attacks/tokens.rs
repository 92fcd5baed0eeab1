//! Tokens used for more than they are for.
