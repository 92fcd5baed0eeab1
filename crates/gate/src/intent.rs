//! Declared intent: what a caller declares that its call will do. It must fit the way the call was made and
//! the tool's current annotations; otherwise the call is refused before policy is evaluated.
//!
//! Pure, like all of this room: checking a declaration needs only the request, the rules and the tool of the
//! current snapshot.

use std::borrow::Cow;

use callgate_wire::{Json, JsonKind};

use crate::{Operation, Tool};

/// The longest reason, in characters.
pub const MAX_REASON_CHARS: usize = 1000;
/// The longest invalid word that is quoted and recorded.
const MAX_WORD_CHARS: usize = 200;
/// The allowed values of `data_sensitivity`.
const SENSITIVITIES: [&str; 4] = ["public", "internal", "private", "unknown"];

/// How strictly declarations are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntentRules {
    /// Whether `operation_type` must be declared; otherwise it is inferred from the chosen call tool.
    pub required: bool,
    /// Whether a conflict with the server's annotations refuses the call; otherwise it is a warning.
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

/// A declared intent, valid or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredIntent {
    /// The operation that the caller chose with the call tool.
    pub variant: Operation,
    /// The declared operation, as written.
    pub operation_type: Option<String>,
    /// The declared sensitivity, as written.
    pub data_sensitivity: Option<String>,
    /// The declared reason, cut to [`MAX_REASON_CHARS`].
    pub reason: Option<String>,
    /// Whether the operation was not declared and is taken from the variant.
    pub inferred: bool,
    /// The fault that does not depend on the target.
    pub fault: Option<Fault>,
    strict: bool,
}

/// Why a declared call is refused. Callers see these texts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// There is no declaration.
    #[error("intent parameter is required for {}", .variant.call_tool())]
    MissingIntent {
        /// How it was called.
        variant: Operation,
    },
    /// `operation_type` is missing.
    #[error("intent.operation_type is required")]
    MissingOperation,
    /// `operation_type` is unknown.
    #[error("Invalid intent.operation_type '{word}': must be read, write, or destructive")]
    InvalidOperation { word: String },
    /// The chosen and the declared operation differ.
    #[error("Intent mismatch: tool is {} but intent declares {}", .variant.call_tool(), .declared.as_str())]
    Mismatch {
        /// How it was called.
        variant: Operation,
        declared: Operation,
    },
    /// The server's annotations exceed the declaration.
    #[error("Tool '{tool}' is marked {} by server, use {}", .marked.as_str(), .marked.call_tool())]
    ServerMismatch {
        /// The tool, as `server:tool`.
        tool: String,
        /// The operation that the server declares.
        marked: Operation,
    },
    /// `data_sensitivity` is unknown.
    #[error(
        "Invalid intent.data_sensitivity '{word}': must be public, internal, private, or unknown"
    )]
    InvalidSensitivity { word: String },
    /// The nested and the flat spelling differ.
    #[error("intent is given twice and differs in {field}")]
    Conflict { field: &'static str },
    /// The reason is too long.
    #[error("intent.reason exceeds maximum length of {MAX_REASON_CHARS} characters")]
    ReasonTooLong,
    /// The arguments do not fit the schema; the text explains how.
    #[error("{text}")]
    Arguments { text: String },
}

impl DeclaredIntent {
    /// Reads the declaration beside a call's name and arguments: `intent`, its members in the flat spelling, or
    /// both if they agree.
    pub fn read(variant: Operation, given: Option<Json<'_>>, rules: IntentRules) -> Self {
        let nested = given.and_then(|given| given.get("intent"));
        let nested = nested.filter(|nested| !nested.is_null());
        let read = |field| DeclaredField::read(field, given, nested);
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
            // Cut here, because callers control the length and both errors and records quote the text.
            operation_type: operation_type.map(|word| cut(&word, MAX_WORD_CHARS)),
            data_sensitivity: data_sensitivity.map(|word| cut(&word, MAX_WORD_CHARS)),
            reason: reason.as_deref().map(|text| cut(text, MAX_REASON_CHARS)),
            inferred,
            fault: None,
            strict: rules.strict,
        };
        let reason = reason.filter(|text| text.chars().count() > MAX_REASON_CHARS);
        // Only the first fault is reported, in this order.
        declared.fault = conflict
            .or_else(|| declared.operation_fault(is_given))
            .or_else(|| declared.sensitivity_fault())
            .or_else(|| reason.map(|_| Fault::ReasonTooLong))
            .or_else(|| declared.mismatch());
        declared
    }

    /// The intent of a caller that can only choose the call tool.
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

    /// The operation: as declared, else as chosen.
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
        // The hints of the current snapshot: a server may have changed them since the host listed the tool.
        let hints = tool.hints;
        let is_destructive = hints.destructive == Some(true);
        let used_on = |what: &str| {
            let (variant, tool) = (self.variant.call_tool(), tool.canonical());
            Ok(Some(format!(
                "{variant} is used on '{tool}', which is marked {what} by server"
            )))
        };
        match self.variant {
            // Only a literal `destructiveHint: true` conflicts. Silent tools would otherwise be unusable for reads.
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
    /// The stable error code.
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

    /// Whether the intent is at fault rather than the arguments.
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

/// One member of a declaration, in either spelling.
struct DeclaredField<'a> {
    name: &'static str,
    text: Option<Cow<'a, str>>,
    /// Whether the flat spelling has it, be it empty.
    is_given: bool,
    differs: bool,
}

impl<'a> DeclaredField<'a> {
    fn read(name: &'static str, given: Option<Json<'a>>, nested: Option<Json<'a>>) -> Self {
        let of = |object: Option<Json<'a>>| object?.get(name).filter(|value| !value.is_null());
        let (flat, nested) = (of(given), of(nested).and_then(text));
        let is_given = flat.is_some();
        let flat = flat.and_then(text);
        // A disagreement is a fault: choosing one spelling silently would discard half of the declaration.
        let differs = matches!((&flat, &nested), (Some(flat), Some(nested)) if flat != nested);
        Self {
            name,
            text: nested.or(flat),
            is_given,
            differs,
        }
    }
}

/// The text of a member; `None` if empty. Other kinds of values are kept as written.
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

    fn read(variant: Operation, text: &str) -> DeclaredIntent {
        read_by(variant, text, IntentRules::default())
    }

    fn read_by(variant: Operation, text: &str, rules: IntentRules) -> DeclaredIntent {
        let json = Json::validate(text.as_bytes(), Strictness::Full).unwrap();
        DeclaredIntent::read(variant, Some(json), rules)
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
