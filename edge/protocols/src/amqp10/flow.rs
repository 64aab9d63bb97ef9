//! Flow frames, and the credit and windows that are given to the client.
//!
//! Refuses to know messages. Back-pressure is credit first: a link gets none while the broker cannot take what it sends, so that deliveries on
//! the same connection go on.

use broker::{ConsumerId, Credit};
use wire::amqp10::{Flow, conditions};

use super::deliver::LinkFlow;
use super::errors::{Failure, Outcome};
use super::link::Link;
use super::running::Running;

impl Running {
    /// A flow frame.
    pub(crate) fn flow(&mut self, channel: u16, flow: &Flow<'_>) -> Outcome {
        self.window(channel, flow)?;
        let Some(handle) = flow.handle else {
            if flow.echo {
                self.tell_window(channel);
            }
            return Ok(());
        };
        let session = self.session(channel);
        match session.by_handle.get(&handle) {
            Some(Link::Receiver(receiver)) => {
                let (token, outlet) = (receiver.token, receiver.outlet);
                self.credit(token, outlet, flow);
                Ok(())
            }
            Some(Link::Inlet(inlet)) => {
                let (delivery_count, credit) = (inlet.delivery_count, inlet.credit);
                if flow.echo {
                    let link = LinkFlow {
                        handle,
                        delivery_count,
                        credit,
                        available: None,
                        drain: false,
                        is_active: None,
                    };
                    self.tell_flow(channel, Some(link));
                }
                Ok(())
            }
            Some(Link::Answers(_)) => {
                self.credit_answers(channel, handle, flow);
                Ok(())
            }
            Some(Link::Requests(_)) => Ok(()),
            None => {
                let text = format!("Unattached link handle: {handle}");
                Err(Failure::session(conditions::UNATTACHED_HANDLE, text))
            }
        }
    }

    /// The session half of a flow frame (AMQP 1.0 part 2, section 2.5.6).
    fn window(&mut self, channel: u16, flow: &Flow<'_>) -> Outcome {
        let sink = self.sink.clone();
        let mut output = sink.outbox.lock();
        let (bytes, side, _) = output.parts();
        let Some(session) = side.session(channel) else { return Ok(()) };
        let next = session.next_outgoing_id;
        let seen = flow.next_incoming_id.unwrap_or(0);
        if seen.wrapping_sub(next).cast_signed() > 0 {
            let text = format!("next-incoming-id from FLOW ({seen}) leads next-outgoing-id ({next})");
            return Err(Failure::session(conditions::WINDOW_VIOLATION, text));
        }
        let window = seen.wrapping_add(flow.incoming_window).wrapping_sub(next);
        // Messages that were sent meanwhile may have used up more than there is.
        let under_way = next.wrapping_sub(seen);
        session.remote_outgoing_window = flow.outgoing_window;
        session.window = if under_way > flow.incoming_window { 0 } else { window };
        session.release_held(bytes);
        self.has_freed_window = true;
        Ok(())
    }

    /// A receiver's credit: a limit that does not depend on what is under way.
    fn credit(&mut self, token: u32, index: u32, flow: &Flow<'_>) {
        let queue = self.settlements.queue(index).cloned();
        let mut output = self.sink.outbox.lock();
        let (bytes, side, _) = output.parts();
        let Some(outlet) = side.outlet(index) else { return };
        if let Some(credit) = flow.link_credit {
            outlet.limit = flow.delivery_count.unwrap_or(0).wrapping_add(credit);
        }
        outlet.echo |= flow.echo;
        outlet.drain = flow.drain;
        let limit = outlet.limit;
        let Some(queue) = queue else {
            // Replies are not kept: there is nothing that could be drained.
            if flow.drain {
                outlet.delivery_count = limit;
            }
            let is_told = std::mem::take(&mut outlet.echo) || flow.drain;
            let (channel, handle, delivery_count) = (outlet.channel, outlet.handle, outlet.delivery_count);
            let credit = outlet.credit();
            let link = LinkFlow {
                handle,
                delivery_count,
                credit,
                available: Some(0),
                drain: flow.drain,
                is_active: None,
            };
            if let Some(session) = side.session(channel).filter(|_| is_told) {
                session.flow(channel, Some(link), bytes);
            }
            return;
        };
        drop(output);
        let consumer = ConsumerId { connection: self.principal.connection, token };
        queue.credit(consumer, Credit { limit, drain: flow.drain });
    }

    /// Writes a flow frame.
    pub(crate) fn tell_flow(&mut self, channel: u16, link: Option<LinkFlow>) {
        self.publish_window(channel);
        let mut output = self.sink.outbox.lock();
        let (bytes, side, _) = output.parts();
        if let Some(session) = side.session(channel) {
            session.flow(channel, link, bytes);
        }
    }

    /// Tells the client how many transfer frames it may send.
    pub(crate) fn tell_window(&mut self, channel: u16) {
        self.tell_flow(channel, None);
    }

    /// Lets flow frames of other threads say what has come so far.
    pub(crate) fn publish_window(&mut self, channel: u16) {
        let Some(links) = self.sessions.get(usize::from(channel)).and_then(Option::as_deref) else { return };
        let (next, window) = (links.next_incoming_id, links.incoming_window);
        if let Some(session) = self.sink.outbox.lock().state().session(channel) {
            session.next_incoming_id = next;
            session.incoming_window = u32::try_from(window).unwrap_or(0);
        }
    }

    /// Gives credit and windows back that were used, as far as the broker takes more.
    pub(crate) fn renew(&mut self) {
        let is_held = self.publisher_full || self.is_alarmed;
        let mut active = std::mem::take(&mut self.active);
        active.retain(|&(channel, handle)| !self.renew_link(channel, handle, is_held));
        // Sessions of links that wait keep their windows small, too.
        self.active = active;
        if is_held {
            return;
        }
        let mut next = 0;
        while let Some(channel) = self.channel_from(next) {
            let session = self.session(channel);
            if session.incoming_window <= i64::from(session.allowance.now() / 2) {
                let left = u32::try_from(session.incoming_window).unwrap_or(0);
                session.incoming_window = i64::from(session.allowance.renew(left));
                self.tell_window(channel);
            }
            next = usize::from(channel) + 1;
        }
    }

    /// Renews a link's credit if it is due; false when it has to wait for it.
    fn renew_link(&mut self, channel: u16, handle: u32, is_held: bool) -> bool {
        let Some(links) = self.sessions.get_mut(usize::from(channel)).and_then(Option::as_deref_mut) else {
            return true;
        };
        let Some(inlet) = links.inlet(handle) else { return true };
        if inlet.credit > inlet.allowance.now() / 2 {
            inlet.is_active = false;
            return true;
        }
        let mut output = self.sink.outbox.lock();
        let Some(progress) = output.state().progress(inlet.place) else { return true };
        if is_held || progress.unconfirmed >= inlet.allowance.now() {
            progress.is_starved = true;
            return false;
        }
        drop(output);
        inlet.credit = inlet.allowance.renew(inlet.credit);
        inlet.is_active = false;
        let delivery_count = inlet.delivery_count;
        inlet.listed.counts.note(delivery_count, inlet.credit);
        let link = LinkFlow {
            handle,
            delivery_count,
            credit: inlet.credit,
            available: None,
            drain: false,
            is_active: None,
        };
        self.tell_flow(channel, Some(link));
        true
    }

    /// Alarms have gone on or off: clients are told to send nothing, or that they may again.
    pub(crate) fn alarm(&mut self, is_on: bool) {
        if self.is_alarmed == is_on {
            return;
        }
        self.is_alarmed = is_on;
        for channel in self.channels() {
            let session = self.session(channel);
            session.incoming_window = if is_on { 0 } else { i64::from(session.allowance.now()) };
            self.tell_window(channel);
        }
        if !is_on {
            self.renew();
        }
    }
}
