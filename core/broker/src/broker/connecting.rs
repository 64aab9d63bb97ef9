//! Connections and channels as sessions open them, within the limits of their users and of the node.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use metadata::Limits;

use crate::access::Principal;
use crate::broker::Broker;
use crate::call::Call;
use crate::clients::{ClientBusy, ClientClaim};
use crate::connections::{ChannelPermit, ChannelRefused, CloseReason, ConnectionControl, count_within};

impl Broker {
    /// Claims a name in a vhost. The connection that holds it is closed with [`CloseReason::TakenOver`]; the call is answered when it has let go.
    ///
    /// # Errors
    /// [`ClientBusy`]: one connection may wait, further ones have to come again.
    pub fn claim_client(
        &self,
        vhost: &str,
        name: &str,
        control: Arc<dyn ConnectionControl>,
    ) -> Result<(ClientClaim, Call<()>), ClientBusy> {
        let close = move || control.close(CloseReason::TakenOver);
        let (reply, call) = Call::pair();
        let granted = Box::new(move || reply.send(()));
        let claim = self.connections().clients.claim(vhost, name, Arc::new(close), granted)?;
        Ok((claim, call))
    }

    /// Names that are held.
    #[must_use]
    pub fn client_count(&self) -> usize {
        self.connections().clients.count()
    }
}

impl Broker {
    /// All clients are asked to close for this reason, also those that are in the middle of connecting and those that come later; with
    /// `None` who comes may stay.
    pub fn send_clients_away(&self, reason: Option<CloseReason>) {
        self.connections().send_away(reason);
    }

    /// One more channel of a connection, if the limits of its user and of the node allow it (B38).
    ///
    /// # Errors
    /// The limit that is reached.
    pub fn open_channel(&self, principal: &Principal, number: u16) -> Result<ChannelPermit, ChannelRefused> {
        let user = &principal.user;
        let node = &self.connections().channels;
        let max = user.bound(Limits::CHANNELS_MAX);
        let max_here =
            max.map(|max| max.saturating_sub(self.services().counted_elsewhere(user.counted_channels())));
        count_within(user.channels(), max_here)
            .map_err(|max_here| ChannelRefused::UserLimit(max.unwrap_or(max_here)))?;
        if let Err(max) = count_within(node, self.options().channels_max) {
            user.channels().fetch_sub(1, Ordering::Relaxed);
            return Err(ChannelRefused::NodeLimit(max));
        }
        let services = self.services().clone();
        services.tell_counted([user.counted_channels()]);
        services.counters.channels_created.count();
        services.announcer.channel_created(principal, number);
        let (user, node, connection) = (user.clone(), node.clone(), principal.connection);
        Ok(ChannelPermit { user, services, node, connection, number, consumers: 0 })
    }
}
