//! Setting a shovel's parameter: the checks before it is recorded. Refuses to know the protocol of the caller.

use broker::{Broker, Commit, Refused};
use metadata::{Command, SetParameter};
use serde_json::Value;
use shovel::Uri;

use super::SHOVEL;
use super::definition::from_value;

/// On whose behalf a shovel is set: it connects to vhosts of this node without a password, so its author must be allowed to.
pub(crate) struct Author<'a> {
    pub(crate) name: &'a str,
    pub(crate) may_open: &'a dyn Fn(&str) -> bool,
}

/// Judges a value; without an author it is an operator's, who may do everything.
///
/// # Errors
/// All that is wrong, one line each.
pub(crate) fn check(
    vhost: &str,
    name: &str,
    value: &Value,
    author: Option<&Author<'_>>,
) -> Result<(), String> {
    let definition = from_value(name, value).map_err(|problems| problems.join("\n"))?;
    let Some(author) = author else { return Ok(()) };
    // The first of each side: so RabbitMQ tells them.
    let first_refused = |uris: &[Uri]| {
        let opened =
            uris.iter().filter(|uri| uri.place.is_none()).map(|uri| uri.vhost.as_deref().unwrap_or(vhost));
        opened.into_iter().find(|opened| !(author.may_open)(opened)).map(str::to_owned)
    };
    let refused: Vec<String> = [&definition.destination.uris, &definition.source.uris]
        .into_iter()
        .filter_map(|uris| first_refused(uris))
        .map(|opened| format!("user \"{}\" may not connect to vhost \"{opened}\"", author.name))
        .collect();
    if refused.is_empty() { Ok(()) } else { Err(refused.join("\n")) }
}

/// Records a value that was checked.
///
/// # Errors
/// As the broker's.
pub(crate) fn set(broker: &Broker, vhost: &str, name: &str, value: &Value) -> Result<Commit, Refused> {
    let (vhost, component) = (vhost.as_bytes().into(), SHOVEL.into());
    let set = SetParameter { vhost, component, name: name.into(), value: value.to_string().into() };
    broker.apply(Command::SetParameter(set))
}
