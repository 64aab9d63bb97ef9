//! Queues without metadata: a message log whose `meta/` is gone still says which queues there were, by their numbers. Knows
//! neither their names nor their arguments.

use std::collections::BTreeSet;

use commitlog::{Found, LogError, LogFile, inspect_log_file};
use metadata::{
    AddVhost, Applied, Arguments, Command, DeclareQueue, Fact, IdsFact, NameInVhost, QueueFact, QueueType,
    State,
};
use platform::Disk;
use stdx::QueueId;

use crate::control::follow::Contents;
use crate::control::users::new_vhost_metadata;

/// The vhost they go to.
const VHOST: &[u8] = b"/";
/// Numbers from here on are those of transient queues.
const TRANSIENT: u64 = 1 << 63;

/// Gives an empty state a vhost, and a durable queue `salvaged-NUMBER` for every number in the log. Returns how many.
pub(super) fn adopt(disk: &dyn Disk, files: &[LogFile], state: &mut State) -> Result<usize, LogError> {
    let mut ids = BTreeSet::new();
    for file in files {
        inspect_log_file(disk, file, |found| {
            if let Found::Record(record) = found
                && record.stream < TRANSIENT
            {
                ids.insert(record.stream);
            }
        })?;
    }
    let Some(newest) = ids.last().copied() else { return Ok(0) };
    let add = Command::AddVhost(AddVhost { name: VHOST.into(), metadata: new_vhost_metadata() });
    let is_made = state.apply(&add, &mut Applied::default()).is_ok();
    assert!(is_made, "an empty state takes a vhost");
    let adopted = ids.into_iter().filter(|id| state.replay(&queue_added(*id)).is_ok()).count();
    let is_counted = state.replay(&Fact::IdsUsed(IdsFact { next: newest + 1 })).is_ok();
    assert!(is_counted, "numbers below one that was used are used");
    Ok(adopted)
}

fn queue_added(id: u64) -> Fact {
    let queue = DeclareQueue {
        vhost: VHOST.into(),
        name: format!("salvaged-{id}").into_bytes().into(),
        durable: true,
        auto_delete: false,
        exclusive_owner: None,
        arguments: Arguments::default(),
        queue_type: QueueType::Classic,
    };
    Fact::QueueAdded(QueueFact { id: QueueId(id), queue })
}

/// Lets those go that hold nothing: most of them were deleted.
pub(super) fn drop_empty(state: &mut State, contents: &mut Contents) {
    let empty: Vec<_> =
        contents.iter().filter(|(_, queue)| queue.contents().0 == 0).map(|(id, _)| *id).collect();
    for id in empty {
        let name = format!("salvaged-{}", id.0).into_bytes().into();
        if state.replay(&Fact::QueueDeleted(NameInVhost { vhost: VHOST.into(), name })).is_ok() {
            contents.remove(&id);
        }
    }
}
