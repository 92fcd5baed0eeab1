//! Project files that start something or loosen something without the user's word.
