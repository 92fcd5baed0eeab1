//! Reserved names: modules, refused functions, keywords and built-ins. The checks of scripts and the naming of packs
//! share these lists.

/// Modules that scripts can import.
pub(crate) const MODULES: [&str; 13] = [
    "__future__",
    "asyncio",
    "base64",
    "binascii",
    "collections",
    "dataclasses",
    "datetime",
    "functools",
    "itertools",
    "json",
    "math",
    "re",
    "typing",
];

/// Functions that scripts cannot use: I/O, running code, and introspection.
pub(crate) const REFUSED: [&str; 13] = [
    "__builtins__",
    "__import__",
    "__loader__",
    "breakpoint",
    "compile",
    "delattr",
    "eval",
    "exec",
    "globals",
    "input",
    "locals",
    "open",
    "vars",
];

/// Functions without a pack that the host answers.
pub(crate) const ANSWERED: [&str; 1] = ["read_result"];

const KEYWORDS: [&str; 37] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "case", "class",
    "continue", "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if",
    "import", "in", "is", "lambda", "match", "nonlocal", "not", "or", "pass", "raise", "return",
    "try", "while", "with", "yield",
];

/// Functions and types that every script has.
const BUILTINS: [&str; 56] = [
    "abs",
    "all",
    "any",
    "ascii",
    "bin",
    "bool",
    "bytearray",
    "bytes",
    "callable",
    "chr",
    "classmethod",
    "complex",
    "dict",
    "dir",
    "divmod",
    "enumerate",
    "filter",
    "float",
    "format",
    "frozenset",
    "getattr",
    "hasattr",
    "hash",
    "hex",
    "id",
    "int",
    "isinstance",
    "issubclass",
    "iter",
    "len",
    "list",
    "map",
    "max",
    "min",
    "next",
    "object",
    "oct",
    "ord",
    "pow",
    "print",
    "property",
    "range",
    "repr",
    "reversed",
    "round",
    "set",
    "setattr",
    "slice",
    "sorted",
    "str",
    "sum",
    "super",
    "staticmethod",
    "tuple",
    "type",
    "zip",
];

/// Whether a name is reserved, so no pack can have it.
pub fn is_reserved(name: &str) -> bool {
    let lists: [&[&str]; 5] = [&MODULES, &REFUSED, &ANSWERED, &KEYWORDS, &BUILTINS];
    lists.iter().any(|list| list.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builtin_and_reserved_names_are_taken() {
        for name in ["json", "open", "read_result", "lambda", "print", "zip"] {
            assert!(is_reserved(name), "{name}");
        }
        assert!(!is_reserved("wix"));
    }
}
