//! One log file being written: creation, filling in advance, sealing. Knows nothing of who waits for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::{Disk, DiskFile, OpenMode};

use super::format::{FILE_HEADER_BYTES, FileHeader};
use super::records::Records;
use super::{LogOptions, SyncPolicy};
use crate::bytes::{index_of, offset_of};
use crate::{IoFailure, Position};

/// Writes at most this share of the filling step are made into filled space: for larger ones the zeros would cost more than
/// the cheaper sync saves.
const PREFILL_SHARE: u64 = 16;
/// Zeros to fill with.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A file that nothing will be written to again.
#[derive(Clone, Debug)]
pub(super) struct SealedFile {
    pub(super) path: PathBuf,
    pub(super) first: Position,
    pub(super) end: Position,
}

/// The name of the file that begins at `first`.
pub(super) fn file_name(first: Position) -> String {
    format!("{:016x}.log", first.0)
}

/// The first position of a file, from its name; `None` when it is no log file's name.
pub(super) fn first_of_name(name: &str) -> Option<Position> {
    let digits = name.strip_suffix(".log")?;
    let position = Position(u64::from_str_radix(digits, 16).ok()?);
    (file_name(position) == name).then_some(position)
}

/// The file at the end of the log.
pub(super) struct ActiveFile {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    first: Position,
    /// Bytes of header and records.
    len: u64,
    /// Bytes that were written, be it with zeros.
    filled: u64,
    prefill_bytes: u64,
    file_bytes_max: u64,
}

/// The settings for writing a file.
#[derive(Clone, Copy)]
pub(super) struct FileRules {
    pub(super) sync: SyncPolicy,
    pub(super) prefill_bytes: u64,
    pub(super) file_bytes_max: u64,
}

impl FileRules {
    pub(super) const fn of(options: &LogOptions) -> Self {
        Self {
            sync: options.sync,
            prefill_bytes: options.prefill_bytes,
            file_bytes_max: options.file_bytes_max,
        }
    }
}

impl ActiveFile {
    /// Creates the file that begins at `first`; it is durable, with its name, when this returns. Replaces a file of the same
    /// name, which can only be one without records.
    pub(super) fn create(
        disk: &dyn Disk,
        dir: &Path,
        first: Position,
        rules: FileRules,
    ) -> Result<Self, IoFailure> {
        let path = dir.join(file_name(first));
        let unfinished = path.with_extension("log.tmp");
        let created = Self::create_as(disk, dir, (&unfinished, &path), first, rules);
        if created.is_err() {
            // It may take the room that is needed; the next start removes it too.
            let _already_failed = disk.remove(&unfinished);
        }
        let file = created?;
        let len = offset_of(FILE_HEADER_BYTES);
        let FileRules { prefill_bytes, file_bytes_max, .. } = rules;
        Ok(Self { file, path, first, len, filled: len, prefill_bytes, file_bytes_max })
    }

    /// Creates a file under the first name and gives it the second.
    fn create_as(
        disk: &dyn Disk,
        dir: &Path,
        (unfinished, path): (&Path, &Path),
        first: Position,
        rules: FileRules,
    ) -> Result<Arc<dyn DiskFile>, IoFailure> {
        let file =
            disk.open(unfinished, OpenMode::CreateEmpty).map_err(IoFailure::of("create", unfinished))?;
        let header = FileHeader { first, sync: rules.sync }.encode();
        file.write_all_at(0, &[&header]).map_err(IoFailure::of("write", unfinished))?;
        file.sync_data().map_err(IoFailure::of("sync", unfinished))?;
        disk.rename(unfinished, path).map_err(IoFailure::of("rename", unfinished))?;
        disk.sync_dir(dir).map_err(IoFailure::of("sync", dir))?;
        Ok(file)
    }

    /// Whether a write of `bytes` has to go into the next file.
    pub(super) fn is_full_for(&self, bytes: u64, file_bytes_max: u64) -> bool {
        self.has_records() && self.len + bytes > file_bytes_max
    }

    pub(super) fn has_records(&self) -> bool {
        self.len > offset_of(FILE_HEADER_BYTES)
    }

    /// Writes records at the end.
    pub(super) fn write(&mut self, batch: &Records) -> Result<(), IoFailure> {
        let end = self.len + offset_of(batch.len());
        let mut parts = batch.parts();
        let batch_parts = parts.len();
        let mut filled = end.max(self.filled);
        if end > self.filled && offset_of(batch.len()) <= self.prefill_bytes / PREFILL_SHARE {
            let goal = end.next_multiple_of(self.prefill_bytes).min(self.file_bytes_max);
            while filled < goal {
                let zeros = (goal - filled).min(offset_of(ZEROS.len()));
                parts.push(&ZEROS[..index_of(zeros)]);
                filled += zeros;
            }
        }
        let mut written =
            self.file.write_all_at(self.len, &parts).map_err(IoFailure::of("write", &self.path));
        if parts.len() > batch_parts && written.as_ref().is_err_and(IoFailure::is_out_of_room) {
            // Room for the records may be there without the filling.
            parts.truncate(batch_parts);
            written = self.file.write_all_at(self.len, &parts).map_err(IoFailure::of("write", &self.path));
        }
        // After a failure any part of it may be there: sealing cuts it off.
        self.filled = filled;
        written?;
        self.len = end;
        Ok(())
    }

    /// Makes what was written durable.
    pub(super) fn sync(&self) -> Result<(), IoFailure> {
        self.file.sync_data().map_err(IoFailure::of("sync", &self.path))
    }

    /// Cuts the filling off and makes the file durable as it is.
    pub(super) fn seal(&mut self) -> Result<(), IoFailure> {
        if self.filled > self.len {
            self.file.truncate(self.len).map_err(IoFailure::of("truncate", &self.path))?;
            self.filled = self.len;
        }
        self.sync()
    }

    /// The file as it is listed.
    pub(super) fn listed(&self) -> SealedFile {
        let end = self.first.plus(self.len - offset_of(FILE_HEADER_BYTES));
        SealedFile { path: self.path.clone(), first: self.first, end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_this_code_gives_are_log_files() {
        assert_eq!(first_of_name("00000000000000ff.log"), Some(Position(255)));
        for name in
            ["ff.log", "00000000000000FF.log", "00000000000000ff.log.tmp", "+0000000000000ff.log", ".log", ""]
        {
            assert_eq!(first_of_name(name), None, "{name}");
        }
    }
}
