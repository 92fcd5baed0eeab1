//! Declared intent: what a caller says that its call will do. It must fit the way the call was made and
//! what the server says about the tool now; what does not fit is refused before policy is asked.
//!
//! Pure, like all of this room: reading and checking a declaration looks at nothing but the request, the
//! rules and the tool of the current snapshot.

use std::borrow::Cow;

use callgate_wire::{Json, JsonKind};

use crate::{Operation, Tool};

/// The longest reason, in characters.
pub const MAX_REASON_CHARS: usize = 1000;
/// How much of a word that means nothing is told back and kept.
const MAX_WORD_CHARS: usize = 200;
/// How private the data of a call may be said to be.
const SENSITIVITIES: [&str; 4] = ["public", "internal", "private", "unknown"];

/// How strictly declarations are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntentRules {
    /// Whether the operation must be declared besides being chosen; otherwise it is inferred from the choice.
    pub required: bool,
    /// Whether what the server says about its tool refuses a call; otherwise it is a warning.
    pub strict: bool,
}

impl Default for IntentRules {
    fn default() -> Self {
        Self {
            required: true,
            strict: true,
        }
    }
}

/// An intent as it was declared, right or wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// The operation that the caller chose by the way it called.
    pub variant: Operation,
    /// The operation that it declared, as it wrote it.
    pub operation_type: Option<String>,
    /// How private the data are, as it wrote it.
    pub data_sensitivity: Option<String>,
    /// Why it calls, cut to [`MAX_REASON_CHARS`].
    pub reason: Option<String>,
    /// Whether the operation was not declared and is taken from the variant.
    pub inferred: bool,
    /// What is wrong with it, whatever the call is aimed at.
    pub fault: Option<Fault>,
    strict: bool,
}

/// Why a declared call is refused. The texts are told to the caller as they are.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// There is no declaration at all.
    #[error("intent parameter is required for {}", .variant.call_tool())]
    MissingIntent {
        /// How it was called.
        variant: Operation,
    },
    /// The declaration names no operation.
    #[error("intent.operation_type is required")]
    MissingOperation,
    /// The operation is none of the three.
    #[error("Invalid intent.operation_type '{word}': must be read, write, or destructive")]
    InvalidOperation {
        /// What was written.
        word: String,
    },
    /// The two keys differ.
    #[error("Intent mismatch: tool is {} but intent declares {}", .variant.call_tool(), .declared.as_str())]
    Mismatch {
        /// How it was called.
        variant: Operation,
        /// What was declared.
        declared: Operation,
    },
    /// The server says that the tool does more than was declared.
    #[error("Tool '{tool}' is marked {} by server, use {}", .marked.as_str(), .marked.call_tool())]
    ServerMismatch {
        /// The tool, as `server:tool`.
        tool: String,
        /// What the server says.
        marked: Operation,
    },
    /// The sensitivity is none of the four.
    #[error(
        "Invalid intent.data_sensitivity '{word}': must be public, internal, private, or unknown"
    )]
    InvalidSensitivity {
        /// What was written.
        word: String,
    },
    /// It is declared in both spellings, and they say different things.
    #[error("intent is given twice and differs in {field}")]
    Conflict {
        /// What differs.
        field: &'static str,
    },
    /// The reason is a treatise.
    #[error("intent.reason exceeds maximum length of {MAX_REASON_CHARS} characters")]
    ReasonTooLong,
    /// The arguments cannot be used; the text says why and what would fit.
    #[error("{text}")]
    Arguments {
        /// What the caller is told.
        text: String,
    },
}

impl Declared {
    /// Reads the declaration beside a call's name and arguments: `intent`, or its members in the flat
    /// spelling, or both where they agree.
    pub fn read(variant: Operation, given: Option<Json<'_>>, rules: IntentRules) -> Self {
        let nested = given.and_then(|given| given.get("intent"));
        let nested = nested.filter(|nested| !nested.is_null());
        let read = |field| Field::read(field, given, nested);
        let fields = [
            read("operation_type"),
            read("data_sensitivity"),
            read("reason"),
        ];
        let is_given = nested.is_some() || fields.iter().any(|field| field.is_given);
        let conflict = fields.iter().find(|field| field.differs);
        let conflict = conflict.map(|field| Fault::Conflict { field: field.name });
        let [operation_type, data_sensitivity, reason] = fields.map(|field| field.text);
        let inferred = operation_type.is_none() && !rules.required;
        let mut declared = Self {
            variant,
            operation_type: operation_type.map(|word| cut(&word, MAX_WORD_CHARS)),
            data_sensitivity: data_sensitivity.map(|word| cut(&word, MAX_WORD_CHARS)),
            reason: reason.as_deref().map(|text| cut(text, MAX_REASON_CHARS)),
            inferred,
            fault: None,
            strict: rules.strict,
        };
        let reason = reason.filter(|text| text.chars().count() > MAX_REASON_CHARS);
        declared.fault = conflict
            .or_else(|| declared.operation_fault(is_given))
            .or_else(|| declared.sensitivity_fault())
            .or_else(|| reason.map(|_| Fault::ReasonTooLong))
            .or_else(|| declared.mismatch());
        declared
    }

    /// The intent of a caller that has only the one key, the way it calls.
    pub fn by_variant(variant: Operation, rules: IntentRules) -> Self {
        Self {
            variant,
            operation_type: Some(variant.as_str().to_owned()),
            data_sensitivity: None,
            reason: None,
            inferred: false,
            fault: None,
            strict: rules.strict,
        }
    }

    /// What the call is taken to do: what was declared, else what was chosen.
    pub fn operation(&self) -> Operation {
        let declared = self.operation_type.as_deref();
        declared.and_then(Operation::of).unwrap_or(self.variant)
    }

    /// Whether the declaration holds for this tool, as its server describes it in the current snapshot.
    /// `Ok` may carry a warning.
    pub fn against(&self, tool: &Tool) -> Result<Option<String>, Fault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let hints = tool.hints;
        let is_destructive = hints.destructive == Some(true);
        let used_on = |what: &str| {
            let (variant, tool) = (self.variant.call_tool(), tool.canonical());
            Ok(Some(format!(
                "{variant} is used on '{tool}', which is marked {what} by server"
            )))
        };
        match self.variant {
            Operation::Read | Operation::Write if is_destructive => {
                let fault = Fault::ServerMismatch {
                    tool: tool.canonical(),
                    marked: Operation::Destructive,
                };
                if self.strict {
                    Err(fault)
                } else {
                    Ok(Some(fault.to_string()))
                }
            }
            Operation::Read if hints.read_only == Some(false) => used_on("as not read-only"),
            Operation::Write if hints.read_only == Some(true) => used_on("read-only"),
            Operation::Read | Operation::Write | Operation::Destructive => Ok(None),
        }
    }

    fn operation_fault(&self, is_given: bool) -> Option<Fault> {
        let Some(word) = &self.operation_type else {
            let variant = self.variant;
            return match (self.inferred, is_given) {
                (true, _) => None,
                (false, true) => Some(Fault::MissingOperation),
                (false, false) => Some(Fault::MissingIntent { variant }),
            };
        };
        let word = word.clone();
        match Operation::of(&word) {
            Some(_) => None,
            None => Some(Fault::InvalidOperation { word }),
        }
    }

    fn sensitivity_fault(&self) -> Option<Fault> {
        let word = self.data_sensitivity.as_ref()?;
        let is_known = SENSITIVITIES.contains(&word.as_str());
        (!is_known).then(|| Fault::InvalidSensitivity { word: word.clone() })
    }

    fn mismatch(&self) -> Option<Fault> {
        let declared = self.operation();
        (declared != self.variant).then_some(Fault::Mismatch {
            variant: self.variant,
            declared,
        })
    }
}

impl Fault {
    /// The stable word for it.
    pub fn code(&self) -> &'static str {
        match self {
            Self::MissingIntent { .. } => "MISSING_INTENT",
            Self::MissingOperation => "MISSING_OPERATION_TYPE",
            Self::InvalidOperation { .. } => "INVALID_OPERATION_TYPE",
            Self::Mismatch { .. } => "INTENT_MISMATCH",
            Self::ServerMismatch { .. } => "SERVER_MISMATCH",
            Self::InvalidSensitivity { .. } => "INVALID_SENSITIVITY",
            Self::Conflict { .. } => "INTENT_CONFLICT",
            Self::ReasonTooLong => "REASON_TOO_LONG",
            Self::Arguments { .. } => "INVALID_ARGUMENTS",
        }
    }

    /// Whether the intent is at fault, and not merely the arguments.
    pub fn is_of_intent(&self) -> bool {
        match self {
            Self::MissingIntent { .. }
            | Self::MissingOperation
            | Self::InvalidOperation { .. }
            | Self::Mismatch { .. }
            | Self::ServerMismatch { .. }
            | Self::InvalidSensitivity { .. }
            | Self::Conflict { .. }
            | Self::ReasonTooLong => true,
            Self::Arguments { .. } => false,
        }
    }

    /// The rule that a refusal is recorded under.
    pub fn rule(&self) -> String {
        format!("deny:intent:{}", self.code().to_lowercase())
    }
}

/// One member of a declaration, in whichever spelling it came.
struct Field<'a> {
    name: &'static str,
    text: Option<Cow<'a, str>>,
    /// Whether the flat spelling has it, be it empty.
    is_given: bool,
    differs: bool,
}

impl<'a> Field<'a> {
    fn read(name: &'static str, given: Option<Json<'a>>, nested: Option<Json<'a>>) -> Self {
        let of = |object: Option<Json<'a>>| object?.get(name).filter(|value| !value.is_null());
        let (flat, nested) = (of(given), of(nested).and_then(text));
        let is_given = flat.is_some();
        let flat = flat.and_then(text);
        let differs = matches!((&flat, &nested), (Some(flat), Some(nested)) if flat != nested);
        Self {
            name,
            text: nested.or(flat),
            is_given,
            differs,
        }
    }
}

/// What a member says; an empty text says nothing, and another kind of value is shown as it was written.
fn text(value: Json<'_>) -> Option<Cow<'_, str>> {
    let text = match value.kind() {
        JsonKind::String => value.as_str()?,
        JsonKind::Null | JsonKind::Bool | JsonKind::Number | JsonKind::Array | JsonKind::Object => {
            value.as_text().into()
        }
    };
    (!text.is_empty()).then_some(text)
}

fn cut(text: &str, limit: usize) -> String {
    text.chars().take(limit).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use callgate_wire::Strictness;

    use super::*;
    use crate::ServerName;

    const VARIANTS: [Operation; 3] = [Operation::Read, Operation::Write, Operation::Destructive];

    fn read(variant: Operation, text: &str) -> Declared {
        read_by(variant, text, IntentRules::default())
    }

    fn read_by(variant: Operation, text: &str, rules: IntentRules) -> Declared {
        let json = Json::validate(text.as_bytes(), Strictness::Full).unwrap();
        Declared::read(variant, Some(json), rules)
    }

    fn tool(annotations: &str) -> Tool {
        let text = format!(r#"{{"name":"delete_repo","annotations":{annotations}}}"#);
        let server = ServerName::new("github").unwrap();
        Tool::from_descriptor(&server, Bytes::from(text)).unwrap()
    }

    /// The words of the contract, said by hand: what each variant, declaration and annotation amounts to.
    fn expected(variant: Operation, declared: Option<&str>, annotations: &str) -> (String, bool) {
        let name = variant.call_tool();
        let text = match declared {
            None => format!("intent parameter is required for {name}"),
            Some("unknown") => {
                "Invalid intent.operation_type 'unknown': must be read, write, or destructive".into()
            }
            Some(word) if word != variant.as_str() => {
                format!("Intent mismatch: tool is {name} but intent declares {word}")
            }
            Some(_) if variant != Operation::Destructive && annotations.contains("e\":true,\"d") => {
                "Tool 'github:delete_repo' is marked destructive by server, use call_tool_destructive".into()
            }
            Some(_) if variant != Operation::Destructive && annotations.contains("destructiveHint\":true") => {
                "Tool 'github:delete_repo' is marked destructive by server, use call_tool_destructive".into()
            }
            Some(_) => String::new(),
        };
        let warns = match variant {
            Operation::Read => annotations == r#"{"readOnlyHint":false}"#,
            Operation::Write => annotations == r#"{"readOnlyHint":true}"#,
            Operation::Destructive => false,
        };
        (text, warns)
    }

    #[test]
    fn every_combination_of_intent_and_annotations_is_judged() {
        let annotations = [
            "{}",
            r#"{"readOnlyHint":true}"#,
            r#"{"destructiveHint":true}"#,
            r#"{"readOnlyHint":true,"destructiveHint":true}"#,
            r#"{"readOnlyHint":false}"#,
        ];
        let declared = [
            Some("read"),
            Some("write"),
            Some("destructive"),
            Some("unknown"),
            None,
        ];
        let mut rows = 0;
        for variant in VARIANTS {
            for word in declared {
                for annotation in annotations {
                    let text = match word {
                        Some(word) => format!(r#"{{"intent":{{"operation_type":"{word}"}}}}"#),
                        None => "{}".to_owned(),
                    };
                    let (fault, warns) = expected(variant, word, annotation);
                    let found = read(variant, &text).against(&tool(annotation));
                    match found {
                        Err(found) => assert_eq!(
                            found.to_string(),
                            fault,
                            "{variant:?} {word:?} {annotation}"
                        ),
                        Ok(warning) => {
                            assert_eq!(fault, "", "{variant:?} {word:?} {annotation}");
                            assert_eq!(warning.is_some(), warns, "{variant:?} {annotation}");
                        }
                    }
                    rows += 1;
                }
            }
        }
        assert_eq!(rows, 75);
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a list of cases")]
    fn every_intent_fault_has_its_code_and_text() {
        let long = format!(
            r#"{{"intent":{{"operation_type":"read","reason":"{}"}}}}"#,
            "ä".repeat(1001)
        );
        let cases = [
            (
                "{}",
                "MISSING_INTENT",
                "intent parameter is required for call_tool_read",
            ),
            (
                r#"{"intent":null}"#,
                "MISSING_INTENT",
                "intent parameter is required for call_tool_read",
            ),
            (
                r#"{"intent":{}}"#,
                "MISSING_OPERATION_TYPE",
                "intent.operation_type is required",
            ),
            (
                r#"{"reason":"x"}"#,
                "MISSING_OPERATION_TYPE",
                "intent.operation_type is required",
            ),
            (
                r#"{"intent":{"operation_type":""}}"#,
                "MISSING_OPERATION_TYPE",
                "intent.operation_type is required",
            ),
            (
                r#"{"operation_type":"unknown"}"#,
                "INVALID_OPERATION_TYPE",
                "Invalid intent.operation_type 'unknown': must be read, write, or destructive",
            ),
            (
                r#"{"operation_type":3}"#,
                "INVALID_OPERATION_TYPE",
                "Invalid intent.operation_type '3': must be read, write, or destructive",
            ),
            (
                r#"{"operation_type":"write"}"#,
                "INTENT_MISMATCH",
                "Intent mismatch: tool is call_tool_read but intent declares write",
            ),
            (
                r#"{"operation_type":"read","data_sensitivity":"secret"}"#,
                "INVALID_SENSITIVITY",
                "Invalid intent.data_sensitivity 'secret': must be public, internal, private, or unknown",
            ),
            (
                r#"{"intent":{"operation_type":"read"},"operation_type":"write"}"#,
                "INTENT_CONFLICT",
                "intent is given twice and differs in operation_type",
            ),
            (
                r#"{"intent":{"operation_type":"read","reason":"a"},"reason":"b"}"#,
                "INTENT_CONFLICT",
                "intent is given twice and differs in reason",
            ),
            (
                &long,
                "REASON_TOO_LONG",
                "intent.reason exceeds maximum length of 1000 characters",
            ),
        ];
        for (text, code, message) in cases {
            let fault = read(Operation::Read, text)
                .fault
                .unwrap_or_else(|| panic!("{text}"));
            assert_eq!(
                (fault.code(), fault.to_string().as_str()),
                (code, message),
                "{text}"
            );
            assert!(fault.is_of_intent());
        }
    }

    #[test]
    fn nested_flat_and_mixed_intents_are_understood() {
        for text in [
            r#"{"intent":{"operation_type":"read","reason":"r","data_sensitivity":"private"}}"#,
            r#"{"operation_type":"read","reason":"r","data_sensitivity":"private"}"#,
            r#"{"intent":{"operation_type":"read"},"operation_type":"read","reason":"r","data_sensitivity":"private"}"#,
        ] {
            let declared = read(Operation::Read, text);
            assert_eq!(declared.fault, None, "{text}");
            assert_eq!(declared.reason.as_deref(), Some("r"));
            assert_eq!(declared.data_sensitivity.as_deref(), Some("private"));
            assert!(!declared.inferred);
        }
        let thousand = format!(
            r#"{{"operation_type":"read","reason":"{}"}}"#,
            "ä".repeat(1000)
        );
        assert_eq!(read(Operation::Read, &thousand).fault, None);
    }

    #[test]
    fn an_optional_operation_is_inferred_but_a_wrong_one_refused() {
        let rules = IntentRules {
            required: false,
            strict: true,
        };
        for text in ["{}", r#"{"intent":{}}"#, r#"{"reason":"x"}"#] {
            let declared = read_by(Operation::Write, text, rules);
            assert_eq!(
                (declared.fault.clone(), declared.inferred),
                (None, true),
                "{text}"
            );
            assert_eq!(declared.operation(), Operation::Write);
        }
        let wrong = read_by(Operation::Write, r#"{"operation_type":"read"}"#, rules);
        assert_eq!(wrong.fault.unwrap().code(), "INTENT_MISMATCH");
    }

    #[test]
    fn intent_mismatches_only_warn_when_not_strict() {
        let rules = IntentRules {
            required: true,
            strict: false,
        };
        let declared = read_by(Operation::Read, r#"{"operation_type":"read"}"#, rules);
        let warning = declared
            .against(&tool(r#"{"destructiveHint":true}"#))
            .unwrap();
        let text =
            "Tool 'github:delete_repo' is marked destructive by server, use call_tool_destructive";
        assert_eq!(warning.as_deref(), Some(text));
    }
}
