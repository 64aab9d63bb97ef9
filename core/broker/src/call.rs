//! A reply that may already be there: how a session asks a queue cell or the metadata log without waiting for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use atomic_waker::AtomicWaker;
use parking_lot::Mutex;

use crate::refused::Refused;

/// The answer to a request, now or later. A [`Future`] without a runtime: sessions poll it from their connection's task.
///
/// Dropping it abandons the answer, not the request.
#[derive(Debug)]
pub struct Call<T>(CallState<T>);

/// A change of metadata: answered when it is durable, or when it never will be.
pub type Commit = Call<Result<(), Refused>>;

/// As [`Commit`], answered with what came of the change.
pub type Changed = Call<Result<metadata::Outcome, Refused>>;

#[derive(Debug)]
enum CallState<T> {
    Ready(Option<T>),
    Waiting(Arc<Slot<T>>),
}

#[derive(Debug)]
struct Slot<T> {
    value: Mutex<Option<T>>,
    waker: AtomicWaker,
    is_followed: AtomicBool,
}

/// The answering end of a [`Call`].
#[derive(Debug)]
pub(crate) struct Reply<T>(Arc<Slot<T>>);

impl<T> Call<T> {
    /// A call whose answer is known at once.
    pub fn ready(value: T) -> Call<T> {
        Call(CallState::Ready(Some(value)))
    }

    /// A call and the end that answers it.
    pub(crate) fn pair() -> (Reply<T>, Call<T>) {
        let slot = Arc::new(Slot {
            value: Mutex::new(None),
            waker: AtomicWaker::new(),
            is_followed: AtomicBool::new(false),
        });
        (Reply(slot.clone()), Call(CallState::Waiting(slot)))
    }

    /// Blocks this thread until the answer is there. Never on a thread that runs connections or answers calls.
    pub fn wait(mut self) -> T
    where
        T: Unpin,
    {
        struct Unpark(std::thread::Thread);
        impl std::task::Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = std::task::Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut cx = Context::from_waker(&waker);
        loop {
            match Pin::new(&mut self).poll(&mut cx) {
                Poll::Ready(value) => return value,
                Poll::Pending => std::thread::park(),
            }
        }
    }

    /// Whether the tables have followed the change of metadata that was asked for: only the disk is waited for. Of other requests, whether the
    /// answer is there.
    pub fn is_followed(&self) -> bool {
        match &self.0 {
            CallState::Ready(_) => true,
            CallState::Waiting(slot) => {
                slot.is_followed.load(Ordering::Acquire) || slot.value.lock().is_some()
            }
        }
    }

    /// Takes the answer if it has arrived.
    pub fn try_take(&mut self) -> Option<T> {
        match &mut self.0 {
            CallState::Ready(value) => value.take(),
            CallState::Waiting(slot) => slot.value.lock().take(),
        }
    }
}

impl<T> Call<Result<T, Refused>> {
    /// The call, unless it is refused already.
    ///
    /// # Errors
    /// The refusal.
    pub fn or_refused(mut self) -> Result<Self, Refused> {
        match self.try_take() {
            Some(Err(refused)) => Err(refused),
            Some(answer) => Ok(Call::ready(answer)),
            None => Ok(self),
        }
    }
}

impl<T> Reply<T> {
    /// The tables have followed what was asked for; the answer waits for the disk.
    pub(crate) fn followed(&self) {
        self.0.is_followed.store(true, Ordering::Release);
    }

    /// Whether nobody waits for the answer any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Answers; wakes the waiting task. A second answer is for nobody.
    pub(crate) fn send(&self, value: T) {
        *self.0.value.lock() = Some(value);
        self.0.waker.wake();
    }
}

impl<T: Unpin> Future for Call<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        if let Some(value) = self.try_take() {
            return Poll::Ready(value);
        }
        if let CallState::Waiting(slot) = &self.0 {
            slot.waker.register(cx.waker());
        }
        // The answer may have come between the look and the registration.
        match self.try_take() {
            Some(value) => Poll::Ready(value),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    #[test]
    fn an_answer_sent_before_the_poll_is_ready_at_once() {
        let (reply, mut call) = Call::pair();
        reply.send(7);
        assert_eq!(Pin::new(&mut call).poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(7));
    }

    #[test]
    fn an_unanswered_call_is_pending() {
        let (_reply, mut call) = Call::<u32>::pair();
        assert!(Pin::new(&mut call).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
}
