//! The delivery side of a connection: links that receive, session windows, unsettled deliveries. It lives under the outbox's lock, so a
//! queue's cell hands over a whole run of deliveries with one lock.
//!
//! Refuses to know the broker: queues appear as numbers of outlets only.
//!
//! A message that needs more frames than the client's window has room for is held, with all that must follow it, until the client opens its
//! window; nothing else of the session is delivered meanwhile. So a session holds one message at most.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use broker::{Credit, CreditNews, Delivery, SessionHold, TrafficTotals};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use message::amqp10::{Acquired, encode_head};
use wire::amqp10::{Flow, Map, Transfer, encode_delivery};

use super::confirms::Progress;
use super::listed::Listed;
use crate::outbox::{Outbox, Output};
use crate::unacked::{Entry, Unacked};

/// Transfer frames that the server keeps unsettled: any number.
pub(crate) const OUTGOING_WINDOW: u32 = u32::MAX;

/// A link on which the client receives.
#[derive(Debug)]
pub(crate) struct Outlet {
    pub(crate) token: u32,
    pub(crate) channel: u16,
    pub(crate) handle: u32,
    /// Deliveries are sent settled.
    pub(crate) settled: bool,
    /// Largest message that the client takes, bytes; 0 is any.
    pub(crate) message_bytes_max: u64,
    /// It gets replies, which no queue counts.
    pub(crate) is_reply: bool,
    pub(crate) delivery_count: u32,
    /// Delivery count up to which the client takes deliveries.
    pub(crate) limit: u32,
    /// Credit that it cannot use now is given up.
    pub(crate) drain: bool,
    /// The client wants to know where its link is.
    pub(crate) echo: bool,
    /// Whether the client was told that it is the active consumer of its queue.
    is_active: Option<bool>,
    /// The attach is answered.
    pub(crate) announced: bool,
    paused: bool,
    /// A message was too large for the client: its bytes.
    pub(crate) oversize: Option<u64>,
    /// How long a delivery may stay unsettled, milliseconds; 0 is for ever.
    pub(crate) timeout_ms: u64,
    /// Ids of deliveries that the broker has taken back and the client has not confirmed. While there are any, the link gets nothing.
    pub(crate) timed_out: Vec<u64>,
    /// There was any such delivery.
    pub(crate) has_timed_out: bool,
}

impl Outlet {
    /// Deliveries that the client still takes.
    pub(crate) fn credit(&self) -> u32 {
        let ahead = self.limit.wrapping_sub(self.delivery_count);
        if ahead.cast_signed() > 0 { ahead } else { 0 }
    }

    fn pause(&mut self, paused: &mut Vec<u32>) {
        if !self.paused {
            self.paused = true;
            paused.push(self.token);
        }
    }
}

/// A session's share of the delivery side.
#[derive(Debug)]
pub(crate) struct SessionOutput {
    /// Id of the next transfer frame.
    pub(crate) next_outgoing_id: u32,
    /// Transfer frames that the client takes.
    pub(crate) window: u32,
    /// Id of the next delivery; its low half goes over the wire.
    pub(crate) next_id: u64,
    pub(crate) unacked: Unacked,
    /// Frames that wait for the window, and where the next one begins.
    held: Vec<u8>,
    held_at: usize,
    held_by: u32,
    /// The field of flow frames for the other direction: as it was after the latest read.
    pub(crate) next_incoming_id: u32,
    pub(crate) incoming_window: u32,
    /// Highest handle.
    pub(crate) handle_max: u32,
    /// Transfer frames that the client has announced.
    pub(crate) remote_outgoing_window: u32,
    /// Its links by handle, for lists.
    pub(crate) listed: BTreeMap<u32, Arc<Listed>>,
    pub(crate) consumer_count: usize,
    counted: TrafficTotals,
}

/// The link part of a flow frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkFlow {
    pub(crate) handle: u32,
    pub(crate) delivery_count: u32,
    pub(crate) credit: u32,
    pub(crate) available: Option<u64>,
    pub(crate) drain: bool,
    /// Tells whether the link is the active consumer of its queue.
    pub(crate) is_active: Option<bool>,
}

/// Entries of the properties that tell whether a link is the active consumer.
const fn activity(is_active: bool) -> &'static [u8] {
    if is_active { b"\xa3\x0frabbitmq:active\x41" } else { b"\xa3\x0frabbitmq:active\x42" }
}

impl SessionOutput {
    pub(crate) fn new(next_incoming_id: u32, incoming_window: u32, window: u32) -> SessionOutput {
        SessionOutput {
            next_outgoing_id: 0,
            window,
            next_id: 0,
            unacked: Unacked::default(),
            held: Vec::new(),
            held_at: 0,
            held_by: 0,
            next_incoming_id,
            incoming_window,
            handle_max: 0,
            remote_outgoing_window: 0,
            listed: BTreeMap::new(),
            consumer_count: 0,
            counted: TrafficTotals::default(),
        }
    }

    /// Whether frames wait for the client's window.
    pub(crate) fn is_holding(&self) -> bool {
        self.held_at < self.held.len()
    }

    /// Appends a flow frame, behind what is held.
    pub(crate) fn flow(&mut self, channel: u16, link: Option<LinkFlow>, out: &mut Vec<u8>) {
        let flow = Flow {
            next_incoming_id: Some(self.next_incoming_id),
            incoming_window: self.incoming_window,
            next_outgoing_id: self.next_outgoing_id,
            outgoing_window: OUTGOING_WINDOW,
            handle: link.map(|link| link.handle),
            delivery_count: link.map(|link| link.delivery_count),
            link_credit: link.map(|link| link.credit),
            available: link
                .and_then(|link| link.available)
                .map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
            drain: link.is_some_and(|link| link.drain),
            echo: false,
            properties: link
                .and_then(|link| link.is_active)
                .map_or(Map::EMPTY, |is_active| Map::from_raw(activity(is_active))),
        };
        let holds = self.is_holding() && link.is_some();
        flow.encode_frame(channel, if holds { &mut self.held } else { out });
    }

    /// Writes held frames as far as the window goes.
    pub(crate) fn release_held(&mut self, out: &mut Vec<u8>) {
        while let Some(frame) = first_frame(&self.held[self.held_at..]) {
            let is_transfer = frame.get(8..11) == Some(&[0x00, 0x53, 0x14]);
            if is_transfer {
                let Some(window) = self.window.checked_sub(1) else { return };
                self.window = window;
                self.next_outgoing_id = self.next_outgoing_id.wrapping_add(1);
            }
            out.extend_from_slice(frame);
            self.held_at += frame.len();
        }
        (self.held, self.held_at) = (Vec::new(), 0);
    }

    /// Takes the next delivery id.
    pub(crate) fn take_id(&mut self) -> u32 {
        let id = self.wire_id();
        self.next_id += 1;
        id
    }

    /// The next delivery id, as it goes over the wire.
    #[expect(clippy::cast_possible_truncation, reason = "the low half is what goes over the wire")]
    const fn wire_id(&self) -> u32 {
        self.next_id as u32
    }

    /// Sends what `encode` appends, transfer frames whose number it returns; behind what is held.
    pub(crate) fn send(
        &mut self,
        outlet: u32,
        bytes: &mut Vec<u8>,
        encode: impl FnOnce(&mut Vec<u8>) -> u32,
    ) {
        if self.is_holding() {
            encode(&mut self.held);
            return;
        }
        let start = bytes.len();
        let frames = encode(bytes);
        self.sent(outlet, start, frames, bytes);
    }

    /// `frames` transfer frames were appended from `start` on: those beyond the window are held.
    fn sent(&mut self, outlet: u32, start: usize, frames: u32, bytes: &mut Vec<u8>) {
        let sent = frames.min(self.window);
        if sent < frames {
            debug_assert!(!self.is_holding(), "nothing is sent while something is held");
            let mut at = start;
            for _ in 0..sent {
                at += first_frame(&bytes[at..]).map_or(0, <[u8]>::len);
            }
            self.held = bytes.split_off(at);
            (self.held_at, self.held_by) = (0, outlet);
        }
        self.window -= sent;
        self.next_outgoing_id = self.next_outgoing_id.wrapping_add(sent);
    }

    /// The delivery with this id on the wire; `None` if there never was one.
    fn long_id(&self, id: u32) -> Option<u64> {
        let back = self.wire_id().wrapping_sub(id);
        self.next_id.checked_sub(u64::from(back))
    }

    /// The deliveries of a range of ids on the wire; `None` if there can be none.
    fn long_range(&self, first: u32, last: u32) -> Option<std::ops::RangeInclusive<u64>> {
        if last.wrapping_sub(first).cast_signed() < 0 {
            return None;
        }
        let last = self.long_id(last)?;
        Some(self.long_id(first).unwrap_or(0)..=last)
    }

    /// The unsettled deliveries of a range of ids on the wire.
    pub(crate) fn unsettled(&self, first: u32, last: u32) -> Vec<Entry> {
        let Some(range) = self.long_range(first, last) else { return Vec::new() };
        self.unacked.iter().filter(|entry| range.contains(&entry.tag)).copied().collect()
    }

    /// Takes the unsettled deliveries of a range of ids on the wire.
    pub(crate) fn settle(&mut self, first: u32, last: u32, each: impl FnMut(Entry)) {
        if let Some(range) = self.long_range(first, last) {
            self.unacked.take_range(*range.start(), *range.end(), each);
        }
    }

    pub(crate) fn count_acked(&mut self, count: u64) {
        self.counted.deliveries.acked += count;
    }
}

/// The frame at the front.
fn first_frame(bytes: &[u8]) -> Option<&[u8]> {
    let size = u32::from_be_bytes(*bytes.first_chunk()?) as usize;
    bytes.get(..size)
}

/// The delivery side of all sessions.
#[derive(Debug, Default)]
pub(crate) struct Deliveries {
    /// Largest frame that the client takes, bytes.
    pub(crate) frame_size_max: usize,
    sessions: Vec<Option<Box<SessionOutput>>>,
    outlets: Vec<Option<Outlet>>,
    by_token: HashMap<u32, u32, FixedState>,
    inlets: Vec<Option<Progress>>,
    paused: Vec<u32>,
    /// Outlets whose queue is deleted.
    pub(crate) gone: Vec<u32>,
    scratch: Vec<u8>,
    /// When deliveries from now on count as made, tenths of a second on the session's clock.
    delivered_ds: u32,
    counted_closed: TrafficTotals,
    /// Memory of incomplete messages, bytes. The session's word.
    pub(crate) unfinished_bytes: usize,
}

impl Deliveries {
    /// Adds a session.
    pub(crate) fn open_session(&mut self, channel: u16, session: SessionOutput) {
        let at = usize::from(channel);
        if self.sessions.len() <= at {
            self.sessions.resize_with(at + 1, || None);
        }
        self.sessions[at] = Some(Box::new(session));
    }

    /// An open session.
    pub(crate) fn session(&mut self, channel: u16) -> Option<&mut SessionOutput> {
        self.sessions.get_mut(usize::from(channel))?.as_deref_mut()
    }

    /// All open sessions.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = (u16, &SessionOutput)> {
        (0..).zip(&self.sessions).filter_map(|(channel, session)| Some((channel, session.as_deref()?)))
    }

    /// A session is over. Its links are gone already.
    pub(crate) fn close_session(&mut self, channel: u16) {
        if let Some(session) = self.sessions.get_mut(usize::from(channel)).and_then(Option::take) {
            self.counted_closed += &session.counted;
        }
    }

    /// Adds a link that receives; returns its number.
    pub(crate) fn add_outlet(&mut self, outlet: NewOutlet) -> u32 {
        let NewOutlet { token, channel, handle, settled, message_bytes_max, is_reply } = outlet;
        let outlet = Outlet {
            token,
            channel,
            handle,
            settled,
            message_bytes_max,
            is_reply,
            delivery_count: 0,
            limit: 0,
            drain: false,
            echo: false,
            is_active: None,
            announced: false,
            paused: false,
            oversize: None,
            timeout_ms: 0,
            timed_out: Vec::new(),
            has_timed_out: false,
        };
        let index = free_place(&mut self.outlets, outlet);
        let index = u32::try_from(index).expect("fewer outlets than tokens");
        self.by_token.insert(token, index);
        index
    }

    /// A link that receives.
    pub(crate) fn outlet(&mut self, index: u32) -> Option<&mut Outlet> {
        self.outlets.get_mut(index as usize)?.as_mut()
    }

    /// As [`Self::outlet`], to look at it.
    pub(crate) fn outlet_at(&self, index: u32) -> Option<&Outlet> {
        self.outlets.get(index as usize)?.as_ref()
    }

    /// As [`Self::progress`], to look at it.
    pub(crate) fn progress_at(&self, place: usize) -> Option<&Progress> {
        self.inlets.get(place)?.as_ref()
    }

    /// Lists a link of a session, as long as it is there.
    pub(crate) fn list(&mut self, channel: u16, handle: u32, listed: Arc<Listed>) {
        if let Some(session) = self.session(channel) {
            session.listed.insert(handle, listed);
        }
    }

    /// A link is there no more.
    pub(crate) fn unlist(&mut self, channel: u16, handle: u32) {
        if let Some(session) = self.session(channel) {
            session.listed.remove(&handle);
        }
    }

    /// A link that receives ends: its unsettled deliveries go to `each`, and its state is dropped.
    pub(crate) fn remove_outlet(&mut self, index: u32, each: impl FnMut(Entry)) {
        let Some(outlet) = self.outlets.get_mut(index as usize).and_then(Option::take) else { return };
        self.by_token.remove(&outlet.token);
        let Some(session) = self.session(outlet.channel) else { return };
        session.unacked.take_source(index, each);
        if session.is_holding() && session.held_by == index {
            (session.held, session.held_at) = (Vec::new(), 0);
        }
    }

    /// Adds a link that sends; returns its place.
    pub(crate) fn add_inlet(&mut self, progress: Progress) -> usize {
        free_place(&mut self.inlets, progress)
    }

    /// The deliveries that are on their way from a link that sends.
    pub(crate) fn progress(&mut self, place: usize) -> Option<&mut Progress> {
        self.inlets.get_mut(place)?.as_mut()
    }

    pub(crate) fn remove_inlet(&mut self, place: usize) {
        let Some(inlet) = self.inlets.get_mut(place).and_then(Option::take) else { return };
        let closed = &mut self.counted_closed;
        let session = self.sessions.get_mut(usize::from(inlet.channel)).and_then(Option::as_deref_mut);
        *session.map_or(closed, |session| &mut session.counted) += &inlet.totals();
    }

    /// Messages of a session's links that are not confirmed.
    pub(crate) fn unconfirmed(&self, channel: u16) -> usize {
        let of_session = self.inlets.iter().flatten().filter(|inlet| inlet.channel == channel);
        of_session.map(|inlet| inlet.unconfirmed as usize).sum()
    }

    /// The counts of a session.
    pub(crate) fn totals_of(&self, channel: u16, session: &SessionOutput) -> TrafficTotals {
        let mut sum = session.counted;
        let of_session = self.inlets.iter().flatten().filter(|inlet| inlet.channel == channel);
        of_session.for_each(|inlet| sum += &inlet.totals());
        sum
    }

    /// The counts of all sessions, closed ones included.
    pub(crate) fn totals(&self) -> TrafficTotals {
        let mut sum = self.counted_closed;
        self.sessions.iter().flatten().for_each(|session| sum += &session.counted);
        self.inlets.iter().flatten().for_each(|inlet| sum += &inlet.totals());
        sum
    }

    /// Says when deliveries count as made that come before the next look, tenths of a second: not earlier than they are.
    pub(crate) fn set_delivered(&mut self, delivered_ds: u32) {
        self.delivered_ds = delivered_ds;
    }

    /// Takes deliveries that are unsettled for longer than their links allow, of all sessions. Each goes to `each` with its channel.
    pub(crate) fn take_overdue(&mut self, now_ds: u32, mut each: impl FnMut(u16, Entry)) {
        let Deliveries { sessions, outlets, .. } = self;
        for (channel, session) in (0..).zip(sessions.iter_mut()) {
            let Some(session) = session.as_deref_mut() else { continue };
            let is_overdue = |entry: &&Entry| {
                let outlet = outlets.get(entry.source as usize).and_then(Option::as_ref);
                let timeout_ms = outlet.map_or(0, |outlet| outlet.timeout_ms);
                let age_ms = u64::from(now_ds.saturating_sub(entry.delivered_ds)) * 100;
                timeout_ms != 0 && age_ms >= timeout_ms
            };
            let overdue: Vec<Entry> = session.unacked.iter().filter(is_overdue).copied().collect();
            for entry in overdue {
                session.unacked.take(entry.tag);
                if let Some(outlet) = outlets.get_mut(entry.source as usize).and_then(Option::as_mut) {
                    outlet.timed_out.push(entry.tag);
                    outlet.has_timed_out = true;
                }
                each(channel, entry);
            }
        }
    }

    /// The client confirms that deliveries of a range of ids on the wire were taken back. Links that get messages again go to `resumed` with
    /// their tokens. Returns how many deliveries it confirms.
    pub(crate) fn confirm_taken_back(
        &mut self,
        channel: u16,
        (first, last): (u32, u32),
        resumed: &mut Vec<(u32, u32)>,
    ) -> u64 {
        let Some(session) = self.sessions.get(usize::from(channel)).and_then(Option::as_deref) else {
            return 0;
        };
        let Some(range) = session.long_range(first, last) else { return 0 };
        let mut count = 0;
        for (index, outlet) in (0..).zip(self.outlets.iter_mut()) {
            let Some(outlet) = outlet.as_mut().filter(|outlet| outlet.channel == channel) else { continue };
            let before = outlet.timed_out.len();
            outlet.timed_out.retain(|id| !range.contains(id));
            count += (before - outlet.timed_out.len()) as u64;
            if before != 0 && outlet.timed_out.is_empty() {
                resumed.push((index, outlet.token));
            }
        }
        count
    }

    /// Takes the tokens of paused links whose session has room again.
    pub(crate) fn take_resumable(&mut self, out: &mut Vec<(u32, u32)>) {
        let mut kept = Vec::new();
        for token in std::mem::take(&mut self.paused) {
            let Some(&index) = self.by_token.get(&token) else { continue };
            let outlet = self.outlets[index as usize].as_mut().expect("tokens lead to outlets");
            let session = self.sessions.get(usize::from(outlet.channel)).and_then(Option::as_deref);
            if session.is_some_and(|session| session.window > 0 && !session.is_holding()) {
                outlet.paused = false;
                out.push((index, token));
            } else {
                kept.push(token);
            }
        }
        self.paused = kept;
    }

    /// Whether any link was refused and waits to be resumed.
    pub(crate) fn has_paused(&self) -> bool {
        !self.paused.is_empty()
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let session = |session: &SessionOutput| {
            let listed = session.listed.values().map(|listed| listed.heap_bytes()).sum::<usize>();
            size_of::<SessionOutput>() + session.unacked.heap_bytes() + session.held.capacity() + listed
        };
        self.sessions.iter().flatten().map(|open| session(open)).sum::<usize>()
            + self.outlets.capacity() * size_of::<Option<Outlet>>()
            + self.inlets.capacity() * size_of::<Option<Progress>>()
            + self.inlets.iter().flatten().map(Progress::heap_bytes).sum::<usize>()
            + self.by_token.allocation_size()
            + self.scratch.capacity()
    }
}

/// Puts something where nothing is; returns the place.
fn free_place<T>(places: &mut Vec<Option<T>>, it: T) -> usize {
    match places.iter().position(Option::is_none) {
        Some(free) => {
            places[free] = Some(it);
            free
        }
        None => {
            places.push(Some(it));
            places.len() - 1
        }
    }
}

/// A new link that receives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewOutlet {
    pub(crate) token: u32,
    pub(crate) channel: u16,
    pub(crate) handle: u32,
    pub(crate) settled: bool,
    pub(crate) message_bytes_max: u64,
    pub(crate) is_reply: bool,
}

/// Where the broker's queues hand deliveries over: the outbox, and a flag that tells the session to look at what they have left there.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) outbox: Arc<Outbox<Deliveries>>,
    pub(crate) has_news: AtomicBool,
}

impl Sink {
    fn tell(&self) {
        self.has_news.store(true, Ordering::Release);
        self.outbox.wake();
    }
}

impl broker::ConsumerSink for Sink {
    fn deliver(&self, token: u32, run: &[Delivery<'_>]) -> usize {
        let (taken, has_news) = self.outbox.write(|output| deliver_run(output, token, run));
        if has_news {
            self.tell();
        }
        taken
    }

    fn credit_news(&self, token: u32, news: CreditNews) {
        self.outbox.write(|output| {
            let (bytes, side, _) = output.parts();
            let Some(&index) = side.by_token.get(&token) else { return };
            let outlet = side.outlets[index as usize].as_mut().expect("tokens lead to outlets");
            let (channel, handle) = (outlet.channel, outlet.handle);
            let flow = match news {
                CreditNews::Noted { available } if std::mem::take(&mut outlet.echo) => LinkFlow {
                    handle,
                    delivery_count: outlet.delivery_count,
                    credit: outlet.credit(),
                    available: Some(available),
                    drain: false,
                    is_active: None,
                },
                CreditNews::Noted { .. } => return,
                CreditNews::Activity { is_active, available } => {
                    if outlet.is_active.replace(is_active) == Some(is_active) {
                        return;
                    }
                    outlet.echo = false;
                    LinkFlow {
                        handle,
                        delivery_count: outlet.delivery_count,
                        credit: outlet.credit(),
                        available: Some(available),
                        drain: false,
                        is_active: Some(is_active),
                    }
                }
                CreditNews::Drained { limit } => {
                    outlet.delivery_count = limit;
                    outlet.drain = false;
                    let credit = outlet.credit();
                    LinkFlow {
                        handle,
                        delivery_count: limit,
                        credit,
                        available: Some(0),
                        drain: true,
                        is_active: None,
                    }
                }
            };
            if let Some(session) = side.session(channel) {
                session.flow(channel, Some(flow), bytes);
            }
        });
    }

    fn credit(&self, token: u32) -> Option<(u32, Credit)> {
        let mut output = self.outbox.lock();
        let side = output.state();
        let index = *side.by_token.get(&token)?;
        let outlet = side.outlet(index)?;
        Some((outlet.delivery_count, Credit { limit: outlet.limit, drain: outlet.drain }))
    }

    fn cancelled(&self, token: u32) {
        let mut output = self.outbox.lock();
        let side = output.state();
        if let Some(&index) = side.by_token.get(&token) {
            side.gone.push(index);
        }
        drop(output);
        self.tell();
    }

    fn hold(&self, token: u32) -> SessionHold {
        let mut output = self.outbox.lock();
        let pending_bytes = output.pending_bytes() as u64;
        let side = output.state();
        let Some(&index) = side.by_token.get(&token) else { return SessionHold::Gone };
        let outlet = side.outlets[index as usize].as_ref().expect("tokens lead to outlets");
        let (announced, paused, channel) = (outlet.announced, outlet.paused, outlet.channel);
        let Some(session) = side.session(channel) else { return SessionHold::Gone };
        if !announced {
            return SessionHold::Unannounced;
        }
        if session.window == 0 || session.is_holding() {
            return SessionHold::Output { pending_bytes };
        }
        let bytes_max = if paused { crate::OUTPUT_BYTES_LOW } else { crate::OUTPUT_BYTES_MAX };
        if pending_bytes < bytes_max as u64 {
            SessionHold::None
        } else {
            SessionHold::Output { pending_bytes }
        }
    }
}

/// Encodes as many deliveries of the run as there is room for; says how many, and whether the session has to look at something.
fn deliver_run(output: &mut Output<Deliveries>, token: u32, run: &[Delivery<'_>]) -> (usize, bool) {
    let (bytes, side, limit) = output.parts();
    let Some(&index) = side.by_token.get(&token) else { return (0, false) };
    let outlet = side.outlets[index as usize].as_mut().expect("tokens lead to outlets");
    let Some(session) = side.sessions.get_mut(usize::from(outlet.channel)).and_then(Option::as_deref_mut)
    else {
        return (0, false);
    };
    let (bytes_before, mut taken) = (bytes.len(), 0);
    for delivery in run {
        let has_room = bytes.len() < limit && session.window > 0 && !session.is_holding();
        if outlet.is_reply && (!has_room || outlet.credit() == 0) {
            break;
        }
        if !outlet.timed_out.is_empty() {
            break;
        }
        if !has_room || outlet.oversize.is_some() {
            outlet.pause(&mut side.paused);
            break;
        }
        side.scratch.clear();
        let acquired = Acquired::of(delivery.redelivered, delivery.annotations);
        let rest = encode_head(&delivery.message, acquired, &mut side.scratch);
        let message_bytes = (side.scratch.len() + rest.len()) as u64;
        if outlet.message_bytes_max != 0 && message_bytes > outlet.message_bytes_max {
            outlet.oversize = Some(message_bytes);
            outlet.pause(&mut side.paused);
            break;
        }
        let id = session.wire_id();
        let tag = id.to_be_bytes();
        let transfer = Transfer {
            delivery_id: Some(id),
            delivery_tag: Some(&tag),
            message_format: Some(0),
            settled: Some(outlet.settled),
            ..Transfer::of(outlet.handle)
        };
        let start = bytes.len();
        let parts = [&side.scratch[..], rest];
        let frames = encode_delivery(outlet.channel, &transfer, &parts, side.frame_size_max, bytes);
        session.sent(index, start, frames, bytes);
        if !outlet.settled {
            session.unacked.push(Entry {
                tag: session.next_id,
                seq: delivery.seq,
                source: index,
                delivered_ds: side.delivered_ds,
            });
        }
        session.next_id += 1;
        outlet.delivery_count = outlet.delivery_count.wrapping_add(1);
        let counted = &mut session.counted.deliveries;
        *(if outlet.settled { &mut counted.delivered_no_ack } else { &mut counted.delivered }) += 1;
        counted.redelivered += u64::from(delivery.redelivered);
        taken += 1;
    }
    if side.scratch.capacity() > SCRATCH_BYTES_KEPT {
        side.scratch = Vec::new();
    }
    let is_oversize = outlet.oversize.is_some();
    let delivered_bytes = bytes.len() - bytes_before;
    output.note_delivered(delivered_bytes);
    (taken, is_oversize)
}

/// Largest buffer for headers and annotations that is kept.
const SCRATCH_BYTES_KEPT: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_beyond_the_window_wait_in_order_with_what_follows_them() {
        let mut session = SessionOutput::new(0, 400, 2);
        let mut out = Vec::new();
        let frames = encode_delivery(3, &Transfer::of(1), &[&[7; 100]], 64, &mut out);
        assert!(frames > 2);
        let whole = out.clone();
        session.sent(9, 0, frames, &mut out);
        assert!(session.is_holding() && session.window == 0 && session.next_outgoing_id == 2);
        let flow = LinkFlow {
            handle: 1,
            delivery_count: 1,
            credit: 0,
            available: None,
            drain: true,
            is_active: None,
        };
        session.flow(3, Some(flow), &mut out);
        session.release_held(&mut out);
        assert!(session.is_holding());
        session.window = 1000;
        session.release_held(&mut out);
        assert!(!session.is_holding());
        assert!(out.starts_with(&whole) && out.len() > whole.len());
        assert_eq!(session.next_outgoing_id, frames);
    }

    #[test]
    fn ids_on_the_wire_are_found_across_the_wrap() {
        let mut session = SessionOutput::new(0, 400, 2);
        session.next_id = (1 << 32) + 2;
        for tag in [(1 << 32) - 1, 1 << 32, (1 << 32) + 1] {
            session.unacked.push(Entry { tag, seq: broker::MessageSeq(tag), source: 0, delivered_ds: 0 });
        }
        let mut taken = Vec::new();
        session.settle(u32::MAX, 0, |entry| taken.push(entry.tag));
        assert_eq!(taken, [(1 << 32) - 1, 1 << 32]);
        session.settle(5, 9, |_| panic!("never delivered"));
        session.settle(1, 0, |_| panic!("no range"));
        assert_eq!(session.unacked.len(), 1);
    }
}
