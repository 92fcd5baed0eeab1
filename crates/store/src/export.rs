//! Exporting the records of a data folder.

use std::{
    io::{self, Write},
    path::Path,
};

use callgate_record::{ActivityFilter, Format, TellProgress};

use crate::{Index, IndexError};

#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error(transparent)]
    Index(#[from] IndexError),
    /// What was exported could not be written.
    #[error("could not write the export: {0}")]
    Unwritable(#[from] io::Error),
}

/// Writes every record of the data folder that fits `filter`, oldest first.
pub fn export(
    dir: &Path,
    progress: Option<TellProgress>,
    format: Format,
    filter: &ActivityFilter,
    out: &mut dyn Write,
) -> Result<u64, ExportError> {
    let mut index = Index::open(dir)?;
    index.tell_progress(progress);
    index.catch_up()?;
    let mut count = 0;
    let mut failed = None;
    format.begin(out)?;
    let result = index.for_each(filter, &mut |activity| {
        count += 1;
        format.write(out, &activity).map_err(|error| {
            let kind = error.kind();
            failed = Some(error);
            kind.into()
        })
    });
    match failed {
        Some(error) => return Err(ExportError::Unwritable(error)),
        None => result?,
    }
    out.flush()?;
    Ok(count)
}
