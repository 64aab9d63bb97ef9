//! Work of threads, by name; and profiles cut by it: grouped by a label, or only the stacks that have one. Knows nothing of
//! functions.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use broker::Broker;
use platform::profile::{Labels, name_of};
use serde::Serialize;

use super::raw::ProfileError;
use super::report::{Frame, Frames, Profile};

/// The kinds of work of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LabelKey {
    /// The protocol of the session.
    Protocol,
    /// The vhost of the queue, or else of the session.
    Vhost,
    /// The exchange that was published to.
    Exchange,
    /// The queue whose machine ran.
    Queue,
    /// The session's connection.
    Connection,
    /// The thread's name.
    Thread,
}

impl LabelKey {
    /// All of them, in the order in which [`super::Stack::labels`] has them.
    pub const ALL: [LabelKey; 6] = [
        LabelKey::Protocol,
        LabelKey::Vhost,
        LabelKey::Exchange,
        LabelKey::Queue,
        LabelKey::Connection,
        LabelKey::Thread,
    ];

    /// Its name in options and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            LabelKey::Protocol => "protocol",
            LabelKey::Vhost => "vhost",
            LabelKey::Exchange => "exchange",
            LabelKey::Queue => "queue",
            LabelKey::Connection => "connection",
            LabelKey::Thread => "thread",
        }
    }

    /// The heading that stacks with these labels stand below. Queues and exchanges of the same name are told apart by their vhosts, except
    /// those in `/`.
    fn heading(self, labels: &[Option<Arc<str>>; LabelKey::ALL.len()]) -> String {
        let Some(value) = &labels[self as usize] else { return format!("(no {})", self.name()) };
        let is_in_vhost = matches!(self, LabelKey::Queue | LabelKey::Exchange);
        match labels[LabelKey::Vhost as usize].as_deref().filter(|vhost| is_in_vhost && *vhost != "/") {
            Some(vhost) => format!("{} {value} in {vhost}", self.name()),
            None => format!("{} {value}", self.name()),
        }
    }

    /// The label of that name.
    ///
    /// # Errors
    /// There is none.
    pub fn from_name(name: &str) -> Result<LabelKey, ProfileError> {
        LabelKey::ALL.into_iter().find(|key| key.name() == name).ok_or_else(|| {
            let known: Vec<&str> = LabelKey::ALL.iter().map(|key| key.name()).collect();
            ProfileError::Asked(format!("'{name}' is no label; labels are {}", known.join(", ")))
        })
    }
}

/// How a profile is cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Stacks stand below the name of this label.
    pub by: Option<LabelKey>,
    /// Only stacks that have all these labels.
    pub only: Vec<(LabelKey, String)>,
}

impl Cut {
    /// From options: a label's name, and `label=value` separated by commas. A part without `=` goes on with the value before, which has
    /// a comma in it.
    ///
    /// # Errors
    /// There is no such label, or a part has no `=`.
    pub fn parse(by: Option<&str>, only: Option<&str>) -> Result<Cut, ProfileError> {
        let by = by.filter(|name| !name.is_empty()).map(LabelKey::from_name).transpose()?;
        let mut pairs: Vec<(LabelKey, String)> = Vec::new();
        for part in only.filter(|only| !only.is_empty()).iter().flat_map(|only| only.split(',')) {
            match (part.split_once('='), pairs.last_mut()) {
                (Some((name, value)), _) => pairs.push((LabelKey::from_name(name)?, value.to_owned())),
                (None, Some((_, value))) => value.extend([",", part]),
                (None, None) => {
                    let problem = format!("'{part}' is no LABEL=VALUE, such as queue=orders");
                    return Err(ProfileError::Asked(problem));
                }
            }
        }
        Ok(Cut { by, only: pairs })
    }

    /// The part of a profile that is asked for.
    #[must_use]
    pub fn apply(&self, mut profile: Profile) -> Profile {
        let has = |labels: &[Option<Arc<str>>; LabelKey::ALL.len()]| {
            self.only.iter().all(|(key, value)| labels[*key as usize].as_deref() == Some(value))
        };
        profile.stacks.retain(|stack| has(&stack.labels));
        profile.samples = if self.only.is_empty() {
            profile.samples
        } else {
            profile.stacks.iter().map(|it| it.count).sum()
        };
        let Some(by) = self.by else { return profile };
        let mut frames = Frames::default();
        let old: Vec<u32> = profile.frames.iter().map(|frame| frames.index(frame.clone())).collect();
        for stack in &mut profile.stacks {
            let name = by.heading(&stack.labels);
            let root = frames.index(Frame { name: name.into(), file: "".into() });
            stack.frames =
                std::iter::once(root).chain(stack.frames.iter().map(|at| old[*at as usize])).collect();
        }
        profile.frames = frames.list;
        profile.by = Some(by);
        profile
    }
}

/// Names by number, of queues with their vhosts. An object that was gone before its name was asked for has its number as a name.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    queues: HashMap<u64, (Arc<str>, Option<Arc<str>>)>,
    exchanges: HashMap<u64, Arc<str>>,
    connections: HashMap<u64, Arc<str>>,
}

impl Names {
    /// Of these, as far as the broker has them.
    pub(super) fn of<'a>(broker: &Broker, used: impl Iterator<Item = &'a Labels>) -> Names {
        let (mut names, mut source) = (Names::default(), Source::of(broker));
        used.for_each(|labels| source.note(labels, &mut names));
        names
    }

    /// Adds those of another time, which were the same.
    pub(super) fn merge(&mut self, other: &Names) {
        self.queues.extend(other.queues.iter().map(|(id, name)| (*id, name.clone())));
        self.exchanges.extend(other.exchanges.iter().map(|(id, name)| (*id, name.clone())));
        self.connections.extend(other.connections.iter().map(|(id, name)| (*id, name.clone())));
    }

    /// Names of labels, in the order of [`LabelKey::ALL`].
    pub(super) fn labels(
        &self,
        labels: &Labels,
        thread: &Arc<str>,
    ) -> [Option<Arc<str>>; LabelKey::ALL.len()] {
        let queue = self.queues.get(&labels.queue);
        let vhost = queue.and_then(|(_, vhost)| vhost.clone());
        let numbered = |known: Option<&Arc<str>>, number: u64| {
            (number != 0).then(|| known.cloned().unwrap_or_else(|| unknown(number)))
        };
        [
            name_of(labels.protocol),
            vhost.or_else(|| name_of(labels.vhost)),
            numbered(self.exchanges.get(&labels.exchange), labels.exchange),
            numbered(queue.map(|(name, _)| name), labels.queue),
            numbered(self.connections.get(&labels.connection), labels.connection),
            (!thread.is_empty()).then(|| thread.clone()),
        ]
    }
}

/// The name of an object that has none any more.
fn unknown(number: u64) -> Arc<str> {
    format!("#{number}").into()
}

/// Where names come from: a broker, asked while what has them exists, which may be gone when a profile is looked at.
#[derive(Default)]
pub(super) struct Source {
    broker: Option<Broker>,
    /// Names that were given, each once in memory.
    texts: HashSet<Arc<str>>,
}

impl Source {
    pub(super) fn of(broker: &Broker) -> Source {
        Source { broker: Some(broker.clone()), texts: HashSet::new() }
    }

    /// Adds the names of labels that are not known yet.
    pub(super) fn note(&mut self, labels: &Labels, names: &mut Names) {
        if labels.queue != 0 && !names.queues.contains_key(&labels.queue) {
            let named = self.queue(labels.queue);
            names.queues.insert(labels.queue, named);
        }
        if labels.exchange != 0 && !names.exchanges.contains_key(&labels.exchange) {
            let name = self.exchange(labels);
            names.exchanges.insert(labels.exchange, name);
        }
        if labels.connection != 0 && !names.connections.contains_key(&labels.connection) {
            let name = self.connection(labels.connection);
            names.connections.insert(labels.connection, name);
        }
    }

    /// Forgets names that nobody has any more.
    pub(super) fn tidy(&mut self) {
        self.texts.retain(|text| Arc::strong_count(text) > 1);
    }

    fn queue(&mut self, number: u64) -> (Arc<str>, Option<Arc<str>>) {
        match self.broker.as_ref().and_then(|broker| broker.queue_by_id(number)) {
            Some(queue) => (self.text(queue.name()), Some(self.text(queue.vhost_name().as_bytes()))),
            None => (unknown(number), None),
        }
    }

    fn exchange(&mut self, labels: &Labels) -> Arc<str> {
        let vhost = name_of(labels.vhost);
        let vhost = self.broker.as_ref().zip(vhost).and_then(|(broker, name)| broker.vhost(&name));
        let all = vhost.map(|vhost| vhost.exchanges()).unwrap_or_default();
        match all.iter().find(|exchange| exchange.id == labels.exchange) {
            Some(exchange) if exchange.name.is_empty() => self.text(b"(default)"),
            Some(exchange) => self.text(&exchange.name),
            None => unknown(labels.exchange),
        }
    }

    fn connection(&mut self, number: u64) -> Arc<str> {
        match self.broker.as_ref().and_then(|broker| broker.connections().get(broker.connection_id(number))) {
            Some(control) => self.text(control.info().name.as_bytes()),
            None => unknown(number),
        }
    }

    fn text(&mut self, name: &[u8]) -> Arc<str> {
        let name = String::from_utf8_lossy(name);
        if let Some(known) = self.texts.get(&*name) {
            return known.clone();
        }
        let text: Arc<str> = name.into();
        self.texts.insert(text.clone());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::folded::folded;
    use super::super::report::tests::sample;
    use super::*;
    use broker::BrokerOptions;

    #[test]
    fn a_profile_is_cut_by_queue_and_to_one_queue() {
        let profile = sample(&[("orders:a;b", 5), ("bills:a;c", 7), ("a;d", 1)]);
        let by = Cut::parse(Some("queue"), None).unwrap().apply(profile.clone());
        assert_eq!(folded(&by), "(no queue);a;d 1\nqueue bills;a;c 7\nqueue orders;a;b 5\n");
        let table = by.table(2);
        assert!(
            table.contains("  share  queue\n  53.8%  queue bills\n  38.5%  queue orders\n\n    own"),
            "{table}"
        );
        let only = Cut::parse(None, Some("queue=bills")).unwrap().apply(profile);
        assert_eq!((folded(&only).as_str(), only.total(), only.samples), ("a;c 7\n", 7, 1));
    }

    #[test]
    fn queues_of_the_same_name_are_told_apart_by_their_vhosts() {
        let mut profile = sample(&[("orders:a", 5), ("orders:b", 7), ("orders:c", 1)]);
        for (stack, vhost) in profile.stacks.iter_mut().zip(["/", "shop", "test"]) {
            stack.labels[LabelKey::Vhost as usize] = Some(vhost.into());
        }
        let by = Cut::parse(Some("queue"), None).unwrap().apply(profile);
        assert_eq!(folded(&by), "queue orders in shop;b 7\nqueue orders in test;c 1\nqueue orders;a 5\n");
    }

    #[test]
    fn a_queue_that_has_gone_keeps_its_name_and_one_that_nobody_knew_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let broker = Broker::open(folder.path(), BrokerOptions::default()).unwrap();
        let user = broker.authenticate("guest", b"guest", true).unwrap();
        let (vhost, connection) = (broker.vhost("/").unwrap(), broker.next_connection_id());
        let principal =
            broker::Principal { user, vhost, connection, connection_name: "test".into(), client: None };
        let declare = broker::QueueDeclare {
            name: b"brief",
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: wire::amqp091::Table::EMPTY,
        };
        broker.declare_queue(&principal, declare).unwrap();
        let queue = principal.vhost.queue(b"brief").unwrap().id().0;
        let exchange =
            broker.vhost("/").unwrap().exchanges().into_iter().find(|it| &*it.name == b"amq.topic");
        let of = |queue| Labels {
            queue,
            exchange: exchange.as_ref().unwrap().id,
            vhost: platform::profile::intern("/"),
            ..Labels::default()
        };
        let (mut names, mut source) = (Names::default(), Source::of(&broker));
        source.note(&of(queue), &mut names);
        broker.delete_vhost("/").unwrap();
        source.note(&of(queue), &mut names);
        source.note(&of(99_999), &mut names);
        let shown = |queue| {
            let labels = names.labels(&of(queue), &"t".into()).map(|label| label.map(|it| it.to_string()));
            [LabelKey::Vhost, LabelKey::Queue, LabelKey::Exchange]
                .map(|key| labels[key as usize].clone().unwrap())
        };
        assert_eq!(shown(queue), ["/", "brief", "amq.topic"]);
        assert_eq!(shown(99_999)[1], "#99999");
        assert_eq!(source.texts.len(), 3);
        drop(names);
        source.tidy();
        assert!(source.texts.is_empty(), "a million queues that come and go leave nothing");
    }

    #[test]
    fn unknown_labels_are_refused_with_those_there_are() {
        let problem = Cut::parse(Some("tenant"), None).unwrap_err().to_string();
        assert!(problem.contains("vhost") && problem.contains("tenant"), "{problem}");
        assert!(Cut::parse(None, Some("queue")).unwrap_err().to_string().contains("LABEL=VALUE"));
        let only = Cut::parse(None, Some("queue=a,b,vhost=c")).unwrap().only;
        assert_eq!(only, [(LabelKey::Queue, "a,b".to_owned()), (LabelKey::Vhost, "c".to_owned())]);
    }
}
