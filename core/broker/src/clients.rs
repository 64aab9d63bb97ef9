//! Names that at most one connection may have at a time: client ids of MQTT. A connection that claims a taken one waits until its holder has
//! let go.
//!
//! Refuses to know what holders keep under their names, and the reason for a name.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Vhost and name.
type Key = (Box<str>, Box<str>);

/// Asks a holder to let go.
pub(crate) type Close = Arc<dyn Fn() + Send + Sync>;

/// Hears that a name is theirs.
pub(crate) type Granted = Box<dyn FnOnce() + Send>;

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
    close: Close,
    next: Option<Next>,
}

/// The claim that gets the name next.
struct Next {
    claim: u64,
    close: Close,
    granted: Granted,
}

/// A name, or a place in the line for it, until dropped.
pub struct ClientClaim {
    clients: Arc<Clients>,
    key: Key,
    number: u64,
}

/// Somebody else waits for the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientBusy;

impl Clients {
    /// Claims a name in a vhost. `close` asks the one who claims to let go again; `granted` hears that the name is theirs.
    pub(crate) fn claim(
        self: &Arc<Self>,
        vhost: &str,
        name: &str,
        close: Close,
        granted: Granted,
    ) -> Result<ClientClaim, ClientBusy> {
        let key: Key = (vhost.into(), name.into());
        let mut rows = self.0.lock();
        rows.claim_latest += 1;
        let number = rows.claim_latest;
        let claim = ClientClaim { clients: self.clone(), key: key.clone(), number };
        let Some(row) = rows.by_name.get_mut(&key) else {
            rows.by_name.insert(key, Row { claim: number, close, next: None });
            drop(rows);
            granted();
            return Ok(claim);
        };
        if row.next.is_some() {
            drop(rows);
            return Err(ClientBusy);
        }
        row.next = Some(Next { claim: number, close, granted });
        let holder = row.close.clone();
        drop(rows);
        holder();
        Ok(claim)
    }

    /// Names that are held.
    pub(crate) fn count(&self) -> usize {
        self.0.lock().by_name.len()
    }
}

impl Drop for ClientClaim {
    fn drop(&mut self) {
        let mut rows = self.clients.0.lock();
        let Some(row) = rows.by_name.get_mut(&self.key) else { return };
        if row.claim != self.number {
            row.next.take_if(|next| next.claim == self.number);
            return;
        }
        match row.next.take() {
            Some(Next { claim, close, granted }) => {
                (row.claim, row.close) = (claim, close);
                drop(rows);
                granted();
            }
            None => {
                rows.by_name.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn a_name_passes_to_the_one_who_waits_and_the_others_are_sent_away() {
        let clients = Arc::new(Clients::default());
        let counters = || [0; 5].map(|_| Arc::new(AtomicU32::new(0)));
        let (asked, granted) = (counters(), counters());
        let raise = |counter: &Arc<AtomicU32>| {
            let counter = counter.clone();
            move || {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        };
        let claim = |vhost: &str, nth: usize| {
            clients.claim(vhost, "c", Arc::new(raise(&asked[nth])), Box::new(raise(&granted[nth])))
        };
        let times = |counter: &Arc<AtomicU32>| counter.load(Ordering::Relaxed);
        let first = claim("/", 0).unwrap();
        assert_eq!(times(&granted[0]), 1);
        let second = claim("/", 1).unwrap();
        assert_eq!((times(&asked[0]), times(&granted[1])), (1, 0));
        assert!(claim("/", 2).is_err());
        let _other_vhost = claim("v", 2).unwrap();
        assert_eq!(times(&granted[2]), 1);
        drop(first);
        assert_eq!(times(&granted[1]), 1);
        drop(claim("/", 3).unwrap());
        assert_eq!(times(&asked[1]), 1);
        let fourth = claim("/", 4).unwrap();
        drop(second);
        assert_eq!((times(&granted[3]), times(&granted[4])), (0, 1));
        drop(fourth);
        assert_eq!(clients.count(), 1);
    }
}
