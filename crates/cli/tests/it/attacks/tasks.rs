//! Tasks of another principal or tenant.
