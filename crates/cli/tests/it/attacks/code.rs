//! Scripts that reach past the gate or past what was approved.
