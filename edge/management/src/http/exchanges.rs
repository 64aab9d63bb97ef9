//! Exchanges: listed, shown, declared, deleted; messages published to them.

use std::borrow::Cow;
use std::sync::Arc;

use broker::{Call as BrokerCall, ExchangeDeclare};
use metadata::ExchangeRecord;
use serde_json::{Value, json};

use super::auth::Access;
use super::bindings;
use super::call::{Call, flag, nested, text};
use super::elsewhere;
use super::listing::{self, Listing, Wanted};
use super::messages;
use super::problem::Problem;
use super::rates::{self, Ranges};
use super::reply::{Answer, Reply, put};
use super::route::{BodySize, Method, Route, route};
use super::shapes::{lossy, object};
use crate::resources::exchanges::ExchangeRow;
use crate::resources::values::{self, raw_table, table};

pub(crate) const ROUTES: &[Route] = &[
    route(Method::Get, "/api/exchanges", Access::Management, "Exchanges of all virtual hosts.", list),
    route(Method::Get, "/api/exchanges/{vhost}", Access::Vhost, "Exchanges of a virtual host.", list),
    route(
        Method::Get,
        "/api/exchanges/{vhost}/{name}",
        Access::Vhost,
        "One exchange; `amq.default` is the default one.",
        show,
    ),
    route(
        Method::Put,
        "/api/exchanges/{vhost}/{name}",
        Access::Vhost,
        "Declares an exchange: `{\"type\", \"durable\", \"auto_delete\", \"internal\", \"arguments\"}`.",
        declare,
    ),
    route(
        Method::Delete,
        "/api/exchanges/{vhost}/{name}",
        Access::Vhost,
        "Deletes an exchange; with `if-unused=true` only one without bindings.",
        delete,
    ),
    route(
        Method::Get,
        "/api/exchanges/{vhost}/{name}/bindings/source",
        Access::VhostIfAny,
        "Bindings that leave an exchange.",
        bindings::from_exchange,
    ),
    route(
        Method::Get,
        "/api/exchanges/{vhost}/{name}/bindings/destination",
        Access::VhostIfAny,
        "Bindings that end at an exchange.",
        bindings::to_exchange,
    ),
    route(
        Method::Post,
        "/api/exchanges/{vhost}/{name}/publish",
        Access::Vhost,
        "Publishes a message: `{\"properties\", \"routing_key\", \"payload\", \"payload_encoding\"}`.",
        messages::publish,
    )
    .with_body(BodySize::Message),
];

/// How paths call the default exchange.
const DEFAULT: &str = "amq.default";

/// The name of the exchange in the path.
pub(crate) fn name_of(call: &Call) -> &str {
    match call.part("name") {
        DEFAULT => "",
        name => name,
    }
}

/// The exchange in the path.
///
/// # Errors
/// 404.
pub(crate) fn find(call: &Call) -> Result<Arc<ExchangeRecord>, Problem> {
    let (vhost, name) = (call.part("vhost"), name_of(call));
    let found = call.broker().read_metadata(|state| {
        state.vhost(vhost.as_bytes()).and_then(|vhost| vhost.exchange(name.as_bytes()).cloned())
    });
    found.ok_or_else(Problem::missing)
}

fn list(call: &Call) -> Answer {
    let mut all: Vec<Arc<ExchangeRecord>> = Vec::new();
    for vhost in call.vhosts()? {
        call.broker().read_metadata(|state| {
            let vhost = state.vhost(vhost.name().as_bytes());
            all.extend(vhost.into_iter().flat_map(|vhost| vhost.exchanges()).cloned());
        });
    }
    let (app, ranges) = (call.app.clone(), Ranges::of(call));
    let render = move |exchanges: &[Arc<ExchangeRecord>], _: &Wanted| {
        exchanges.iter().map(|exchange| exchange_object(&app, exchange, ranges)).collect()
    };
    let name = |exchange: &Arc<ExchangeRecord>| Cow::Owned(lossy(&exchange.name).into_owned());
    listing::answer(call, Listing::new(all, name, render))
}

fn exchange_object(app: &super::app::Inner, exchange: &Arc<ExchangeRecord>, ranges: Ranges) -> Value {
    let vhost = app.broker.vhost(&lossy(&exchange.vhost));
    let row = ExchangeRow::of(exchange, vhost.as_deref());
    let mut json = object(json!({
        "name": row.name(),
        "vhost": values::text(&exchange.vhost),
        "type": row.kind(),
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": table(exchange.arguments.raw()),
        "user_who_performed_action": exchange.declared_by.as_deref().map_or_else(|| "rmq-internal".into(), values::text),
    }));
    for (key, policy) in [("policy", row.policy()), ("operator_policy", row.operator_policy())] {
        policy.map(|policy| json.insert(key.into(), policy.into()));
    }
    if let Some(running) = vhost.and_then(|vhost| vhost.exchange(&exchange.name)) {
        rates::add_exchange(app, &mut json, running.id, &running.passed.now(), ranges);
    }
    Value::Object(json)
}

fn show(call: &Call) -> Answer {
    let mut json = exchange_object(&call.app, &find(call)?, Ranges::of(call));
    json["incoming"] = json!([]);
    json["outgoing"] = json!([]);
    if let Value::Object(own) = &mut json
        && !call.hides_statistics()
    {
        elsewhere::add_counters(own, elsewhere::pages(call).iter(), &[]);
    }
    listing::one(call, json)
}

fn declare(call: &Call) -> Answer {
    let principal = call.principal()?;
    let object = call.object()?;
    let kind = match object.get("type") {
        Some(kind) if !kind.is_string() => {
            return Err(Problem::bad(format!("invalid exchange type '{kind}'")));
        }
        _ => text(&object, "type")?.unwrap_or("direct"),
    };
    let arguments = raw_table(&nested(&object, "arguments")?).map_err(Problem::bad)?;
    let name = name_of(call);
    let is_new = principal.vhost.exchange(name.as_bytes()).is_none();
    let declare = ExchangeDeclare {
        name: name.as_bytes(),
        kind: kind.as_bytes(),
        durable: flag(&object, "durable")?,
        auto_delete: flag(&object, "auto_delete")?,
        internal: flag(&object, "internal")?,
        arguments: arguments.as_table(),
    };
    call.broker().declare_exchange(&principal, declare).and_then(BrokerCall::wait)?;
    Ok(put(is_new))
}

fn delete(call: &Call) -> Answer {
    let name = name_of(call);
    find(call)?;
    let principal = call.principal()?;
    let deleted = call.broker().delete_exchange(&principal, name.as_bytes(), call.flag("if-unused"));
    deleted.and_then(BrokerCall::wait)?;
    Ok(Reply::NoContent)
}
