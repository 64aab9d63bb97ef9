//! Channels: listed and shown.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::auth::Access;
use super::call::Call;
use super::connections::{find, visible};
use super::consumers;
use super::elsewhere;
use super::listing::{self, Listing, Wanted};
use super::problem::Problem;
use super::rates::{self, Ranges};
use super::reply::Answer;
use super::route::{Method, Route, route};
use super::shapes::{add_idle_since, connection_details, object};
use crate::resources::connections::{ChannelRow, ConnectionRow};
use crate::resources::node::NODE_NAME;

pub(crate) const ROUTES: &[Route] = &[
    route(Method::Get, "/api/channels", Access::Management, "Open channels.", list),
    route(
        Method::Get,
        "/api/vhosts/{vhost}/channels",
        Access::Vhost,
        "Open channels of a virtual host.",
        list,
    ),
    route(
        Method::Get,
        "/api/connections/{connection}/channels",
        Access::Management,
        "Open channels of a connection.",
        of_connection,
    ),
    route(Method::Get, "/api/channels/{name}", Access::Management, "One channel, with its consumers.", show),
];

fn channels(lines: &[ConnectionRow]) -> Vec<ChannelRow> {
    lines.iter().flat_map(ConnectionRow::channels).collect()
}

fn answer(call: &Call, channels: Vec<ChannelRow>) -> Answer {
    let (app, ranges) = (call.app.clone(), Ranges::of(call));
    let render = move |channels: &[ChannelRow], _: &Wanted| {
        channels.iter().map(|channel| channel_object(&app, channel, ranges)).collect()
    };
    let name = |channel: &ChannelRow| Cow::Owned(channel.name());
    let channels = Listing::new(channels, name, render);
    // RabbitMQ never cuts the channels of one vhost or connection into pages.
    let is_part = call.part_if("vhost").or(call.part_if("connection")).is_some();
    elsewhere::list(call, channels, !is_part)
}

fn list(call: &Call) -> Answer {
    answer(call, channels(&visible(call)?))
}

fn of_connection(call: &Call) -> Answer {
    match find(call, call.part("connection")) {
        Ok(line) => answer(call, channels(&[line])),
        Err(problem) if problem.status == 404 && !call.is_from_node => {
            let there = elsewhere::lists(call);
            if there.is_empty() { Err(problem) } else { listing::of_values(call, there) }
        }
        Err(problem) => Err(problem),
    }
}

fn channel_object(app: &super::app::Inner, channel: &ChannelRow, ranges: Ranges) -> Value {
    let info = &channel.info;
    let mut json = object(json!({
        "acks_uncommitted": info.acks_uncommitted,
        "confirm": info.confirm,
        "connection_details": connection_details(&channel.connection.info),
        "consumer_count": info.consumer_count,
        "global_prefetch_count": info.global_prefetch_count,
        "messages_unacknowledged": info.messages_unacknowledged,
        "messages_uncommitted": info.messages_uncommitted,
        "messages_unconfirmed": info.messages_unconfirmed,
        "name": channel.name(),
        "node": NODE_NAME,
        "number": info.number,
        "prefetch_count": info.prefetch_count,
        "state": "running",
        "transactional": info.transactional,
        "user": info.user,
        "user_who_performed_action": info.user,
        "vhost": info.vhost,
    }));
    add_idle_since(&mut json, info.used_ms);
    rates::add_channel(app, &mut json, channel.connection.id, info, ranges);
    Value::Object(json)
}

/// The channel of a name, which is its connection's and its number.
fn channel(call: &Call, name: &str) -> Result<ChannelRow, Problem> {
    let (connection, _) = name.rsplit_once(" (").ok_or_else(Problem::missing)?;
    let all = channels(&[find(call, connection)?]);
    all.into_iter().find(|channel| channel.name() == name).ok_or_else(Problem::missing)
}

fn show(call: &Call) -> Answer {
    elsewhere::or_there(call, Method::Get, show_here(call))
}

fn show_here(call: &Call) -> Answer {
    let found = channel(call, call.part("name"))?;
    let mut json = channel_object(&call.app, &found, Ranges::of(call));
    let consumers = consumers::of_channel(call, &found.info.vhost, found.connection.id, found.info.number);
    json["consumer_details"] = consumers.into();
    json["deliveries"] = json!([]);
    json["publishes"] = json!([]);
    listing::one(call, json)
}
