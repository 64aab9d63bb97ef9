//! Random work, power cuts, kills and clean ends beside a list of what was committed.

use std::time::Duration;

use platform::SeededRandom;
use proptest::prelude::*;

use super::*;

/// The entries that a stream was given, by offset.
#[derive(Default)]
struct Model {
    appended: Vec<Vec<u8>>,
    committed: u64,
}

struct Run {
    bench: Bench,
    log: Arc<StreamLog>,
    model: Model,
    random: SeededRandom,
    limits: Limits,
}

impl Run {
    fn new(seed: u64) -> Run {
        let random = SeededRandom::new(seed);
        let limits = Limits { segment_bytes: 500 + random.below(5000), ..Limits::default() };
        let bench = Bench::new();
        let log = bench.open(1, limits);
        Run { bench, log, model: Model::default(), random, limits }
    }

    fn append(&mut self) {
        let count = 1 + self.random.below(5);
        let messages: Vec<Vec<u8>> = (0..count)
            .map(|_| (0..self.random.below(400)).map(|_| self.random.below(256) as u8).collect())
            .collect();
        let next = append(&self.log, &messages.iter().map(Vec::as_slice).collect::<Vec<_>>());
        self.model.appended.extend(messages);
        assert_eq!(next, self.model.appended.len() as u64);
    }

    fn note(&mut self) {
        let committed = self.log.committed_next();
        assert!(committed >= self.model.committed);
        self.model.committed = committed;
    }

    fn reopen(mut self, how: u64) -> Run {
        self.note();
        match how {
            0 => self.bench.logs.close(),
            1 => self.bench.disk.kill(),
            _ => self.bench.disk.crash(self.random.below(u64::MAX)),
        }
        if how == 0 {
            self.note();
            assert_eq!(self.model.committed, self.model.appended.len() as u64);
        }
        drop(self.log);
        let bench = self.bench.again();
        let log = bench.open(1, self.limits);
        let next = log.committed_next();
        assert!(next >= self.model.committed, "{next} < {}", self.model.committed);
        assert!(next <= self.model.appended.len() as u64);
        self.model.appended.truncate(next as usize);
        self.model.committed = next;
        let run = Run { bench, log, ..self };
        run.check_all();
        run
    }

    fn check_all(&self) {
        let read = read_from(&self.bench, &self.log, Seek::First);
        assert_eq!(read.len() as u64, self.log.committed_next());
        for (at, (offset, body)) in read.iter().enumerate() {
            assert_eq!((*offset, body), (at as u64, &self.model.appended[at]));
        }
    }

    fn check_one(&self) {
        let committed = self.log.committed_next();
        let offset = self.random.below(committed + 2);
        let read = read_from(&self.bench, &self.log, Seek::Offset(offset));
        let wanted: Vec<_> = read.iter().filter(|(at, _)| *at >= offset).collect();
        assert_eq!(wanted.len() as u64, self.log.committed_next().saturating_sub(offset));
        for (at, body) in wanted {
            assert_eq!(body, &self.model.appended[*at as usize]);
        }
    }
}

fn run(seed: u64, steps: u64) {
    let mut run = Run::new(seed);
    for _ in 0..steps {
        match run.random.below(20) {
            0..8 => run.append(),
            8..14 => drop(run.bench.logs.step()),
            14 => run.bench.settle(),
            15 => run.check_one(),
            16 => run.bench.clock.advance(Duration::from_millis(run.random.below(3000))),
            17 => run.log.store_offset(b"me", run.random.below(1000)),
            _ => {
                let how = run.random.below(3);
                run = run.reopen(how);
            }
        }
        run.note();
    }
    run.bench.settle();
    run.check_all();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn what_was_committed_is_there_once_in_order_under_its_offset(seed: u64) {
        run(seed, 120);
    }
}
