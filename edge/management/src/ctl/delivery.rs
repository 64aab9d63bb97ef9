//! `explain_delivery`: why the consumers of a queue get messages or do not, for people and for programs.

use broker::Broker;

use crate::ctl::commands::{Outcome, arguments};
use crate::ctl::protocol::{Answer, Exit, Failure, Request};
use crate::resources::delivery::explain_delivery;

/// `QUEUE`, on the control socket.
pub(crate) fn command(broker: &Broker, request: &Request) -> Outcome {
    let ([queue], vhost) = (arguments(request)?, request.vhost());
    if broker.vhost(vhost).is_none() {
        return Err(Failure::new(Exit::UNAVAILABLE, format!("Error:\nVirtual host {vhost} does not exist")));
    }
    let explained = explain_delivery(broker, vhost, queue)
        .ok_or_else(|| Failure::new(Exit::DATA, format!("Error:\nno queue '{queue}' in vhost '{vhost}'")))?;
    let json = serde_json::to_value(&explained)
        .map_err(|error| Failure::new(Exit::SOFTWARE, format!("Error:\n{error}")))?;
    Ok(Answer::Facts { text: explained.text(), json })
}
