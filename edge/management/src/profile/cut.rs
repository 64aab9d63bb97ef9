//! What threads worked for, by name; and profiles cut by it: grouped by a label, or only what has one. Knows nothing of
//! functions.

use std::collections::HashMap;
use std::sync::Arc;

use broker::Broker;
use platform::profile::{Labels, name_of};
use serde::Serialize;

use super::raw::ProfileError;
use super::report::{Frame, Frames, Profile};

/// What a thread may work for.
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

    /// What stacks with these labels stand below. Queues and exchanges of the same name are told apart by their vhosts, except
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

/// Names of what exists now, by number; what has gone meanwhile is shown by its number.
#[derive(Default)]
pub(super) struct Names {
    queues: HashMap<u64, (Arc<str>, Arc<str>)>,
    exchanges: HashMap<u64, Arc<str>>,
    connections: HashMap<u64, Arc<str>>,
}

impl Names {
    /// Of these, as far as the broker has them.
    pub(super) fn of<'a>(broker: &Broker, used: impl Iterator<Item = &'a Labels>) -> Names {
        let mut names = Names::default();
        let (mut queues, mut exchanges, mut connections) = (HashMap::new(), HashMap::new(), HashMap::new());
        for labels in used {
            queues.insert(labels.queue, ());
            exchanges.insert(labels.exchange, ());
            connections.insert(labels.connection, ());
        }
        for vhost in broker.vhosts() {
            let shared: Arc<str> = vhost.name().into();
            for queue in vhost.queues().into_iter().filter(|queue| queues.contains_key(&queue.id().0)) {
                names.queues.insert(queue.id().0, (text(queue.name()), shared.clone()));
            }
            for exchange in vhost.exchanges().into_iter().filter(|it| exchanges.contains_key(&it.id)) {
                let name = if exchange.name.is_empty() { "(default)".into() } else { text(&exchange.name) };
                names.exchanges.insert(exchange.id, name);
            }
        }
        for (id, control) in broker.connections().all() {
            if connections.contains_key(&id.0) {
                names.connections.insert(id.0, control.info().name.into());
            }
        }
        names
    }

    /// Names of labels, in the order of [`LabelKey::ALL`].
    pub(super) fn labels(
        &self,
        labels: &Labels,
        thread: &Arc<str>,
    ) -> [Option<Arc<str>>; LabelKey::ALL.len()] {
        let queue = self.queues.get(&labels.queue);
        let numbered = |known: Option<&Arc<str>>, number: u64| {
            (number != 0).then(|| known.cloned().unwrap_or_else(|| format!("#{number}").into()))
        };
        [
            name_of(labels.protocol),
            queue.map(|(_, vhost)| vhost.clone()).or_else(|| name_of(labels.vhost)),
            numbered(self.exchanges.get(&labels.exchange), labels.exchange),
            numbered(queue.map(|(name, _)| name), labels.queue),
            numbered(self.connections.get(&labels.connection), labels.connection),
            (!thread.is_empty()).then(|| thread.clone()),
        ]
    }
}

fn text(name: &[u8]) -> Arc<str> {
    String::from_utf8_lossy(name).into()
}

#[cfg(test)]
mod tests {
    use super::super::folded::folded;
    use super::super::report::tests::sample;
    use super::*;

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
    fn unknown_labels_are_refused_with_those_there_are() {
        let problem = Cut::parse(Some("tenant"), None).unwrap_err().to_string();
        assert!(problem.contains("vhost") && problem.contains("tenant"), "{problem}");
        assert!(Cut::parse(None, Some("queue")).unwrap_err().to_string().contains("LABEL=VALUE"));
        let only = Cut::parse(None, Some("queue=a,b,vhost=c")).unwrap().only;
        assert_eq!(only, [(LabelKey::Queue, "a,b".to_owned()), (LabelKey::Vhost, "c".to_owned())]);
    }
}
