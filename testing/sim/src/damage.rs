//! Disks that changed what was written: a copy of the disk is damaged and opened, and must tell, or hold what the undamaged
//! copy holds. Whatever happens, nothing is handed out that was not published, and nobody waits for an answer. Knows no format.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use broker::{Condition, Refused};
use platform::{Clock, Disk, OpenMode, Random, SimDisk};

use crate::history::History;
use crate::kinds;
use crate::life::{Life, World};
use crate::model::Seen;
use crate::streams::read_all;

/// The bytes that a disk writes at once.
const SECTOR_BYTES: u64 = 512;

/// A request may take so long to be answered while letters find a queue out of service.
const PATIENCE: Duration = Duration::from_secs(3);

/// The content that a queue turned out to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Contents {
    /// It is out of service, and says so.
    Crashed,
    /// It answers late: its content is not looked at.
    Late,
    /// These, with how often each is there.
    Holds(BTreeMap<(u64, Option<usize>), u64>),
    /// A stream: messages by their offsets.
    Stream(BTreeMap<u64, u64>),
}

impl Contents {
    /// The content that the other does not have.
    fn beside(&self, other: &Contents) -> Contents {
        match (self, other) {
            (Contents::Holds(held), Contents::Holds(others)) => {
                let own = held.iter().filter(|(key, count)| others.get(key) != Some(count));
                Contents::Holds(own.map(|(key, count)| (*key, *count)).collect())
            }
            _ => self.clone(),
        }
    }
}

/// The content that the queues of a broker turned out to hold, by their names.
type Found = BTreeMap<String, Contents>;

/// Where the letters of a queue go, by their names.
type Letters = dyn Fn(&str) -> Option<String>;

/// How a file is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    /// One bit is the other way round.
    Bit,
    /// A sector is all zeros.
    Zeros,
    /// A sector holds anything.
    Garbage,
    /// The end is not there.
    Shorter,
    /// It is not there at all.
    Gone,
}

/// When it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// After a crash, before anybody has looked. Damage of the last write of a log looks like an unfinished one then.
    Unseen,
    /// After a crash, an opening and another crash: everything is known to have been whole.
    Known,
    /// While the broker runs.
    Running,
}

impl History {
    /// Damages a copy of the disk and looks what comes of it.
    pub(crate) fn rot(&mut self) -> Result<(), String> {
        let next = self.model.kinds.clone().map(|kind| kind.letters_to);
        let letters = move |name: &str| {
            let slot: usize = name.strip_prefix('q')?.parse().ok()?;
            Some(kinds::name(next[slot]?))
        };
        self.summary.damages += u64::from(self.world.rot(&letters)?);
        Ok(())
    }
}

impl World {
    /// Damages a copy of the disk and looks what comes of it; whether it was opened all the same.
    pub(crate) fn rot(&self, letters: &Letters) -> Result<bool, String> {
        if self.disk.paths().is_empty() {
            return Ok(false);
        }
        let mut whole = self.disk.copy();
        if self.random.chance(1, 2) {
            // As it would be after a power cut now; the history goes on without it.
            whole.crash(self.random.next_u64());
        }
        let when = [When::Unseen, When::Known, When::Known, When::Running]
            [usize::try_from(self.below(4)).expect("below 4")];
        let damaged = whole.copy();
        let expected = match when {
            When::Unseen => None,
            When::Known | When::Running => {
                let life = self.open_on(Arc::new(whole.clone()));
                let mut life = life.map_err(|error| format!("a copy of the disk does not open: {error}"))?;
                // Bytes that are written from here on, such as letters, would have no witness when they are damaged.
                let known = whole.copy();
                let found = self.look_into(&mut life)?;
                whole = known;
                Some(found)
            }
        };
        let disk = if when == When::Unseen { damaged } else { whole };
        let outcome = self.look_at_damaged(&disk, when, expected.as_ref(), letters);
        self.check_freed(None)?;
        outcome
    }

    fn look_at_damaged(
        &self,
        disk: &SimDisk,
        when: When,
        expected: Option<&Found>,
        letters: &Letters,
    ) -> Result<bool, String> {
        let mut done = String::new();
        if when != When::Running {
            done = damage(self, disk);
        }
        let mut life = match self.open_on(Arc::new(disk.clone())) {
            Ok(life) => life,
            Err(error) => {
                self.tell(&|| format!("{done}, {when:?}: the start is refused: {error}"));
                return Ok(false);
            }
        };
        if when == When::Running {
            done = damage(self, disk);
        }
        let found = self.look_into(&mut life).map_err(|why| format!("{done}, {when:?}: {why}"))?;
        self.tell(&|| format!("{done}, {when:?}: opened"));
        if let Some(expected) = expected {
            let is_shorter = done.starts_with("Shorter") || done.starts_with("Gone");
            let is_told = is_shorter || life.broker.stream_faults() != (0, 0);
            compare(&found, expected, letters, is_told).map_err(|why| format!("{done}, {when:?}: {why}"))?;
        }
        Ok(true)
    }

    /// Fetches everything, without giving anything back. A call that has to wait is answered after a while.
    fn look_into(&self, life: &mut Life) -> Result<Found, String> {
        life.driver.run_until_idle();
        let (mut found, mut late) = (Found::new(), Vec::new());
        let mut names: Vec<_> = life.principal.vhost.queues().iter().map(|queue| name_of(queue)).collect();
        names.sort_unstable();
        for name in names {
            let contents = contents_of(life, &name, &mut late)?;
            found.extend(contents.map(|contents| (name, contents)));
        }
        for exchange in life.principal.vhost.exchanges() {
            let Some(store) = life.principal.vhost.delays(&exchange) else { continue };
            let waiting = store.scheduled(usize::MAX).try_take().ok_or("what waits is not told")?;
            let due_ms = waiting.iter().map(|one| ((one.due_ms, None), 1)).collect();
            let is_running = store.condition() == Condition::Running;
            let contents = if is_running { Contents::Holds(due_ms) } else { Contents::Crashed };
            found.insert(format!("exchange {}", exchange.id), contents);
        }
        self.check_answered(life, late)?;
        Ok(found)
    }

    /// The history goes on as if no time had passed.
    fn check_answered(&self, life: &mut Life, late: Vec<LateGet>) -> Result<(), String> {
        if late.is_empty() {
            return Ok(());
        }
        let now_ms = self.clock.wall_ms();
        self.clock.advance(PATIENCE);
        life.driver.run_until_idle();
        self.clock.set_wall_ms(now_ms);
        for (name, mut is_answered) in late {
            if !is_answered() {
                return Err(format!("get from {name} is not answered"));
            }
            self.tell(&|| format!("get from {name} is answered late"));
        }
        Ok(())
    }
}

/// A request that was not answered at once: of whom, and whether it is by now.
type LateGet = (String, Box<dyn FnMut() -> bool>);

fn name_of(queue: &broker::Queue) -> String {
    String::from_utf8_lossy(queue.name()).into_owned()
}

/// Each queue must hold the expected content, unless a report says that it does not.
fn compare(
    found: &Found,
    expected: &Found,
    letters: &Letters,
    is_told_of_streams: bool,
) -> Result<(), String> {
    // Letters stay in a queue that is out of service, or late.
    let mut lack = BTreeSet::new();
    for (name, contents) in found {
        let mut next = Some(name.clone()).filter(|_| !matches!(contents, Contents::Holds(_)));
        while let Some(name) = next.filter(|name| lack.insert(name.clone())) {
            next = letters(&name);
        }
    }
    for name in expected.keys().chain(found.keys()).filter(|name| !lack.contains(*name)) {
        match (found.get(name), expected.get(name)) {
            (Some(here), Some(should)) if here == should || *should == Contents::Late => {}
            // A stream whose newest file is gone or shorter ends sooner. A torn end is cut, and counted. Each offset that is left names what it did.
            (Some(Contents::Stream(here)), Some(Contents::Stream(should)))
                if is_told_of_streams
                    && here.iter().all(|(offset, message)| should.get(offset) == Some(message)) => {}
            (Some(here), Some(should)) => {
                let (found, expected) = (here.beside(should), should.beside(here));
                return Err(format!("nobody says anything, and {name} has {found:?}, not {expected:?}"));
            }
            (here, should) => {
                return Err(format!("nobody says anything, and of {name} there is {here:?}, not {should:?}"));
            }
        }
    }
    Ok(())
}

/// Does something bad to a file of random choice; says what.
fn damage(world: &World, disk: &SimDisk) -> String {
    let paths = disk.paths();
    let len = |path: &Path| disk.contents(path).map_or(0, |bytes| bytes.len() as u64);
    let filled: Vec<_> = paths.iter().filter(|path| len(path) > 0).collect();
    let path = filled[usize::try_from(world.below(filled.len() as u64)).expect("an index")];
    let mut bytes = disk.contents(path).expect("a listed file is there");
    // Behind its last byte that is not zero a log has only been filled in advance.
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(1, |last| last as u64 + 1);
    let at = world.below(used);
    let what = [
        Damage::Bit,
        Damage::Bit,
        Damage::Bit,
        Damage::Zeros,
        Damage::Garbage,
        Damage::Shorter,
        Damage::Gone,
    ][usize::try_from(world.below(7)).expect("below 7")];
    let start = usize::try_from(at / SECTOR_BYTES * SECTOR_BYTES).expect("small");
    let end = bytes.len().min(start + usize::try_from(SECTOR_BYTES).expect("small"));
    match what {
        Damage::Bit => {
            disk.corrupt(path, at, 1 << world.below(8));
            return format!("bit of {} at {at} flipped", path.display());
        }
        Damage::Zeros => bytes[start..end].fill(0),
        Damage::Garbage => world.random.fill(&mut bytes[start..end]),
        Damage::Shorter => bytes.truncate(usize::try_from(at).expect("small")),
        Damage::Gone => {}
    }
    if what == Damage::Gone {
        let removed = disk.remove(path).and_then(|()| disk.sync_dir(path.parent().unwrap_or(path)));
        removed.expect("nothing fails on this copy");
    } else {
        // In place, so that a process that has it open sees it.
        let file = disk.open(path, OpenMode::ReadWrite).expect("it is there");
        let written = file.truncate(bytes.len() as u64).and_then(|()| file.write_all_at(0, &[&bytes]));
        written.and_then(|()| file.sync_data()).expect("nothing fails on this copy");
    }
    format!("{what:?} of {} at {at}", path.display())
}

fn is_any_crashed(life: &Life) -> bool {
    life.principal.vhost.queues().iter().any(|queue| queue.condition() == Condition::Crashed)
}

/// `None`: it went meanwhile.
fn contents_of(life: &mut Life, name: &str, late: &mut Vec<LateGet>) -> Result<Option<Contents>, String> {
    let mut held = BTreeMap::new();
    loop {
        let Some(queue) = life.principal.vhost.queue(name.as_bytes()) else { return Ok(None) };
        if queue.condition() != Condition::Running {
            return Ok(Some(Contents::Crashed));
        }
        if queue.stream_log().is_some() {
            let read = read_all(life, &queue)?.map(|read| Contents::Stream(read.into_iter().collect()));
            return Ok(Some(read.unwrap_or(Contents::Crashed)));
        }
        let asked = life.broker.get(&life.principal, name.as_bytes(), true);
        let got = match asked {
            Ok((_, mut call)) => {
                life.driver.run_until_idle();
                match call.try_take() {
                    Some(got) => got,
                    // Its letters have nowhere to go, and a checkpoint waits for them: until that gives up, no message dies.
                    None if is_any_crashed(life) => {
                        late.push((name.to_owned(), Box::new(move || call.try_take().is_some())));
                        return Ok(Some(Contents::Late));
                    }
                    None => return Err(format!("get from {name} is not answered")),
                }
            }
            Err(refused) => Err(refused),
        };
        match got {
            Ok(None) => return Ok(Some(Contents::Holds(held))),
            Ok(Some(got)) => {
                let Seen { id, first_death } = Seen::read(&got.properties, &got.body)?;
                *held.entry((id, first_death)).or_default() += 1;
            }
            Err(Refused::Crashed(_)) => return Ok(Some(Contents::Crashed)),
            Err(refused) => return Err(format!("get from {name} is refused: {refused:?}")),
        }
    }
}
