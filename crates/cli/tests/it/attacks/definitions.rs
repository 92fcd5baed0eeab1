//! Tool definitions that mislead a model or break the gateway.
