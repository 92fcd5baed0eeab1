//! Secrets that would be kept, told or sent in a readable form.
