//! Letting go: links, sessions and everything a connection holds when it ends.
//!
//! Refuses to know why. A link that ends gives back what is not settled before the client is told, as in RabbitMQ.

use broker::{Call, Principal, SettleHow};
use wire::amqp10::{Detach, End, conditions};

use super::errors::{Failure, Trouble};
use super::link::{Link, Receiver, SessionState};
use super::publish::deleted;
use super::running::{Awaited, Running};
use crate::connection::Opened;

impl Running {
    /// A detach frame.
    pub(crate) fn detach(&mut self, channel: u16, detach: &Detach<'_>) {
        let Some(link) = self.session(channel).by_handle.remove(&detach.handle) else { return };
        self.sink.outbox.lock().state().unlist(channel, detach.handle);
        self.submit();
        let calls = self.release_link(channel, link);
        let mut answer = Vec::new();
        Detach { handle: detach.handle, closed: detach.closed, error: None }
            .encode_frame(channel, &mut answer);
        self.await_calls(calls, answer);
    }

    /// Gives back the messages that a link holds; the caller tells the client.
    pub(crate) fn detach_quietly(&mut self, channel: u16, handle: u32) {
        if let Some(link) = self.session(channel).by_handle.remove(&handle) {
            self.sink.outbox.lock().state().unlist(channel, handle);
            self.submit();
            drop(self.release_link(channel, link));
        }
    }

    /// The server ends a link.
    pub(crate) fn detach_with(&mut self, channel: u16, handle: u32, trouble: &Trouble) {
        tracing::info!(connection = %self.principal.connection, channel, handle, "link ended: {}", trouble.text);
        self.detach_quietly(channel, handle);
        trouble.encode_detach(channel, handle, self.sink.outbox.lock().bytes());
    }

    /// An end frame.
    pub(crate) fn end(&mut self, channel: u16) {
        let was_open = self.session(channel).state == SessionState::Open;
        let calls = self.release_session(channel);
        self.forget_session(channel);
        if was_open {
            let mut answer = Vec::new();
            End { error: None }.encode_frame(channel, &mut answer);
            self.await_calls(calls, answer);
        }
    }

    /// The server ends a session; frames on it are passed over until the client's end.
    pub(crate) fn end_with(&mut self, channel: u16, trouble: &Trouble) {
        let Some(session) = self.sessions.get_mut(usize::from(channel)).and_then(Option::as_deref_mut) else {
            return;
        };
        if session.state == SessionState::Ending {
            return;
        }
        session.state = SessionState::Ending;
        tracing::warn!(connection = %self.principal.connection, channel, "session ended: {}", trouble.text);
        drop(self.release_session(channel));
        trouble.encode_end(channel, self.sink.outbox.lock().bytes());
    }

    fn release_session(&mut self, channel: u16) -> Vec<Call<()>> {
        self.submit();
        let links = std::mem::take(&mut self.session(channel).by_handle);
        links.into_values().flat_map(|link| self.release_link(channel, link)).collect()
    }

    fn forget_session(&mut self, channel: u16) {
        self.sink.outbox.lock().state().close_session(channel);
        self.sessions[usize::from(channel)] = None;
    }

    /// Gives back what a link holds. Returns what to wait for before that is said.
    fn release_link(&mut self, channel: u16, link: Link) -> Vec<Call<()>> {
        match link {
            Link::Inlet(inlet) => {
                let bytes = inlet.partial.map_or(0, |partial| partial.message.capacity());
                self.unfinished.give_back(bytes);
                self.sink.outbox.lock().state().remove_inlet(inlet.place);
                self.delete_dynamic(inlet.dynamic)
            }
            Link::Receiver(receiver) => self.release_receiver(channel, receiver),
            Link::Requests(_) | Link::Answers(_) => Vec::new(),
        }
    }

    fn release_receiver(&mut self, channel: u16, receiver: Receiver) -> Vec<Call<()>> {
        let Receiver { token, outlet, reply_address, dynamic } = receiver;
        let mut calls = Vec::new();
        if let Some(address) = &reply_address {
            self.broker.unregister_reply(&self.principal, address);
        }
        if let Some(queue) = self.settlements.queue(outlet) {
            // The messages that go back come behind it in the queue's inbox.
            let call = queue.cancel(self.consumer(token));
            if queue.is_auto_delete() {
                calls.push(call);
            }
        }
        self.settle_as(SettleHow::Requeue);
        {
            let mut output = self.sink.outbox.lock();
            let settlements = &mut self.settlements;
            output.state().remove_outlet(outlet, |entry| settlements.add_run(entry.source, entry.seq, 1));
            if let Some(session) = output.state().session(channel) {
                session.consumer_count = session.consumer_count.saturating_sub(1);
            }
        }
        self.submit();
        self.settlements.forget(outlet);
        calls.append(&mut self.delete_dynamic(dynamic));
        self.has_freed_window = true;
        calls
    }

    /// A queue that was made for a link goes with it.
    fn delete_dynamic(&mut self, queue: Option<Box<[u8]>>) -> Vec<Call<()>> {
        if let Some(queue) = queue
            && let Err(refused) = self.broker.delete_queue(&self.principal, &queue, false, false).map(drop)
        {
            tracing::debug!(?refused, "the queue of a link has gone before it");
        }
        Vec::new()
    }

    /// Writes an answer when these are through.
    fn await_calls(&mut self, calls: Vec<Call<()>>, answer: Vec<u8>) {
        if calls.is_empty() {
            self.sink.outbox.lock().bytes().extend_from_slice(&answer);
        } else {
            self.awaited = Some(Awaited::Left { calls, answer });
        }
    }

    /// Queues of these links are deleted, and messages were too large for others: the client is told.
    pub(crate) fn heed_news(&mut self) {
        let mut output = self.sink.outbox.lock();
        let mut gone = std::mem::take(&mut output.state().gone);
        drop(output);
        let channels = self.channels();
        for channel in channels {
            let mut ended = Vec::new();
            let mut too_large = None;
            for (handle, link) in &self.session(channel).by_handle {
                if let Link::Receiver(receiver) = link {
                    ended.push((*handle, receiver.outlet));
                }
            }
            for (handle, outlet) in ended {
                if gone.contains(&outlet) {
                    gone.retain(|other| *other != outlet);
                    let name = self.settlements.queue(outlet).map(|queue| queue.name().to_vec());
                    let text = deleted(name.as_deref().unwrap_or_default(), self.principal.vhost.name());
                    self.detach_with(channel, handle, &Trouble::new(conditions::RESOURCE_DELETED, text));
                    continue;
                }
                let mut output = self.sink.outbox.lock();
                let outlet = output.state().outlet(outlet);
                too_large = too_large
                    .or_else(|| outlet.and_then(|outlet| Some((outlet.oversize?, outlet.message_bytes_max))));
            }
            if let Some((size, max)) = too_large
                && let Failure::Session(trouble) = super::refusals::too_large(size, max)
            {
                self.end_with(channel, &trouble);
            }
        }
        self.keep_unheard(gone);
    }

    /// A link whose queue went while it was being attached hears of it afterwards.
    fn keep_unheard(&mut self, mut gone: Vec<u32>) {
        let mut output = self.sink.outbox.lock();
        let side = output.state();
        gone.retain(|outlet| side.outlet(*outlet).is_some_and(|outlet| !outlet.announced));
        side.gone.append(&mut gone);
    }
}

impl Opened for Running {
    fn principal(&self) -> &Principal {
        &self.principal
    }

    fn is_stalled(&self) -> bool {
        self.awaited.is_some() || self.awaits_room || self.output_full || self.is_pressed()
    }

    fn release(&mut self) {
        self.awaited = None;
        for channel in self.channels() {
            drop(self.release_session(channel));
            self.forget_session(channel);
        }
        for channel in 0..self.sessions.len() {
            if self.sessions[channel].is_some() {
                self.forget_session(u16::try_from(channel).expect("channels are 16 bits"));
            }
        }
        self.submit();
        self.broker.close_connection(&self.principal);
    }
}
