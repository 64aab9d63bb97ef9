//! The end of a history: nobody publishes any more, and the consumers consume. All that was confirmed comes where it ends, nothing is
//! left behind, and publishers may go on. Knows nothing of what made it come.

use std::collections::BTreeSet;

use broker::{Raised, Refused};
use platform::Disk;

use super::history::{Full, LOOK};
use super::plan::{Taker, When};
use crate::kinds;
use crate::life::Life;

/// So long nothing may come though something has to, beside what it waits for on its way.
const PATIENCE_MS: u64 = 15 * 60 * 1000;

/// The same while the disk alarm is on, when messages that die wait for room: then somebody makes some.
const ALARM_PATIENCE_LOOKS: u64 = 300;

/// So long publishers may wait when nothing is left: the files of the log go meanwhile.
const ALARM_PATIENCE_MS: u64 = 2 * 60 * 1000;

impl Full {
    pub(super) fn finish(&mut self, mut life: Life) -> Result<(), String> {
        self.world.faults.heal();
        self.room.let_others_have(0);
        self.take_part(&mut life, When::AtLast)?;
        let (kept, others) = self.sources_by_end();
        self.tell_standing("the end begins", &life);
        self.tell(&|| format!("files: {:?}", self.room.files()));
        self.await_all(&mut life, &others)?;
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

    /// Until all that is confirmed of these sources has come.
    fn await_all(&mut self, life: &mut Life, sources: &BTreeSet<usize>) -> Result<(), String> {
        let patience_ms = PATIENCE_MS + self.plan.longest_ms();
        let (mut moved_ms, mut seen, mut still_looks) = (self.now_ms(), self.standing(life), 0);
        loop {
            let (count, first) = self.ledger.missing(sources);
            if count == 0 && life.unconfirmed.is_empty() {
                return Ok(());
            }
            self.tick(life)?;
            let standing = self.standing(life);
            let is_alarm_on = life.broker.alarms().raised().has(Raised::DISK);
            still_looks = if standing == seen && is_alarm_on { still_looks + 1 } else { 0 };
            if standing != seen {
                (moved_ms, seen) = (self.now_ms(), standing);
            } else if still_looks > ALARM_PATIENCE_LOOKS && !self.room.is_enlarged() {
                self.check_only_the_dying_wait(life)?;
                self.tell(&|| format!("{}: somebody makes room", self.now_ms()));
                self.room.enlarge();
                moved_ms = self.now_ms();
            } else if self.now_ms() > moved_ms + patience_ms {
                self.tell(&|| format!("files: {:?}", self.room.files()));
                let (unconfirmed, shown) = (life.unconfirmed.len(), self.shown(life));
                return Err(format!(
                    "nothing comes any more: {count} are missing, the first is {first:?}, {unconfirmed} are unconfirmed: {shown}"
                ));
            }
        }
    }

    /// While the disk alarm is on only messages wait that leave a dead letter: consumers get all others, and publishers their confirms.
    fn check_only_the_dying_wait(&self, life: &Life) -> Result<(), String> {
        let depths = self.depths(life);
        let is_acked = |slot: &usize| match self.plan.roles[*slot].consumer {
            Taker::Acks(When::AfterOthers) | Taker::Nobody | Taker::Rejects(_) => false,
            Taker::Acks(_) => true,
        };
        match (0..depths.len()).filter(is_acked).find(|slot| depths[*slot] != (0, 0)) {
            None => Ok(()),
            Some(slot) => {
                Err(format!("q{slot} is consumed, and does not become empty: {}", self.shown(life)))
            }
        }
    }

    /// Messages that become fewer in the sources and more at the ends.
    fn standing(&self, life: &Life) -> (u64, u64) {
        let depths = self.depths(life);
        let of_source = |source: &usize| depths[*source].0 + depths[*source].1;
        (self.ledger.come_count, self.plan.sources().iter().map(of_source).sum())
    }

    /// Until nothing is left in any queue: messages that come again after a crash come last.
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

    /// Until publishers may go on; then their messages are confirmed.
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
