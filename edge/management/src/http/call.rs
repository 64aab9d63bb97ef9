//! One request as its handler sees it. Refuses to know sockets and routes.

use std::cell::RefCell;
use std::sync::Arc;

use broker::{Broker, Principal, Queue, User, Vhost};
use serde_json::{Map, Value};

use super::app::Inner;
use super::auth;
use super::problem::Problem;
use super::room::Room;
use crate::resources::json;
use crate::resources::node::Node;

/// A request that may be answered.
pub(crate) struct Call {
    pub(crate) app: Arc<Inner>,
    /// Path of its route, with names of parts in braces.
    pub(crate) route: &'static str,
    pub(crate) user: Arc<User>,
    /// Decoded parts of the path, by their names in the route.
    pub(crate) path: Vec<(String, String)>,
    /// Decoded pairs of the query.
    pub(crate) query: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Why, if the client says so (`X-Reason`).
    pub(crate) reason: Option<String>,
    /// Entity tag of what the client has already (`If-None-Match`).
    pub(crate) known: Option<String>,
    /// The type that the client gives the body (`Content-Type`).
    pub(crate) content_type: Option<String>,
    /// Another node asks: the answer has what this node has, and no more.
    pub(crate) is_from_node: bool,
    /// Room for a message, where the route asks for it.
    pub(crate) room: RefCell<Option<Room>>,
}

impl Call {
    pub(crate) fn broker(&self) -> &Broker {
        &self.app.broker
    }

    pub(crate) fn node(&self) -> &Node {
        &self.app.node
    }

    /// Whether a name means this node.
    ///
    /// # Errors
    /// 404 for every other one.
    pub(crate) fn check_node(&self, name: &str) -> Result<(), Problem> {
        if self.node().names.mean(name) { Ok(()) } else { Err(Problem::missing()) }
    }

    /// A part of the path. The route has it, or this is a bug that shows at once.
    pub(crate) fn part(&self, name: &str) -> &str {
        self.part_if(name).expect("the route of a handler names the parts that it reads")
    }

    /// A part of the path that only some of a handler's routes have.
    pub(crate) fn part_if(&self, name: &str) -> Option<&str> {
        self.path.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A value of the query.
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Checks that the query has nothing but these, once each. RabbitMQ passes over what it does not know; pages of our own say it, because
    /// what was misspelled would look as if it had been done.
    ///
    /// # Errors
    /// 400 with the name that is wrong.
    pub(crate) fn check_query(&self, known: &[&str]) -> Result<(), Problem> {
        for (at, (name, _)) in self.query.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                let there = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(Problem::bad(format!("unknown option {name} in the query: there is {there}")));
            }
            if self.query[..at].iter().any(|(before, _)| before == name) {
                return Err(Problem::bad(format!("the query has the option {name} twice")));
            }
        }
        Ok(())
    }

    /// Whether the query says `name=true`.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.query(name) == Some("true")
    }

    /// Whether the user may see what that user does.
    ///
    /// # Errors
    /// 401 for another user, except for monitors.
    pub(crate) fn check_sees_user(&self, name: &str) -> Result<(), Problem> {
        match auth::is_monitor(&self.user) || name == &*self.user.name {
            true => Ok(()),
            false => Err(Problem::forbidden("User not authorised to access object")),
        }
    }

    /// The vhost in the path.
    ///
    /// # Errors
    /// 404 when there is none of that name.
    pub(crate) fn vhost(&self) -> Result<Arc<Vhost>, Problem> {
        self.broker().vhost(self.part("vhost")).ok_or_else(Problem::missing)
    }

    /// Vhosts that the user may look into, or the one in the path if the route has one.
    ///
    /// # Errors
    /// 404 when there is none of that name.
    pub(crate) fn vhosts(&self) -> Result<Vec<Arc<Vhost>>, Problem> {
        if self.part_if("vhost").is_some() {
            return Ok(vec![self.vhost()?]);
        }
        let mut all = self.broker().vhosts();
        all.retain(|vhost| auth::enters_vhost(&self.user, vhost.name()));
        Ok(all)
    }

    /// Whether answers go without statistics: by the request, or always.
    pub(crate) fn hides_statistics(&self) -> bool {
        self.app.options.hides_statistics || self.flag("disable_stats")
    }

    /// Whether queues show their lengths then.
    pub(crate) fn shows_queue_totals(&self) -> bool {
        self.app.options.shows_queue_totals || self.flag("enable_queue_totals")
    }

    /// The queue in the path.
    ///
    /// # Errors
    /// 404.
    pub(crate) fn queue(&self) -> Result<Arc<Queue>, Problem> {
        self.vhost()?.queue(self.part("name").as_bytes()).ok_or_else(Problem::missing)
    }

    /// On whose behalf the broker acts, in the vhost of the path.
    ///
    /// # Errors
    /// 404 `vhost_not_found`; 401 for a user without permissions there.
    pub(crate) fn principal(&self) -> Result<Principal, Problem> {
        let vhost = self.broker().vhost(self.part("vhost"));
        let vhost = vhost.ok_or_else(Problem::no_vhost)?;
        let connection = self.broker().next_connection_id();
        let connection_name = "HTTP API".into();
        let principal =
            Principal { user: self.user.clone(), vhost, connection, connection_name, client: None };
        principal.check_vhost().map_err(|_| Problem::forbidden("Access refused."))?;
        Ok(principal)
    }

    /// The body, an object; none, and as in RabbitMQ `null`, is an empty object.
    ///
    /// # Errors
    /// 400 `not_json`.
    pub(crate) fn object(&self) -> Result<Map<String, Value>, Problem> {
        if self.body.is_empty() {
            return Ok(Map::new());
        }
        match json::parse(&self.body) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(Value::Null) => Ok(Map::new()),
            Err(error) if error.is_data() => Err(Problem::bad(format!("not_json: {error}"))),
            _ => Err(Problem::bad("not_json")),
        }
    }

    /// The body, an object with these keys.
    ///
    /// # Errors
    /// 400 that names the missing ones.
    pub(crate) fn object_with(&self, keys: &[&str]) -> Result<Map<String, Value>, Problem> {
        let object = self.object()?;
        let missing: Vec<&str> = keys.iter().copied().filter(|key| !object.contains_key(*key)).collect();
        if missing.is_empty() { Ok(object) } else { Err(Problem::keys_missing(&missing)) }
    }
}

/// A text in a body. `null` is not one: a password that is `null` by mistake is not the wish for none.
///
/// # Errors
/// 400 in RabbitMQ's shape.
pub(crate) fn text<'a>(object: &'a Map<String, Value>, key: &str) -> Result<Option<&'a str>, Problem> {
    match object.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(Problem::bad(Value::Array(vec!["not_string".into(), other.clone()]))),
    }
}

/// As [`text`], where RabbitMQ takes `null` as if nothing was said.
///
/// # Errors
/// As of [`text`].
pub(crate) fn text_or_null<'a>(
    object: &'a Map<String, Value>,
    key: &str,
) -> Result<Option<&'a str>, Problem> {
    if object.get(key).is_some_and(Value::is_null) { Ok(None) } else { text(object, key) }
}

/// A flag in a body; RabbitMQ also takes the words.
///
/// # Errors
/// 400 in RabbitMQ's shape.
pub(crate) fn flag(object: &Map<String, Value>, key: &str) -> Result<bool, Problem> {
    match object.get(key) {
        None => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(Value::String(word)) if word == "true" => Ok(true),
        Some(Value::String(word)) if word == "false" => Ok(false),
        Some(other) => Err(Problem::bad(Value::Array(vec!["not_boolean".into(), other.clone()]))),
    }
}

/// A whole number in a body; RabbitMQ also takes digits.
///
/// # Errors
/// 400 in RabbitMQ's shape.
pub(crate) fn number(object: &Map<String, Value>, key: &str) -> Result<Option<i64>, Problem> {
    let bad = |other: &Value| Problem::bad(Value::Array(vec!["not_integer".into(), other.clone()]));
    match object.get(key) {
        None => Ok(None),
        Some(Value::String(digits)) => digits.parse().map(Some).map_err(|_| bad(&object[key])),
        Some(other) => other.as_i64().map(Some).ok_or_else(|| bad(other)),
    }
}

/// An object in a body; nothing is an empty one.
///
/// # Errors
/// 400.
pub(crate) fn nested(object: &Map<String, Value>, key: &str) -> Result<Map<String, Value>, Problem> {
    match object.get(key) {
        None => Ok(Map::new()),
        Some(Value::Object(inner)) => Ok(inner.clone()),
        Some(Value::Array(list)) if list.is_empty() => Ok(Map::new()),
        Some(other) => Err(Problem::bad(Value::Array(vec!["not_object".into(), other.clone()]))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn wrong_types_in_a_body_are_named() {
        let body = json!({"durable": "x", "n": "7", "m": 1.5, "o": []});
        let object = body.as_object().unwrap();
        assert_eq!(flag(object, "durable"), Err(Problem::bad(json!(["not_boolean", "x"]))));
        assert_eq!((flag(object, "none"), number(object, "n")), (Ok(false), Ok(Some(7))));
        assert!(number(object, "m").is_err() && text(object, "m").is_err());
        let nulls = json!({"a": null});
        let nulls = nulls.as_object().unwrap();
        assert!(text(nulls, "a").is_err() && flag(nulls, "a").is_err() && number(nulls, "a").is_err());
        assert_eq!((nested(nulls, "a").is_err(), text_or_null(nulls, "a")), (true, Ok(None)));
        assert_eq!((nested(object, "o"), text(object, "durable")), (Ok(Map::new()), Ok(Some("x"))));
    }
}
