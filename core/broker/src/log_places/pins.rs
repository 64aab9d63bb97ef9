//! Which bytes of which files of the log queues need.

use std::ops::Range;

use commitlog::Afterlife;
use queues::LogRange;

/// The bytes of the files that queues need, at one moment. Bytes that were needed before may be needed again after a crash until everything
/// that had been appended at that moment is durable.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    /// In the order of the log, with what is needed of each.
    pub(crate) files: Vec<(Range<u64>, FileNeed)>,
    /// Some queue cannot tell: it is out of service, or its deletion may be undone.
    pub(crate) is_partial: bool,
}

/// The part of a file that is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileNeed {
    /// Bytes that must be there.
    pub(crate) bytes: u64,
    /// Bytes in it that would have to be elsewhere if the file had to go, about: without what is settled.
    pub(crate) kept_bytes: u64,
    /// Bytes that would be written for that: of blocks of which other files have a part, that part, too.
    pub(crate) written_bytes: u64,
}

impl Pins {
    /// Nothing is needed of these files.
    pub(crate) fn of(mut files: Vec<Range<u64>>) -> Pins {
        files.sort_unstable_by_key(|file| file.start);
        let files = files.into_iter().map(|file| (file, FileNeed::default())).collect();
        Pins { files, is_partial: false }
    }

    /// This range is needed.
    pub(crate) fn add(&mut self, range: Range<u64>) {
        self.add_part(&range, |need, part| need.bytes += part);
    }

    /// This range has so many bytes that live.
    pub(crate) fn add_kept(&mut self, range: LogRange, kept_bytes: u64) {
        let all = u64::from(range.bytes.max(1));
        self.add_part(&range.into(), |need, part| {
            need.kept_bytes += kept_bytes * part / all;
            need.written_bytes += kept_bytes;
        });
    }

    pub(crate) fn add_part(&mut self, range: &Range<u64>, mut add: impl FnMut(&mut FileNeed, u64)) {
        let first = self.files.partition_point(|(file, _)| file.end <= range.start);
        for (file, need) in &mut self.files[first..] {
            if file.start >= range.end {
                return;
            }
            add(need, file.end.min(range.end) - file.start.max(range.start));
        }
    }

    /// Whether some queue could not tell what it needs.
    pub(crate) fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Files with what is needed of them.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&Range<u64>, FileNeed)> {
        self.files.iter().map(|(file, need)| (file, *need))
    }

    /// The fate of a file that no restart needs.
    pub(crate) fn afterlife(&self, file: &Range<u64>) -> Afterlife {
        let is_free = self.files.iter().any(|(known, need)| known == file && need.bytes == 0);
        if is_free && !self.is_partial { Afterlife::None } else { Afterlife::Kept }
    }
}
