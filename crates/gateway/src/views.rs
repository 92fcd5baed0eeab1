//! The views and their settings.

use std::num::NonZeroUsize;

use callgate_code::{Limits, Program};
use callgate_gate::IntentRules;
use callgate_server::{CodeSettings, Detail, IntentForm, PackSource, ViewSettings};

use callgate_config::{self as config, Packs, SearchDetail, Settings, bytes};

/// The settings of the views.
pub(crate) fn views(settings: &Settings) -> ViewSettings {
    let declared = &settings.config.intent_declaration;
    ViewSettings {
        default: settings.view,
        intent: IntentRules {
            required: declared.required,
            strict: declared.strict_server_validation,
        },
        form: declared.form.map(|form| match form {
            config::IntentForm::Nested => IntentForm::Nested,
            config::IntentForm::Flat => IntentForm::Flat,
        }),
        detail: match settings.config.search.detail {
            SearchDetail::Compact => Detail::Compact,
            SearchDetail::Full => Detail::Full,
        },
        inline_chars: settings.config.search.inline_chars.get(),
        code: code(settings),
    }
}

/// The settings of the `code` view. A worker is this program started again; a build without the interpreter has none.
fn code(settings: &Settings) -> CodeSettings {
    let written = &settings.config.code;
    let packs = match settings.packs.clone() {
        Packs::None => PackSource::None,
        Packs::Folder(folder) => PackSource::Folder(folder),
        Packs::Read(packs) => PackSource::Read(packs),
    };
    let kib = |number: NonZeroUsize| number.get().saturating_mul(1024);
    let worker = std::env::current_exe().ok().map(|path| Program {
        path,
        args: vec!["worker".into()],
    });
    let worker = worker.filter(|_| cfg!(feature = "code"));
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
        runs: Some(settings.data_dir.join("runs")),
        worker,
    }
}
