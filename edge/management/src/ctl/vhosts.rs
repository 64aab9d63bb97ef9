//! Vhosts: made, described, protected, listed, deleted. Refuses to know what is in them.

use broker::control::users::new_vhost_metadata;
use broker::{Broker, Refused, Tracing};
use metadata::VhostMetadata;
use serde_json::Value;

use crate::ctl::columns::{Column, chosen, rows};
use crate::ctl::commands::{Outcome, arguments, settle, settled, usage};
use crate::ctl::protocol::{Answer, Exit, Failure, Request};
use crate::resources::vhosts::{VhostRow, metadata_object};

fn no_such_vhost(vhost: &str) -> Failure {
    Failure::new(Exit::DATA, format!("Virtual host '{vhost}' does not exist"))
}

fn words(list: &str) -> Vec<Box<str>> {
    list.split(',').map(str::trim).filter(|word| !word.is_empty()).map(Box::from).collect()
}

/// The options of a vhost.
struct Said<'a> {
    description: Option<&'a str>,
    tags: Option<&'a str>,
    default_queue_type: Option<&'a str>,
    protected: Option<bool>,
}

impl<'a> Said<'a> {
    fn of(request: &'a Request) -> Result<Self, Failure> {
        let option = |name: &str| request.options.get(name).map(String::as_str);
        let default_queue_type = option("default-queue-type");
        if let Some(other) =
            default_queue_type.filter(|kind| !matches!(*kind, "quorum" | "stream" | "classic"))
        {
            let text = format!(
                "Error (argument validation): Bad argument: Default queue type must be one of: quorum, stream, classic. \
                 Provided: {other}"
            );
            return Err(Failure::new(Exit::DATA, text));
        }
        let protected = match option("protected-from-deletion") {
            None => None,
            Some("true") => Some(true),
            Some("false") => Some(false),
            Some(_) => return Err(usage("--protected-from-deletion is true or false")),
        };
        Ok(Self { description: option("description"), tags: option("tags"), default_queue_type, protected })
    }

    fn apply(&self, metadata: &mut VhostMetadata) {
        if let Some(description) = self.description {
            metadata.description = description.into();
        }
        if let Some(tags) = self.tags {
            metadata.tags = words(tags);
        }
        if let Some(kind) = self.default_queue_type {
            metadata.default_queue_type = Some(kind.into());
        }
        if let Some(protected) = self.protected {
            metadata.protected_from_deletion = protected;
        }
    }
}

/// One that exists is fine and stays as it is.
pub(crate) fn add_vhost(broker: &Broker, request: &Request) -> Outcome {
    let [vhost] = arguments(request)?;
    if vhost.is_empty() {
        return Err(usage("vhost name cannot be empty"));
    }
    let mut metadata = new_vhost_metadata();
    Said::of(request)?.apply(&mut metadata);
    settle(broker.add_vhost_with(vhost, metadata))
}

/// With all in it; its connections are closed (B191).
pub(crate) fn delete_vhost(broker: &Broker, request: &Request) -> Outcome {
    let [vhost] = arguments(request)?;
    match broker.delete_vhost(vhost).and_then(broker::Call::wait) {
        Err(Refused::NoSuchVhost(_)) => Err(no_such_vhost(vhost)),
        other => settled(other),
    }
}

/// Switches the trace of messages of a vhost (B175). One that does not exist is an error, where RabbitMQ says it is done.
pub(crate) fn trace(broker: &Broker, request: &Request, tracing: Tracing) -> Outcome {
    let vhost = request.vhost();
    if !broker.trace(vhost, tracing) {
        return Err(no_such_vhost(vhost));
    }
    let done = if tracing == Tracing::On { "enabled" } else { "disabled" };
    Ok(Answer::Done { ok: format!("Trace {done} for vhost {vhost}") })
}

fn edit(broker: &Broker, vhost: &str, change: impl Fn(&mut VhostMetadata)) -> Outcome {
    match broker.edit_vhost(vhost, change) {
        Err(Refused::NoSuchVhost(_)) => Err(no_such_vhost(vhost)),
        other => settled(other),
    }
}

/// Settings that are not named stay.
pub(crate) fn update_vhost_metadata(broker: &Broker, request: &Request) -> Outcome {
    let [vhost] = arguments(request)?;
    let said = Said::of(request)?;
    let told = ["description", "tags", "default-queue-type", "protected-from-deletion"];
    if !told.iter().any(|option| request.has(option)) {
        return Err(usage("not enough arguments."));
    }
    edit(broker, vhost, |metadata| said.apply(metadata))
}

/// Replaces all tags.
pub(crate) fn set_vhost_tags(broker: &Broker, request: &Request) -> Outcome {
    let (vhost, tags) = request.args.split_first().ok_or_else(|| usage("not enough arguments."))?;
    let tags = tags.iter().flat_map(|tags| words(tags)).collect();
    let edited = broker.edit_vhost(vhost, |metadata| metadata.tags.clone_from(&tags));
    match edited {
        Err(Refused::NoSuchVhost(_)) => {
            Err(Failure::new(Exit::DATA, format!("Error:\nVirtual host \"{vhost}\" does not exist")))
        }
        other => settled(other),
    }
}

/// `delete_vhost` is refused from now on.
pub(crate) fn enable_deletion_protection(broker: &Broker, request: &Request) -> Outcome {
    let [vhost] = arguments(request)?;
    edit(broker, vhost, |metadata| metadata.protected_from_deletion = true)
}

/// `delete_vhost` works again.
pub(crate) fn disable_deletion_protection(broker: &Broker, request: &Request) -> Outcome {
    let [vhost] = arguments(request)?;
    edit(broker, vhost, |metadata| metadata.protected_from_deletion = false)
}

pub(crate) const COLUMNS: &[Column<VhostRow>] = &[
    ("name", |it| it.name.clone()),
    ("tracing", |it| it.is_traced.into()),
    ("cluster_state", |_| "running".into()),
    ("description", |it| (*it.metadata.description).into()),
    ("tags", |it| it.tags()),
    ("default_queue_type", |it| it.default_queue_type().map_or(Value::Null, Value::from)),
    ("protected_from_deletion", |it| it.metadata.protected_from_deletion.into()),
    ("metadata", |it| metadata_object(&it.metadata)),
];

/// All vhosts by name.
pub(crate) fn list_vhosts(broker: &Broker, request: &Request) -> Outcome {
    let columns = chosen(request, COLUMNS, &["name"])?;
    Ok(rows(&columns, VhostRow::all(broker)))
}
