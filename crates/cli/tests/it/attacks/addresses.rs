//! URLs and hosts that two readers understand differently.
