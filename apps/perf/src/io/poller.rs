//! Readiness of many sockets, and one alarm, on one thread: Linux's epoll and timerfd.
//!
//! Refuses to know what the tokens stand for. The alarm is a timerfd because `epoll_wait` counts in milliseconds, and
//! a message that is due in 300 microseconds must not leave a millisecond late.

use super::clock::monotonic_ns;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

/// Events taken per wait; more stay with the kernel until the next one.
const EVENTS_PER_WAIT: usize = 256;
/// The alarm's own token; callers' tokens are indices and never come near it.
const ALARM: u64 = u64::MAX;

/// The events that a socket is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// Bytes to read.
    Read,
    /// Room to write.
    Write,
    /// Both.
    ReadWrite,
    /// Only its end.
    Nothing,
}

/// A socket that can be served. Errors and hang-ups count as readable: the read tells which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ready {
    /// The token it was added with.
    pub(crate) token: usize,
    /// It has bytes, or has ended.
    pub(crate) readable: bool,
    /// It has room.
    pub(crate) writable: bool,
}

/// Level-triggered readiness of sockets.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
    alarm: OwnedFd,
    /// The time that the alarm was last set to.
    alarm_ns: Cell<u64>,
}

impl Poller {
    /// # Errors
    /// The process has no file descriptors left.
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let alarm =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        // Edge-triggered: setting it again makes a new edge, so that nobody has to read it.
        epoll::add(&epoll, &alarm, EventData::new_u64(ALARM), EventFlags::IN | EventFlags::ET)?;
        Ok(Self { epoll, alarm, alarm_ns: Cell::new(0) })
    }

    /// Watches a socket under this token. It is forgotten when it is closed.
    ///
    /// # Errors
    /// The system's limits are reached.
    pub(crate) fn add(&self, socket: impl AsFd, token: usize, want: Want) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(token as u64), flags(want))?)
    }

    /// Watches it for something else.
    ///
    /// # Errors
    /// It was never added.
    pub(crate) fn change(&self, socket: impl AsFd, token: usize, want: Want) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, socket, EventData::new_u64(token as u64), flags(want))?)
    }

    /// Forgets a socket.
    ///
    /// # Errors
    /// It is not known.
    pub(crate) fn remove(&self, stream: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, stream)?)
    }

    /// Ends the next wait at this monotonic time in nanoseconds, at the latest.
    ///
    /// # Errors
    /// None that a caller could cause.
    pub(crate) fn set_alarm(&self, at_ns: u64) -> io::Result<()> {
        if self.alarm_ns.replace(at_ns) == at_ns && at_ns > monotonic_ns() {
            return Ok(()); // it is on its way already
        }
        let it_value = timespec(Duration::from_nanos(at_ns.max(1)));
        let it_interval = timespec(Duration::ZERO);
        timerfd_settime(&self.alarm, TimerfdTimerFlags::ABSTIME, &Itimerspec { it_interval, it_value })?;
        Ok(())
    }

    /// Waits for a socket, the alarm or the end of `limit`, and puts what is ready into `ready` (emptied first).
    ///
    /// # Errors
    /// None that a caller could cause; a signal only ends the wait.
    pub(crate) fn wait(&self, limit: Duration, ready: &mut Vec<Ready>) -> io::Result<()> {
        ready.clear();
        let mut events = [const { MaybeUninit::<Event>::uninit() }; EVENTS_PER_WAIT];
        let events = match epoll::wait(&self.epoll, &mut events, Some(&timespec(limit))) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for event in events {
            let (flags, data) = (event.flags, event.data);
            let Ok(token) = usize::try_from(data.u64()) else { continue };
            if data.u64() != ALARM {
                let readable = flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR);
                ready.push(Ready { token, readable, writable: flags.contains(EventFlags::OUT) });
            }
        }
        Ok(())
    }
}

fn flags(want: Want) -> EventFlags {
    match want {
        Want::Read => EventFlags::IN,
        Want::Write => EventFlags::OUT,
        Want::ReadWrite => EventFlags::IN | EventFlags::OUT,
        Want::Nothing => EventFlags::empty(),
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_socket_with_bytes_is_ready_and_the_alarm_ends_a_wait() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let poller = Poller::new().unwrap();
        let mut ready = Vec::new();
        poller.add(&far, 7, Want::Read).unwrap();
        for _ in 0..2 {
            let due = monotonic_ns() + 2_000_000;
            poller.set_alarm(due).unwrap();
            poller.wait(Duration::from_secs(60), &mut ready).unwrap();
            assert!(ready.is_empty() && monotonic_ns() >= due);
        }
        near.write_all(b"x").unwrap();
        poller.wait(Duration::from_secs(60), &mut ready).unwrap();
        assert_eq!(ready, [Ready { token: 7, readable: true, writable: false }]);
        poller.change(&far, 7, Want::Write).unwrap();
        poller.wait(Duration::from_secs(60), &mut ready).unwrap();
        assert_eq!(ready, [Ready { token: 7, readable: false, writable: true }]);
    }
}
