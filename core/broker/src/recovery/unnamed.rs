//! Messages of queues that the metadata never named. Knows nothing of queues that were deleted.
//!
//! The last write of `meta/` may be unfinished: a crash tore it, nobody was answered, and it is cut off. Damage in it looks the same when the
//! server was not stopped cleanly. `log/` is the witness: messages of a queue that no readable declaration names tell that one is
//! missing that somebody used. Starting would delete them, so the server refuses before anything is changed.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use commitlog::{Found, LogFile, inspect_log_file, list_kept_files, list_log_files, read_all_snapshots};
use metadata::{State, is_durable_id};
use platform::Disk;
use queues::{RecordKind, Recovering};

use crate::open_errors::StartError;

/// Refuses a folder in which the end of the metadata log would be cut off, and whose message log holds messages of queues of which
/// nothing before that end tells. Changes nothing. Reads the message log only when there is such an end.
pub(crate) fn check(disk: &dyn Disk, data_dir: &Path) -> Result<(), StartError> {
    let meta = data_dir.join("meta");
    let files = list_log_files(disk, &meta).map_err(StartError::storage)?;
    let cut_bytes = unfinished_bytes(disk, &files)?;
    if cut_bytes == 0 {
        return Ok(());
    }
    let ids_end = ids_end(disk, &meta, &files)?;
    let (queues, messages) = messages_from(disk, &data_dir.join("log"), ids_end)?;
    if messages == 0 {
        return Ok(());
    }
    Err(StartError::Storage(format!(
        "the last write of meta/ is damaged or was never finished ({cut_bytes} bytes), and log/ holds {messages} messages of {queues} queues of \
         which the metadata do not tell: a start would delete them. Nothing was changed. Restore meta/ from a copy, or copy everything \
         with `warren diag salvage`: these messages go to queues salvaged-NUMBER"
    )))
}

fn unfinished_bytes(disk: &dyn Disk, files: &[LogFile]) -> Result<u64, StartError> {
    let Some(newest) = files.last() else { return Ok(0) };
    let mut unfinished = 0;
    inspect_log_file(disk, newest, |found| match found {
        // With good records of the same write behind it.
        Found::Damaged { bytes, .. } | Found::Unfinished { bytes, .. } => unfinished += bytes,
        Found::Mended { record, .. } => unfinished += record.range().end - record.range().start,
        Found::Record(_) => {}
    })
    .map_err(StartError::storage)?;
    Ok(unfinished)
}

/// The first identifier that the readable part of the metadata did not give out. Damage in it is told when it is opened.
fn ids_end(disk: &dyn Disk, meta: &Path, files: &[LogFile]) -> Result<u64, StartError> {
    let (mut state, mut from) = (State::new(), 0);
    for snapshot in read_all_snapshots(disk, meta, "metadata").map_err(StartError::storage)? {
        if let Some(Ok(decoded)) = snapshot.state.as_deref().map(State::decode_snapshot) {
            (state, from) = (decoded, snapshot.position.0);
            break;
        }
    }
    let mut is_whole = true;
    for file in files {
        inspect_log_file(disk, file, |found| match found {
            Found::Record(record) if is_whole && record.position.0 > from => {
                let _told_when_opened = state.replay_encoded(record.payload);
            }
            Found::Record(_) => {}
            Found::Mended { .. } | Found::Damaged { .. } | Found::Unfinished { .. } => is_whole = false,
        })
        .map_err(StartError::storage)?;
    }
    Ok(state.durable_ids_end())
}

/// Queues from this identifier on that have messages, and how many.
fn messages_from(disk: &dyn Disk, log: &Path, ids_end: u64) -> Result<(usize, u64), StartError> {
    let mut queues: HashMap<u64, Recovering> = HashMap::new();
    let mut files = list_kept_files(disk, log).map_err(StartError::storage)?;
    files.extend(list_log_files(disk, log).map_err(StartError::storage)?);
    for file in &files {
        inspect_log_file(disk, file, |found| {
            if let Found::Record(record) = found
                && is_durable_id(record.stream)
                && record.stream >= ids_end
                && let Some(kind) = RecordKind::from_code(record.kind)
            {
                let queue = queues.entry(record.stream).or_default();
                let _told_when_opened = queue.apply(kind, record.payload, &record.range());
            }
        })
        .map_err(StartError::storage)?;
    }
    let counts = queues.values().map(|queue| queue.contents().0).filter(|messages| *messages > 0);
    Ok(counts.fold((0, 0), |(queues, all), messages| (queues + 1, all + messages)))
}

/// Tells of queues that have records in the message log and were never named, although nothing was cut off the metadata.
pub(crate) fn tell(ids: &BTreeSet<u64>) {
    let Some(first) = ids.first() else { return };
    tracing::error!(
        queues = ids.len(),
        first,
        "the message log holds records of queues, by number, of which the metadata do not tell; they are dropped. No power cut leaves this \
         behind: meta/ is older than log/. Stop, restore it from a copy, or run `warren diag salvage`"
    );
}
