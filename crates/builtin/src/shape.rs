//! How the tools are offered to one host.

/// What a host needs the tools to be like. The default suits most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shape {
    /// Whether the schemas name both spellings of an argument and require neither. The tools accept both in any case; this is
    /// for hosts that refuse arguments that a schema does not allow.
    pub both_spellings: bool,
    pub pages: Pages,
}

/// The most that Read returns at once. A host that cuts longer results itself would cut the note that more lines follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pages {
    pub bytes: usize,
    pub lines: Option<u64>,
}

/// The default page of Read, and the largest.
const PAGE_BYTES: usize = 256 * 1024;

impl Default for Pages {
    fn default() -> Self {
        Self {
            bytes: PAGE_BYTES,
            lines: None,
        }
    }
}

impl Pages {
    pub(crate) fn within_bounds(self) -> Self {
        Self {
            bytes: self.bytes.clamp(1, PAGE_BYTES),
            lines: self.lines.map(|lines| lines.max(1)),
        }
    }
}
