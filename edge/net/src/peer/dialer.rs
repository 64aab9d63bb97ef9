//! Connections that this node makes to others: dialled until they are up, and again when they end.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use broker::cluster::NodeName;
use broker::cluster::peers::Lane;
use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use wire::peer::Verdict;

use super::frames::invalid;
use super::handshake::{Greeted, Refusal};
use super::link::Link;
use super::links::{HANDSHAKE_TIMEOUT, Inner};
use super::transport::Transport;

/// Pause after the first attempt that fails; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// A link that was up for less ends again soon, most likely: there is a pause before the next one.
const STEADY_MS: u64 = 1_000;
/// Addresses that are dialled at most.
const DIALS_MAX: usize = 256;
/// How often a host whose addresses are seeds is looked up.
const LOOK_UP_INTERVAL: Duration = Duration::from_secs(10);

/// Addresses that are dialled.
#[derive(Default)]
pub(super) struct Dials(Mutex<HashMap<String, Dial>>);

struct Dial {
    /// The consumer that was there last.
    name: Option<NodeName>,
    /// An operator has named it; addresses that others have told give way to it.
    is_configured: bool,
    task: AbortHandle,
}

impl Dials {
    pub(super) fn forget(&self, name: &NodeName) {
        self.remove(|dial| dial.name.as_ref() == Some(name));
    }

    pub(super) fn end(&self) {
        self.remove(|_| true);
    }

    fn remove(&self, is_wanted: impl Fn(&Dial) -> bool) {
        self.0.lock().retain(|_, dial| {
            let is_wanted = is_wanted(dial);
            if is_wanted {
                dial.task.abort();
            }
            !is_wanted
        });
    }

    fn name_of(&self, address: &str) -> Option<NodeName> {
        self.0.lock().get(address)?.name.clone()
    }

    /// Notes who is there. False when this address need not be dialled: another one leads to the same node.
    fn note(&self, address: &str, name: &NodeName) -> bool {
        let mut dials = self.0.lock();
        let Some(own) = dials.get_mut(address) else { return false };
        own.name = Some(name.clone());
        let is_configured = own.is_configured;
        let is_other = |other: &String, dial: &Dial| other != address && dial.name.as_ref() == Some(name);
        if is_configured {
            dials.retain(|other, dial| {
                let goes = is_other(other, dial) && !dial.is_configured;
                if goes {
                    dial.task.abort();
                }
                !goes
            });
            return true;
        }
        if dials.iter().any(|(other, dial)| is_other(other, dial)) {
            dials.remove(address);
            return false;
        }
        true
    }
}

impl Inner {
    /// Dials an address until it is forgotten.
    pub(super) fn dial(self: &Arc<Self>, address: &str, is_configured: bool) {
        let mut dials = self.dials.0.lock();
        if let Some(dial) = dials.get_mut(address) {
            dial.is_configured |= is_configured;
            return;
        }
        if dials.len() >= DIALS_MAX {
            return;
        }
        let task = self.runtime.spawn(keep_dialling(self.clone(), address.to_owned())).abort_handle();
        dials.insert(address.to_owned(), Dial { name: None, is_configured, task });
    }

    /// Another node has told of this one.
    pub(super) fn learn(self: &Arc<Self>, name: &NodeName, address: &str) {
        let is_dialled = || self.dials.0.lock().values().any(|dial| dial.name.as_ref() == Some(name));
        if *name != self.own.identity.name && !address.is_empty() && !is_dialled() {
            self.dial(address, false);
            if let Some(dial) = self.dials.0.lock().get_mut(address) {
                dial.name.get_or_insert_with(|| name.clone());
            }
        }
    }
}

async fn keep_dialling(inner: Arc<Inner>, address: String) {
    let mut pause = PAUSE_MIN;
    let mut last_said = String::new();
    loop {
        let linked = inner.dials.name_of(&address).and_then(|name| inner.registry.link(&name));
        if let Some(link) = linked {
            link.ended().await;
            if inner.now_ms().saturating_sub(link.since_ms) >= STEADY_MS {
                (pause, last_said) = (PAUSE_MIN, String::new());
            } else {
                sleep(&inner, &mut pause).await;
            }
        }
        match dial_once(&inner, &address).await {
            Ok(Dialled::Up) => continue,
            Ok(Dialled::NeedNot) => return,
            Err(refusal) if refusal.verdict() == Some(Verdict::Itself) => {
                tracing::debug!(%address, "this seed is the node itself");
                return;
            }
            Err(refusal) if refusal.verdict() == Some(Verdict::Linked) => {}
            Err(refusal) => {
                // Once, not with each attempt.
                let said = refusal.to_string();
                if said != last_said {
                    tracing::warn!(%address, "no link to this node: {said}");
                    last_said = said;
                }
            }
        }
        sleep(&inner, &mut pause).await;
    }
}

/// Two nodes that dial each other in step would go on so.
async fn sleep(inner: &Inner, pause: &mut Duration) {
    let jitter = inner.random.next_u64() % (pause.as_millis() as u64 / 2 + 1);
    tokio::time::sleep(*pause + Duration::from_millis(jitter)).await;
    *pause = (*pause * 2).min(PAUSE_MAX);
}

enum Dialled {
    /// A link to the node there is up, this one or another.
    Up,
    /// Another address leads to the same node.
    NeedNot,
}

async fn dial_once(inner: &Arc<Inner>, address: &str) -> Result<Dialled, Refusal> {
    let link = inner.random.next_u64();
    let control = dial_lane(inner, address, Lane::Control, link).await?;
    let (name, instance) = (control.peer.name.clone(), control.instance);
    if !inner.dials.note(address, &name) {
        return Ok(Dialled::NeedNot);
    }
    if is_linked(inner.registry.link(&name), instance) {
        return Ok(Dialled::Up);
    }
    let live = dial_lane(inner, address, Lane::Live, link).await?;
    let recovery = dial_lane(inner, address, Lane::Recovery, link).await?;
    if [&live, &recovery].iter().any(|lane| lane.instance != instance) {
        return Err(invalid("different nodes answer at this address; name one address for each node").into());
    }
    inner.bring_up([control, live, recovery], Some(address)).await?;
    Ok(Dialled::Up)
}

fn is_linked(link: Option<Arc<Link>>, instance: u64) -> bool {
    link.is_some_and(|link| link.instance == instance)
}

async fn dial_lane(inner: &Inner, address: &str, lane: Lane, link: u64) -> Result<Greeted, Refusal> {
    let dialling = async {
        let transport = Transport::dialled(address, inner.tls.as_ref()).await?;
        inner.own.dial(transport, lane, link, inner.nonce()).await
    };
    timeout(HANDSHAKE_TIMEOUT, dialling).await.unwrap_or(Err(Refusal::Late))
}

/// Dials all addresses of a host, and those that it has later.
pub(super) async fn look_up(inner: Arc<Inner>, host: String, port: u16) {
    let mut is_said = false;
    loop {
        match tokio::net::lookup_host((host.as_str(), port)).await {
            Ok(found) => found.for_each(|address| inner.dial(&address.to_string(), true)),
            Err(error) if !is_said => {
                is_said = true;
                tracing::warn!(%host, %error, "the nodes of this host cannot be looked up");
            }
            Err(_) => {}
        }
        tokio::time::sleep(LOOK_UP_INTERVAL).await;
    }
}
