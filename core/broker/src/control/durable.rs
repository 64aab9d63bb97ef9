//! Commands that add something to the metadata log: they are refused while nothing durable can be promised.

use metadata::{Command, DestinationName, State};

/// Whether a command would make something new that has to be durable. Existing things may be declared again, so that
/// consumers find their queues; deletions may go on, and are answered when they are durable.
pub(crate) fn adds_durable(state: &State, command: &Command) -> bool {
    match command {
        Command::DeclareQueue(declare) => {
            let exists =
                state.vhost(&declare.vhost).is_some_and(|vhost| vhost.queue(&declare.name).is_some());
            declare.is_stored_durable() && !exists
        }
        Command::DeclareExchange(declare) => {
            let exists =
                state.vhost(&declare.vhost).is_some_and(|vhost| vhost.exchange(&declare.name).is_some());
            declare.durable && !exists
        }
        Command::Bind(bind) => {
            let Some(vhost) = state.vhost(&bind.vhost) else { return false };
            let durable_end = match &bind.destination {
                DestinationName::Queue(name) => vhost.queue(name).is_some_and(|queue| queue.durable),
                DestinationName::Exchange(name) => vhost.exchange(name).is_some_and(|it| it.durable),
            };
            let durable = durable_end && vhost.exchange(&bind.source).is_some_and(|source| source.durable);
            durable && !vhost.bindings_to(&bind.destination).iter().any(|known| known.to_bind() == *bind)
        }
        Command::DeleteQueue(_)
        | Command::DeleteExchange(_)
        | Command::DeleteExclusiveQueues(_)
        | Command::Unbind(_)
        | Command::DeleteUser(_)
        | Command::DeleteVhost(_) => false,
        Command::ImportBatch(batch) => batch.commands.iter().any(|one| adds_durable(state, one)),
        _ => true,
    }
}

/// Whether a command is one of those that clients send by the thousand, or holds such. Others are of people who may have to mend a node
/// whose disk is full: they are few and small.
pub(crate) fn may_come_in_numbers(command: &Command) -> bool {
    matches!(
        command,
        Command::DeclareQueue(_) | Command::DeclareExchange(_) | Command::Bind(_) | Command::ImportBatch(_)
    )
}

#[cfg(test)]
mod tests {
    use crate::QueueDeclare;
    use crate::test_broker::driven;

    #[test]
    fn on_a_full_disk_people_may_change_what_they_need_while_clients_declare_nothing_new() {
        let (broker, _driver, principal, _) = driven();
        let declare = || {
            let arguments = message::Table::EMPTY;
            let (durable, exclusive, auto_delete) = (true, false, false);
            let declare = QueueDeclare { name: b"new", durable, exclusive, auto_delete, arguments };
            broker.declare_queue(&principal, declare).is_ok()
        };
        broker.alarms().disk_full();
        assert!(broker.add_user("mender", "secret", &[]).is_ok());
        assert!(!declare());
        broker.alarms().storage_failed("a disk");
        assert!(broker.add_user("other", "secret", &[]).is_err());
    }
}
