//! Lock files that loosen, or that cannot be read again.
