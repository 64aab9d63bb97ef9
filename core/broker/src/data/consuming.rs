//! A consumer whose queue has not answered.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use queues::ConsumerId;

use crate::call::Call;
use crate::cell::Queue;
use crate::refused::Refused;

/// The answer of a queue to a new consumer, now or later.
///
/// If it is dropped before the answer is taken, the consumer is cancelled: its connection has ended, and nobody else would do that.
pub struct Consuming {
    queue: Arc<Queue>,
    consumer: ConsumerId,
    /// `None` once the answer is taken.
    call: Option<Call<Result<(), Refused>>>,
}

impl Consuming {
    pub(crate) fn new(queue: Arc<Queue>, consumer: ConsumerId, call: Call<Result<(), Refused>>) -> Consuming {
        Consuming { queue, consumer, call: Some(call) }
    }

    /// The answer alone: the caller cancels the consumer.
    pub fn into_call(mut self) -> Call<Result<(), Refused>> {
        self.call.take().unwrap_or_else(|| Call::ready(Ok(())))
    }

    /// Blocks this thread until the answer is there. Never on a thread that runs connections or answers calls.
    ///
    /// # Errors
    /// The refusal of the queue.
    pub fn wait(self) -> Result<(), Refused> {
        self.into_call().wait()
    }
}

impl Future for Consuming {
    type Output = Result<(), Refused>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(call) = &mut self.call else { return Poll::Pending };
        let answer = std::task::ready!(Pin::new(call).poll(cx));
        self.call = None;
        Poll::Ready(answer)
    }
}

impl Drop for Consuming {
    fn drop(&mut self) {
        if self.call.is_some() {
            // It comes behind the consumer in the queue's inbox.
            drop(self.queue.cancel(self.consumer));
        }
    }
}
