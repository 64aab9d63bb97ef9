//! Closing the socket of a listener that accepts, and opening it again. Refuses to know why.

use std::io;

use tokio::sync::{mpsc, oneshot};

/// The wanted state of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Nobody may connect.
    Closed,
    /// Clients may connect.
    Open,
}

/// A wish, and where to say whether it has come true.
pub(crate) struct Order {
    pub(crate) wanted: Wanted,
    pub(crate) done: oneshot::Sender<io::Result<()>>,
}

/// The door of a [`Listener`](crate::Listener): stops and starts accepting. Connections that are open stay.
#[derive(Clone, Debug)]
pub struct Gate(mpsc::UnboundedSender<Order>);

impl Gate {
    pub(crate) fn new() -> (Gate, mpsc::UnboundedReceiver<Order>) {
        let (orders, received) = mpsc::unbounded_channel();
        (Gate(orders), received)
    }

    /// Closes the listening socket: the kernel refuses connections. Again does nothing. Waits until it is done; never on
    /// a thread of the runtime.
    ///
    /// # Errors
    /// The listener does not accept any more: the server stops.
    pub fn close(&self) -> io::Result<()> {
        self.order(Wanted::Closed)
    }

    /// Binds the same address and port again. Waits until clients can connect; never on a thread of the runtime.
    ///
    /// # Errors
    /// Another process has taken the port; or as [`Gate::close`].
    pub fn open(&self) -> io::Result<()> {
        self.order(Wanted::Open)
    }

    fn order(&self, wanted: Wanted) -> io::Result<()> {
        let gone = || io::Error::other("the server stops");
        let (done, told) = oneshot::channel();
        self.0.send(Order { wanted, done }).map_err(|_| gone())?;
        told.blocking_recv().map_err(|_| gone())?
    }
}
