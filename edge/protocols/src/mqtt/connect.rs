//! CONNECT: the identity of the client, its wishes, and the fate of its earlier session.

use std::sync::Arc;

use broker::{Broker, Call, ConnectionInfo, GotMessage, LoginOutcome, Queue, User};
use wire::amqp091::TableBuf;
use wire::mqtt::{Connect, Property, Version, reason};

use super::deliver::{AT_LEAST_ONCE, AT_MOST_ONCE};
use super::errors::End;
use super::memory::Marks;
use super::retained::Retainer;
use super::seldom::Seldom;
use super::settings::{Settings, VhostKey};
use super::subscribe::share_again;
use super::work::{CLIENT_ID_BYTES_MAX, ENDS_WITH_CONNECTION, Work};
use crate::Peer;

/// A session that never ends, in seconds, as it is said on the wire.
const NEVER_EXPIRES: u32 = u32::MAX;

/// The request of a CONNECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wishes {
    pub(crate) version: Version,
    pub(crate) client_id: Box<str>,
    /// The server has chosen the id.
    pub(crate) is_assigned: bool,
    pub(crate) clean_start: bool,
    pub(crate) keep_alive_s: u16,
    /// Seconds that the session outlives the connection; `None` is for ever.
    pub(crate) expiry_s: Option<u32>,
    pub(crate) receive_max: u16,
    pub(crate) packet_bytes_max: usize,
    pub(crate) alias_max: u16,
    /// Reason strings are welcome.
    pub(crate) wants_reasons: bool,
}

impl Wishes {
    /// Of a CONNECT; `chosen` is the id for a client that gives none.
    pub(crate) fn of(connect: &Connect<'_>, settings: &Settings, chosen: String) -> Result<Wishes, End> {
        let is_v5 = connect.version == Version::V5;
        let mut wishes = Wishes {
            version: connect.version,
            client_id: connect.client_id.into(),
            is_assigned: false,
            clean_start: connect.clean_start,
            keep_alive_s: connect.keep_alive_s,
            // Before version 5 a session that is not clean has no end of its own.
            expiry_s: if is_v5 || connect.clean_start { Some(0) } else { None },
            receive_max: u16::MAX,
            packet_bytes_max: usize::MAX,
            alias_max: 0,
            wants_reasons: is_v5,
        };
        for property in connect.properties.iter() {
            match property {
                Property::SessionExpiryInterval(seconds) => {
                    wishes.expiry_s = (seconds != NEVER_EXPIRES).then_some(seconds);
                }
                Property::ReceiveMaximum(max) => wishes.receive_max = max,
                Property::MaximumPacketSize(max) => wishes.packet_bytes_max = max as usize,
                Property::TopicAliasMaximum(max) => wishes.alias_max = max.min(settings.topic_alias_max),
                Property::RequestProblemInformation(wanted) => wishes.wants_reasons = wanted == 1,
                Property::AuthenticationMethod(method) => {
                    let text = format!("authentication method '{method}' is not known");
                    return Err(End::new(reason::BAD_AUTHENTICATION_METHOD, text));
                }
                _ => {}
            }
        }
        wishes.expiry_s = within(wishes.expiry_s, settings.session_expiry_max_s);
        if connect.client_id.is_empty() {
            if !is_v5 && !connect.clean_start {
                return Err(End::new(
                    reason::CLIENT_IDENTIFIER_NOT_VALID,
                    "a session that is not clean needs a client id",
                ));
            }
            (wishes.client_id, wishes.is_assigned) = (chosen.into(), true);
        }
        if wishes.client_id.len() > CLIENT_ID_BYTES_MAX {
            let text = format!("client id of more than {CLIENT_ID_BYTES_MAX} bytes");
            return Err(End::new(reason::CLIENT_IDENTIFIER_NOT_VALID, text));
        }
        Ok(wishes)
    }
}

/// The facts of a client that listings show.
pub(crate) fn client_properties(client_id: &str) -> Vec<u8> {
    let mut properties = TableBuf::new();
    properties.push_str("client_id", client_id.as_bytes());
    properties.into_raw()
}

/// A session's time within what is allowed.
pub(crate) fn within(wanted_s: Option<u32>, max_s: Option<u32>) -> Option<u32> {
    match (wanted_s, max_s) {
        (Some(wanted), Some(max)) => Some(wanted.min(max)),
        (wanted, max) => wanted.or(max),
    }
}

/// The name of a session's time in version 5.
pub(crate) fn on_the_wire(expiry_s: Option<u32>) -> u32 {
    expiry_s.unwrap_or(NEVER_EXPIRES)
}

/// The protocol's name in listings.
pub(crate) const fn protocol_name(version: Version, is_web_socket: bool) -> &'static str {
    match (version, is_web_socket) {
        (Version::V31, false) => "MQTT 3-1",
        (Version::V311, false) => "MQTT 3-1-1",
        (Version::V5, false) => "MQTT 5-0",
        (Version::V31, true) => "Web MQTT 3-1",
        (Version::V311, true) => "Web MQTT 3-1-1",
        (Version::V5, true) => "Web MQTT 5-0",
    }
}

/// Logs the client in: its user, and the vhost that it asks for. A password counts more than a certificate.
pub(crate) fn login(
    broker: &Broker,
    settings: &Settings,
    peer: &Peer,
    connect: &Connect<'_>,
    info: &ConnectionInfo,
) -> Result<(Arc<User>, String), End> {
    let certificate = peer.certificate_name.as_deref();
    let proved = certificate.filter(|_| settings.certificate_login);
    let (name, password) = match (connect.user_name, connect.password, &settings.anonymous) {
        (Some(name), Some(password), _) => (name, password),
        (None, None, anonymous) => match (proved, anonymous) {
            (Some(name), _) => {
                let known = broker.authenticate_proved(name, peer.is_loopback());
                let user = told(broker, info, name, "EXTERNAL", known)?;
                let mapped = mapped_vhost(broker, settings, peer);
                return Ok((user, mapped.unwrap_or_else(|| settings.vhost.clone())));
            }
            (None, Some((name, password))) => (name.as_str(), password.as_bytes()),
            (None, None) => return Err(refused(broker, info, "")),
        },
        (name, ..) => return Err(refused(broker, info, name.unwrap_or_default())),
    };
    let (vhost, name) = vhost_and_user(broker, settings, peer, name);
    let known = broker.authenticate(name, password, peer.is_loopback());
    told(broker, info, name, "PLAIN", known).map(|user| (user, vhost))
}

/// The vhost of a client and its user name. With a certificate the maps of vhosts count more than a user name `VHOST:USER`; without,
/// the user name counts more.
fn vhost_and_user<'a>(broker: &Broker, settings: &Settings, peer: &Peer, name: &'a str) -> (String, &'a str) {
    let split = || name.rsplit_once(':').filter(|(vhost, _)| broker.vhost(vhost).is_some());
    let named = || split().map(|(vhost, user)| (vhost.to_owned(), user));
    let mapped = || mapped_vhost(broker, settings, peer).map(|vhost| (vhost, name));
    let chosen = match peer.certificate_name {
        Some(_) => mapped().or_else(named),
        None => named().or_else(mapped),
    };
    chosen.unwrap_or_else(|| (settings.vhost.clone(), name))
}

/// The vhost that operators have set for the client's certificate, or else for the port that it came to.
fn mapped_vhost(broker: &Broker, settings: &Settings, peer: &Peer) -> Option<String> {
    let maps = settings.vhosts.as_ref()?;
    let certificate = peer.certificate_name.as_deref().map(VhostKey::Certificate);
    let keys = certificate.into_iter().chain([VhostKey::Port(peer.local.port())]);
    keys.into_iter().find_map(|key| maps.vhost(broker, key))
}

/// A client whose certificate has a client id uses that one.
///
/// # Errors
/// It gives another one, or none.
pub(crate) fn check_client_id(connect: &Connect<'_>, peer: &Peer) -> Result<(), End> {
    match peer.certificate_client_id.as_deref() {
        Some(id) if id != connect.client_id => Err(End::new(
            reason::CLIENT_IDENTIFIER_NOT_VALID,
            "the client id is not the one in the certificate",
        )),
        _ => Ok(()),
    }
}

/// Notes that a login was refused.
fn refused(broker: &Broker, info: &ConnectionInfo, name: &str) -> End {
    broker.login_tried(info, name, "PLAIN", LoginOutcome::Refused);
    wrong_login()
}

/// Notes how a login went.
fn told(
    broker: &Broker,
    info: &ConnectionInfo,
    name: &str,
    mechanism: &str,
    known: Option<Arc<User>>,
) -> Result<Arc<User>, End> {
    let Some(user) = known else {
        broker.login_tried(info, name, mechanism, LoginOutcome::Refused);
        return Err(wrong_login());
    };
    broker.login_tried(info, name, mechanism, LoginOutcome::Succeeded);
    Ok(user)
}

fn wrong_login() -> End {
    End::new(reason::BAD_USER_NAME_OR_PASSWORD, "user name or password is wrong")
}

/// A session that is open.
pub(crate) struct Opened {
    /// There was one before.
    pub(crate) session_present: bool,
    pub(crate) sources: Vec<(u32, Arc<Queue>)>,
    pub(crate) retainer: Option<Arc<Retainer>>,
    /// A will of the session that ends with this CONNECT.
    pub(crate) will: Option<GotMessage>,
}

/// Waits for the client id, ends the session of before or goes on with it.
pub(crate) async fn open(
    work: Arc<Work>,
    granted: Call<()>,
    clean_start: bool,
    has_retained_will: bool,
) -> Result<Opened, End> {
    granted.await;
    if clean_start {
        work.check_may_end()?;
    }
    let now_ms = work.settings.clock.wall_ms();
    let marks = {
        let session = (work.principal.vhost.name(), &*work.client_id);
        work.settings.shared.memories.take(session, now_ms, &work.is_late).await
    };
    let clean_start = clean_start || marks.has_ended;
    let mut opened = Opened { session_present: false, sources: Vec::new(), retainer: None, will: None };
    opened.session_present = !clean_start && marks.lasts_until_ms.is_some();
    opened.will = work.take_will().await.filter(|_| clean_start);
    opened.retainer = work.retainer(has_retained_will).await?;
    for token in [AT_MOST_ONCE, AT_LEAST_ONCE] {
        if clean_start {
            work.delete(&work.queue_name(token)).await;
        } else if work.has_queue(token) {
            opened.session_present = true;
            let filters = work.go_on_with(token).await;
            work.with_side(|side| filters.into_iter().for_each(|filter| drop(side.filters.put(filter))));
            let queue = work.attach(token).await?;
            // Not before there is a consumer: the queue might go at once.
            work.set_expiry(&queue).await;
            opened.sources.push((token, queue));
        }
    }
    if opened.session_present && work.expiry_s != ENDS_WITH_CONNECTION {
        share_again(&work, &mut opened.sources).await;
    }
    if opened.session_present {
        work.with_side(|side| side.marks = Seldom::of(Marks { lasts_until_ms: None, ..marks }));
    }
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use wire::mqtt::Properties;

    use super::super::work::ENDS_WITH_CONNECTION;
    use super::*;

    fn connect<'a>(version: Version, clean_start: bool, properties: &'a [Property<'a>]) -> Connect<'a> {
        Connect {
            version,
            clean_start,
            keep_alive_s: 10,
            properties: Properties::of(properties),
            client_id: "c",
            will: None,
            user_name: None,
            password: None,
        }
    }

    fn expiry(version: Version, clean_start: bool, properties: &[Property<'_>]) -> Option<u32> {
        let connect = connect(version, clean_start, properties);
        Wishes::of(&connect, &Settings::default(), String::new()).unwrap().expiry_s
    }

    #[test]
    fn sessions_last_as_long_as_asked_for_within_what_is_allowed() {
        assert_eq!(expiry(Version::V311, true, &[]), ENDS_WITH_CONNECTION);
        assert_eq!(expiry(Version::V311, false, &[]), Some(86_400));
        assert_eq!(expiry(Version::V5, false, &[]), ENDS_WITH_CONNECTION);
        assert_eq!(expiry(Version::V5, true, &[Property::SessionExpiryInterval(7)]), Some(7));
        assert_eq!(
            expiry(Version::V5, true, &[Property::SessionExpiryInterval(NEVER_EXPIRES)]),
            Some(86_400)
        );
        assert_eq!((within(None, None), within(Some(5), None)), (None, Some(5)));
    }

    #[test]
    fn clients_without_a_name_get_one_if_their_session_is_clean() {
        let nameless = |version, clean_start| {
            let connect = Connect { client_id: "", ..connect(version, clean_start, &[]) };
            Wishes::of(&connect, &Settings::default(), "chosen".into())
        };
        assert!(nameless(Version::V311, false).is_err());
        for wishes in [nameless(Version::V311, true), nameless(Version::V5, false)] {
            let wishes = wishes.unwrap();
            assert_eq!((&*wishes.client_id, wishes.is_assigned), ("chosen", true));
        }
    }

    #[test]
    fn a_client_id_must_fit_into_the_name_of_a_queue() {
        let long = "x".repeat(CLIENT_ID_BYTES_MAX + 1);
        let connect = Connect { client_id: &long, ..connect(Version::V5, true, &[]) };
        let refused = Wishes::of(&connect, &Settings::default(), String::new()).unwrap_err();
        assert_eq!(refused.code, reason::CLIENT_IDENTIFIER_NOT_VALID);
    }
}
