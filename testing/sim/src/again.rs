//! Starts without work in between: a copy of the disk is opened again and again, and ended in every way, also in the middle of its
//! recovery. It must show the same queues with the same messages in the same order every time, with no more files. Knows nothing of what
//! should be there.

use std::collections::BTreeMap;
use std::sync::Arc;

use broker::QueueDeclare;
use platform::{Clock, Random, SeededRandom, SimClock};
use wire::amqp091::Table;

use crate::census::Census;
use crate::history::History;
use crate::life::{Life, World};

/// Starts between two looks, at most.
const STARTS_MAX: u64 = 4;

/// In so many looks in a row there may be more files than in any before.
const LOOKS_WITH_GROWTH_MAX: usize = 4;

/// Starts that change something each: a third of them may pile up files, no more.
const CHANGING_STARTS: u64 = 36;

/// How one start ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// In order, at once.
    Stop,
    /// The process ends after this many steps of its engines.
    After(u64),
    /// The process ends before this call to the disk, of those that opening makes.
    In(u64),
}

impl History {
    /// Opens a copy of the disk several times. The history goes on without it, and with the same chances.
    pub(crate) fn start_again(&mut self) -> Result<(), String> {
        self.summary.restarts += self.world.start_again(self.seed_aside())?;
        Ok(())
    }

    /// Another seed for each place in a history.
    fn seed_aside(&self) -> u64 {
        self.summary.fingerprint ^ self.now.rotate_left(32) ^ self.summary.lives
    }
}

impl World {
    /// A world of its own, on a disk as it would be if the process ended now.
    fn aside(&self, seed: u64) -> World {
        World {
            disk: self.disk.fork(),
            faults: Arc::default(),
            clock: Arc::new(SimClock::new(self.clock.wall_ms())),
            random: Arc::new(SeededRandom::new(seed)),
            memory: self.memory.clone(),
            queue_memory_bytes_max: self.queue_memory_bytes_max,
            waiting_bytes_max: self.waiting_bytes_max,
            scale: self.scale,
            tell: self.tell,
        }
    }

    /// Opens a copy of the disk several times, which must change nothing; says how often. Nothing of this world changes.
    pub(crate) fn start_again(&self, seed: u64) -> Result<u64, String> {
        let world = self.aside(seed);
        self.tell(&|| format!("starts without work, at {}", world.clock.wall_ms()));
        if world.random.chance(1, 2) {
            world.disk.crash(world.random.next_u64());
        }
        start_often(&world).map_err(|why| format!("starts without work in between: {why}"))
    }
}

impl History {
    /// Nothing is there, and one start after the other changes something: the files that they leave behind do not grow.
    pub(crate) fn check_files_stay_few(&mut self) -> Result<(), String> {
        let world = self.world.aside(self.seed_aside());
        let (mut early, mut late) = (Files::default(), Files::default());
        for start in 0..CHANGING_STARTS {
            let mut life = world.open().map_err(|error| format!("the broker does not start: {error}"))?;
            change_metadata(&mut life)?;
            life.driver.run_until_idle();
            match start * 3 / CHANGING_STARTS {
                1 => early.at_least(&files(&world)),
                2 => late.at_least(&files(&world)),
                _ => {}
            }
            if world.random.chance(1, 2) {
                life.stop();
            } else {
                drop(life);
            }
            end(&world);
        }
        late.check_within(&early)
            .map_err(|why| format!("after {CHANGING_STARTS} starts with one change each {why}"))
    }
}

/// Declares and deletes a queue with a name so long that a few of them are worth a snapshot.
fn change_metadata(life: &mut Life) -> Result<(), String> {
    let name = [b'n'; 250];
    let declare = QueueDeclare {
        name: &name,
        durable: true,
        exclusive: false,
        auto_delete: false,
        arguments: Table::from_raw(&[]),
    };
    let declared = life.broker.declare_queue(&life.principal, declare);
    declared.map_err(|refused| format!("a declaration is refused: {refused:?}"))?;
    life.driver.run_until_idle();
    let deleted = life.broker.delete_queue(&life.principal, &name, false, false);
    deleted.map_err(|refused| format!("a deletion is refused: {refused:?}")).map(drop)
}

/// The state that the first start makes of the disk stays as it is: a client that fetches everything finds due messages behind others, too.
/// Says how many starts there were.
fn start_often(world: &World) -> Result<u64, String> {
    look(world)?;
    let (expected, files) = look(world)?;
    let (mut starts, mut previous) = (2, files);
    for round in 0..3 {
        let mut ends = Vec::new();
        for _ in 0..world.below(STARTS_MAX + 1) {
            let end = match world.below(4) {
                0 => End::Stop,
                1 => End::After(0),
                2 => End::After(world.below(30)),
                _ => End::In(1 + world.below(60)),
            };
            ends.push(end);
            start(world, end)?;
        }
        let (found, files) = look(world)?;
        starts += 1 + ends.len() as u64;
        if let Some(difference) = found.difference(&expected) {
            return Err(format!("after {ends:?} {difference}"));
        }
        if round > 0 && files.check_within(&previous).is_err() {
            check_growth_ends(world, files.clone()).map_err(|why| format!("after {ends:?} {why}"))?;
        }
        previous = files;
    }
    Ok(starts)
}

/// There are more files than there were. A broker that is short of memory may write messages out that it kept before, once; a file that
/// every start adds is a leak.
fn check_growth_ends(world: &World, mut most: Files) -> Result<(), String> {
    let mut grown = String::new();
    for _ in 0..LOOKS_WITH_GROWTH_MAX {
        let (_, files) = look(world)?;
        match files.check_within(&most) {
            Ok(()) => return Ok(()),
            Err(why) => grown = why,
        }
        most.at_least(&files);
    }
    Err(format!("there are more files with every start: {grown}"))
}

/// How many files each folder holds.
#[derive(Clone, Debug, Default)]
struct Files(BTreeMap<String, usize>);

impl Files {
    /// Remembers the larger of both numbers.
    fn at_least(&mut self, other: &Files) {
        for (folder, count) in &other.0 {
            let own = self.0.entry(folder.clone()).or_default();
            *own = (*own).max(*count);
        }
    }

    /// Nowhere are more than there.
    fn check_within(&self, other: &Files) -> Result<(), String> {
        for (folder, count) in &self.0 {
            let before = other.0.get(folder).copied().unwrap_or(0);
            if *count > before {
                return Err(format!("{folder} has {count} files, not {before}"));
            }
        }
        Ok(())
    }
}

fn files(world: &World) -> Files {
    let mut files = Files::default();
    // Shared bodies get a segment with the checkpoint that is due first, whenever that is; the end of a history sees that it goes.
    let is_of_bodies = |path: &std::path::Path| path.display().to_string().contains("/ffffffffffffffff-");
    for path in world.disk.paths().into_iter().filter(|path| !is_of_bodies(path)) {
        let folder = path.parent().map(|folder| folder.display().to_string()).unwrap_or_default();
        *files.0.entry(folder).or_default() += 1;
    }
    files
}

/// Everything that is there, and the files that are left when nothing is to be done any more.
fn look(world: &World) -> Result<(Census, Files), String> {
    let mut life = world.open().map_err(|error| format!("the broker does not start: {error}"))?;
    let census = Census::take(&mut life)?;
    let files = files(world);
    world.tell(&|| format!("a look at {files:?}"));
    drop(life);
    end(world);
    Ok((census, files))
}

fn start(world: &World, how: End) -> Result<(), String> {
    world.tell(&|| format!("a start that ends: {how:?}"));
    if let End::In(calls) = how {
        world.faults.end_at(calls);
    }
    match (world.open(), how) {
        (Ok(life), End::Stop) => life.stop(),
        (Ok(mut life), End::After(steps)) => life.step(&world.random, steps),
        // It made fewer calls than that, or could do without those that failed.
        (Ok(life), End::In(_)) => drop(life),
        (Err(_), End::In(_)) => {}
        (Err(error), _) => return Err(format!("the broker does not start: {error}")),
    }
    end(world);
    Ok(())
}

/// The process is gone, perhaps with the power.
fn end(world: &World) {
    world.faults.heal();
    if world.random.chance(1, 2) {
        world.disk.crash(world.random.next_u64());
    } else {
        world.disk.kill();
    }
}
