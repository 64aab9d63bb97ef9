//! A disk in memory that keeps apart written and durable bytes, and can fail in the ways real disks do.
//!
//! The model: a crash drops or keeps every unsynced 512-byte sector by the toss of a coin and tears the last one; names that
//! were not synced appear, disappear or not, one by one; a failed sync leaves bytes that no later sync makes durable; a full
//! disk fails a write after some of it; single bits flip. Directories are durable at once. Knows nothing of formats.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Disk, DiskFile, OpenMode};
use crate::random::SeededRandom;

mod inode;

use inode::Inode;

/// A change to a directory that has not been synced.
#[derive(Clone)]
enum NameChange {
    Link { name: PathBuf, inode: u64 },
    Unlink { name: PathBuf },
    Rename { from: PathBuf, to: PathBuf, inode: u64 },
}

/// Everything on the disk.
#[derive(Clone, Default)]
struct State {
    inodes: BTreeMap<u64, Inode>,
    inode_next: u64,
    names: BTreeMap<PathBuf, u64>,
    names_durable: BTreeMap<PathBuf, u64>,
    name_changes: BTreeMap<PathBuf, Vec<NameChange>>,
    dirs: BTreeSet<PathBuf>,
    locked: BTreeSet<PathBuf>,
    /// Counts crashes: handles opened before the last one are dead.
    life: u64,
    open_files: usize,
    sync_count: u64,
    passed_reads: u64,
    syncs_until_failure: Option<u64>,
    /// Instead of the general error.
    sync_failure: Option<io::ErrorKind>,
    reads_until_bit_flip: Option<u64>,
    space_bytes: Option<u64>,
}

/// The simulated disk. Clones share the same disk.
#[derive(Clone, Default)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

impl SimDisk {
    /// An empty disk with no limit.
    pub fn new() -> Self {
        Self::default()
    }

    /// Power cut: unsynced bytes are kept or lost as `seed` decides; all open handles die, all locks end.
    pub fn crash(&self, seed: u64) {
        let random = SeededRandom::new(seed);
        let mut state = self.state.lock();
        let state = &mut *state;
        for inode in state.inodes.values_mut() {
            inode.crash(&random);
        }
        for change in std::mem::take(&mut state.name_changes).into_values().flatten() {
            if random.chance(1, 2) {
                apply(&mut state.names_durable, change);
            }
        }
        state.names = state.names_durable.clone();
        state.end_life();
    }

    /// `kill -9`: the process is gone, its written bytes are still there (in the page cache). All open handles die, all locks end.
    pub fn kill(&self) {
        self.state.lock().end_life();
    }

    /// Makes the `nth` sync from now (1 = the next, files and directories counted together) fail with an I/O error. Writes that it should
    /// have made durable are lost or kept by chance at the next [`Self::crash`], whatever is synced later.
    pub fn fail_nth_sync(&self, nth: u64) {
        self.state.lock().syncs_until_failure = Some(nth);
    }

    /// As [`Self::fail_nth_sync`], with an error of this kind.
    pub fn fail_nth_sync_with(&self, nth: u64, kind: io::ErrorKind) {
        let mut state = self.state.lock();
        (state.syncs_until_failure, state.sync_failure) = (Some(nth), Some(kind));
    }

    /// Limits the sum of all file lengths; a write beyond it is done in part and fails with `StorageFull`. `None` lifts it.
    pub fn set_space_bytes(&self, bytes: Option<u64>) {
        self.state.lock().space_bytes = bytes;
    }

    /// Makes the `nth` read from now (1 = the next) return its buffer with the middle byte's lowest bit flipped.
    pub fn flip_bit_on_nth_read(&self, nth: u64) {
        self.state.lock().reads_until_bit_flip = Some(nth);
    }

    /// Flips the bits of `mask` in one stored byte, durably: bit rot.
    ///
    /// # Panics
    /// When there is no such file or byte.
    pub fn corrupt(&self, path: &Path, offset: u64, mask: u8) {
        let mut state = self.state.lock();
        let inode = *state.names.get(path).expect("the file to corrupt exists");
        state.inodes.get_mut(&inode).expect("names point to files").corrupt(offset, mask);
    }

    /// The bytes of a file as a reader sees them now; `None` when there is none.
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state.lock();
        Some(state.inodes[state.names.get(path)?].live.clone())
    }

    /// Puts a durable file with these bytes there, in place of what was.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        let mut state = self.state.lock();
        let inode = state.new_inode();
        state.inodes.insert(inode, Inode::durable(bytes));
        state.names.insert(path.to_owned(), inode);
        state.names_durable.insert(path.to_owned(), inode);
        if let Some(dir) = path.parent() {
            state.dirs.extend(dir.ancestors().map(Path::to_owned));
        }
    }

    /// A disk of its own with the same files, on which everything that was written is durable and nobody has a file open: what a
    /// copy of the disk would be. Faults that were asked for stay behind.
    #[must_use]
    pub fn copy(&self) -> SimDisk {
        let state = self.state.lock();
        let names = state.names.clone();
        let inodes = names.values().map(|inode| (*inode, Inode::durable(&state.inodes[inode].live)));
        let copied = State {
            inodes: inodes.collect(),
            inode_next: state.inode_next,
            names_durable: names.clone(),
            names,
            dirs: state.dirs.clone(),
            ..State::default()
        };
        SimDisk { state: Arc::new(Mutex::new(copied)) }
    }

    /// A disk of its own that is as this one would be if the process ended now: with the same files, and what was not synced
    /// still at stake. Faults that were asked for stay behind.
    #[must_use]
    pub fn fork(&self) -> SimDisk {
        let mut state = self.state.lock().clone();
        state.end_life();
        (state.syncs_until_failure, state.sync_failure) = (None, None);
        (state.reads_until_bit_flip, state.space_bytes) = (None, None);
        SimDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// All files that have a name, in its order.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.state.lock().names.keys().cloned().collect()
    }

    /// Number of files that have a name.
    pub fn file_count(&self) -> usize {
        self.state.lock().names.len()
    }

    /// Number of file handles open now.
    pub fn open_file_count(&self) -> usize {
        self.state.lock().open_files
    }

    /// Number of reads so far after which nothing of what was read was to stay in the system's cache.
    pub fn passed_read_count(&self) -> u64 {
        self.state.lock().passed_reads
    }

    /// Number of syncs asked for so far, of files and directories.
    pub fn sync_count(&self) -> u64 {
        self.state.lock().sync_count
    }
}

/// Performs a name change on the durable names.
fn apply(names: &mut BTreeMap<PathBuf, u64>, change: NameChange) {
    match change {
        NameChange::Link { name, inode } => {
            names.insert(name, inode);
        }
        NameChange::Unlink { name } => {
            names.remove(&name);
        }
        NameChange::Rename { from, to, inode } => {
            if names.get(&from) == Some(&inode) {
                names.remove(&from);
            }
            names.insert(to, inode);
        }
    }
}

/// The directory of a path.
fn dir_of(path: &Path) -> PathBuf {
    path.parent().map(Path::to_owned).unwrap_or_default()
}

impl State {
    fn new_inode(&mut self) -> u64 {
        self.inode_next += 1;
        self.inode_next
    }

    /// Every handle dies, every lock ends, files without a name are gone.
    fn end_life(&mut self) {
        self.life += 1;
        self.open_files = 0;
        self.locked.clear();
        let mut named: BTreeSet<u64> =
            self.names.values().chain(self.names_durable.values()).copied().collect();
        // A name that is gone may come back with the next power cut, if its going is not synced.
        named.extend(self.name_changes.values().flatten().filter_map(|change| match change {
            NameChange::Link { inode, .. } | NameChange::Rename { inode, .. } => Some(*inode),
            NameChange::Unlink { .. } => None,
        }));
        self.inodes.retain(|inode, _| named.contains(inode));
    }

    fn change_names(&mut self, dir: PathBuf, change: NameChange) {
        self.name_changes.entry(dir).or_default().push(change);
    }

    fn inode_of(&self, path: &Path) -> io::Result<u64> {
        self.names.get(path).copied().ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                format!("no file {} on the simulated disk", path.display()),
            )
        })
    }

    fn create(&mut self, path: &Path) -> io::Result<u64> {
        if !self.dirs.contains(&dir_of(path)) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no such directory"));
        }
        let inode = self.new_inode();
        self.inodes.insert(inode, Inode::default());
        self.names.insert(path.to_owned(), inode);
        self.change_names(dir_of(path), NameChange::Link { name: path.to_owned(), inode });
        Ok(inode)
    }

    /// Counts a sync and fails it if its time has come.
    fn sync(&mut self) -> io::Result<()> {
        self.sync_count += 1;
        if countdown(&mut self.syncs_until_failure) {
            return Err(match self.sync_failure.take() {
                Some(kind) => io::Error::from(kind),
                None => io::Error::other("simulated failure of a sync"),
            });
        }
        Ok(())
    }

    /// How many of `wanted` more bytes fit beside the files that have a name.
    fn room_bytes(&self, wanted: u64) -> u64 {
        let Some(space) = self.space_bytes else { return wanted };
        let used: u64 = self.names.values().map(|inode| self.inodes[inode].live.len() as u64).sum();
        space.saturating_sub(used).min(wanted)
    }
}

/// Counts down; true on the call that reaches zero.
fn countdown(counter: &mut Option<u64>) -> bool {
    match counter {
        Some(1) => {
            *counter = None;
            true
        }
        Some(left) => {
            *left -= 1;
            false
        }
        None => false,
    }
}

/// The error of a handle from before a crash.
fn dead_handle() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the handle was opened before the simulated crash")
}

/// A handle of the simulated disk.
struct SimFile {
    disk: SimDisk,
    inode: u64,
    life: u64,
    locked: Option<PathBuf>,
}

impl SimFile {
    fn with<T>(&self, operation: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.disk.state.lock();
        if state.life != self.life {
            return Err(dead_handle());
        }
        operation(&mut state)
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = self.disk.state.lock();
        if state.life == self.life {
            state.open_files -= 1;
            if let Some(path) = &self.locked {
                state.locked.remove(path);
            }
        }
    }
}

/// The inode an open handle points to: it outlives its name.
fn open_inode(state: &mut State, inode: u64) -> &mut Inode {
    state.inodes.get_mut(&inode).expect("a file outlives its open handles")
}

impl DiskFile for SimFile {
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.with(|state| {
            open_inode(state, self.inode).read(offset, buffer)?;
            if countdown(&mut state.reads_until_bit_flip)
                && let Some(byte) = buffer.get_mut(buffer.len() / 2)
            {
                *byte ^= 1;
            }
            Ok(())
        })
    }

    fn read_now_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.len()?.saturating_sub(offset);
        let bytes = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        self.read_exact_at(offset, &mut buffer[..bytes])?;
        Ok(bytes)
    }

    fn pass_cached(&self, part: Range<u64>) {
        // The cached bytes of a dead handle were read before it died.
        let _ = self.with(|state| {
            state.passed_reads += 1;
            open_inode(state, self.inode).drop_cached(part);
            Ok(())
        });
    }

    fn write_all_at(&self, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        let bytes = parts.concat();
        self.with(|state| {
            let len = open_inode(state, self.inode).live.len() as u64;
            let growth = (offset + bytes.len() as u64).saturating_sub(len);
            let missing = growth - state.room_bytes(growth);
            let fitting = bytes.len() as u64 - missing.min(bytes.len() as u64);
            let fitting = usize::try_from(fitting).expect("a part of a slice has a usize length");
            open_inode(state, self.inode).write(offset, &bytes[..fitting]);
            if missing > 0 { Err(io::Error::from(io::ErrorKind::StorageFull)) } else { Ok(()) }
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.with(|state| {
            let result = state.sync();
            let inode = open_inode(state, self.inode);
            match result {
                Ok(()) => inode.sync(),
                Err(_) => inode.fail_sync(),
            }
            result
        })
    }

    fn len(&self) -> io::Result<u64> {
        self.with(|state| Ok(open_inode(state, self.inode).live.len() as u64))
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.with(|state| {
            open_inode(state, self.inode).truncate(len);
            Ok(())
        })
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.with(|state| {
            let growth = len.saturating_sub(open_inode(state, self.inode).live.len() as u64);
            if state.room_bytes(growth) < growth {
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
            if growth > 0 {
                open_inode(state, self.inode).truncate(len);
            }
            Ok(())
        })
    }
}

impl SimDisk {
    fn handle(&self, state: &mut State, inode: u64, locked: Option<PathBuf>) -> Arc<dyn DiskFile> {
        state.open_files += 1;
        Arc::new(SimFile { disk: self.clone(), inode, life: state.life, locked })
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state.lock();
        let inode = match (mode, state.names.get(path).copied()) {
            (OpenMode::Read | OpenMode::ReadWrite, _) => state.inode_of(path)?,
            (OpenMode::CreateNew, Some(_)) => return Err(io::Error::from(io::ErrorKind::AlreadyExists)),
            (OpenMode::CreateNew | OpenMode::CreateEmpty, None) => state.create(path)?,
            (OpenMode::CreateEmpty, Some(inode)) => {
                open_inode(&mut state, inode).truncate(0);
                inode
            }
        };
        Ok(self.handle(&mut state, inode, None))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let inode = state.inode_of(from)?;
        state.names.remove(from);
        state.names.insert(to.to_owned(), inode);
        state
            .change_names(dir_of(to), NameChange::Rename { from: from.to_owned(), to: to.to_owned(), inode });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.inode_of(path)?;
        state.names.remove(path);
        state.change_names(dir_of(path), NameChange::Unlink { name: path.to_owned() });
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.state.lock();
        if !state.dirs.contains(dir) {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        let in_dir = state.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(in_dir.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.state.lock().dirs.extend(dir.ancestors().map(Path::to_owned));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.sync()?;
        for change in state.name_changes.remove(dir).unwrap_or_default() {
            apply(&mut state.names_durable, change);
        }
        Ok(())
    }

    fn free_bytes(&self, _path: &Path) -> io::Result<u64> {
        Ok(self.state.lock().room_bytes(u64::MAX))
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Arc<dyn DiskFile>>> {
        let mut state = self.state.lock();
        if !state.locked.insert(path.to_owned()) {
            return Ok(None);
        }
        let inode = match state.names.get(path) {
            Some(inode) => *inode,
            None => state.create(path)?,
        };
        Ok(Some(self.handle(&mut state, inode, Some(path.to_owned()))))
    }
}

#[cfg(test)]
mod tests;
