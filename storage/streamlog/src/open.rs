//! Opens a stream: from the footers of its files, and a walk of those that have none.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use platform::{DiskFile, OpenMode};
use wire::stream::CHUNK_HEADER_BYTES;

use crate::StreamError;
use crate::appender::Filling;
use crate::chunk::{OpenChunk, peek};
use crate::file::{Known, StreamFile};
use crate::footer::read_footer;
use crate::format::{HEAD_BYTES, SEAL_BYTES, back_of, check_head, file_path, folder_path, read_head};
use crate::log::{CutTail, Limits, OpenedStream, Readable, StreamListener, StreamLog};
use crate::node::Node;
use crate::round::{Writing, begin_file};
use crate::tail::Tail;
use crate::tracking::{Changes, Tracking};
use crate::walk::{Damage, Walk, Walked};

/// Bytes that are written again at once.
const AGAIN_BYTES: u64 = 1 << 20;

/// A file that was looked into.
struct Looked {
    file: Arc<StreamFile>,
    tracking: Tracking,
    has_footer: bool,
    damage: Option<Damage>,
    /// Up to here all was told when it was written last.
    synced: u32,
    is_marked: bool,
    /// Why what follows the chunks is none.
    fault: Option<&'static str>,
}

/// The files of a stream, looked into.
struct Opened {
    files: VecDeque<Arc<StreamFile>>,
    newest: Looked,
    damages: Vec<StreamError>,
}

/// Looks into all files; there is one afterwards.
fn look_at_all(node: &Node, id: u64, mut firsts: Vec<u64>) -> Result<Opened, StreamError> {
    firsts.sort_unstable();
    let mut damages = Vec::new();
    let mut files: VecDeque<Arc<StreamFile>> = VecDeque::new();
    let mut newest: Option<Looked> = None;
    for first in firsts {
        let path = file_path(&node.place.dir, id, first);
        let looked = look(node, id, first, &path)?;
        if let Some(damage) = looked.damage {
            let Damage { position, what, .. } = damage;
            damages.push(StreamError::Damaged { path: path.clone(), position, what });
        }
        if let Some(before) = &newest {
            let next = before.damage.map_or(before.file.extent().next, |damage| damage.next);
            if next != first {
                let what = "offsets before this file are missing";
                damages.push(StreamError::Damaged { path, position: 0, what });
            }
        }
        files.push_back(looked.file.clone());
        // The footer has the index of a file that is not the newest.
        if let Some(older) = newest.replace(looked)
            && older.has_footer
        {
            older.file.update(|known| known.index = None);
        }
    }
    let newest = match newest {
        Some(newest) => newest,
        None => {
            let file = begin_file(node, id, 0, &Tracking::default())?.file;
            files.push_back(file.clone());
            let tracking = Tracking::default();
            Looked {
                file,
                tracking,
                has_footer: false,
                damage: None,
                synced: 0,
                is_marked: true,
                fault: None,
            }
        }
    };
    Ok(Opened { files, newest, damages })
}

/// Opens the stream whose files begin at these offsets, or begins it.
pub(crate) fn open(
    node: &Arc<Node>,
    id: u64,
    firsts: Vec<u64>,
    limits: Limits,
    listener: Arc<dyn StreamListener>,
) -> Result<OpenedStream, StreamError> {
    let Opened { files, newest, damages } = look_at_all(node, id, firsts)?;
    let extent = newest.file.extent();
    let next = newest.damage.map_or(extent.next, |damage| damage.next.max(extent.next));
    let last_chunk_id = last_chunk_id(node, id, &files)?;
    let is_walked = !newest.has_footer && newest.damage.is_none();
    let (handle, cut_tail) = if is_walked { settle(node, id, &newest)? } else { (None, None) };
    let writing = Writing {
        file: newest.file.clone(),
        end: extent.end,
        last_chunk: extent.last_chunk,
        synced: match (&handle, newest.is_marked) {
            (None, _) => 0,
            (Some(_), true) => newest.synced.max(newest.file.head_bytes),
            (Some(_), false) => extent.end,
        },
        handle,
        is_to_cut: newest.has_footer,
        tracking: newest.tracking.clone(),
        sealed: Vec::new(),
        is_named: false,
        marks_from: 0,
        is_marked: newest.is_marked,
        is_damaged: newest.damage.is_some(),
    };
    let filling = Filling {
        next,
        epoch: extent.epoch.max(1),
        open: OpenChunk::new(limits.filter_bytes),
        closed: VecDeque::new(),
        tracking: newest.tracking,
        changes: Changes::default(),
    };
    let log = StreamLog {
        id,
        node: node.clone(),
        listener,
        limits: Mutex::new(limits),
        filling: Mutex::new(filling),
        readable: Mutex::new(Readable { files, tail: Tail::default(), last_chunk_id }),
        writing: Mutex::new(writing),
        committed: AtomicU64::new(next),
        waiting: Mutex::default(),
        attached: Mutex::default(),
        is_queued: AtomicBool::new(false),
        is_to_mark: AtomicBool::new(false),
        writers_until_ms: AtomicU64::new(0),
        unwritten_bytes: AtomicUsize::new(0),
        ended: Mutex::default(),
        has_ended: AtomicBool::new(false),
        readers: AtomicUsize::new(0),
    };
    Ok(OpenedStream { log: Arc::new(log), damages, cut_tail })
}

/// The newest file, open for writing, and what was cut from it.
type Settled = (Option<Arc<dyn DiskFile>>, Option<CutTail>);

/// After a crash: cuts what is torn, and makes durable what readers are about to see.
fn settle(node: &Node, id: u64, newest: &Looked) -> Result<Settled, StreamError> {
    let mut cut_tail = None;
    let file = &newest.file;
    let path = file_path(&node.place.dir, id, file.first);
    let handle = node.place.disk.open(&path, OpenMode::ReadWrite).map_err(StreamError::io("open", &path))?;
    let end = u64::from(file.extent().end);
    if file.bytes() > end {
        handle.truncate(end).map_err(StreamError::io("truncate", &path))?;
        let (bytes, what) = (file.bytes() - end, newest.fault.unwrap_or_default());
        file.update(|known| known.bytes = end);
        node.cut_tails.fetch_add(1, Ordering::Relaxed);
        cut_tail = Some(CutTail { path: path.clone(), position: end, bytes, what });
    }
    // A head was durable before the file had its name, and all before a mark was told: at rest, a stream costs no sync at a start.
    let has_news = file.extent().last_chunk != 0 && !newest.is_marked;
    if node.syncs() && has_news {
        write_again(&*handle, &path, u64::from(newest.synced)..end)?;
    }
    if has_news || cut_tail.is_some() {
        handle.sync_data().map_err(StreamError::io("sync", &path))?;
    }
    // The process that began the file may not have come so far.
    node.settle_folder(folder_path(&node.place.dir, id))?;
    Ok((Some(handle), cut_tail))
}

/// Writes what is in the file once more. A sync of it may have failed in the life before: then the system's cache shows bytes that no later
/// sync makes durable.
fn write_again(handle: &dyn DiskFile, path: &Path, part: Range<u64>) -> Result<(), StreamError> {
    let mut at = part.start;
    while at < part.end {
        let bytes = (part.end - at).min(AGAIN_BYTES);
        let mut block = vec![0; usize::try_from(bytes).expect("pieces are small")];
        handle.read_exact_at(at, &mut block).map_err(StreamError::io("read", path))?;
        handle.write_all_at(at, &[&block]).map_err(StreamError::io("write", path))?;
        at += bytes;
    }
    Ok(())
}

/// Offset of the last chunk with records: chunks without records are passed over, backwards.
fn last_chunk_id(
    node: &Node,
    id: u64,
    files: &VecDeque<Arc<StreamFile>>,
) -> Result<Option<u64>, StreamError> {
    for file in files.iter().rev() {
        let path = file_path(&node.place.dir, id, file.first);
        let handle = file.handle(&node.place, id)?;
        let mut at = u64::from(file.extent().last_chunk);
        while at >= u64::from(file.head_bytes) {
            let mut header = [0; CHUNK_HEADER_BYTES];
            handle.read_exact_at(at, &mut header).map_err(StreamError::io("read", &path))?;
            let Some((header, len)) = peek(&header) else { return Ok(Some(file.first)) };
            if header.record_count > 0 {
                return Ok(Some(header.chunk_id));
            }
            let mut seal = [0; SEAL_BYTES];
            let seal_at = at + len as u64 - SEAL_BYTES as u64;
            handle.read_exact_at(seal_at, &mut seal).map_err(StreamError::io("read", &path))?;
            match u64::from(back_of(&seal)) {
                0 => break,
                back => at = at.saturating_sub(back),
            }
        }
    }
    Ok(None)
}

/// Looks into a file: its head, its footer, or all of it.
fn look(node: &Node, id: u64, first: u64, path: &Path) -> Result<Looked, StreamError> {
    let handle = node.place.disk.open(path, OpenMode::Read).map_err(StreamError::io("open", path))?;
    let len = handle.len().map_err(StreamError::io("look at", path))?;
    let damaged = |what| StreamError::Damaged { path: path.to_owned(), position: 0, what };
    let read = |at: u64, bytes: usize| -> Result<Vec<u8>, StreamError> {
        let mut read = vec![0; bytes];
        handle.read_exact_at(at, &mut read).map_err(StreamError::io("read", path))?;
        Ok(read)
    };
    if len < HEAD_BYTES as u64 {
        return Err(damaged("the file has no head"));
    }
    let start: [u8; HEAD_BYTES] = read(0, HEAD_BYTES)?.try_into().expect("as long as asked for");
    let head = read_head(&start).ok_or_else(|| damaged("the head is none"))?;
    let head_len = HEAD_BYTES + head.tracking_bytes;
    if (head.stream, head.first) != (id, first) || len < head_len as u64 {
        return Err(damaged("the head is that of another file"));
    }
    let whole_head = read(0, head_len)?;
    if !check_head(&whole_head) {
        return Err(damaged("the head does not fit its checksum"));
    }
    let head_bytes = u32::try_from(head_len).expect("tracking tables are bounded");
    if let Some(footer) = read_footer(&*handle, id, path, len, head_bytes)? {
        let mut tracking = Tracking::default();
        tracking.apply(&footer.tracking);
        let known =
            Known { extent: footer.extent, index: Some(Arc::new(footer.index)), bytes: len, damage: None };
        let file = StreamFile::new(first, head_bytes, known);
        let (synced, is_marked) = (0, true);
        return Ok(Looked { file, tracking, has_footer: true, damage: None, synced, is_marked, fault: None });
    }
    let mut tracking = Tracking::default();
    tracking.apply(&whole_head[HEAD_BYTES..]);
    let walk = Walk { stream: id, path, file: &*handle, len };
    let walked = walk.run(first, head_bytes, &mut tracking)?;
    let index = Some(Arc::new(walked.index.clone()));
    let damage = walked.damage.map(|damage| damage.what);
    let known = Known { extent: walked.extent, index, bytes: len, damage };
    let file = StreamFile::new(first, head_bytes, known);
    let Walked { damage, synced, is_marked, fault, .. } = walked;
    Ok(Looked { file, tracking, has_footer: false, damage, synced, is_marked, fault })
}
