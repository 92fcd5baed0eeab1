//! One tenant or token using, reading or starving another.
