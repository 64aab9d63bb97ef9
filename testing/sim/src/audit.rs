//! Comparisons: everything that is in the broker with everything that should be. Knows nothing of how it came there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::history::History;
use crate::kinds::{self, FAN, SLOTS};
use crate::life::{Asked, Life, Unsettled};
use crate::model::{Copy, Fate, Key, Model, Presence, Settled};

impl Model {
    /// Whether a copy may be found in a queue.
    pub(crate) fn check_found(&self, key: Key, slot: usize) -> Result<(), String> {
        let copy =
            self.copies.get(&key).ok_or_else(|| format!("{key:?} in q{slot} was never published there"))?;
        let allowed = match copy.fate {
            Fate::Held(at) => at == slot,
            Fate::Loose | Fate::Settled { how: Settled::Later, .. } => self.chain(key.1).contains(&slot),
            Fate::Settled { how: Settled::AtOnce, .. } | Fate::Gone => false,
        };
        if allowed { Ok(()) } else { Err(format!("{key:?} is found in q{slot}: {copy:?}")) }
    }

    /// Takes over what was found everywhere, each copy with its places; says what is missing.
    fn take_over(&mut self, found: &BTreeMap<Key, Vec<usize>>, now: u64) -> Result<(), String> {
        // Letters get the time to live of the queue they come to, from a moment that nobody told.
        let lets_letters_die = self.kinds.clone().map(|kind| kind.ttl_ms.is_some());
        let is_policed = self.kinds.clone().map(|kind| kind.policed);
        for (key, copy) in &mut self.copies {
            match (found.get(key).map(Vec::as_slice), copy.fate) {
                (Some(_), Fate::Loose) if is_policed[key.1] => {}
                (Some([place]), Fate::Loose) if *place != key.1 && lets_letters_die[*place] => {}
                (Some([place]), Fate::Loose) => {
                    copy.fate = Fate::Held(*place);
                    // A letter is as safe as its queue makes it, which nobody told.
                    copy.excused &= !copy.confirmed || *place != key.1;
                }
                (Some([place]), Fate::Settled { .. }) => {
                    let may_die = is_policed[key.1] || (*place != key.1 && lets_letters_die[*place]);
                    copy.fate = if may_die { Fate::Loose } else { Fate::Held(*place) };
                    copy.excused = true;
                }
                // A letter that was sent again after a crash.
                (Some([_, _, ..]), Fate::Settled { .. }) => {
                    (copy.fate, copy.excused) = (Fate::Loose, true);
                }
                (Some([_, _, ..]), Fate::Held(_)) => return Err(format!("{key:?} is there twice: {copy:?}")),
                (None, Fate::Held(_)) => return Err(format!("{key:?} is lost: {copy:?}")),
                (None, Fate::Loose) if copy.is_required() => {
                    return Err(format!("{key:?} is lost: {copy:?}"));
                }
                (None, Fate::Loose) => copy.fate = Fate::Settled { at: now, how: Settled::Later },
                _ => {}
            }
        }
        let of_loose = |((_, root), copy): (&Key, &Copy)| (copy.fate == Fate::Loose).then_some(*root);
        let loose: BTreeSet<usize> = self.copies.iter().filter_map(of_loose).collect();
        for slot in 0..SLOTS {
            let is_loose = |root: &usize| self.chain(*root).contains(&slot) && loose.contains(root);
            self.is_exact[slot] = !(0..SLOTS).any(|root| is_loose(&root));
        }
        Ok(())
    }
}

impl History {
    /// Checks that the metadata agree with the answers.
    pub(crate) fn reconcile(&mut self, life: &Life) -> Result<(), String> {
        for slot in 0..SLOTS {
            let is_there = life.queue(slot).is_some();
            let is_durable = self.model.kinds[slot].durable;
            match self.model.presence[slot] {
                Presence::Present if is_durable && !is_there => return Err(format!("q{slot} is lost")),
                Presence::Absent if is_there => return Err(format!("q{slot} is there again")),
                _ if !is_durable && is_there => return Err(format!("q{slot} outlives its node")),
                _ => {}
            }
            let was_there = self.model.presence[slot] != Presence::Absent;
            self.model.presence[slot] = if is_there { Presence::Present } else { Presence::Absent };
            if was_there && !is_there {
                self.model.bound[slot] = false;
                self.model.forget(slot);
            }
        }
        let bound: Vec<Vec<u8>> = life.broker.read_metadata(|state| {
            let vhost = state.vhost(b"/").expect("the default vhost");
            let from_fan = vhost.bindings_from(FAN).into_iter();
            from_fan.map(|binding| binding.to_bind().destination).filter_map(queue_name).collect()
        });
        for slot in 0..SLOTS {
            let is_bound = bound.iter().any(|name| *name == kinds::name(slot).as_bytes());
            if self.model.binding_is_known[slot] && self.model.bound[slot] != is_bound {
                return Err(format!("the binding of q{slot} is there: {is_bound}"));
            }
            self.model.bound[slot] = is_bound;
            self.model.binding_is_known[slot] = true;
        }
        self.model.expire(self.now_ms());
        self.model.excuse_lost_letters();
        Ok(())
    }

    /// Fetches everything there is, compares, and puts it back.
    pub(crate) fn audit(&mut self, life: &mut Life) -> Result<(), String> {
        // On a failing disk letters may stay where they are, and blocks out of reach; the next life shows what is left.
        if life.is_faulty {
            return Ok(());
        }
        self.look(life)?;
        life.release();
        self.look(life)?;
        // Deliveries that came while consumers were cancelled.
        life.release();
        self.model.expire(self.now_ms());
        let mut found: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
        let mut taken = Vec::new();
        for slot in (0..SLOTS)
            .rev()
            .filter(|slot| self.model.presence[*slot] == Presence::Present)
            .collect::<Vec<_>>()
        {
            let mut latest: Option<(u8, u64, u64)> = None;
            while let Some((seq, seen)) = life.get(slot)? {
                let key = (seen.id, seen.first_death.unwrap_or(slot));
                self.let_time_pass();
                self.model.check_found(key, slot)?;
                found.entry(key).or_default().push(slot);
                taken.push(Unsettled { slot, token: None, seq, key });
                if seen.first_death.is_none() {
                    let copy = &self.model.copies[&key];
                    let rank = (255 - copy.priority, copy.at, key.0);
                    if latest.is_some_and(|latest| latest >= rank) {
                        return Err(format!("{key:?} of q{slot} is out of order after {latest:?}: {copy:?}"));
                    }
                    latest = Some(rank);
                }
            }
            life.driver.run_until_idle();
        }
        self.let_time_pass();
        if self.model.presence.iter().all(|at| matches!(at, Presence::Present | Presence::Absent)) {
            self.model.take_over(&found, self.now)?;
            // A message that became due between its being fetched and now goes as soon as it is put back.
            self.model.expire(self.now_ms());
        }
        life.unsettled = taken;
        self.check_counts(life)?;
        life.release();
        (0..SLOTS).for_each(|slot| self.model.may_overflow(slot));
        self.summary.audits += 1;
        self.mix(found.len() as u64);
        self.mix(self.world.disk.sync_count());
        Ok(())
    }

    /// Counts and bytes of queues whose contents are certain.
    pub(crate) fn check_counts(&mut self, life: &mut Life) -> Result<(), String> {
        self.look(life)?;
        for slot in (0..SLOTS).filter(|_| !life.is_faulty) {
            if self.model.presence[slot] != Presence::Present || !self.model.is_exact[slot] {
                continue;
            }
            let queue = life.queue(slot).ok_or("a queue is not there")?;
            let stats = queue.stats().try_take().ok_or("statistics are not answered")?;
            let copies: Vec<_> =
                self.model.copies.values().filter(|copy| copy.fate == Fate::Held(slot)).collect();
            let unsettled = life.unsettled.iter().filter(|one| one.slot == slot).count() as u64;
            let bytes: u64 = copies.iter().map(|copy| copy.bytes).sum();
            let persistent = copies.iter().filter(|copy| copy.persistent).count() as u64;
            let expected = (copies.len() as u64, unsettled, bytes, persistent);
            let shown = (
                stats.ready + stats.unacked,
                stats.unacked,
                stats.ready_bytes + stats.unacked_bytes,
                stats.persistent,
            );
            if shown != expected {
                return Err(format!(
                    "q{slot} shows {shown:?}, not {expected:?} (messages, unacked, bytes, persistent)"
                ));
            }
        }
        Ok(())
    }

    /// Deletes everything; then no segment, and of the log only what is being written, may be left.
    pub(crate) fn check_nothing_stays(&mut self, mut life: Life) -> Result<(), String> {
        let present: Vec<usize> =
            (0..SLOTS).filter(|slot| self.model.presence[*slot] == Presence::Present).collect();
        let mut queues = Vec::new();
        for slot in present {
            let name = kinds::name(slot);
            queues.extend(life.queue(slot).map(|queue| (slot, Arc::downgrade(&queue))));
            let call = life
                .broker
                .delete_queue(&life.principal, name.as_bytes(), false, false)
                .map_err(|refused| format!("the deletion of {name} is refused: {refused:?}"))?;
            life.asked.push(Asked::Delete(slot, call));
        }
        life.unsettled.clear();
        self.leave_other_vhost(&mut life)?;
        life.driver.run_until_idle();
        self.look(&mut life)?;
        if !life.asked.is_empty() {
            return Err("a deletion is not answered".into());
        }
        // A channel keeps its remembered routes until its next publish.
        life.channel = broker::PublishChannel::new();
        if let Some((slot, _)) = queues.iter().find(|(_, queue)| queue.strong_count() > 0) {
            return Err(format!("q{slot} is deleted and still in memory"));
        }
        let remains = life.driver.remains();
        life.stop();
        self.world.check_freed(Some(&remains))?;
        if self.world.disk.open_file_count() > 0 {
            return Err(format!("{} files are still open", self.world.disk.open_file_count()));
        }
        let files = self.files("/data/segments");
        if !files.is_empty() {
            return Err(format!("segments are left: {files:?}"));
        }
        match self.kept_files() {
            0 => {}
            count => return Err(format!("{count} kept log files are left")),
        }
        Ok(())
    }

    /// Files below a folder of segments.
    fn files(&self, folder: &str) -> Vec<String> {
        use platform::Disk;
        let folders = (0..256).map(|number| format!("{folder}/{number:02x}"));
        folders
            .flat_map(|path| self.world.disk.list(std::path::Path::new(&path)).unwrap_or_default())
            .collect()
    }
}

fn queue_name(destination: metadata::DestinationName) -> Option<Vec<u8>> {
    match destination {
        metadata::DestinationName::Queue(name) => Some(name.to_vec()),
        metadata::DestinationName::Exchange(_) => None,
    }
}
