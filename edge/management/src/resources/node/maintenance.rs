//! A node that serves no clients for a while: listeners suspended and resumed, maintenance mode. Refuses to know sockets.

use std::fmt::Debug;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use broker::{Broker, CloseReason};
use parking_lot::Mutex;

/// The listeners of clients' connections. The HTTP API and the pages of metrics are none of them: operators come through those.
pub trait Doors: Debug + Send + Sync {
    /// Lets nobody in any more; connections that are open stay. Again does nothing.
    ///
    /// # Errors
    /// The server stops.
    fn close(&self) -> io::Result<()>;

    /// Lets clients in again. Again does nothing.
    ///
    /// # Errors
    /// An address cannot be bound again.
    fn open(&self) -> io::Result<()>;
}

/// RabbitMQ's words for a node that is in maintenance mode.
pub(super) const MARKED: &str = "marked for maintenance";

/// Whether the node serves clients, until it is started again.
#[derive(Debug, Default)]
pub struct Maintenance {
    doors: Option<Box<dyn Doors>>,
    is_on: AtomicBool,
    /// One command after the other.
    turn: Mutex<()>,
}

impl Maintenance {
    /// Clients are served.
    #[must_use]
    pub fn new(doors: Box<dyn Doors>) -> Self {
        Maintenance { doors: Some(doors), ..Maintenance::default() }
    }

    /// Whether an operator has put the node into maintenance mode.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// RabbitMQ's words for it.
    pub(crate) fn status(&self) -> &'static str {
        if self.is_on() { MARKED } else { "not under maintenance" }
    }

    /// No client can connect any more; connections that are open stay.
    pub(crate) fn suspend(&self) -> io::Result<()> {
        let _turn = self.turn.lock();
        tracing::warn!("listeners are suspended: no client can connect until resume_listeners");
        self.close()
    }

    /// Clients can connect again.
    pub(crate) fn resume(&self) -> io::Result<()> {
        let _turn = self.turn.lock();
        tracing::info!("listeners are resumed");
        self.open()
    }

    /// Begins maintenance mode: no client can connect, and connections are closed.
    pub(crate) fn drain(&self, broker: &Broker) -> io::Result<()> {
        let _turn = self.turn.lock();
        tracing::warn!("maintenance mode: no client can connect until revive, connections are closed");
        self.is_on.store(true, Ordering::Relaxed);
        self.close()?;
        broker.send_clients_away(Some(CloseReason::Operator("Node was put into maintenance mode".into())));
        Ok(())
    }

    /// Ends maintenance mode.
    pub(crate) fn revive(&self, broker: &Broker) -> io::Result<()> {
        let _turn = self.turn.lock();
        tracing::info!("maintenance mode has ended: clients can connect");
        broker.send_clients_away(None);
        self.open()?;
        self.is_on.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.doors.as_ref().map_or(Ok(()), |doors| doors.close())
    }

    fn open(&self) -> io::Result<()> {
        self.doors.as_ref().map_or(Ok(()), |doors| doors.open())
    }
}
