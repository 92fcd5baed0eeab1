//! What a server asks of a host, past policy.
