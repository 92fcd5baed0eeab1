//! Changing, hiding or forging what is on record.
