//! Connections: listed, shown, closed. Refuses to know their protocol.

use std::borrow::Cow;

use broker::{CloseReason, ConnectionInfo, FilterInfo, LinkInfo, PeerCertificate, SessionInfo, TlsSession};
use serde_json::{Value, json};

use super::auth::{Access, is_administrator, is_monitor};
use super::call::Call;
use super::elsewhere;
use super::listing::{self, Listing, Wanted};
use super::problem::Problem;
use super::rates::{self, Ranges};
use super::reply::{Answer, Reply};
use super::route::{Method, Route, route};
use super::shapes::object;
use crate::resources::connections::ConnectionRow;
use crate::resources::node::NODE_NAME;
use crate::resources::values::table;

pub(crate) const ROUTES: &[Route] = &[
    route(Method::Get, "/api/connections", Access::Management, "Open connections.", list),
    route(
        Method::Get,
        "/api/vhosts/{vhost}/connections",
        Access::Vhost,
        "Open connections of a virtual host.",
        list,
    ),
    route(Method::Get, "/api/connections/{name}", Access::Management, "One connection.", show),
    route(
        Method::Delete,
        "/api/connections/{name}",
        Access::Management,
        "Closes a connection; the client gets the text of the header `X-Reason`.",
        close,
    ),
    route(
        Method::Get,
        "/api/connections/username/{user}",
        Access::Management,
        "Open connections of a user.",
        of_user,
    ),
    route(
        Method::Delete,
        "/api/connections/username/{user}",
        Access::Management,
        "Closes all connections of a user.",
        close_of_user,
    ),
    route(
        Method::Get,
        "/api/connections/{name}/sessions",
        Access::Management,
        "Sessions and links of a connection of AMQP 1.0.",
        sessions,
    ),
];

/// Connections that the user may see: all for monitors, else the user's own; of a vhost if the path names one.
pub(crate) fn visible(call: &Call) -> Result<Vec<ConnectionRow>, Problem> {
    let vhost = match call.part_if("vhost") {
        Some(_) => Some(call.vhost()?),
        None => None,
    };
    let sees_all = is_monitor(&call.user);
    let is_seen = |info: &ConnectionInfo| {
        (sees_all || info.user == *call.user.name)
            && vhost.as_ref().is_none_or(|vhost| info.vhost == vhost.name())
    };
    Ok(ConnectionRow::all(call.broker()).filter(|row| is_seen(&row.info)).collect())
}

/// The connection of a name, for those who may see it.
///
/// # Errors
/// 404 when there is none, and 401 for one of somebody else.
pub(crate) fn find(call: &Call, name: &str) -> Result<ConnectionRow, Problem> {
    let row = ConnectionRow::all(call.broker()).find(|row| row.info.name == name);
    let row = row.ok_or_else(Problem::missing)?;
    call.check_sees_user(&row.info.user)?;
    Ok(row)
}

fn list(call: &Call) -> Answer {
    list_of(call, visible(call)?)
}

/// These connections.
pub(crate) fn list_of(call: &Call, lines: Vec<ConnectionRow>) -> Answer {
    let (app, ranges) = (call.app.clone(), Ranges::of(call));
    let render = move |lines: &[ConnectionRow], _: &Wanted| {
        lines.iter().map(|row| connection_object(&app, row, Details::Plain, ranges)).collect()
    };
    let name = |line: &ConnectionRow| Cow::Owned(line.info.name.clone());
    let lines = Listing::new(lines, name, render);
    // RabbitMQ never cuts the connections of one vhost into pages.
    elsewhere::list(call, lines, call.part_if("vhost").is_none())
}

/// The stand-in where a connection has no certificate: lists and the page of one differ with RabbitMQ.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Details {
    Plain,
    Full,
}

fn connection_object(
    app: &super::app::Inner,
    row: &ConnectionRow,
    details: Details,
    ranges: Ranges,
) -> Value {
    let none = if details == Details::Full { Value::from("") } else { Value::Null };
    let info = &row.info;
    let agreed =
        |read: fn(&TlsSession) -> &'static str| row.agreed(read).map_or_else(|| none.clone(), Value::from);
    let peer =
        |read: fn(&PeerCertificate) -> &String| row.peer(read).map_or_else(|| none.clone(), Value::from);
    let mut json = object(json!({
        "auth_mechanism": info.auth_mechanism,
        "channel_max": info.channel_max,
        "channels": info.channels,
        "client_properties": table(&info.client_properties),
        "connected_at": info.connected_at_ms,
        "frame_max": info.frame_max,
        "host": info.host,
        "name": info.name,
        "node": NODE_NAME,
        "peer_cert_issuer": peer(|it| &it.issuer),
        "peer_cert_serial_number": peer(|it| &it.serial),
        "peer_cert_subject": peer(|it| &it.subject),
        "peer_cert_validity": peer(|it| &it.validity),
        "peer_host": info.peer_host,
        "peer_port": info.peer_port,
        "port": info.port,
        "protocol": info.protocol,
        "recv_cnt": info.totals.received_count,
        "send_cnt": info.totals.sent_count,
        "send_pend": info.send_pending_bytes,
        "ssl": info.tls.is_some(),
        "ssl_cipher": agreed(|it| it.cipher),
        "ssl_hash": agreed(|it| it.hash),
        "ssl_key_exchange": agreed(|it| it.key_exchange),
        "ssl_protocol": agreed(|it| it.protocol),
        "state": info.state,
        "timeout": info.heartbeat_s,
        "type": "network",
        "user": info.user,
        "user_provided_name": info.user_provided_name,
        "user_who_performed_action": info.user,
        "vhost": info.vhost,
    }));
    if let Some(name) = &info.container_id {
        json.insert("container_id".to_owned(), name.as_str().into());
    }
    rates::add_connection(app, &mut json, row.id, info, ranges);
    Value::Object(json)
}

fn show(call: &Call) -> Answer {
    let here = find(call, call.part("name")).and_then(|line| show_one(call, &line));
    elsewhere::or_there(call, Method::Get, here)
}

/// All of one connection.
pub(crate) fn show_one(call: &Call, row: &ConnectionRow) -> Answer {
    listing::one(call, connection_object(&call.app, row, Details::Full, Ranges::of(call)))
}

/// Whether the caller may close connections of `user`: monitors only look.
fn may_close(call: &Call, user: &str) -> Result<(), Problem> {
    if is_administrator(&call.user) || user == &*call.user.name {
        return Ok(());
    }
    Err(Problem::forbidden("User not authorised to access object"))
}

/// RabbitMQ's text when no reason is given.
const CLOSED: &str = "Closed via management plugin";

fn close(call: &Call) -> Answer {
    let here = find(call, call.part("name")).and_then(|line| close_one(call, &line));
    elsewhere::or_there(call, Method::Delete, here)
}

/// Closes a connection.
pub(crate) fn close_one(call: &Call, row: &ConnectionRow) -> Answer {
    may_close(call, &row.info.user)?;
    let reason = call.reason.as_deref().unwrap_or(CLOSED);
    row.control.close(CloseReason::Operator(reason.into()));
    Ok(Reply::NoContent)
}

fn of_user(call: &Call) -> Answer {
    let user = call.part("user");
    call.check_sees_user(user)?;
    let lines = visible(call)?.into_iter().filter(|row| row.info.user == user);
    let short = |ConnectionRow { info, .. }: ConnectionRow| json!({"name": info.name, "vhost": info.vhost, "user": info.user, "node": NODE_NAME});
    let all = lines.map(short).chain(elsewhere::lists(call)).collect();
    listing::pages_of_values(call, all)
}

fn close_of_user(call: &Call) -> Answer {
    let user = call.part("user");
    may_close(call, user)?;
    let reason = call.reason.as_deref().unwrap_or(CLOSED);
    call.broker().connections().close_where(&CloseReason::Operator(reason.into()), |info| info.user == user);
    elsewhere::everywhere(call, Method::Delete);
    Ok(Reply::NoContent)
}

fn sessions(call: &Call) -> Answer {
    elsewhere::or_there(call, Method::Get, sessions_here(call))
}

fn sessions_here(call: &Call) -> Answer {
    let row = find(call, call.part("name"))?;
    let sessions = row.control.sessions().ok_or_else(|| Problem::bad("connection does not use AMQP 1.0"))?;
    listing::one(call, sessions.iter().map(session_object).collect())
}

fn session_object(session: &SessionInfo) -> Value {
    json!({
        "channel_number": session.channel_number,
        "handle_max": session.handle_max,
        "next_incoming_id": session.next_incoming_id,
        "incoming_window": session.incoming_window,
        "next_outgoing_id": session.next_outgoing_id,
        "remote_incoming_window": session.remote_incoming_window,
        "remote_outgoing_window": session.remote_outgoing_window,
        "outgoing_unsettled_deliveries": session.outgoing_unsettled_deliveries,
        "incoming_links": session.incoming_links.iter().map(incoming_link).collect::<Vec<_>>(),
        "outgoing_links": session.outgoing_links.iter().map(outgoing_link).collect::<Vec<_>>(),
    })
}

fn incoming_link(link: &LinkInfo) -> Value {
    json!({
        "handle": link.handle,
        "link_name": link.name,
        "snd_settle_mode": link.settle_mode,
        "target_address": link.address,
        "max_message_size": link.max_message_size,
        "delivery_count": link.delivery_count,
        "credit": link.credit,
        "unconfirmed_messages": link.unconfirmed_messages,
    })
}

fn outgoing_link(link: &LinkInfo) -> Value {
    let filter = |filter: &FilterInfo| {
        let value = table(&filter.value).get("value").cloned();
        json!({ "name": filter.name, "descriptor": filter.descriptor, "value": value })
    };
    json!({
        "handle": link.handle,
        "link_name": link.name,
        "source_address": link.address,
        "queue_name": link.queue,
        "send_settled": link.settle_mode == "settled",
        "max_message_size": link.max_message_size,
        "filter": link.filters.iter().map(filter).collect::<Vec<_>>(),
        "delivery_count": link.delivery_count,
        "credit": link.credit,
        "consumer_timeout": link.has_timed_out,
    })
}
