//! An edited index that would tell a person something else than the record.
