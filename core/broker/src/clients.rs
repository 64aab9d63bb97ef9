//! Names that at most one connection may have at a time: client ids of MQTT. Who claims one that is taken waits until its holder has let go.
//!
//! Refuses to know what holders keep under their names, and why they want them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::Broker;
use crate::call::{Call, Reply};
use crate::connections::{CloseReason, ConnectionControl};

/// Vhost and name.
type Key = (Box<str>, Box<str>);

/// Names in use.
#[derive(Default)]
pub(crate) struct Clients(Mutex<Rows>);

#[derive(Default)]
struct Rows {
    by_name: HashMap<Key, Row>,
    claim_latest: u64,
}

struct Row {
    /// Number of the holder's claim.
    claim: u64,
    control: Arc<dyn ConnectionControl>,
    next: Option<Next>,
}

/// Who gets the name next.
struct Next {
    claim: u64,
    control: Arc<dyn ConnectionControl>,
    reply: Reply<()>,
}

/// A name, or a place in the line for it, until dropped.
pub struct ClientClaim {
    broker: Broker,
    key: Key,
    number: u64,
}

/// Somebody else waits for the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientBusy;

impl Broker {
    /// Claims a name in a vhost. The connection that holds it is closed with [`CloseReason::TakenOver`]; the call is answered when it has let go.
    ///
    /// # Errors
    /// [`ClientBusy`]: one connection may wait, further ones have to come again.
    pub fn claim_client(
        &self,
        vhost: &str,
        name: &str,
        control: Arc<dyn ConnectionControl>,
    ) -> Result<(ClientClaim, Call<()>), ClientBusy> {
        let key: Key = (vhost.into(), name.into());
        let mut rows = self.0.clients.0.lock();
        rows.claim_latest += 1;
        let number = rows.claim_latest;
        let claim = ClientClaim { broker: self.clone(), key: key.clone(), number };
        let Some(row) = rows.by_name.get_mut(&key) else {
            rows.by_name.insert(key, Row { claim: number, control, next: None });
            return Ok((claim, Call::ready(())));
        };
        if row.next.is_some() {
            drop(rows);
            return Err(ClientBusy);
        }
        let (reply, call) = Call::pair();
        row.next = Some(Next { claim: number, control, reply });
        let holder = row.control.clone();
        drop(rows);
        holder.close(CloseReason::TakenOver);
        Ok((claim, call))
    }

    /// Names that are held.
    #[must_use]
    pub fn client_count(&self) -> usize {
        self.0.clients.0.lock().by_name.len()
    }
}

impl Drop for ClientClaim {
    fn drop(&mut self) {
        let mut rows = self.broker.0.clients.0.lock();
        let Some(row) = rows.by_name.get_mut(&self.key) else { return };
        if row.claim != self.number {
            row.next.take_if(|next| next.claim == self.number);
            return;
        }
        match row.next.take() {
            Some(Next { claim, control, reply }) => {
                (row.claim, row.control) = (claim, control);
                drop(rows);
                reply.send(());
            }
            None => {
                rows.by_name.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::{ChannelInfo, ConnectionInfo};
    use crate::stats::ConnectionTotals;
    use crate::test_broker::driven;

    #[derive(Default)]
    struct Holder(Mutex<Vec<CloseReason>>);

    impl ConnectionControl for Holder {
        fn close(&self, reason: CloseReason) {
            self.0.lock().push(reason);
        }
        fn wake(&self) {}
        fn info(&self) -> ConnectionInfo {
            ConnectionInfo::default()
        }
        fn channels(&self) -> Vec<ChannelInfo> {
            Vec::new()
        }
        fn totals(&self) -> ConnectionTotals {
            ConnectionTotals::default()
        }
    }

    #[test]
    fn a_name_passes_to_the_one_who_waits_and_the_others_are_sent_away() {
        let (broker, _driver, _principal, _clock) = driven();
        let holders = [0; 4].map(|_| Arc::new(Holder::default()));
        let claim = |nth: usize| broker.claim_client("/", "c", holders[nth].clone());
        let (first, mut has) = claim(0).unwrap();
        assert!(has.try_take().is_some());
        let (second, mut gets) = claim(1).unwrap();
        assert_eq!(*holders[0].0.lock(), [CloseReason::TakenOver]);
        assert!(gets.try_take().is_none());
        assert!(claim(2).is_err());
        let (_other_vhost, mut has) = broker.claim_client("v", "c", holders[2].clone()).unwrap();
        assert!(has.try_take().is_some());
        drop(first);
        assert!(gets.try_take().is_some());
        let (third, _waits) = claim(3).unwrap();
        drop(third);
        assert_eq!(*holders[1].0.lock(), [CloseReason::TakenOver]);
        let (fourth, mut gets) = claim(3).unwrap();
        drop(second);
        assert!(gets.try_take().is_some());
        drop(fourth);
        assert_eq!(broker.client_count(), 1);
    }
}
