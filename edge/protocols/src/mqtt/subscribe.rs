//! SUBSCRIBE and UNSUBSCRIBE: bindings follow, and queues where the first subscription needs one.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use broker::{Commit, Queue, Refused};
use message::mqtt::TOPIC_BYTES_MAX;
use wire::amqp091::TableBuf;
use wire::mqtt::{
    Property, Qos, RetainHandling, Subscribe, SubscriptionOptions, Unsubscribe, VarNumber, Version, reason,
    shared_filter,
};

use super::deliver::{AT_LEAST_ONCE, AT_MOST_ONCE, SHARED_FIRST, Source};
use super::errors::End;
use super::keeper::Keeper;
use super::kept_topics::{FilterTree, Walk};
use super::subscriptions::Filter;
use super::work::{ENDS_WITH_CONNECTION, SHARED_QUEUES, Work};

/// Changes of a packet that are under way at once, at most.
const BEGUN_MAX: usize = 1000;

/// Subscriptions that one packet asks for, or asks to end.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) packet_id: u16,
    id: Option<u32>,
    filters: Vec<Named>,
}

/// A topic filter, and the group that shares it.
#[derive(Debug)]
struct Named {
    filter: Box<str>,
    group: Option<Box<str>>,
    options: SubscriptionOptions,
}

impl Named {
    fn of(filter: &str, options: SubscriptionOptions, version: Version) -> Named {
        match shared_filter(filter).flatten() {
            Some((group, filter)) if version == Version::V5 => {
                Named { filter: filter.into(), group: Some(group.into()), options }
            }
            _ => Named { filter: filter.into(), group: None, options },
        }
    }

    /// Whether names of bindings and queues can be made of it.
    fn is_too_long(&self) -> bool {
        match &self.group {
            Some(group) => shared_queue_name(group, &self.filter).len() > TOPIC_BYTES_MAX,
            None => self.filter.len() > TOPIC_BYTES_MAX,
        }
    }
}

/// The queue of a group and a filter.
fn shared_queue_name(group: &str, filter: &str) -> String {
    format!("{SHARED_QUEUES}{group}:{filter}")
}

impl Wanted {
    pub(crate) fn of(subscribe: &Subscribe<'_>, version: Version) -> Wanted {
        let id = subscribe.properties.iter().find_map(|property| match property {
            Property::SubscriptionIdentifier(VarNumber(id)) => Some(id),
            _ => None,
        });
        let named = |it: wire::mqtt::Subscription<'_>| Named::of(it.filter, it.options, version);
        let filters = subscribe.subscriptions.iter().map(named).collect();
        Wanted { packet_id: subscribe.packet_id, id, filters }
    }

    pub(crate) fn unwanted(unsubscribe: &Unsubscribe<'_>, version: Version) -> Wanted {
        let named = |filter: &str| Named::of(filter, SubscriptionOptions::default(), version);
        let filters = unsubscribe.filters.iter().map(named).collect();
        Wanted { packet_id: unsubscribe.packet_id, id: None, filters }
    }
}

/// The outcome of a SUBSCRIBE or an UNSUBSCRIBE.
#[derive(Default)]
pub(crate) struct Changed {
    pub(crate) packet_id: u16,
    /// For each filter how it went.
    pub(crate) codes: Vec<u8>,
    /// Sources that are new.
    pub(crate) attached: Vec<(u32, Arc<Queue>)>,
    /// Sources that are none any more.
    pub(crate) detached: Vec<u32>,
}

/// Subscribes to all. `has_source` says which of the session's own sources there are.
pub(crate) async fn subscribe(work: Arc<Work>, wanted: Wanted, has_source: [bool; 2]) -> Changed {
    let mut changed = Changed { packet_id: wanted.packet_id, ..Changed::default() };
    let (mut begun, mut copies) = (Vec::new(), Copies::default());
    for named in &wanted.filters {
        if begun.len() == BEGUN_MAX {
            finish_all(&work, &mut begun, &mut changed, &mut copies).await;
        }
        let filter = Filter {
            filter: named.filter.clone(),
            group: named.group.clone(),
            options: named.options,
            id: wanted.id,
            token: if named.options.qos == Qos::AtMostOnce { AT_MOST_ONCE } else { AT_LEAST_ONCE },
        };
        let at = changed.codes.len();
        let done = match &named.group {
            _ if named.is_too_long() => {
                Err(End::new(reason::TOPIC_FILTER_INVALID, "the topic filter is too long"))
            }
            Some(group) => begin_to_share(&work, filter, group, has_source, &mut changed).await,
            None => begin(&work, filter, at, has_source, &mut changed).await.map(|it| begun.push(it)),
        };
        changed.codes.push(match done {
            Ok(()) => named.options.qos as u8,
            Err(end) => refused(&work, &named.filter, &end),
        });
    }
    finish_all(&work, &mut begun, &mut changed, &mut copies).await;
    if let Err(refused) = copies.send(&work).await {
        tracing::warn!(client_id = %work.client_id, ?refused, "retained messages cannot be read");
    }
    changed
}

/// Filters whose retained messages are wanted, by source: of QoS 0, and of the others.
#[derive(Default)]
struct Copies([FilterTree; 2]);

impl Copies {
    fn add(&mut self, filter: &Filter) {
        self.0[filter.token as usize - 1].add(&filter.filter);
    }

    /// Publishes copies to the session's queues: of each topic one to a queue, however many filters match it. Others get their turns meanwhile.
    async fn send(self, work: &Work) -> Result<(), Refused> {
        if self.0.iter().all(FilterTree::is_empty) {
            return Ok(());
        }
        let Some(retainer) = work.retainer(false).await? else { return Ok(()) };
        let mut keeper = Keeper::new(work);
        for (token, filters) in [AT_MOST_ONCE, AT_LEAST_ONCE].into_iter().zip(&self.0) {
            let (queue, mut walk) = (work.queue_name(token), Walk::new(filters));
            while !walk.is_over() {
                let kept = retainer.step(&mut walk);
                keeper.copy(&queue, &kept, work.settings.clock.wall_ms()).await;
                others_turn().await;
            }
        }
        Ok(())
    }
}

/// Ready at the second question: the thread serves others first.
async fn others_turn() {
    let mut was_asked = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut was_asked, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The code of a subscription that failed.
fn refused(work: &Work, filter: &str, end: &End) -> u8 {
    tracing::info!(client_id = %work.client_id, filter, "subscription refused: {}", end.text);
    end.code
}

/// A subscription of the session alone whose binding is under way.
struct Begun {
    filter: Filter,
    /// The one that it replaces.
    old: Option<Filter>,
    bound: Commit,
    /// Place of its code in the answer.
    at: usize,
}

/// Waits for all, in their order.
async fn finish_all(work: &Work, begun: &mut Vec<Begun>, changed: &mut Changed, copies: &mut Copies) {
    for subscription in begun.drain(..) {
        let (at, filter) = (subscription.at, subscription.filter.filter.clone());
        if let Err(end) = finish(work, subscription, copies).await {
            changed.codes[at] = refused(work, &filter, &end);
        }
    }
}

/// Begins a subscription of the session alone.
async fn begin(
    work: &Work,
    filter: Filter,
    at: usize,
    has_source: [bool; 2],
    changed: &mut Changed,
) -> Result<Begun, End> {
    let token = filter.token;
    let is_new = |changed: &Changed| !changed.attached.iter().any(|(attached, _)| *attached == token);
    if !has_source[token as usize - 1] && is_new(changed) {
        changed.attached.push((token, work.attach(token).await?));
    }
    // Before the binding: a message that comes by it at once must find the filter.
    let old = work.with_side(|side| side.filters.put(filter.clone()));
    match work.begin_bind(&work.queue_name(token), &filter) {
        Ok(bound) => Ok(Begun { filter, old, bound, at }),
        Err(refused) => {
            put_back(work, &filter, old);
            Err(refused.into())
        }
    }
}

/// The filter as it was before a subscription that failed.
fn put_back(work: &Work, filter: &Filter, old: Option<Filter>) {
    work.with_side(|side| match old {
        Some(old) => drop(side.filters.put(old)),
        None => drop(side.filters.remove(&filter.filter, None)),
    });
}

async fn finish(
    work: &Work,
    Begun { filter, old, bound, .. }: Begun,
    copies: &mut Copies,
) -> Result<(), End> {
    if let Err(refused) = bound.await {
        put_back(work, &filter, old);
        return Err(refused.into());
    }
    let wants_kept = match filter.options.retain_handling {
        RetainHandling::Send => true,
        RetainHandling::SendIfNew => old.is_none(),
        RetainHandling::DoNotSend => false,
    };
    if let Some(old) = old
        && (old.token != filter.token || old.arguments() != filter.arguments())
    {
        work.unbind(&work.queue_name(old.token), &old).await?;
    }
    if wants_kept {
        copies.add(&filter);
    }
    Ok(())
}

/// Begins a subscription that others share.
async fn begin_to_share(
    work: &Work,
    filter: Filter,
    group: &str,
    has_source: [bool; 2],
    changed: &mut Changed,
) -> Result<(), End> {
    share(work, filter.clone(), group, changed).await?;
    if work.expiry_s == ENDS_WITH_CONNECTION {
        return Ok(());
    }
    note_shared(work, &filter, has_source, changed).await
}

/// A shared subscription of a session that outlives its connection: a binding of the session's own queue tells of it.
async fn note_shared(
    work: &Work,
    filter: &Filter,
    has_source: [bool; 2],
    changed: &mut Changed,
) -> Result<(), End> {
    let is_there = has_source[AT_LEAST_ONCE as usize - 1]
        || changed.attached.iter().any(|(token, _)| *token == AT_LEAST_ONCE);
    if !is_there {
        changed.attached.push((AT_LEAST_ONCE, work.attach(AT_LEAST_ONCE).await?));
    }
    Ok(work.note_shared(filter).await?)
}

/// Joins the groups of the session again whose client comes back.
pub(crate) async fn share_again(work: &Work, sources: &mut Vec<(u32, Arc<Queue>)>) {
    for filter in work.noted_shared() {
        let (mut changed, group) = (Changed::default(), filter.group.clone().unwrap_or_default());
        let text = filter.filter.clone();
        match share(work, filter, &group, &mut changed).await {
            Ok(()) => sources.append(&mut changed.attached),
            Err(end) => {
                refused(work, &text, &end);
            }
        }
    }
}

/// A subscription that others share: its queue is theirs as well.
async fn share(work: &Work, mut filter: Filter, group: &str, changed: &mut Changed) -> Result<(), End> {
    let known = work.with_side(|side| side.filters.get(&filter.filter, Some(group)).map(|old| old.token));
    let name = shared_queue_name(group, &filter.filter);
    filter.token = known.unwrap_or_else(|| work.with_side(|side| side.free_token()));
    if known.is_none() {
        if work.principal.vhost.queue(name.as_bytes()).is_none() {
            let mut arguments = TableBuf::new();
            if let Some(seconds) = work.settings.session_expiry_max_s.filter(|seconds| *seconds > 0) {
                arguments.push_i64("x-expires", i64::from(seconds) * 1000);
            }
            arguments.push_str("x-queue-type", work.settings.session_queue_type.name());
            work.declare(&name, false, arguments.as_table()).await?;
        }
        let plain =
            Filter { options: SubscriptionOptions::default(), id: None, group: None, ..filter.clone() };
        work.bind(&name, &plain).await?;
    }
    let token = filter.token;
    work.with_side(|side| side.filters.put(filter.clone()));
    if known.is_none() {
        let source = Source { ack_required: true, drops: false, paused: false };
        match work.consume(token, &name, source).await {
            Ok(queue) => changed.attached.push((token, queue)),
            Err(refused) => {
                work.with_side(|side| side.filters.remove(&filter.filter, Some(group)));
                return Err(refused.into());
            }
        }
    }
    Ok(())
}

/// Ends subscriptions.
pub(crate) async fn unsubscribe(work: Arc<Work>, wanted: Wanted) -> Changed {
    let mut changed = Changed { packet_id: wanted.packet_id, ..Changed::default() };
    let mut begun: Vec<(usize, Commit)> = Vec::new();
    for Named { filter, group, .. } in &wanted.filters {
        if begun.len() == BEGUN_MAX {
            end_all(&mut begun, &mut changed).await;
        }
        let removed = work.with_side(|side| side.filters.remove(filter, group.as_deref()));
        let code = match removed {
            None => reason::NO_SUBSCRIPTION_EXISTED,
            Some(filter) if filter.token >= SHARED_FIRST => {
                changed.detached.push(filter.token);
                ended(work.forget_shared(&filter).await)
            }
            Some(filter) => match work.begin_unbind(&work.queue_name(filter.token), &filter) {
                Ok(unbound) => {
                    begun.push((changed.codes.len(), unbound));
                    reason::SUCCESS
                }
                Err(refused) => ended(Err(refused)),
            },
        };
        changed.codes.push(code);
    }
    end_all(&mut begun, &mut changed).await;
    changed
}

/// Waits for all that are under way.
async fn end_all(begun: &mut Vec<(usize, Commit)>, changed: &mut Changed) {
    for (at, unbound) in begun.drain(..) {
        changed.codes[at] = ended(unbound.await);
    }
}

fn ended(unbound: Result<(), Refused>) -> u8 {
    match unbound {
        Ok(()) | Err(Refused::NotFound(_)) => reason::SUCCESS,
        Err(refused) => End::from(refused).code,
    }
}
