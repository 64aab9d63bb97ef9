//! Entries of a definitions document as commands, each checked for itself. Refuses to know what is there already and what
//! becomes of what Warren cannot hold.

use broker::PasswordRule;
use broker::policies::{PatternProblem, permission_pattern_problem, policy_pattern_problem};
use metadata::{
    AddVhost, Arguments, Bind, Credentials, DeclareExchange, DeclareQueue, DestinationName, Hashing, Limits,
    Name, PolicyKind, PutUser, QueueType, SALT_BYTES, SetParameter, SetPermissions, SetPolicy,
    SetTopicPermissions, SetVhostLimits, VhostMetadata,
};
use platform::{Random, RealRandom};
use routing::TypeError;
use serde_json::{Map, Value};

use super::document::{Binding, Exchange, Parameter, Permission, Policy, Queue, User, Vhost};
use super::{Entry, Left, Problem, What};
use crate::resources::limits::{USER_LIMITS, VHOST_LIMITS, limits_of};
use crate::resources::parameters;
use crate::resources::policies::{NewPolicy, PolicyProblem, checked, unknown_settings};
use crate::resources::shovels::{self, SHOVEL};
use crate::resources::values::raw_table;

/// Longest name and routing key, bytes (short strings of AMQP 0-9-1).
const NAME_BYTES_MAX: usize = 255;

const QUEUE_TYPE: &str = "x-queue-type";

fn bounded(what: &str, name: &str) -> Result<Name, Problem> {
    if name.len() > NAME_BYTES_MAX {
        return Err(format!("{what} of {} bytes, at most {NAME_BYTES_MAX} are possible", name.len()));
    }
    Ok(name.as_bytes().into())
}

fn named(what: &str, name: &str) -> Result<Name, Problem> {
    if name.is_empty() {
        return Err(format!("{what} without a name"));
    }
    bounded(&format!("name of a {what}"), name)
}

/// The vhost that an entry names, or the one that all go to that name none.
fn vhost_of(given: Option<&str>, default: Option<&str>, entry: (&str, &str)) -> Result<Name, Problem> {
    let (what, name) = entry;
    let vhost = given.or(default).ok_or_else(|| {
        format!(
            "{what} '{name}' names no vhost; a document of one vhost is for `import_definitions -p VHOST`, over HTTP for \
             /api/definitions/VHOST"
        )
    })?;
    named("vhost", vhost)
}

pub(super) fn user(it: User, rule: &PasswordRule) -> Result<PutUser, Problem> {
    let credentials = credentials(&it, rule).map_err(|problem| format!("user '{}': {problem}", it.name))?;
    let limits = match &it.limits {
        limits @ Value::Object(_) => limits_of(limits, &USER_LIMITS, "user-limits")
            .map_err(|problem| format!("user '{}': {problem}", it.name))?,
        Value::Null => Limits::default(),
        Value::Array(none) if none.is_empty() => Limits::default(),
        _ => return Err(format!("user '{}': limits are an object", it.name)),
    };
    Ok(PutUser { name: named("user", &it.name)?, credentials, tags: it.tags.into_list(), limits })
}

/// B170; also a password in clear, which is hashed as all new ones are: the algorithm is that of a hash, as in RabbitMQ.
fn credentials(it: &User, rule: &PasswordRule) -> Result<Credentials, Problem> {
    match (&it.password_hash, &it.password) {
        (Some(_), Some(_)) => Err("both password and password_hash are provided".to_owned()),
        (Some(hash), _) => Credentials::from_base64(hashing(it)?, hash).map_err(|error| error.to_string()),
        (None, Some(password)) if !password.is_empty() => {
            rule.check(password)?;
            let mut salt = [0; SALT_BYTES];
            RealRandom.fill(&mut salt);
            Credentials::of_password(Hashing::default(), salt, password.as_bytes())
                .ok_or_else(|| "the password cannot be hashed".to_owned())
        }
        (None, _) => Ok(Credentials::none()),
    }
}

fn hashing(it: &User) -> Result<Hashing, Problem> {
    let Some(name) = it.hashing_algorithm.as_deref() else { return Ok(Hashing::default()) };
    Hashing::from_name(name).ok_or_else(|| format!("unknown hashing algorithm '{name}'"))
}

pub(super) fn add_vhost(it: Vhost) -> Result<AddVhost, Problem> {
    let (inner, name) = (it.metadata, named("vhost", &it.name)?);
    let kind = inner.default_queue_type.or(it.default_queue_type);
    let metadata = VhostMetadata {
        description: inner.description.or(it.description).unwrap_or_default().into(),
        tags: inner.tags.or(it.tags).unwrap_or_default().into_list(),
        default_queue_type: kind.filter(|kind| kind != "undefined").map(String::into_boxed_str),
        protected_from_deletion: inner.protected_from_deletion.unwrap_or_default(),
    };
    Ok(AddVhost { name, metadata })
}

fn of_pattern(pattern: &str, problem: &PatternProblem) -> String {
    format!("pattern '{pattern}': {}", problem.text)
}

/// Expressions that are none, or of the few that only RabbitMQ's library understands, are left out; their matches are not guessed.
fn check_patterns(it: &Permission, vhost: &Name) -> Result<(), Left> {
    for pattern in it.configure.iter().chain([&it.write, &it.read]) {
        if let Some(problem) = permission_pattern_problem(pattern) {
            let detail = of_pattern(pattern, &problem);
            return Err(Left { what: What::Permission, vhost: vhost.clone(), name: it.user.clone(), detail });
        }
    }
    Ok(())
}

pub(super) fn permission(it: Permission, vhost: Option<&str>) -> Result<Entry<SetPermissions>, Problem> {
    let vhost = vhost_of(it.vhost.as_deref(), vhost, ("permissions of user", &it.user))?;
    if let Err(left) = check_patterns(&it, &vhost) {
        return Ok(Entry::Left(left));
    }
    let configure =
        it.configure.ok_or_else(|| format!("permissions of user '{}': configure is missing", it.user))?;
    Ok(Entry::Taken(SetPermissions {
        user: named("user", &it.user)?,
        vhost,
        configure: configure.into(),
        write: it.write.into(),
        read: it.read.into(),
    }))
}

pub(super) fn topic_permission(
    it: Permission,
    vhost: Option<&str>,
) -> Result<Entry<SetTopicPermissions>, Problem> {
    let vhost = vhost_of(it.vhost.as_deref(), vhost, ("topic permissions of user", &it.user))?;
    if let Err(left) = check_patterns(&it, &vhost) {
        return Ok(Entry::Left(left));
    }
    // The default exchange has a name, too: nobody means it by leaving one out.
    let exchange =
        it.exchange.ok_or_else(|| format!("topic permissions of user '{}': exchange is missing", it.user))?;
    Ok(Entry::Taken(SetTopicPermissions {
        user: named("user", &it.user)?,
        vhost,
        exchange: bounded("name of an exchange", &exchange)?,
        write: it.write.into(),
        read: it.read.into(),
    }))
}

/// Limits of vhosts; other components than these and shovels are not there.
pub(super) fn parameter(it: Parameter, vhost: Option<&str>) -> Result<Entry<SetVhostLimits>, Problem> {
    let vhost = vhost_of(it.vhost.as_deref(), vhost, ("parameter", &it.name))?;
    match it.component.as_str() {
        parameters::VHOST_LIMITS => {
            let limits = limits_of(&it.value, &VHOST_LIMITS, "limits");
            let limits =
                limits.map_err(|problem| format!("parameter of component '{}': {problem}", it.component))?;
            Ok(Entry::Taken(SetVhostLimits { vhost, limits }))
        }
        component => {
            let detail = format!("component '{component}'");
            Ok(Entry::Left(Left { what: What::Parameter, vhost, name: it.name, detail }))
        }
    }
}

/// RabbitMQ 3's command line exports an object within a parameter as a list of pairs: `[["message-ttl", 60000]]`.
fn with_objects(value: &Value) -> Value {
    let pair = |element: &Value| match element.as_array().map(Vec::as_slice) {
        Some([Value::String(name), value]) => Some((name.clone(), value.clone())),
        _ => None,
    };
    let object = |value: &Value| -> Option<Map<String, Value>> {
        value.as_array().filter(|pairs| !pairs.is_empty())?.iter().map(pair).collect()
    };
    let mut value = value.clone();
    for inner in value.as_object_mut().into_iter().flat_map(Map::values_mut) {
        if let Some(object) = object(inner) {
            *inner = object.into();
        }
    }
    value
}

/// A shovel. A shovel that RabbitMQ took and Warren does not, such as one with TLS, is left out.
pub(super) fn shovel(it: Parameter, vhost: Option<&str>) -> Result<Entry<SetParameter>, Problem> {
    let it = Parameter { value: with_objects(&it.value), ..it };
    let vhost = vhost_of(it.vhost.as_deref(), vhost, ("shovel", &it.name))?;
    if let Err(problems) = shovels::check("", &it.name, &it.value, None) {
        let detail = format!("shovel: {}", problems.replace('\n', "; "));
        return Ok(Entry::Left(Left { what: What::Parameter, vhost, name: it.name, detail }));
    }
    let (component, value) = (SHOVEL.into(), it.value.to_string().into());
    Ok(Entry::Taken(SetParameter { vhost, component, name: it.name.into(), value }))
}

/// Policies with settings that are not there (federation, mirroring) are left out: half of a policy is another policy. So are policies with
/// patterns that permissions are left out for.
fn policy_of(
    (kind, what): (PolicyKind, What),
    vhost: Name,
    name: &str,
    it: &Map<String, Value>,
) -> Result<Entry<SetPolicy>, Problem> {
    let (words, _) = what.words();
    let problem = |text: &str| format!("{words} '{name}': {}", text.replace('\n', ""));
    let new = NewPolicy::from_json(it).map_err(|missing| match missing {
        PolicyProblem::KeyMissing(key) => problem(&format!("key '{key}' is missing")),
        other => problem(&format!("{other:?}")),
    })?;
    let unknown = unknown_settings(kind, &new.definition);
    if !unknown.is_empty() {
        let detail = format!("settings {}", unknown.join(", "));
        return Ok(Entry::Left(Left { what, vhost, name: name.into(), detail }));
    }
    let pattern = new.pattern.as_str().unwrap_or_default();
    if let Some(problem) = policy_pattern_problem(pattern) {
        let detail = of_pattern(pattern, &problem);
        return Ok(Entry::Left(Left { what, vhost, name: name.into(), detail }));
    }
    let vhost_name = String::from_utf8_lossy(&vhost);
    checked(kind, &vhost_name, name, &new).map(Entry::Taken).map_err(|problems| problem(&problems.join("; ")))
}

pub(super) fn policy(it: &Policy, vhost: Option<&str>) -> Result<Entry<SetPolicy>, Problem> {
    let vhost = vhost_of(it.vhost.as_deref(), vhost, ("policy", &it.name))?;
    policy_of((PolicyKind::User, What::Policy), vhost, &it.name, &it.rest)
}

/// RabbitMQ keeps them among the parameters.
pub(super) fn operator_policy(it: &Parameter, vhost: Option<&str>) -> Result<Entry<SetPolicy>, Problem> {
    let vhost = vhost_of(it.vhost.as_deref(), vhost, ("operator policy", &it.name))?;
    let nothing = Map::new();
    let value = with_objects(&it.value);
    let value = value.as_object().unwrap_or(&nothing);
    policy_of((PolicyKind::Operator, What::OperatorPolicy), vhost, &it.name, value)
}

fn table_of(what: &str, name: &str, arguments: &Map<String, Value>) -> Result<Arguments, Problem> {
    let table = raw_table(arguments).map_err(|problem| format!("{what} '{name}': {problem}"))?;
    Ok(table.into())
}

/// Refuses what a client could not declare either: arguments that make no sense.
pub(super) fn queue(it: &Queue, vhost: Option<&str>) -> Result<Entry<DeclareQueue>, Problem> {
    let vhost = vhost_of(it.vhost.as_deref(), vhost, ("queue", &it.name))?;
    let asked = it.arguments.get(QUEUE_TYPE).and_then(Value::as_str);
    let kind = asked.or(it.kind.as_deref()).unwrap_or("classic");
    let (queue_type, what) = match kind {
        "classic" | "" | "undefined" => (QueueType::Classic, None),
        "quorum" => (QueueType::Quorum, None),
        "stream" => (QueueType::Stream, None),
        other => (QueueType::Classic, Some((What::Queue, format!("type '{other}'")))),
    };
    if let Some((what, detail)) = what {
        return Ok(Entry::Left(Left { what, vhost, name: it.name.clone(), detail }));
    }
    // As of a queue that a client declares, the type stands in the arguments (B64).
    let mut arguments = it.arguments.clone();
    arguments.entry(QUEUE_TYPE).or_insert_with(|| queue_type.name().into());
    let arguments = table_of("queue", &it.name, &arguments)?;
    if let Err(error) = broker::queue_config(queue_type, arguments.as_table()) {
        return Err(format!(
            "queue '{}': invalid arg '{}': {}",
            it.name,
            error.name,
            shovels::reason(&error.reason)
        ));
    }
    Ok(Entry::Taken(DeclareQueue {
        vhost,
        name: named("queue", &it.name)?,
        durable: it.durable,
        auto_delete: it.auto_delete,
        exclusive_owner: None,
        arguments,
        queue_type,
    }))
}

pub(super) fn exchange(it: Exchange, vhost: Option<&str>) -> Result<Entry<DeclareExchange>, Problem> {
    let vhost = vhost_of(it.vhost.as_deref(), vhost, ("exchange", &it.name))?;
    let arguments = table_of("exchange", &it.name, &it.arguments)?;
    match broker::check_exchange_type(it.kind.as_bytes(), arguments.as_table()) {
        Ok(()) => {}
        Err(TypeError::Unknown | TypeError::UnknownInner(_)) => {
            let detail = format!("type '{}'", it.kind);
            return Ok(Entry::Left(Left { what: What::Exchange, vhost, name: it.name, detail }));
        }
        Err(TypeError::Argument(error)) => return Err(format!("exchange '{}': {error}", it.name)),
    }
    if it.arguments.get("alternate-exchange").is_some_and(|value| !value.is_string()) {
        return Err(format!("exchange '{}': alternate-exchange must be a string", it.name));
    }
    Ok(Entry::Taken(DeclareExchange {
        vhost,
        name: named("exchange", &it.name)?,
        arguments,
        kind: it.kind.into(),
        // RabbitMQ takes null for these, which it refuses for queues.
        durable: it.durable.unwrap_or(true),
        auto_delete: it.auto_delete.unwrap_or(false),
        internal: it.internal.unwrap_or(false),
    }))
}

pub(super) fn binding(it: &Binding, vhost: Option<&str>) -> Result<Bind, Problem> {
    let destination = match it.destination_type.as_str() {
        "queue" => DestinationName::Queue(named("queue", &it.destination)?),
        "exchange" => DestinationName::Exchange(bounded("name of an exchange", &it.destination)?),
        other => return Err(format!("binding of '{}': unknown destination type '{other}'", it.source)),
    };
    Ok(Bind {
        vhost: vhost_of(it.vhost.as_deref(), vhost, ("binding of", &it.source))?,
        arguments: table_of("binding of", &it.source, &it.arguments)?,
        source: bounded("name of an exchange", &it.source)?,
        destination,
        key: bounded("routing key", it.routing_key.as_deref().unwrap_or_default())?,
    })
}
