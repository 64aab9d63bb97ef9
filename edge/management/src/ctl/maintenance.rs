//! A node that serves no clients for a while: listeners suspended and resumed, maintenance mode. Knows RabbitMQ's texts; refuses to
//! know sockets.

use std::fmt::Debug;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use broker::{Broker, CloseReason};
use parking_lot::Mutex;

use crate::ctl::commands::{Commands, Outcome};
use crate::ctl::protocol::{Answer, Exit, Failure};

/// What clients' connections come through. The HTTP API and the pages of metrics do not: who looks after the node comes through them.
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
        if self.is_on() { "marked for maintenance" } else { "not under maintenance" }
    }

    fn suspend(&self) -> io::Result<()> {
        self.doors.as_ref().map_or(Ok(()), |doors| doors.close())
    }

    fn resume(&self) -> io::Result<()> {
        self.doors.as_ref().map_or(Ok(()), |doors| doors.open())
    }
}

/// Commands about who may connect.
pub(crate) const COMMANDS: Commands = &[
    ("suspend_listeners", |it| answered(suspend(&it.node.maintenance))),
    ("resume_listeners", |it| answered(resume(&it.node.maintenance))),
    ("drain", |it| answered(drain(it.broker, &it.node.maintenance))),
    ("revive", |it| answered(revive(it.broker, &it.node.maintenance))),
];

fn answered(done: io::Result<()>) -> Outcome {
    done.map(|()| Answer::done()).map_err(|error| {
        let text = format!("Error:\na listener cannot be changed: {error}");
        Failure::new(Exit::UNAVAILABLE, text)
    })
}

fn suspend(maintenance: &Maintenance) -> io::Result<()> {
    let _turn = maintenance.turn.lock();
    tracing::warn!("listeners are suspended: no client can connect until resume_listeners");
    maintenance.suspend()
}

fn resume(maintenance: &Maintenance) -> io::Result<()> {
    let _turn = maintenance.turn.lock();
    tracing::info!("listeners are resumed");
    maintenance.resume()
}

fn drain(broker: &Broker, maintenance: &Maintenance) -> io::Result<()> {
    let _turn = maintenance.turn.lock();
    tracing::warn!("maintenance mode: no client can connect until revive, connections are closed");
    maintenance.is_on.store(true, Ordering::Relaxed);
    maintenance.suspend()?;
    broker.send_clients_away(Some(CloseReason::Operator("Node was put into maintenance mode".into())));
    Ok(())
}

fn revive(broker: &Broker, maintenance: &Maintenance) -> io::Result<()> {
    let _turn = maintenance.turn.lock();
    tracing::info!("the end of maintenance mode: clients can connect");
    broker.send_clients_away(None);
    maintenance.resume()?;
    maintenance.is_on.store(false, Ordering::Relaxed);
    Ok(())
}
