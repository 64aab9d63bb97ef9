//! Random work, random crashes, from a seed: everything reported durable is there, in order, and nothing is invented.

use std::path::Path;
use std::sync::Arc;

use commitlog::{Log, LogOptions, LogWriter, Position, SyncPolicy};
use platform::{SeededRandom, SimDisk};

use super::fixtures::{DIR, Owned, append, read_all};

/// The records that a seed's run has appended, and those that must be there again.
struct Run {
    disk: SimDisk,
    random: SeededRandom,
    options: LogOptions,
    /// Everything that may be in the log, oldest first; the front goes with dropped files.
    appended: Vec<Owned>,
    durable: Position,
    dropped_below: Position,
}

impl Run {
    fn new(seed: u64) -> Self {
        let random = SeededRandom::new(seed);
        let prefill_bytes = [0, 1024, 8192][usize::try_from(random.below(3)).unwrap()];
        Self {
            disk: SimDisk::new(),
            options: LogOptions { file_bytes_max: 3000, prefill_bytes, ..LogOptions::default() },
            random,
            appended: Vec::new(),
            durable: Position(0),
            dropped_below: Position(0),
        }
    }

    /// Opens the log and checks what it holds against what was done.
    fn open(&mut self) -> (Log, LogWriter) {
        let disk = Arc::new(self.disk.clone());
        let opened = Log::open_driven(disk, Path::new(DIR), self.options);
        let (log, writer, recovered) = opened.expect("a crash leaves no damage");
        assert!(recovered.end() >= self.durable, "durable records are lost");
        let end = recovered.end();
        let found = read_all(recovered).expect("a crash leaves no damage");
        self.appended.retain(|record| record.position <= end);
        let gone = self.appended.len().checked_sub(found.len()).expect("nothing is invented");
        assert!(self.appended.drain(..gone).all(|record| record.position <= self.dropped_below));
        assert_eq!(found, self.appended);
        self.durable = end;
        (log, writer)
    }

    fn work(&mut self, log: &Log, writer: &mut LogWriter) {
        for _ in 0..self.random.below(60) {
            match self.random.below(10) {
                0..6 => {
                    let len = usize::try_from(self.random.below(900)).unwrap();
                    let fill = u8::try_from(self.random.below(4)).unwrap();
                    let record = append(log, self.random.below(50), fill, &vec![fill; len]);
                    if record.position != Position::NEVER {
                        self.appended.push(record);
                    }
                }
                6..9 => {
                    writer.step();
                    self.durable = log.durable();
                }
                _ => {
                    let below = Position(self.random.below(self.durable.0 + 1));
                    self.dropped_below = self.dropped_below.max(below);
                    // A failing sync is part of the game; the files are gone or not.
                    let _dropped = log.drop_files_below(below);
                }
            }
        }
    }
}

#[test]
fn everything_durable_survives_thousands_of_crashes_and_nothing_is_invented() {
    for seed in 0..1500 {
        let mut run = Run::new(seed);
        for life in 0..5 {
            let (log, mut writer) = run.open();
            if run.random.chance(1, 4) {
                run.disk.fail_nth_sync(1 + run.random.below(20));
            }
            run.work(&log, &mut writer);
            run.disk.fail_nth_sync(u64::MAX);
            if run.random.chance(1, 4) {
                run.disk.kill();
            } else {
                run.disk.crash(seed * 31 + life);
            }
        }
        run.open();
    }
}

#[test]
fn under_the_os_policy_a_kill_loses_nothing_written_and_a_power_cut_leaves_a_clean_prefix() {
    for seed in 0..500 {
        let mut run = Run::new(seed);
        run.options.sync = SyncPolicy::Os;
        for life in 0..4 {
            let (log, mut writer) = run.open();
            run.work(&log, &mut writer);
            if life % 2 == 0 {
                run.disk.kill();
            } else {
                run.disk.crash(seed * 31 + life);
                // Only sealed files are promised.
                run.durable = run.durable.min(log.kept().0);
            }
        }
        run.open();
    }
}
