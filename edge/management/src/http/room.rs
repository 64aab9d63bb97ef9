//! Memory for answers on their way: a long answer takes room until its client has it, and all room together has a bound. Refuses to
//! know what is in answers.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::Problem;

/// Memory for all long answers on their way that are there as a whole, and for messages that are written into others, KiB.
pub(crate) const ANSWERS_KIB_MAX: usize = 128 << 10;

/// Answers up to this length take no room: requests that are answered at once have a bound of their own.
pub(crate) const SHORT_BYTES_MAX: usize = 64 << 10;

/// Bytes that an answer that grows takes at once.
const STEP_BYTES: usize = 1 << 20;

/// How long a request waits for room before it is refused.
const PATIENCE: Duration = Duration::from_secs(5);

/// Room that an answer has, until dropped.
pub(crate) struct Room {
    all: Arc<Semaphore>,
    held: Option<OwnedSemaphorePermit>,
}

fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024).min(ANSWERS_KIB_MAX)).expect("all the room there is fits")
}

/// There is no room now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

impl From<Full> for Problem {
    fn from(Full: Full) -> Self {
        let text = "too many long answers are on their way to slow readers; try again";
        Problem::new(503, "service_unavailable", text)
    }
}

impl Room {
    /// None yet, of all the room there is.
    pub(crate) fn of(all: &Arc<Semaphore>) -> Self {
        Self { all: all.clone(), held: None }
    }

    /// Waits for room, for a while.
    ///
    /// # Errors
    /// There was none all the while.
    pub(crate) async fn wait(all: &Arc<Semaphore>, bytes: usize) -> Result<Self, Full> {
        Self::wait_for(all, bytes, PATIENCE).await
    }

    async fn wait_for(all: &Arc<Semaphore>, bytes: usize, patience: Duration) -> Result<Self, Full> {
        let taken = tokio::time::timeout(patience, all.clone().acquire_many_owned(kib(bytes))).await;
        let held = taken.ok().and_then(Result::ok).ok_or(Full)?;
        Ok(Self { all: all.clone(), held: Some(held) })
    }

    /// Takes more; an answer that wants all there is gets it when it is alone.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), Full> {
        let held = self.held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let wanted = kib(bytes).min(kib(usize::MAX) - u32::try_from(held).unwrap_or(u32::MAX));
        let more = self.all.clone().try_acquire_many_owned(wanted).map_err(|_| Full)?;
        match &mut self.held {
            Some(held) => held.merge(more),
            None => self.held = Some(more),
        }
        Ok(())
    }

    /// Gives back what is more than that.
    pub(crate) fn keep(&mut self, bytes: usize) {
        let Some(held) = &mut self.held else { return };
        let surplus = held.num_permits().saturating_sub(kib(bytes) as usize);
        drop(held.split(surplus));
    }
}

/// A text that takes room as it grows. An error of writing says that there is none.
pub(crate) struct LongText {
    text: Vec<u8>,
    room: Room,
    taken: usize,
}

impl LongText {
    pub(crate) fn new(all: &Arc<Semaphore>) -> Self {
        Self { text: Vec::new(), room: Room::of(all), taken: SHORT_BYTES_MAX }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.text
    }

    /// Whether it has to be sent piece by piece.
    pub(crate) fn is_long(&self) -> bool {
        self.text.len() > SHORT_BYTES_MAX
    }

    /// All of it, where it is short.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.text
    }
}

impl Write for LongText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.text.len() + bytes.len();
        if len > self.taken {
            let step = (len - self.taken).max(STEP_BYTES);
            self.room.take(step).map_err(|Full| io::Error::from(io::ErrorKind::OutOfMemory))?;
            self.taken += step;
            self.text.reserve_exact(self.taken - self.text.len());
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mebibytes: usize) -> Arc<Semaphore> {
        Arc::new(Semaphore::new(mebibytes << 10))
    }

    #[test]
    fn room_is_taken_given_back_in_parts_and_never_lent_twice() {
        let all = all(3);
        let (mut one, mut other) = (Room::of(&all), Room::of(&all));
        assert_eq!((one.take(1 << 20), one.take(1 << 20), other.take(2 << 20)), (Ok(()), Ok(()), Err(Full)));
        one.keep(1 << 20);
        assert_eq!((all.available_permits(), other.take(2 << 20)), (2 << 10, Ok(())));
        one.keep(5 << 20);
        drop((one, other));
        assert_eq!(all.available_permits(), 3 << 10);
    }

    #[test]
    fn a_short_text_takes_no_room_and_a_long_one_as_it_grows() {
        let all = all(2);
        let mut short = LongText::new(&all);
        short.write_all(&[b'x'; SHORT_BYTES_MAX]).unwrap();
        assert!(!short.is_long() && all.available_permits() == 2 << 10);
        short.write_all(b"x").unwrap();
        assert!(short.is_long() && all.available_permits() == 1 << 10);
        assert!(short.write_all(&vec![b'x'; 3 << 20]).is_err(), "more than there is");
        drop(short);
        assert_eq!(all.available_permits(), 2 << 10);
    }

    #[tokio::test]
    async fn who_finds_no_room_gets_the_next_or_is_refused_after_a_while() {
        let all = all(1);
        let held = Room::wait(&all, 1 << 20).await.unwrap();
        assert_eq!(Room::wait_for(&all, 1, Duration::ZERO).await.err(), Some(Full));
        let next = tokio::spawn({
            let all = all.clone();
            async move { Room::wait_for(&all, 1 << 20, Duration::MAX).await }
        });
        tokio::task::yield_now().await;
        drop(held);
        assert!(next.await.unwrap().is_ok());
    }
}
