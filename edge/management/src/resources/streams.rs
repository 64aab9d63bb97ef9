//! The stream protocol's additions to streams: super streams to be created, names under which offsets and publishing ids are kept.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use broker::streams::StreamLog;
use broker::{Broker, Kind, Principal, SuperStream, SuperStreamRefused, User};
use wire::amqp091::TableBuf;

/// Most partitions of a super stream that is made here.
const PARTITIONS_MAX: usize = 1000;
const LOCATOR: &str = "x-queue-leader-locator";

/// The partitions of a super stream that is made by their number: `NAME-0`, `NAME-1`, ..., and their binding keys.
pub(crate) fn numbered(name: &str, count: usize) -> Vec<(Box<str>, Box<str>)> {
    (0..count).map(|nth| (format!("{name}-{nth}").into(), nth.to_string().into())).collect()
}

/// The partitions for binding keys that stand between commas: `NAME-KEY`.
pub(crate) fn keyed(name: &str, keys: &str) -> Vec<(Box<str>, Box<str>)> {
    let keys = keys.split(',').map(str::trim).filter(|key| !key.is_empty());
    keys.map(|key| (format!("{name}-{key}").into(), key.into())).collect()
}

/// Creates a super stream, and waits for it.
///
/// # Errors
/// See [`SuperStreamRefused`].
pub(crate) fn create(
    broker: &Broker,
    principal: &Principal,
    name: &str,
    partitions: Vec<(Box<str>, Box<str>)>,
    mut arguments: TableBuf,
) -> Result<(), SuperStreamRefused> {
    if arguments.as_table().get(LOCATOR).is_none() {
        arguments.push_str(LOCATOR, "balanced");
    }
    arguments.push_str("x-queue-type", "stream");
    let wanted =
        SuperStream { name: name.into(), partitions, arguments, partitions_max: Some(PARTITIONS_MAX) };
    wait(broker.create_super_stream(principal, &wanted))
}

/// Deletes a super stream, and waits for it.
///
/// # Errors
/// See [`SuperStreamRefused`].
pub(crate) fn delete(broker: &Broker, principal: &Principal, name: &str) -> Result<(), SuperStreamRefused> {
    wait(broker.delete_super_stream(principal, name))
}

/// The text of a refusal.
pub(crate) fn refusal(refused: SuperStreamRefused) -> String {
    match refused {
        SuperStreamRefused::Invalid(text) | SuperStreamRefused::AlreadyExists(text) => text.into(),
        SuperStreamRefused::NotFound => "The super stream does not exist.".into(),
        SuperStreamRefused::Refused(refused) => protocols::reply_of(refused).text,
    }
}

/// As whom the command-line tools act in a vhost; `None`: there is none of that name.
pub(crate) fn operator(broker: &Broker, vhost: &str) -> Option<Principal> {
    let (vhost, user) = (broker.vhost(vhost)?, Arc::new(User::internal()));
    let connection = broker.next_connection_id();
    Some(Principal { user, vhost, connection, connection_name: "ctl".into(), client: None })
}

/// A stream of a vhost.
pub(crate) fn log_of(broker: &Broker, vhost: &str, stream: &str) -> Option<Arc<StreamLog>> {
    let queue = broker.vhost(vhost)?.queue(stream.as_bytes())?;
    if queue.queue_kind() == Kind::Stream { queue.stream_log() } else { None }
}

/// Waits on this thread, which may wait.
fn wait<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let (mut cx, mut future) = (Context::from_waker(&waker), pin!(future));
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_named_by_number_or_key() {
        assert_eq!(numbered("s", 2), [("s-0".into(), "0".into()), ("s-1".into(), "1".into())]);
        assert_eq!(keyed("s", "eu, us,,"), [("s-eu".into(), "eu".into()), ("s-us".into(), "us".into())]);
    }
}
