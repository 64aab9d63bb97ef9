//! Changes that are in the tables and not on disk yet. Once the metadata log has failed they never will be, and a command that finds what
//! they left must not be answered as if that were durable. Refuses to know the log.

use std::collections::VecDeque;

use metadata::{Change, Command};
use smallvec::SmallVec;

/// Changes of one command that are remembered one by one.
const CHANGES_MAX: usize = 1000;

/// Commands that are remembered: more than a log takes in before it syncs, unless it has failed.
const COMMANDS_MAX: usize = 100_000;

type Changes = SmallVec<[Change; 2]>;

/// Changes by the log position that makes them durable.
#[derive(Debug, Default)]
pub(super) struct Unsynced {
    /// Oldest first; without changes when there were too many to remember: they may have been anything.
    commands: VecDeque<(u64, Option<Changes>)>,
}

impl Unsynced {
    /// A command made these changes, which the log has at `position`; changes that are `durable` are forgotten.
    pub(super) fn note(&mut self, position: u64, changes: &[Change], durable: u64) {
        while self.commands.front().is_some_and(|(position, _)| *position <= durable) {
            self.commands.pop_front();
        }
        if self.commands.len() >= COMMANDS_MAX {
            self.commands.clear();
            self.commands.push_back((position, None));
            return;
        }
        let known = (changes.len() <= CHANGES_MAX).then(|| changes.iter().cloned().collect());
        self.commands.push_back((position, known));
    }

    /// Whether a command that changed nothing may have done so because of one that is not durable.
    pub(super) fn explain(&self, command: &Command, durable: u64) -> bool {
        let mut unsynced = self.commands.iter().filter(|(position, _)| *position > durable);
        unsynced.any(|(_, changes)| match changes {
            None => true,
            Some(changes) => changes.iter().any(|change| explains(change, command)),
        })
    }
}

/// Whether the command would have found something else without the change.
fn explains(change: &Change, command: &Command) -> bool {
    match (command, change) {
        (Command::Bind(bind), Change::BindingAdded(binding)) => binding.to_bind() == *bind,
        (Command::Unbind(unbind), Change::BindingRemoved(binding)) => {
            let removed = binding.to_bind();
            (&removed.vhost, &removed.source, &removed.destination)
                == (&unbind.vhost, &unbind.source, &unbind.destination)
                && (&removed.key, &removed.arguments) == (&unbind.key, &unbind.arguments)
        }
        (Command::DeleteQueue(delete), Change::QueueDeleted(queue)) => {
            queue.vhost.as_ref() == delete.vhost.as_ref() && queue.name == delete.name
        }
        (Command::DeleteExchange(delete), Change::ExchangeDeleted(exchange)) => {
            exchange.vhost.as_ref() == delete.vhost.as_ref() && exchange.name == delete.name
        }
        (Command::Bind(_) | Command::Unbind(_) | Command::DeleteQueue(_) | Command::DeleteExchange(_), _) => {
            false
        }
        // Few of the others are sent twice: rather one refusal too many.
        _ => true,
    }
}
