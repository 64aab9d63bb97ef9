//! Which commands add something to the metadata log: what is refused while nothing durable can be promised.

use metadata::{Command, DestinationName, State};

/// Whether a command would make something new that has to be durable. What exists already may be declared again, so that
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
        _ => true,
    }
}
