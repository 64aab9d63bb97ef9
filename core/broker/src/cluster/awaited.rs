//! Answers of queues that are passed on, without a thread that waits for them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;

use crate::call::Call;

/// Waits for the answer of a queue and sends it, without a thread of its own.
pub(super) struct Awaited<T> {
    call: Mutex<Option<Call<T>>>,
    send: Box<dyn Fn(T) + Send + Sync>,
}

impl<T: Unpin + Send + 'static> Awaited<T> {
    pub(super) fn begin(call: Call<T>, send: impl Fn(T) + Send + Sync + 'static) {
        Arc::new(Awaited { call: Mutex::new(Some(call)), send: Box::new(send) }).poll();
    }

    fn poll(self: Arc<Self>) {
        let mut held = self.call.lock();
        let Some(call) = held.as_mut() else { return };
        let waker = Waker::from(self.clone());
        if let Poll::Ready(answer) = Pin::new(call).poll(&mut Context::from_waker(&waker)) {
            *held = None;
            drop(held);
            (self.send)(answer);
        }
    }
}

impl<T: Unpin + Send + 'static> Wake for Awaited<T> {
    fn wake(self: Arc<Self>) {
        self.poll();
    }
}
