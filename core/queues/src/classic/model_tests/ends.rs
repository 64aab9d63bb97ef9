//! How a history comes to rest, ends and begins anew, and the rules that must hold then.

use super::*;

impl History {
    /// Everything asked for is done: nothing may be left undone that could be done.
    pub(super) fn quiesce(&mut self) {
        self.queue.let_letters_wait(false);
        self.referee.room = usize::MAX;
        for token in self.referee.takers.keys().copied().collect::<Vec<_>>() {
            self.resume_one(token);
        }
        for _ in 0..10_000 {
            self.referee.room = usize::MAX;
            if self.referee.jobs.is_empty() && self.referee.removals.is_empty() {
                // A block that could not be written is tried again with the next event.
                self.queue.tick(self.referee.now_ms, &mut self.referee);
                if self.referee.jobs.is_empty() && self.referee.removals.is_empty() {
                    break;
                }
            }
            self.disk_step();
            self.take_letters(self.referee.removals.len());
        }
        let referee = &self.referee;
        assert!(referee.jobs.is_empty(), "the disk comes to rest");
        assert_eq!(referee.checkpoints_open, 0, "checkpoints end");
        assert_eq!(referee.gets, 0, "gets are answered");
        let drops = referee.config.overflow == Overflow::DropHead;
        assert!(!drops || !referee.over_limit(0, 0), "limits hold");
        assert!(!referee.all.iter().any(|kept| matches!(kept.place, Place::Rejected(_) | Place::Dying)));
        if referee.ready().count() > 0 {
            let waiting = referee.takers.keys().find(|token| referee.may_be_served(**token));
            assert_eq!(waiting, None, "nobody waits beside a ready message");
        }
        let stats = self.queue.stats(0);
        let read_ahead = (u64::from(referee.config.max_priority) + 1) * 6 * 150_000;
        let bound = referee.config.memory_bytes_max as u64 + read_ahead;
        assert!(stats.memory_bytes < bound, "{} bytes in memory", stats.memory_bytes);
    }

    /// The log as a crash leaves it: either whole, without what the queue does not need, or without its end. Returns where it
    /// ends.
    fn cut_log(&mut self) -> u64 {
        let referee = &mut self.referee;
        for kept in &referee.all {
            let lives = kept.persistent && referee.config.durable && kept.place != Place::Gone;
            assert_eq!(referee.is_logged(kept.id, referee.log_end), lives, "the log knows of {}", kept.id);
        }
        if self.dice.one_in(2) {
            self.forget_log();
            return self.referee.log_end;
        }
        let ends = referee.log.iter().map(|(record, _, _)| record.end).filter(|end| *end > referee.durable);
        let ends: Vec<u64> = ends.chain([referee.durable]).collect();
        let end = self.dice.pick(&ends);
        referee.log.retain(|(record, _, _)| record.end <= end);
        referee.archive.retain(|start, _| *start < end);
        referee.log_end = end;
        for (_, left) in referee.in_log.values_mut() {
            *left = left.filter(|left| *left <= end);
        }
        end
    }

    /// Power is cut: unsynced bytes are gone, and so is the log before the part that the queue needs.
    pub(super) fn restart(&mut self) {
        let log_end = self.cut_log();
        self.referee.disk.retain(|_, (_, synced)| *synced);
        let mut recovering = Recovering::default();
        for (record, kind, payload) in &self.referee.log {
            recovering.apply(*kind, payload, record).expect("what was written is read");
        }
        let needed: Vec<u64> = recovering.segments().collect();
        self.referee.disk.retain(|(segment, _), _| needed.contains(segment));
        self.referee.jobs.clear();
        let (config, now_ms) = (self.referee.config.clone(), self.referee.now_ms);
        // A queue that dies lets nothing go.
        self.queue = Classic::new(config.clone(), now_ms);
        self.referee.keeper.0.lock().expect("nobody panics with it").clear();
        self.queue =
            Classic::recovered(recovering, config, now_ms, &mut |name| self.referee.find_body(name, log_end));
        self.queue.store.share_memory(self.share_bytes);
        assert!(self.queue.oldest_log_position() <= log_end);
        let mut all = std::mem::take(&mut self.referee.all);
        all.retain(|kept| self.referee.is_logged(kept.id, log_end));
        self.referee.all = all;
        self.referee.durable = log_end;
        for kept in &mut self.referee.all {
            (kept.place, kept.redelivered, kept.seq) = (Place::Ready, false, None);
        }
        let referee = &mut self.referee;
        referee.jobs.clear();
        referee.removals.clear();
        referee.dying.clear();
        referee.takers.clear();
        (referee.active, referee.gets, referee.checkpoints_open) = (None, 0, 0);
        self.check_counters();
        // As the broker does with a queue that comes back.
        self.queue.tick(self.referee.now_ms, &mut self.referee);
    }

    pub(super) fn check_counters(&self) {
        let (referee, stats) = (&self.referee, self.queue.stats(0));
        let unacked = || {
            let held = |kept: &&Kept| matches!(kept.place, Place::Held(_) | Place::Rejected(_));
            referee.all.iter().filter(held)
        };
        assert_eq!(stats.ready, referee.ready().count() as u64, "ready");
        assert_eq!(stats.ready_bytes, referee.ready_bytes(), "ready bytes");
        assert_eq!(stats.unacked, unacked().count() as u64, "unacked");
        assert_eq!(stats.unacked_bytes, unacked().map(|kept| kept.bytes).sum::<u64>(), "unacked bytes");
        let persistent = || unacked().chain(referee.ready()).filter(|kept| kept.persistent);
        assert_eq!(stats.persistent, persistent().count() as u64, "persistent");
        let persistent_bytes = persistent().map(|kept| kept.bytes).sum::<u64>();
        assert_eq!(stats.persistent_bytes, persistent_bytes, "persistent bytes");
        let (segments, log, on_disk) = self.queue.store.counted_on_disk();
        assert_eq!(
            (self.queue.store.in_segments, self.queue.store.in_log),
            (segments, log),
            "blocks on disk"
        );
        assert!(on_disk, "no block has more that lives than it has bytes");
        for consumer in &stats.consumers {
            let taker = &referee.takers[&consumer.spec.id.token];
            assert_eq!(consumer.unacked, taker.held, "unacked of a consumer");
        }
    }
}
