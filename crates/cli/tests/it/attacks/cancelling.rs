//! Calls that are sent although they were cancelled.
