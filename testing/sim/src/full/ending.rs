//! The end of a history: nobody publishes any more, and whoever has to consume does. All that was confirmed comes where it ends, nothing is
//! left behind, and publishers may go on. Knows nothing of what made it come.

use std::collections::BTreeSet;

use broker::Refused;
use platform::Disk;

use super::history::{Full, LOOK};
use super::plan::{Taker, When};
use crate::kinds;
use crate::life::Life;

/// So long nothing may come though something has to, beside what it waits for on its way. Longer than anything that is kept for those that
/// die again.
const PATIENCE_MS: u64 = 15 * 60 * 1000;

/// How the reason begins when all is there, and nothing moves.
pub const STANDS_STILL: &str = "nothing comes any more";

/// So long publishers may wait when nothing is left: a reserve that is kept from them for five minutes, or one, may be cut then.
const ALARM_PATIENCE_MS: u64 = 10 * 60 * 1000;

/// Letters of a queue that keeps them take so much more than their bodies, bytes, at most.
const KEPT_LETTER_BYTES: u64 = 700;

/// Letters that are kept are in nobody's way who need this part of the disk at most: 1 / this.
const KEPT_PART: u64 = 8;

impl Full {
    pub(super) fn finish(&mut self, mut life: Life) -> Result<(), String> {
        self.world.faults.heal();
        self.room.let_others_have(0);
        self.take_part(&mut life, When::AtLast)?;
        let (kept, others) = self.sources_by_end();
        self.tell_standing("the end begins", &life);
        self.tell(&|| format!("files: {:?}", self.room.files()));
        if let Err(why) = self.await_all(&mut life, &others) {
            let kept_bytes: u64 = kept.iter().map(|source| self.letters_bytes(*source)).sum();
            if kept_bytes < self.plan.disk_bytes / KEPT_PART {
                return Err(why);
            }
        }
        self.take_part(&mut life, When::AfterOthers)?;
        let all = others.union(&kept).copied().collect();
        self.await_all(&mut life, &all)?;
        self.await_empty(&mut life)?;
        self.await_publishers(&mut life)?;
        self.check_nothing_stays(life)
    }

    /// Of the sources those whose letters stay until all others have come, and the others.
    fn sources_by_end(&self) -> (BTreeSet<usize>, BTreeSet<usize>) {
        let stays = |source: &usize| {
            self.plan.roles[self.plan.end_of(*source)].consumer == Taker::Acks(When::AfterOthers)
        };
        self.plan.sources().into_iter().partition(stays)
    }

    /// What letters of a source take where they stay, at most.
    fn letters_bytes(&self, source: usize) -> u64 {
        let (least, spread) = self.plan.body_bytes;
        self.ledger.count_of(source) * (least + spread + KEPT_LETTER_BYTES)
    }

    /// Until all that is confirmed of these sources has come.
    fn await_all(&mut self, life: &mut Life, sources: &BTreeSet<usize>) -> Result<(), String> {
        let patience_ms = PATIENCE_MS + self.plan.longest_ms();
        let (mut moved_ms, mut seen) = (self.now_ms(), self.standing(life));
        loop {
            let (count, first) = self.ledger.missing(sources);
            if count == 0 && life.unconfirmed.is_empty() {
                return Ok(());
            }
            self.tick(life)?;
            let standing = self.standing(life);
            if standing != seen {
                (moved_ms, seen) = (self.now_ms(), standing);
            } else if self.now_ms() > moved_ms + patience_ms {
                self.tell(&|| format!("files: {:?}", self.room.files()));
                let (unconfirmed, shown) = (life.unconfirmed.len(), self.shown(life));
                return Err(format!(
                    "{STANDS_STILL}: {count} are missing, the first is {first:?}, {unconfirmed} are unconfirmed: {shown}"
                ));
            }
        }
    }

    /// What becomes less in the sources and more at the ends.
    fn standing(&self, life: &Life) -> (u64, u64) {
        let depths = self.depths(life);
        let of_source = |source: &usize| depths[*source].0 + depths[*source].1;
        (self.ledger.come_count, self.plan.sources().iter().map(of_source).sum())
    }

    /// Until nothing is left in any queue: what comes again after a crash comes last.
    fn await_empty(&mut self, life: &mut Life) -> Result<(), String> {
        let until_ms = self.now_ms() + PATIENCE_MS + self.plan.longest_ms();
        while self.depths(life).iter().any(|depth| *depth != (0, 0)) {
            if self.now_ms() > until_ms {
                return Err(format!("something stays: {}", self.shown(life)));
            }
            self.tick(life)?;
        }
        Ok(())
    }

    /// Until publishers may go on; then what they publish is confirmed.
    fn await_publishers(&mut self, life: &mut Life) -> Result<(), String> {
        let until_ms = self.now_ms() + ALARM_PATIENCE_MS;
        while life.broker.alarms().raised().blocks() {
            if self.now_ms() > until_ms {
                return Err(format!("publishers wait for ever: {}", self.shown(life)));
            }
            self.tick(life)?;
        }
        self.tell_standing("publishers may go on", life);
        self.publish(life)?;
        let sources = self.plan.sources().into_iter().collect();
        self.await_all(life, &sources)?;
        self.await_empty(life)
    }

    /// Deletes everything: no segment is left, nor a kept file of the log, nor anything in memory.
    fn check_nothing_stays(&mut self, mut life: Life) -> Result<(), String> {
        let mut asked = Vec::new();
        for slot in 0..self.plan.roles.len() {
            let name = kinds::name(slot);
            let refused = |refused: Refused| format!("the deletion of {name} is refused: {refused:?}");
            let call = life.broker.delete_queue(&life.principal, name.as_bytes(), false, false);
            asked.push(call.map_err(refused)?);
        }
        life.unsettled.clear();
        for _ in 0..5 {
            self.world.clock.advance(LOOK);
            life.driver.run_until_idle();
        }
        if asked.into_iter().any(|mut call| !matches!(call.try_take(), Some(Ok(_)))) {
            return Err("a deletion is not answered".into());
        }
        life.channel = broker::PublishChannel::new();
        let remains = life.driver.remains();
        life.stop();
        self.world.check_freed(Some(&remains))?;
        if self.world.disk.open_file_count() > 0 {
            return Err(format!("{} files are still open", self.world.disk.open_file_count()));
        }
        let is_left = |path: &String| path.ends_with(".seg") || path.ends_with(".kept");
        let paths = self.world.disk.paths().into_iter().map(|path| path.display().to_string());
        let left: Vec<String> = paths.filter(is_left).collect();
        let folders = self.world.disk.list(std::path::Path::new("/data")).unwrap_or_default();
        self.tell(&|| format!("what is left: {folders:?}"));
        if left.is_empty() { Ok(()) } else { Err(format!("files are left: {left:?}")) }
    }
}
