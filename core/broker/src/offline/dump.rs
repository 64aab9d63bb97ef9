//! The records of one stored file as lines of text, a bounded number of them. Refuses to print bodies and credentials.

use std::path::Path;

use commitlog::{
    Found, LogFile, Record, SegmentFile, SnapshotFile, inspect_log_file, list_kept_files, list_log_files,
};
use metadata::{ExchangeByFact, Fact, QueueAtFact, QueueByFact, Replicas, snapshot_facts};
use platform::RealDisk;
use queues::RecordKind;

use super::survey::{OfflineError, lossy};
use crate::bodies::{BODY, PLACES, STREAM, each_place, read_body};

/// The name of a kind of records; `log` is `meta` or `log`.
pub fn kind_name(log: &str, kind: u8) -> &'static str {
    match (log, RecordKind::from_code(kind), kind) {
        ("meta", _, _) => "records of facts",
        (_, Some(RecordKind::Enqueue), _) => "enqueue records",
        (_, Some(RecordKind::EnqueueShared), _) => "enqueue records with shared bodies",
        (_, Some(RecordKind::EnqueueAlike), _) => "enqueue records of runs",
        (_, Some(RecordKind::State), _) => "state records",
        (_, Some(RecordKind::Settle), _) => "settle records",
        (_, Some(RecordKind::Returned), _) => "records of returned messages",
        (_, None, BODY) => "records of shared bodies",
        (_, None, PLACES) => "records of places of shared bodies",
        (_, None, _) => "records of an unknown kind",
    }
}

/// Shows the records, blocks or facts of `file`, a log file, a segment or a snapshot, at most `limit`; returns how many there are more.
///
/// # Errors
/// The file is none of those or cannot be read; the error of `show`.
pub fn dump(
    file: &Path,
    limit: u64,
    show: impl FnMut(String) -> std::io::Result<()>,
) -> Result<u64, OfflineError> {
    let unknown = || {
        let text = "it is neither a file of a log (NAME.log, NAME.kept) nor a segment (FF/NAME.seg) nor a snapshot (NAME-POSITION.snap)";
        OfflineError::Io(file.to_owned(), std::io::Error::new(std::io::ErrorKind::InvalidInput, text))
    };
    let mut lines = Lines { left: limit, more: 0, show, failed: None };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match file.extension().and_then(|extension| extension.to_str()) {
        Some(extension @ ("log" | "kept")) => {
            let found = match extension {
                "log" => list_log_files(&RealDisk, folder)?,
                _ => list_kept_files(&RealDisk, folder)?,
            };
            let found = found.iter().find(|found| found.path.file_name() == file.file_name());
            let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
            let is_meta = folder.file_name().is_some_and(|name| name == "meta");
            dump_log(found.ok_or_else(unknown)?, if is_meta { "meta" } else { "log" }, &mut lines)?;
        }
        Some("seg") => {
            let segment = SegmentFile::open_path(&RealDisk, file)?.ok_or_else(unknown)?;
            let end = segment.blocks(|place, block| {
                lines.add(|| format!("block at byte {}: {} bytes", place.offset, block.len()));
            });
            if end < segment.bytes {
                lines.add(|| format!("byte {end}: the bytes behind are not as they were written"));
            }
        }
        Some("snap" | "damaged") => {
            dump_snapshot(&SnapshotFile::open(&RealDisk, file)?.ok_or_else(unknown)?, &mut lines);
        }
        _ => return Err(unknown()),
    }
    match lines.failed {
        Some(error) => Err(OfflineError::Io(file.to_owned(), error)),
        None => Ok(lines.more),
    }
}

fn dump_log<S: FnMut(String) -> std::io::Result<()>>(
    file: &LogFile,
    log: &str,
    lines: &mut Lines<S>,
) -> Result<(), OfflineError> {
    Ok(inspect_log_file(&RealDisk, file, |found| match found {
        Found::Record(record) => lines.add(|| line(log, &record)),
        Found::Mended { offset, record } => {
            lines.add(|| format!("{} (byte {offset} put right by the checksum)", line(log, &record)));
        }
        Found::Damaged { offset, bytes, damage, .. } => {
            lines.add(|| format!("byte {offset}: {bytes} bytes are damaged: {damage}"));
        }
        Found::Unfinished { offset, bytes, .. } => {
            lines.add(|| format!("byte {offset}: {bytes} bytes of an unfinished write"));
        }
    })?)
}

fn dump_snapshot<S: FnMut(String) -> std::io::Result<()>>(file: &SnapshotFile, lines: &mut Lines<S>) {
    let SnapshotFile { path, position, state } = file;
    let Some(state) = state else {
        return lines.add(|| "the snapshot is damaged: its checksum does not match".into());
    };
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = name.split_once('-').map_or(name, |(name, _)| name);
    let bytes = state.len();
    match name {
        "metadata" => {
            lines.add(|| format!("snapshot of the metadata at position {position}: {bytes} bytes"));
            match snapshot_facts(state) {
                Ok(facts) => facts.iter().for_each(|it| lines.add(|| fact(it))),
                Err(error) => lines.add(|| format!("they cannot be read: {error}")),
            }
        }
        "epoch" => lines.add(|| format!("the folder of segments was opened {position} times")),
        _ => lines.add(|| format!("snapshot of {name}, number {position}: {bytes} bytes")),
    }
}

/// One record in words.
fn line(log: &str, record: &Record<'_>) -> String {
    let (position, bytes) = (record.position, record.payload.len());
    let name = kind_name(log, record.kind).replacen("records", "record", 1);
    let head = format!("before position {position}: {name}, {bytes} bytes");
    if log == "meta" {
        format!("{head}: {}", facts(record.payload))
    } else {
        let whose =
            if record.stream == STREAM { String::new() } else { format!(", queue {}", record.stream) };
        format!("{head}{whose}{}", content(record))
    }
}

/// Facts listed of one record.
const FACTS_MAX: usize = 20;

fn facts(payload: &[u8]) -> String {
    let Ok(all) = Fact::decode_all(payload) else { return "they cannot be read".into() };
    let mut words: Vec<String> = all.iter().take(FACTS_MAX).map(fact).collect();
    if all.len() > FACTS_MAX {
        words.push(format!("and {} more", all.len() - FACTS_MAX));
    }
    words.join(", ")
}

/// A fact and what it is about; nothing of credentials and values.
fn fact(fact: &Fact) -> String {
    let named = |what: &str, name: &[u8]| format!("{what} '{}'", lossy(name));
    let in_vhost =
        |what: &str, vhost: &[u8], name: &[u8]| format!("{} in '{}'", named(what, name), lossy(vhost));
    match fact {
        Fact::VhostSet(it) => named("vhost", &it.name),
        Fact::VhostDeleted(it) => named("deleted vhost", &it.name),
        Fact::UserSet(it) => named("user", &it.name),
        Fact::UserDeleted(it) => named("deleted user", &it.name),
        Fact::PermissionsSet(it) => in_vhost("permissions of", &it.vhost, &it.user),
        Fact::PermissionsCleared(it) => in_vhost("cleared permissions of", &it.vhost, &it.user),
        Fact::TopicPermissionsSet(it) => in_vhost("topic permissions of", &it.vhost, &it.user),
        Fact::TopicPermissionsCleared(it) => in_vhost("cleared topic permissions of", &it.vhost, &it.user),
        Fact::ExchangeAdded(it) | Fact::ExchangeAddedBy(ExchangeByFact { added: it, .. }) => {
            in_vhost("exchange", &it.exchange.vhost, &it.exchange.name)
        }
        Fact::ExchangeDeleted(it) => in_vhost("deleted exchange", &it.vhost, &it.name),
        Fact::QueueAdded(it)
        | Fact::QueueAddedBy(QueueByFact { added: it, .. })
        | Fact::QueueAddedAt(QueueAtFact { added: it, .. }) => {
            format!("{} number {}", in_vhost("queue", &it.queue.vhost, &it.queue.name), it.id.0)
        }
        Fact::QueueDeleted(it) => in_vhost("deleted queue", &it.vhost, &it.name),
        Fact::QueueExpirySet(it) => in_vhost("expiry of queue", &it.vhost, &it.name),
        Fact::BindingAdded(it) => in_vhost("binding of", &it.vhost, &it.source),
        Fact::BindingRemoved(it) => in_vhost("removed binding of", &it.vhost, &it.source),
        Fact::ParameterSet(it) => format!("parameter '{}'", it.name),
        Fact::ParameterCleared(it) => format!("cleared parameter '{}'", it.name),
        Fact::GlobalParameterSet(it) => format!("global parameter '{}'", it.name),
        Fact::GlobalParameterCleared(it) => format!("cleared global parameter '{}'", it.name),
        Fact::PolicySet(it) => format!("policy '{}'", it.name),
        Fact::PolicyCleared(it) => format!("cleared policy '{}'", it.name),
        Fact::OperatorPolicySet(it) => format!("operator policy '{}'", it.name),
        Fact::OperatorPolicyCleared(it) => format!("cleared operator policy '{}'", it.name),
        Fact::IdsUsed(it) => format!("numbers below {} used", it.next),
        Fact::VhostLimitsSet(it) => named("limits of vhost", &it.vhost),
        Fact::NodeIs(it) => format!("node '{}' number {}", it.row.name, it.number),
        Fact::NodesUsed(it) => format!("numbers of nodes below {} used", it.next),
        Fact::NodeDown(it) => format!("node number {} is down", it.node),
        Fact::ReplicasAre(it) => {
            let Replicas { leader, epoch, members, in_sync, .. } = &it.replicas;
            format!(
                "queue number {} on nodes {members:?}, in sync {in_sync:?}, {leader} leads in epoch {epoch}",
                it.queue.0
            )
        }
    }
}

/// The content of a record, with its messages.
fn content(record: &Record<'_>) -> String {
    match RecordKind::from_code(record.kind) {
        Some(kind) if kind.is_enqueue() => {
            let mut numbers = Vec::new();
            queues::each_enqueued(kind, record.payload, |seq, _| numbers.push(seq.0));
            match (numbers.first(), numbers.last()) {
                (Some(first), Some(last)) => format!(", {} messages, {first} to {last}", numbers.len()),
                _ => String::new(),
            }
        }
        Some(RecordKind::Settle) => {
            let runs = queues::settled(record.payload).map_while(|run| run);
            let (count, messages) =
                runs.fold((0, 0), |(count, messages), run| (count + 1, messages + u64::from(run.count)));
            format!(", {messages} messages in {count} runs")
        }
        Some(_) => String::new(),
        None => body_content(record),
    }
}

/// Which shared bodies a record tells of.
fn body_content(record: &Record<'_>) -> String {
    match record.kind {
        BODY => read_body(record.payload).map_or_else(String::new, |(id, _)| format!(", body {id}")),
        PLACES => {
            let ids: Vec<u64> = each_place(record.payload).map_while(|place| Some(place?.0)).collect();
            let ends = ids.iter().min().zip(ids.iter().max());
            ends.map_or_else(String::new, |(first, last)| {
                format!(", {} bodies, {first} to {last}", ids.len())
            })
        }
        _ => String::new(),
    }
}

/// Lines up to a bound.
struct Lines<S> {
    left: u64,
    more: u64,
    show: S,
    failed: Option<std::io::Error>,
}

impl<S: FnMut(String) -> std::io::Result<()>> Lines<S> {
    fn add(&mut self, line: impl FnOnce() -> String) {
        if self.failed.is_some() {
            return;
        }
        if self.left == 0 {
            self.more += 1;
            return;
        }
        self.left -= 1;
        self.failed = (self.show)(line()).err();
    }
}
