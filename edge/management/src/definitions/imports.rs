//! Definitions imported: a document is checked as a whole, then merged with what is there. Refuses to know files.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use broker::{Broker, PasswordRule};
use metadata::{
    AddVhost, Bind, Command, Definitions, DestinationName, Name, Outcome as Applied, Refusal,
    SetGlobalParameter, SetPermissions, SetTopicPermissions,
};

use crate::resources::json::{TOO_DEEP, document_bytes_max, is_too_deep, unmarked, within};
use crate::resources::parameters::OWN;
use crate::resources::policies::OPERATOR_POLICY;
use crate::resources::shovels::SHOVEL;

mod document;
mod entries;
mod limits;
mod report;
#[cfg(test)]
mod tests;

use document::{Document, GlobalParameter};
pub use report::Row;

/// The fault of a document, for people.
type Problem = String;

/// How many refused entries a text names.
const REFUSED_NAMED_MAX: usize = 5;

/// The treatment of things that Warren does not have yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// One of them refuses the whole document.
    Refused,
    /// They are left out, and everything that hangs on them; the rest is imported.
    Skipped,
}

/// The user who imports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Importer<'a> {
    /// The node itself, or the user of its command line.
    Node,
    /// A user, who may do everything in vhosts that are made on the way, as in RabbitMQ.
    User(&'a str),
}

/// Where entries go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    /// Into the vhosts that they name, and into this one when they name none; without one such an entry is a mistake, as in RabbitMQ.
    Node(Option<&'a str>),
    /// Into this vhost, whichever they name. Users, vhosts, permissions and global parameters are passed over, as in RabbitMQ.
    Vhost(&'a str),
}

impl<'a> Scope<'a> {
    /// The vhost of entries that name none.
    const fn vhost(self) -> Option<&'a str> {
        match self {
            Scope::Node(vhost) => vhost,
            Scope::Vhost(vhost) => Some(vhost),
        }
    }
}

/// A kind of thing that Warren does not have yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    DefaultQueueType,
    Queue,
    QueueOverLimit,
    Exchange,
    Binding,
    Policy,
    OperatorPolicy,
    Parameter,
    Permission,
}

impl What {
    /// One of them, and many.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            What::DefaultQueueType => ("default queue type", "default queue types"),
            What::Queue => ("queue", "queues of types it does not know"),
            What::QueueOverLimit => ("queue", "queues over a limit"),
            What::Exchange => ("exchange", "exchanges of types it does not know"),
            What::Binding => ("binding", "bindings of those"),
            What::Policy => ("policy", "policies with settings or patterns it cannot use"),
            What::OperatorPolicy => {
                ("operator policy", "operator policies with settings or patterns it cannot use")
            }
            What::Parameter => ("parameter", "parameters"),
            What::Permission => ("permission", "permissions with patterns it cannot use"),
        }
    }
}

/// A thing that Warren does not have yet.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Left {
    what: What,
    vhost: Name,
    name: String,
    /// Further text about it; may be empty.
    detail: String,
}

impl Left {
    fn words(&self) -> String {
        let vhost = String::from_utf8_lossy(&self.vhost);
        let Left { what, name, detail, .. } = self;
        let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
        format!("{} '{name}' in vhost '{vhost}'{detail}", what.words().0)
    }
}

/// An entry of a document: a command, or something that Warren does not have yet.
enum Entry<T> {
    Taken(T),
    Left(Left),
}

/// A document that was read.
#[derive(Debug)]
struct Import {
    definitions: Definitions,
    left: Vec<Left>,
    /// Bindings that are left out.
    lost: Vec<Bind>,
    /// Vhosts of which the document does not say whether they are protected from deletion.
    protection_unsaid: HashSet<Name>,
}

/// Merges a document with what is there: nothing is deleted, exchanges and queues that exist stay as they are. Returns
/// a row for each thing that was skipped and for what follows from it; blocks until all is durable.
///
/// # Errors
/// Text for people: a mistake in the document, or things that Warren does not have and that are not to be skipped; then
/// nothing was imported. Or entries that speak of things that are not there; then the others were.
pub fn import(
    broker: &Broker,
    document: &str,
    scope: Scope<'_>,
    unsupported: Unsupported,
    importer: Importer<'_>,
) -> Result<Vec<Row>, String> {
    let rule = &broker.options().password_rule;
    let Import { mut definitions, mut left, mut lost, protection_unsaid } = read(document, scope, rule)?;
    if unsupported == Unsupported::Refused && !left.is_empty() {
        return Err(format!(
            "the document has {}, which Warren does not have yet ({}); nothing was imported. With --skip-unsupported \
             (over HTTP: ?skip_unsupported=true, at a start: warren.definitions.skip_unsupported = true) everything else is, and what is left \
             out is listed",
            counted(&left),
            named(&left)
        ));
    }
    if unsupported == Unsupported::Refused {
        check_restricted_exchanges(broker, &definitions)?;
    }
    for vhost in &mut definitions.vhosts {
        let default = || broker.options().default_queue_type.as_str().into();
        vhost.metadata.default_queue_type.get_or_insert_with(default);
        if protection_unsaid.contains(&vhost.name) {
            vhost.metadata.protected_from_deletion = is_protected(broker, &vhost.name);
        }
    }
    limits::check(broker, &definitions)?;
    left.extend(limits::leave_what_is_over(broker, &mut definitions, &mut lost));
    let mut policy_keys = report::policy_keys(&definitions.policies);
    policy_keys.extend(report::policy_keys(&definitions.operator_policies));
    let refused = |refused| format!("the broker refuses: {refused:?}");
    let commands = for_new_vhosts(broker, definitions.into_commands(), importer).map_err(refused)?;
    let batch = Command::ImportBatch(metadata::Batch { commands });
    let outcome = broker.apply_telling(batch.clone()).and_then(broker::Call::wait).map_err(refused)?;
    let rows = report(broker, policy_keys, &left, &lost);
    let with_row = |text, it: &Row| format!("{text}\n{}", it.line());
    refusals(&batch, &outcome).map_err(|problem| rows.iter().fold(problem, with_row))?;
    Ok(rows)
}

/// The entries that were left out, and the consequences, once the rest is there.
fn report(broker: &Broker, policy_keys: Vec<Row>, left: &[Left], lost: &[Bind]) -> Vec<Row> {
    let keys_from = |vhost: &Name, source: &Name| {
        broker.read_metadata(|state| {
            let vhost = state.vhost(vhost)?;
            vhost.exchange(source)?;
            Some(vhost.bindings_from(source).into_iter().map(|it| it.key.clone()).collect())
        })
    };
    let mut rows: Vec<Row> = left.iter().map(Row::of).collect();
    rows.extend(report::traffic(lost, keys_from));
    rows.extend(policy_keys);
    rows
}

/// Topic permissions restrict what is done with an exchange that is there or comes with them, as in RabbitMQ 4.3.
fn check_restricted_exchanges(broker: &Broker, definitions: &Definitions) -> Result<(), Problem> {
    let coming: HashSet<_> = definitions.exchanges.iter().map(|it| (&it.vhost, &it.name)).collect();
    let is_there = |vhost: &Name, name: &Name| match broker.vhost(&lossy(vhost)) {
        Some(vhost) => vhost.exchange(name).is_some(),
        // A new vhost has the exchanges that all have. One that is missing is told of by its own name.
        None => name.starts_with(b"amq.") || definitions.vhosts.iter().all(|it| it.name != *vhost),
    };
    let is_known =
        |vhost, name: &Name| name.is_empty() || coming.contains(&(vhost, name)) || is_there(vhost, name);
    match definitions.topic_permissions.iter().find(|it| !is_known(&it.vhost, &it.exchange)) {
        None => Ok(()),
        Some(SetTopicPermissions { user, vhost, exchange, .. }) => Err(format!(
            "topic permissions of user '{}': exchange '{}' does not exist in vhost '{}'; nothing was imported. With \
             --skip-unsupported they are for when it does",
            lossy(user),
            lossy(exchange),
            lossy(vhost)
        )),
    }
}

/// New vhosts with the configured objects and their importer's permissions; the objects of the document come later
/// and count.
fn for_new_vhosts(
    broker: &Broker,
    commands: Vec<Command>,
    importer: Importer<'_>,
) -> Result<Vec<Command>, broker::Refused> {
    let mut users: BTreeSet<Name> =
        broker.read_metadata(|state| state.users().map(|(name, _)| name.clone()).collect());
    let mut all = Vec::with_capacity(commands.len());
    for command in commands {
        match command {
            Command::AddVhost(add) if broker.vhost(&lossy(&add.name)).is_none() => {
                let grant = importers_permissions(importer, &add.name);
                all.extend(broker.vhost_with_seeds(add, &mut users)?);
                all.extend(grant);
            }
            Command::PutUser(put) => {
                users.insert(put.name.clone());
                all.push(Command::PutUser(put));
            }
            other => all.push(other),
        }
    }
    Ok(all)
}

fn is_protected(broker: &Broker, vhost: &Name) -> bool {
    broker.read_metadata(|state| state.vhost(vhost).is_some_and(|it| it.metadata().protected_from_deletion))
}

fn importers_permissions(importer: Importer<'_>, vhost: &Name) -> Option<Command> {
    let Importer::User(user) = importer else { return None };
    let [configure, write, read] = [".*"; 3].map(Into::into);
    let (user, vhost) = (user.as_bytes().into(), vhost.clone());
    Some(Command::SetPermissions(SetPermissions { user, vhost, configure, write, read }))
}

/// `2 quorum queues, 1 stream`
fn counted(left: &[Left]) -> String {
    let mut counts: BTreeMap<What, usize> = BTreeMap::new();
    left.iter().for_each(|it| *counts.entry(it.what).or_default() += 1);
    let words = counts.into_iter().map(|(what, count)| match what.words() {
        (one, _) if count == 1 => format!("1 {one}"),
        (_, many) => format!("{count} {many}"),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// The first of them, each with what there is to say about it.
fn named(left: &[Left]) -> String {
    let mut words: Vec<String> = left.iter().take(REFUSED_NAMED_MAX).map(Left::words).collect();
    if left.len() > words.len() {
        words.push(format!("and {} more", left.len() - words.len()));
    }
    words.join("; ")
}

/// Exchanges and queues that exist and differ stay; other refusals are mistakes of the document.
fn refusals(batch: &Command, outcome: &Applied) -> Result<(), Problem> {
    let (Command::ImportBatch(batch), Applied::Imported { refused }) = (batch, outcome) else {
        return Ok(());
    };
    let mistakes: Vec<_> =
        refused.iter().filter(|(_, refusal)| !matches!(refusal, Refusal::Inequivalent { .. })).collect();
    if mistakes.is_empty() {
        return Ok(());
    }
    let named = mistakes
        .iter()
        .take(REFUSED_NAMED_MAX)
        .map(|(at, refusal)| format!("{}: {}", subject(&batch.commands[*at]), reason(refusal)));
    Err(format!(
        "{} of its entries could not be applied, the others were: {}",
        mistakes.len(),
        named.collect::<Vec<_>>().join("; ")
    ))
}

fn lossy(name: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(name)
}

fn subject(command: &Command) -> String {
    match command {
        Command::SetPermissions(it) => format!("permissions of user '{}'", lossy(&it.user)),
        Command::SetTopicPermissions(it) => format!("topic permissions of user '{}'", lossy(&it.user)),
        Command::SetVhostLimits(it) => format!("limits of vhost '{}'", lossy(&it.vhost)),
        Command::DeclareQueue(it) => format!("queue '{}'", lossy(&it.name)),
        Command::DeclareExchange(it) => format!("exchange '{}'", lossy(&it.name)),
        Command::Bind(it) => format!("binding of '{}'", lossy(&it.source)),
        Command::AddVhost(it) => format!("vhost '{}'", lossy(&it.name)),
        Command::PutUser(it) => format!("user '{}'", lossy(&it.name)),
        Command::SetGlobalParameter(it) => format!("global parameter '{}'", it.name),
        _ => "an entry".into(),
    }
}

fn reason(refusal: &Refusal) -> String {
    match refusal {
        Refusal::NotFound { kind, name, .. } => {
            let key = match &**name {
                b"amq.rabbitmq.event" => ": `warren.event_exchange = true` declares it at start",
                b"amq.rabbitmq.log" => ": `log.exchange = true` declares it at start",
                _ => "",
            };
            format!("{} '{}' does not exist{key}", format!("{kind:?}").to_lowercase(), lossy(name))
        }
        Refusal::Locked { .. } => "it belongs to a connection".into(),
        Refusal::TooLarge { bytes, bytes_max } => {
            format!("{bytes} bytes of arguments or values, at most {bytes_max} are possible")
        }
        other => format!("{other:?}"),
    }
}

/// Reads a document.
fn read(document: &str, scope: Scope<'_>, rule: &PasswordRule) -> Result<Import, Problem> {
    let text = unmarked(document);
    if !text.trim_start().starts_with('{') {
        return Err("not a definitions document: not a JSON object".into());
    }
    let document = within(document_bytes_max(text.len()), || match scope {
        Scope::Node(_) => Document::parse(text),
        Scope::Vhost(_) => Document::parse_confined(text),
    });
    let document = document?;
    let vhost = scope.vhost();
    let (operators, others): (Vec<_>, Vec<_>) =
        document.parameters.into_iter().partition(|it| it.component == OPERATOR_POLICY);
    let (shovels, others): (Vec<_>, Vec<_>) = others.into_iter().partition(|it| it.component == SHOVEL);
    let unsaid = document.vhosts.iter().filter(|it| it.metadata.protected_from_deletion.is_none());
    let protection_unsaid = unsaid.map(|it| it.name.as_bytes().into()).collect();
    // Every queue is bound to the default exchange anyway, and nothing else can be.
    let bindings = document.bindings.into_iter().filter(|it| !it.source.is_empty()).collect();
    let mut left = Vec::new();
    let mut definitions = Definitions {
        users: each(document.users, |it| entries::user(it, rule))?,
        vhosts: each(document.vhosts, entries::add_vhost)?,
        permissions: taken(document.permissions, |it| entries::permission(it, vhost), &mut left)?,
        topic_permissions: taken(
            document.topic_permissions,
            |it| entries::topic_permission(it, vhost),
            &mut left,
        )?,
        vhost_limits: taken(others, |it| entries::parameter(it, vhost), &mut left)?,
        parameters: taken(shovels, |it| entries::shovel(it, vhost), &mut left)?,
        global_parameters: globals(document.global_parameters)?,
        policies: taken(document.policies, |it| entries::policy(&it, vhost), &mut left)?,
        operator_policies: taken(operators, |it| entries::operator_policy(&it, vhost), &mut left)?,
        queues: taken(document.queues, |it| entries::queue(&it, vhost), &mut left)?,
        exchanges: taken(document.exchanges, |it| entries::exchange(it, vhost), &mut left)?,
        bindings: each(bindings, |it| entries::binding(&it, vhost))?,
    };
    leave_default_types(&mut definitions.vhosts, &mut left);
    let mut lost = Vec::new();
    leave_bindings(&mut definitions.bindings, &mut left, &mut lost);
    Ok(Import { definitions, left, lost, protection_unsaid })
}

/// Else every queue that is declared without a type would be refused, long after the import.
fn leave_default_types(vhosts: &mut [AddVhost], left: &mut Vec<Left>) {
    for AddVhost { name, metadata } in vhosts {
        let Some(kind) =
            metadata.default_queue_type.take_if(|kind| !matches!(&**kind, "classic" | "quorum" | "stream"))
        else {
            continue;
        };
        let detail = "queues declared without a type are classic".to_owned();
        left.push(Left { what: What::DefaultQueueType, vhost: name.clone(), name: kind.into(), detail });
    }
}

fn each<T, U>(all: Vec<T>, entry: impl Fn(T) -> Result<U, Problem>) -> Result<Vec<U>, Problem> {
    all.into_iter().map(entry).collect()
}

fn taken<T, U>(
    all: Vec<T>,
    entry: impl Fn(T) -> Result<Entry<U>, Problem>,
    left: &mut Vec<Left>,
) -> Result<Vec<U>, Problem> {
    let mut commands = Vec::with_capacity(all.len());
    for one in all {
        match entry(one)? {
            Entry::Taken(command) => commands.push(command),
            Entry::Left(one) => left.push(one),
        }
    }
    Ok(commands)
}

/// Drops parameters that belong to another cluster alone.
fn globals(all: Vec<GlobalParameter>) -> Result<Vec<SetGlobalParameter>, Problem> {
    let others = all.into_iter().filter(|it| !OWN.contains(&it.name.as_str()));
    let set = others.map(|it| match is_too_deep(&it.value) {
        true => Err(format!("global parameter '{}': {TOO_DEEP}", it.name)),
        false => Ok(SetGlobalParameter { name: it.name.into(), value: it.value.to_string().into() }),
    });
    set.collect()
}

/// Bindings whose ends are left out are left out, too.
fn leave_bindings(bindings: &mut Vec<Bind>, left: &mut Vec<Left>, out: &mut Vec<Bind>) {
    let gone = |queues: bool| -> HashSet<(Name, String)> {
        let kinds = left.iter().filter(|it| match it.what {
            What::Queue | What::QueueOverLimit => queues,
            What::Exchange => !queues,
            _ => false,
        });
        kinds.map(|it| (it.vhost.clone(), it.name.clone())).collect()
    };
    let (queues, exchanges) = (gone(true), gone(false));
    if queues.is_empty() && exchanges.is_empty() {
        return;
    }
    let mut lost = Vec::new();
    bindings.retain(|bind| {
        let key = |name: &Name| (bind.vhost.clone(), lossy(name).into_owned());
        let (destination, ends) = match &bind.destination {
            DestinationName::Queue(name) => (name, &queues),
            DestinationName::Exchange(name) => (name, &exchanges),
        };
        let is_lost = ends.contains(&key(destination)) || exchanges.contains(&key(&bind.source));
        if is_lost {
            let name = format!("{} -> {}", lossy(&bind.source), lossy(destination));
            let detail = "one of its ends is skipped".into();
            lost.push(Left { what: What::Binding, vhost: bind.vhost.clone(), name, detail });
            out.push(bind.clone());
        }
        !is_lost
    });
    left.extend(lost);
}
