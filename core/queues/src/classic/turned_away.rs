//! Whether a queue would take a message, for people who ask. Refuses to change anything.

use message::{MessageView, UniqueKey};

use super::machine::Classic;
use crate::arguments::Overflow;
use crate::machine::{Afterwards, TurnedAway};
use crate::store::level::Level;
use crate::unique::Present;

impl Classic {
    /// Whether such a message, with a body of that size, would be turned away now.
    pub(crate) fn turned_away(&self, message: &MessageView<'_>, body_bytes: u64) -> Option<TurnedAway> {
        let is_present = |present: &Present| UniqueKey::of(message).is_some_and(|key| present.contains(key));
        let afterwards = |dies: bool| {
            if dies && self.service.config.dead_letters { Afterwards::DeadLettered } else { Afterwards::Gone }
        };
        if self.store.present.is_none() && self.next_to_pass_to().is_some() {
            // It would not be in the queue at all.
            None
        } else if self.is_full_for(body_bytes) {
            Some(TurnedAway::Full(afterwards(self.service.config.overflow == Overflow::RejectPublishDlx)))
        } else if self.store.present.as_deref().is_some_and(is_present) {
            Some(TurnedAway::Duplicate)
        } else {
            let priority = message.priority().unwrap_or(0);
            let level = self.service.config.level_of(priority, message);
            if self.drops_at_once(level, body_bytes) {
                Some(TurnedAway::OverLimit(afterwards(true)))
            } else {
                self.expires_at_once(level).then(|| TurnedAway::Expires(afterwards(true)))
            }
        }
    }

    /// Whether a new message of that level is dropped from the head with all before it, and before consumers are asked.
    fn drops_at_once(&self, level: usize, body_bytes: u64) -> bool {
        let below: u64 = self.store.levels.iter().take(level).map(Level::ready).sum();
        let over_count = self.service.config.max_length.is_some_and(|max| below + 1 > max);
        let over_bytes = self.service.config.max_length_bytes.is_some_and(|max| body_bytes > max);
        self.service.config.overflow == Overflow::DropHead && (over_count || over_bytes)
    }

    /// Whether a new message of that level is the head, overdue and asked for by nobody.
    fn expires_at_once(&self, level: usize) -> bool {
        let is_head = self.store.levels.iter().skip(level).all(|level| level.ready() == 0);
        let is_waited_for = self.service.consumers.next().is_some() || !self.service.gets.is_empty();
        self.service.config.message_ttl_ms == Some(0) && is_head && !is_waited_for
    }
}
