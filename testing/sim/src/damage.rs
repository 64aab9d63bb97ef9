//! Disks that changed what was written: a copy of the disk is damaged and opened, and must tell, or hold what the undamaged
//! copy holds. Whatever happens, nothing is handed out that was not published. Knows no format.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use broker::{Condition, Refused};
use platform::{Disk, OpenMode, Random, SimDisk};

use crate::history::History;
use crate::kinds::{self, SLOTS};
use crate::life::{Life, World};
use crate::model::Seen;

/// What a disk writes at once.
const SECTOR_BYTES: u64 = 512;

/// What a queue turned out to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Contents {
    /// It is not there.
    Nowhere,
    /// It is out of service, and says so.
    Crashed,
    /// These, with how often each is there.
    Holds(BTreeMap<(u64, Option<usize>), u64>),
}

impl Contents {
    /// What the other does not have.
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
        let world = &self.world;
        let mut whole = world.disk.copy();
        if world.random.chance(1, 2) {
            // As it would be after a power cut now; the history goes on without it.
            whole.crash(world.random.next_u64());
        }
        let when = [When::Unseen, When::Known, When::Known, When::Running]
            [usize::try_from(world.below(4)).expect("below 4")];
        let damaged = whole.copy();
        let expected = match when {
            When::Unseen => None,
            When::Known | When::Running => {
                let life = world.open_on(Arc::new(whole.clone()));
                let mut life = life.map_err(|error| format!("a copy of the disk does not open: {error}"))?;
                // What is written from here on, such as letters, would have no witness when it is damaged.
                let known = whole.copy();
                life.driver.run_until_idle();
                let contents = contents(&mut life)?;
                whole = known;
                Some(contents)
            }
        };
        let disk = if when == When::Unseen { damaged } else { whole };
        let outcome = self.look_at_damaged(&disk, when, expected.as_deref());
        self.world.check_freed(None)?;
        outcome
    }

    fn look_at_damaged(
        &mut self,
        disk: &SimDisk,
        when: When,
        expected: Option<&[Contents]>,
    ) -> Result<(), String> {
        let mut done = String::new();
        if when != When::Running {
            done = damage(&self.world, disk);
        }
        let mut life = match self.world.open_on(Arc::new(disk.clone())) {
            Ok(life) => life,
            Err(error) => {
                self.tell(&|| format!("{}: {done}, {when:?}: the start is refused: {error}", self.now));
                return Ok(());
            }
        };
        if when == When::Running {
            done = damage(&self.world, disk);
        }
        life.driver.run_until_idle();
        let found = contents(&mut life).map_err(|why| format!("{done}, {when:?}: {why}"))?;
        self.tell(&|| format!("{}: {done}, {when:?}: opened", self.now));
        for (slot, (here, expected)) in found.iter().zip(expected.into_iter().flatten()).enumerate() {
            // Letters stay in a queue that is out of service.
            let lacks_letters = (0..SLOTS)
                .any(|from| found[from] == Contents::Crashed && self.model.chain(from).contains(&slot));
            if here != expected && !lacks_letters && self.model.kinds[slot].durable {
                let (found, expected) = (here.beside(expected), expected.beside(here));
                return Err(format!(
                    "{done}, {when:?}: nobody says anything, and q{slot} has {found:?}, not {expected:?}"
                ));
            }
        }
        self.summary.damages += 1;
        Ok(())
    }
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
        // In place, so that whoever has it open sees it.
        let file = disk.open(path, OpenMode::ReadWrite).expect("it is there");
        let written = file.truncate(bytes.len() as u64).and_then(|()| file.write_all_at(0, &[&bytes]));
        written.and_then(|()| file.sync_data()).expect("nothing fails on this copy");
    }
    format!("{what:?} of {} at {at}", path.display())
}

/// Fetches everything, without giving anything back.
fn contents(life: &mut Life) -> Result<Vec<Contents>, String> {
    (0..SLOTS).map(|slot| contents_of(life, slot)).collect()
}

fn is_any_crashed(life: &Life) -> bool {
    let queues = (0..SLOTS).filter_map(|slot| life.queue(slot));
    queues.into_iter().any(|queue| queue.condition() == Condition::Crashed)
}

fn contents_of(life: &mut Life, slot: usize) -> Result<Contents, String> {
    let mut held = BTreeMap::new();
    loop {
        let Some(queue) = life.queue(slot) else { return Ok(Contents::Nowhere) };
        if queue.condition() != Condition::Running {
            return Ok(Contents::Crashed);
        }
        let name = kinds::name(slot);
        let asked = life.broker.get(&life.principal, name.as_bytes(), true);
        let got = match asked {
            Ok((_, mut call)) => {
                life.driver.run_until_idle();
                match call.try_take() {
                    Some(got) => got,
                    // Its letters have nowhere to go, and a checkpoint of it waits for them: until it is over, no message dies.
                    None if is_any_crashed(life) => return Ok(Contents::Crashed),
                    None => return Err(format!("get from {name} is not answered")),
                }
            }
            Err(refused) => Err(refused),
        };
        match got {
            Ok(None) => return Ok(Contents::Holds(held)),
            Ok(Some(got)) => {
                let Seen { id, first_death } = Seen::read(&got.properties, &got.body)?;
                *held.entry((id, first_death)).or_default() += 1;
            }
            Err(Refused::Crashed(_)) => return Ok(Contents::Crashed),
            Err(refused) => return Err(format!("get from {name} is refused: {refused:?}")),
        }
    }
}
