//! Parts of the operating system that both commands need: clocks, signals, readiness, sockets that batch, another process's CPU.

mod clock;
mod file;
mod interrupt;
mod poller;
mod process;
mod socket;
mod stream;

pub(crate) use clock::{monotonic_ns, process_cpu_ns, wall_ahead_ns};
pub(crate) use file::read_bounded;
pub(crate) use interrupt::{INTERRUPTED, is_interrupted, watch_interrupts};
pub(crate) use poller::{Poller, Ready, Want};
pub(crate) use process::{WatchedProcess, WatchedUse};
pub(crate) use socket::{BUFFER_BYTES, Received, Socket, whole_frame, whole_frames};
pub(crate) use stream::Stream;
