//! Direct replies to requesters of other nodes: their addresses name the node. A reply goes there as a message of its own. It is lost where there is
//! no room for it, like a reply to a requester of this node whose connection is full.

use std::sync::{Arc, Weak};

use bytes::{Bytes, BytesMut};
use message::MessageView;

use super::carried::Carried;
use super::frames;
use super::known::Far;
use crate::cluster::frames::{Fields, put_run};
use crate::data::reply::FarRequester;
use crate::services::Services;

/// The first version of what nodes say to each other with replies.
const REPLIES_SINCE: u16 = 2;

struct Requester {
    far: Arc<Far>,
    vhost: Box<str>,
    address: Box<[u8]>,
}

impl FarRequester for Requester {
    fn deliver(&self, message: MessageView<'_>) {
        let mut out = BytesMut::with_capacity(message.body.len() + message.properties.len() + 256);
        put_run(&mut out, self.vhost.as_bytes());
        put_run(&mut out, &self.address);
        frames::put_message(&mut out, &message, &[]);
        self.far.outlet.offer(frames::REPLY, out.freeze());
    }
}

impl Far {
    /// The requester behind an address of that node; `None` when it does not know such replies.
    pub(in crate::cluster) fn requester(
        self: Arc<Self>,
        vhost: &str,
        address: &[u8],
    ) -> Option<Box<dyn FarRequester>> {
        if self.version < REPLIES_SINCE {
            return None;
        }
        Some(Box::new(Requester { far: self, vhost: vhost.into(), address: address.into() }))
    }
}

/// A reply for a requester of this node has come; one for somebody who is gone is dropped. `None`: it cannot be read.
pub(super) fn replied(services: &Services, message: Bytes) -> Option<()> {
    let mut fields = Fields(message);
    let (vhost, address) = (fields.run()?, fields.run()?);
    let carried = Carried::read(&mut fields)?;
    fields.end(())?;
    let vhost = std::str::from_utf8(&vhost).ok()?;
    let control = services.control.get().and_then(Weak::upgrade);
    if let Some(requester) = control.and_then(|control| control.requester(vhost, &address)) {
        requester.deliver(carried.view());
    }
    Some(())
}
