//! What is written about a call, and the proof that it was.
//!
//! This room defines the entries of the log, their redaction ([`Redactor`]), how they fold into one [`Activity`] per
//! call, and the ports of a backend ([`Stores`]). It opens no files and knows no database. [`Recorded`] is made only
//! here, after the store has taken the entry: a provider that requires a `Recorded<Permit>` cannot be reached by a
//! call that is not on record.

mod activity;
mod approval_port;
mod archive;
mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod entry;
mod export;
mod instant;
mod ledger;
mod publication;
mod recorder;
mod redact;
mod store;
mod stores;
mod tokens;

pub use activity::{Activity, ActivityError, Metadata};
pub use approval_port::{
    Answer, Approval, ApprovalFilter, ApprovalStatus, Approvals, ApprovalsError, Approver,
    AskOutcome, CallVisibility, Claim, DecisionChannel, HeldCallExcerpt, Question, Resolution,
    ResolveApprovalError, Resolved, SEAL_MARK_BYTES, StoredQuestion, UnsealedCall,
};
pub use archive::{
    ActivityFilter, Archive, ArchiveError, CatchUp, Caveats, DiskUse, DroppedEntries, FillProgress,
    Format, Page, Restored, Retained, RetentionLimits, Summary, TellProgress, Verification,
};
pub use clock::{
    CLOCK_PROOF, CLOCK_TOLERANCE, Clock, ClockJump, ClockTrust, RetentionPause, SystemClock,
    TRASH_TIME,
};
pub use entry::{
    Body, CallEntry, Check, Checkpoint, Decision, DropReason, Effect, Entry, EntryKind, Event,
    Failed, Finished, Head, Intent, KeyedHead, Opened, Origin, RawJson, RecordType, Status,
    Unknown, WriterId,
};
pub use instant::InstantWriter;
pub use ledger::{
    Account, Counted, Ledger, LedgerError, LedgerFuture, RateUsage, Reservation, Usage,
};
pub use publication::{NotHeads, Publication, PublishedHeads};
pub use recorder::{NotRecorded, OnFailure, Open, Outcome, Recorded, Recorder, Watching};
pub use redact::{BadPattern, Excerpt, Redactor, body_digest};
pub use store::{DurabilityWait, Log, Placing, Position, Store, StoreError};
pub use stores::{Backend, BackendError, SharedStores, Stores};
pub use tokens::{MAX_TOKENS, NewToken, Token, Tokens, TokensError};
