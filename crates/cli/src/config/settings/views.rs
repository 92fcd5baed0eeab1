//! What hosts see of the tools: the views and their settings.

use std::{num::NonZeroUsize, path::Path};

use callgate_code::{Limits, Program};
use callgate_gate::{IntentRules, View};
use callgate_server::{CodeSettings, Detail, IntentForm, PackSource, ViewSettings};

use super::bytes;
use crate::{
    args::{Gateway, ViewName},
    config::{
        Config,
        model::{self, SearchDetail},
    },
};

pub(super) fn views(config: &Config, flags: &Gateway, code: CodeSettings) -> ViewSettings {
    let declared = &config.intent_declaration;
    ViewSettings {
        default: match flags.view {
            None => config.view.meant(),
            Some(ViewName::Direct) => View::Direct,
            Some(ViewName::Search) => View::Search,
            Some(ViewName::Code) => View::Code,
        },
        intent: IntentRules {
            required: declared.required,
            strict: declared.strict_server_validation,
        },
        form: declared.form.map(|form| match form {
            model::IntentForm::Nested => IntentForm::Nested,
            model::IntentForm::Flat => IntentForm::Flat,
        }),
        detail: match config.search.detail {
            SearchDetail::Compact => Detail::Compact,
            SearchDetail::Full => Detail::Full,
        },
        inline_chars: config.search.inline_chars.get(),
        code,
    }
}

/// What the `code` view is told. A worker is our own program once more.
pub(super) fn code(written: &model::Code, packs: PackSource, data_dir: &Path) -> CodeSettings {
    let kib = |number: NonZeroUsize| number.get().saturating_mul(1024);
    let worker = std::env::current_exe().ok().map(|path| Program {
        path,
        args: vec!["worker".into()],
    });
    CodeSettings {
        limits: Limits {
            cpu: written.cpu.0,
            wall: written.wall.0,
            memory_bytes: (bytes(written.memory_mib)) as u64,
            calls: u32::try_from(written.calls.get()).unwrap_or(u32::MAX),
            source_bytes: kib(written.source_kib),
            nesting: written.nesting.get(),
            output_bytes: kib(written.output_kib),
        },
        inline_chars: written.inline_chars.get(),
        packs,
        runs: Some(data_dir.join("runs")),
        worker,
    }
}
