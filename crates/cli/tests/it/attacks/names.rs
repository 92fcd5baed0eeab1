//! Tool names that slip past a pattern or a check by verb.
