//! One life of the broker: opens it, listens, waits until something ends it, closes in order.

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use broker::cluster::NodeName;
use broker::{Broker, BrokerOptions, CloseReason, DefaultObjects, SilentExchange, StartError};
use management::http::HttpListener;
use management::{
    Asked, HTTPS_PROTOCOL, Node, NodeListener, PROMETHEUS_PROTOCOL, PROMETHEUS_TLS_PROTOCOL, StartImport,
};
use net::{Gate, Listener, ListenerOptions};
use platform::profile::{HUGE_BYTES_MIN, has_huge_pieces};
use platform::{Clock, Random, RealClock, RealRandom};
use profiles::Continuous;
use protocols::amqp091::{self, GlobalQos, Settings};
use protocols::{AmqpDoor, Anonymous, Logins, Mechanism, amqp10};
use shovel::Shovels;
use tokio::task::JoinHandle;

use crate::cluster::Joined;
use crate::config::{self, AccessOptions, Durability, NodeOptions, Options, Permit, Switch};
use crate::lives::{Process, Start};
use crate::names::leave_name;
use crate::signals::Signals;
use crate::tls::Certificates;
use crate::{
    cluster, entrances, http, logging, mqtt, node, prometheus, readiness, start_lines, stomp, stream,
};

/// How long clients may take to answer connection.close when the server stops, and the logs to close after that.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// The reason why a broker has ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// A signal or a failure that ends the process.
    Process,
    /// An order that it had to be closed for.
    Order(Asked),
}

fn warn_of_open(dir: &Path) {
    if platform::privacy::is_open_to_all(dir).unwrap_or(false) {
        let dir = dir.display();
        tracing::warn!(
            "all users of this machine can read the data directory with messages and password hashes: chmod o= {dir}"
        );
    }
}

/// Variables name a user for a new folder. A folder that has users already keeps them.
fn warn_of_other_users(broker: &Broker, access: &AccessOptions) {
    let (user, password) = (&access.default_user, access.default_pass.expose().as_bytes());
    if access.first_login_by_variables && broker.authenticate(user, password, true).is_none() {
        tracing::warn!(
            "RABBITMQ_DEFAULT_USER and RABBITMQ_DEFAULT_PASS have no effect: they name the first user of a new data directory without \
             definitions, and user '{user}' is not here, or has another password (warren ctl add_user, warren ctl change_password)"
        );
    }
}

/// Opens the broker, tells that it is ready, and closes it in order when a signal or an operator ends it.
///
/// # Errors
/// It cannot be opened, or cannot listen; or its files cannot be closed.
pub(crate) async fn serve(process: &mut Process, began: Instant) -> anyhow::Result<Ended> {
    let options = process.options.clone();
    let dir = &options.node.data_dir;
    let name = cluster::node_name(&options.cluster)?;
    management::set_node_name(name.as_str());
    let certificates = Certificates::read(&options)?;
    let definitions = crate::definitions::read(&options.node)?;
    let around =
        Around { options: &options, clock: Arc::new(RealClock::new()), random: Arc::new(RealRandom), began };
    let joined = cluster::start(&options, around.clock.clone(), around.random.clone())?.map(Arc::new);
    let mut signals = Signals::new()?;
    let opening = open(dir, broker_options(&options, &name), joined.clone());
    let (opened, early) = match &joined {
        None => (opening.await, None),
        Some(joined) => wait_for_others(process, joined, opening, &mut signals).await,
    };
    let broker = match (opened, early) {
        (Ok(broker), None) => broker,
        (Ok(broker), Some(ended)) => return close(broker, joined, &mut signals).await.map(|()| ended),
        (Err(error), early) => {
            leave(joined).await;
            return early.ok_or(error);
        }
    };
    warn_of_open(dir);
    start_lines::limits(&broker);
    let ended = match prepare(&broker, definitions, options.node.cluster_name.clone()).await {
        Ok(()) => attend(process, &broker, joined.as_deref(), (&around, &certificates), &mut signals).await,
        Err(error) => Err(error),
    };
    logging::publish_on(None);
    profiles::forget_history();
    let closed = close(broker, joined, &mut signals).await;
    ended.and_then(|ended| closed.map(|()| ended))
}

/// Opens the broker of a member, which may wait for the others: commands are answered meanwhile, and may end the wait.
async fn wait_for_others(
    process: &mut Process,
    joined: &Joined,
    opening: impl Future<Output = anyhow::Result<Broker>>,
    signals: &mut Signals,
) -> (anyhow::Result<Broker>, Option<Ended>) {
    process.listen();
    let stop = process.application.stop();
    tokio::pin!(opening);
    let ended = tokio::select! {
        opened = &mut opening => return (opened, None),
        () = signals.come() => stop_at_once("a signal came before the node was ready"),
        () = stop.notified() => Ended::Process,
        asked = process.closing_order(Start::Waits) => Ended::Order(asked),
    };
    joined.give_up();
    (opening.await, Some(ended))
}

/// Where clients of AMQP come in.
fn amqp_entrances(options: &Options, certificates: &Certificates) -> entrances::Entrances {
    let network = &options.network;
    let plain = entrances::plain(options, network.proxy_protocol);
    entrances::sockets(&plain, [&network.listeners, &network.tls.listeners], certificates)
}

/// Lets clients in until something ends that.
async fn attend(
    process: &mut Process,
    broker: &Broker,
    joined: Option<&Joined>,
    (around, certificates): (&Around<'_>, &Certificates),
    signals: &mut Signals,
) -> anyhow::Result<Ended> {
    let Around { options, clock, random, began } = around;
    warn_of_other_users(broker, &options.access);
    broker.read_parameters_with(management::value_of_event);
    let settings = Arc::new(settings(options, broker));
    profile(broker, &options.node);
    let doors = doors(options, broker, &settings);
    let (mut gates, mut accepting) = (Vec::new(), Vec::new());
    let mut clients = Accepting { gates: &mut gates, tasks: &mut accepting };
    let addresses = around.clients(amqp_entrances(options, certificates), &doors, &mut clients)?;
    let door = mqtt::door(options, broker, clock);
    let mqtt = around.clients(mqtt::entrances(options, certificates), &door, &mut clients)?;
    let door = stomp::door(options, broker);
    let stomp = around.clients(stomp::entrances(options, certificates), &door, &mut clients)?;
    let door = stream::door(options, broker, &settings);
    let streams = around.clients(stream::entrances(options, certificates), &door, &mut clients)?;
    let https = http::bind_encrypted(&options.management.tls, certificates.management.as_ref())?;
    let (http, http_address) = http::bind(&options.management)?.unzip();
    let mut node = node::describe(options, &addresses, gates, http_address);
    node.stop = process.application.stop();
    node.listeners.extend(mqtt.iter().map(mqtt::shown));
    node.listeners.extend(stomp.iter().map(stomp::shown));
    node.listeners.extend(streams.iter().map(stream::shown));
    stream::tell_others(broker, &door.settings, &streams);
    node::show_links(&mut node, joined);
    let shovels = crate::shovels::start(broker, &settings, &options.shovels, clock.clone(), random.clone());
    node.shovels = Some(shovels.clone());
    node.certificates = certificates.all().cloned().collect();
    accepting.append(&mut serve_metrics(options, certificates, broker, &mut node)?);
    let (https, https_address) = https.unzip();
    if let Some(address) = https_address {
        let purpose = "HTTP API over TLS (HTTPS)";
        node.listeners.push(NodeListener { address, protocol: HTTPS_PROTOCOL, purpose });
    }
    let listeners: Vec<HttpListener> = http.into_iter().chain(https).collect();
    let app = http::app(broker.clone(), node.clone(), options.management.clone());
    if !listeners.is_empty() {
        accepting.push(tokio::spawn(http::serve(listeners, app.clone())));
    }
    accepting.push(tokio::spawn(certificates.clone().watch(broker.clone())));
    let dir = &options.node.data_dir;
    let name = cluster::node_name(&options.cluster)?;
    leave_name(dir, cluster::told_name(&options.cluster, &name));
    start_lines::complete(&node, *began);
    let stop = node.stop.clone();
    management::answer_other_nodes(&app);
    process.application.opened(broker.clone(), node);
    // Before the ready line: scripts go on with `warren ctl`.
    process.listen();
    announce(&addresses, [&mqtt, &stomp, &streams], http_address, https_address, options)?;
    process.ready();
    let ended = tokio::select! {
        () = signals.come() => Ended::Process,
        () = stop.notified() => Ended::Process,
        asked = process.closing_order(Start::IsDone) => Ended::Order(asked),
    };
    tracing::info!("stopping: closing connections");
    process.application.closed();
    accepting.iter().for_each(JoinHandle::abort);
    process.queues = Some(broker.vhosts().iter().map(|vhost| vhost.queue_count()).sum());
    end(&shovels, signals).await;
    drain(broker, signals).await;
    Ok(ended)
}

/// Ends what was begun for the links of a broker that did not open.
async fn leave(joined: Option<Arc<Joined>>) {
    let Some(joined) = joined else { return };
    joined.leave().await;
    // It fails when the runtime ends, and then nobody waits.
    let _ended = tokio::task::spawn_blocking(move || joined.stop()).await;
}

/// Tells the other nodes and closes the logs; a second signal or ten seconds end the process without it.
async fn close(broker: Broker, joined: Option<Arc<Joined>>, signals: &mut Signals) -> anyhow::Result<()> {
    if let Some(joined) = &joined {
        joined.leave().await;
    }
    let closing = tokio::task::spawn_blocking(move || {
        broker.shutdown();
        if let Some(joined) = joined {
            joined.stop();
        }
    });
    tokio::select! {
        closed = closing => closed.context("shutting down")?,
        () = tokio::time::sleep(DRAIN_TIMEOUT) => stop_at_once("the logs could not be closed in time"),
        () = signals.come() => stop_at_once("another signal has come"),
    }
    tracing::info!("stopped");
    Ok(())
}

/// Opens the data directory; in a cluster as soon as the node is ready.
async fn open(dir: &Path, options: BrokerOptions, joined: Option<Arc<Joined>>) -> anyhow::Result<Broker> {
    let opened = match joined {
        None => Broker::open(dir, options),
        Some(joined) => {
            let dir = dir.to_owned();
            tokio::task::spawn_blocking(move || joined.open(&dir, options)).await?
        }
    };
    opened.map_err(|error| cannot_open(dir, &error))
}

/// The settings that a broker is opened with.
struct Around<'a> {
    options: &'a Options,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    began: Instant,
}

/// The handle that closes listeners and their tasks.
struct Accepting<'a> {
    gates: &'a mut Vec<Gate>,
    tasks: &'a mut Vec<JoinHandle<()>>,
}

impl Around<'_> {
    /// Binds the listeners of one protocol and accepts on them.
    fn clients<D: protocols::Door + Clone>(
        &self,
        entrances: entrances::Entrances,
        door: &D,
        accepting: &mut Accepting<'_>,
    ) -> anyhow::Result<Vec<Bound>> {
        let mut addresses = Vec::new();
        for (listener, endpoint) in entrances {
            let candidates = listener.candidates();
            let options = listener_options(&self.options.network.tcp);
            let bound = Listener::bind(&candidates, options).with_context(|| {
                format!("cannot listen on {candidates:?}; choose another address with --listen ADDRESS:PORT")
            })?;
            addresses.push(Bound {
                address: bound.local_address()?,
                is_encrypted: endpoint.tls.is_some(),
                is_web_socket: endpoint.web_socket.is_some(),
            });
            accepting.gates.push(bound.gate());
            let accept = bound.accept(endpoint, door.clone(), self.clock.clone(), self.random.clone());
            accepting.tasks.push(tokio::spawn(accept));
        }
        Ok(addresses)
    }
}

/// Serves the pages of metrics, in clear text and encrypted, as far as they are configured.
fn serve_metrics(
    options: &Options,
    certificates: &Certificates,
    broker: &Broker,
    node: &mut Node,
) -> anyhow::Result<Vec<JoinHandle<()>>> {
    let plain = prometheus::bind(&options.prometheus)?;
    let encrypted = http::bind_encrypted(&options.prometheus.tls, certificates.prometheus.as_ref())?;
    let mut bound = Vec::new();
    for (found, protocol, purpose) in [
        (plain, PROMETHEUS_PROTOCOL, "Prometheus exporter API over HTTP"),
        (encrypted, PROMETHEUS_TLS_PROTOCOL, "Prometheus exporter API over TLS (HTTPS)"),
    ] {
        if let Some((listener, address)) = found {
            node.listeners.push(NodeListener { address, protocol, purpose });
            bound.push(listener);
        }
    }
    let serve = |listener| {
        tokio::spawn(prometheus::serve(listener, broker.clone(), node.clone(), options.prometheus.clone()))
    };
    Ok(bound.into_iter().map(serve).collect())
}

/// A listener of clients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    /// Where it is bound.
    pub(crate) address: SocketAddr,
    /// Its connections are.
    pub(crate) is_encrypted: bool,
    /// So are they.
    pub(crate) is_web_socket: bool,
}

/// Socket options of listeners.
fn listener_options(tcp: &config::TcpOptions) -> ListenerOptions {
    ListenerOptions {
        backlog: i32::try_from(tcp.backlog).unwrap_or(i32::MAX),
        nodelay: tcp.nodelay == Switch::On,
        keepalive: tcp.keepalive == Switch::On,
        send_buffer_bytes: tcp.send_buffer_bytes.map(|bytes| bytes as usize),
        receive_buffer_bytes: tcp.receive_buffer_bytes.map(|bytes| bytes as usize),
    }
}

/// Records and imports definitions before anybody can connect.
async fn prepare(
    broker: &Broker,
    definitions: Option<StartImport>,
    name: Option<String>,
) -> anyhow::Result<()> {
    let broker = broker.clone();
    let prepared = tokio::task::spawn_blocking(move || {
        let done = definitions
            .map_or(Ok(Vec::new()), |start| management::import_at_start(&broker, &start))
            .and_then(|skipped| management::name_cluster(&broker, name.as_deref()).map(|()| skipped));
        if done.is_ok() {
            announce_itself(&broker);
        }
        done
    });
    let skipped =
        prepared.await?.map_err(|problem| anyhow::anyhow!("cannot import definitions: {problem}"))?;
    skipped.iter().for_each(|line| tracing::warn!("{line}"));
    Ok(())
}

/// Begins the history of profiles, if it is to be kept from the start.
fn profile(broker: &Broker, options: &NodeOptions) {
    profiles::set_slow_ms(options.profile_slow_ms);
    if options.profile_continuous == Switch::On
        && let Err(refused) = profiles::set_continuous(broker, Continuous::On)
    {
        tracing::warn!("no history of profiles is kept: {refused}");
    }
}

/// Exchanges through which the broker speaks itself, once all vhosts are there.
fn announce_itself(broker: &Broker) {
    if let Err(refused) = broker.declare_event_exchange() {
        tracing::warn!(?refused, "no exchange of events");
    }
    match broker.declare_log_exchange() {
        Ok(exchange) => logging::publish_on(exchange),
        Err(refused) => tracing::warn!(?refused, "no exchange of log lines"),
    }
    for SilentExchange { vhost, exchange, bindings, key } in broker.silent_exchanges() {
        tracing::warn!(
            "exchange '{exchange}' in vhost '{vhost}' has {bindings} binding(s) from an earlier configuration, and nothing is published \
             there: {key} is off, or for another vhost"
        );
    }
}

/// Why the broker does not open its data directory, and what to do where that is known.
fn cannot_open(dir: &Path, error: &StartError) -> anyhow::Error {
    let what = format!("cannot open the data directory {}", dir.display());
    match error {
        StartError::InUse(_) => {
            anyhow!("{what}: {error}; stop that server, or choose another folder with --data-dir")
        }
        StartError::FirstPassword(_) => anyhow!(
            "the data directory {} is new, and its first users cannot be made: {error}; set another password (default_pass, \
             default_users.NAME.password), or change the rule (credential_validator.*)",
            dir.display()
        ),
        StartError::Storage(_) if dir.is_file() => {
            anyhow!("{what}: it is a file; choose a folder with --data-dir")
        }
        _ => anyhow!(
            "{what}: {error}; `warren diag --verify {}` lists all that is wrong, `warren diag salvage` copies what can be read into a new directory",
            dir.display()
        ),
    }
}

/// The one line on standard output that scripts wait for; a person at a terminal is told what to try.
fn announce(
    bound: &[Bound],
    [mqtt, stomp, streams]: [&[Bound]; 3],
    http: Option<SocketAddr>,
    https: Option<SocketAddr>,
    options: &Options,
) -> anyhow::Result<()> {
    let dir = std::fs::canonicalize(&options.node.data_dir)?;
    let pid = std::process::id();
    let texts_of = |listeners: &[Bound], is_encrypted: bool, is_web_socket: bool| -> Vec<String> {
        listeners
            .iter()
            .filter(|one| (one.is_encrypted, one.is_web_socket) == (is_encrypted, is_web_socket))
            .map(|one| one.address.to_string())
            .collect()
    };
    let (addresses, encrypted) = (texts_of(bound, false, false), texts_of(bound, true, false));
    let amqp = if addresses.is_empty() { "none".to_owned() } else { addresses.join(",") };
    let mut further = String::new();
    if !encrypted.is_empty() {
        further.push_str(&format!(" amqps={}", encrypted.join(",")));
    }
    for (name, from, is_encrypted, is_web_socket) in [
        ("mqtt", mqtt, false, false),
        ("mqtts", mqtt, true, false),
        ("mqtt-ws", mqtt, false, true),
        ("mqtt-wss", mqtt, true, true),
        ("stomp", stomp, false, false),
        ("stomps", stomp, true, false),
        ("stomp-ws", stomp, false, true),
        ("stomp-wss", stomp, true, true),
        ("stream", streams, false, false),
        ("streams", streams, true, false),
    ] {
        let found = texts_of(from, is_encrypted, is_web_socket);
        if !found.is_empty() {
            further.push_str(&format!(" {name}={}", found.join(",")));
        }
    }
    if let Some(address) = https {
        further.push_str(&format!(" https={address}"));
    }
    let mut out = std::io::stdout().lock();
    let api = http.map_or_else(|| "none".to_owned(), |address| address.to_string());
    writeln!(out, "ready amqp={amqp} http={api}{further} data={} pid={pid}", dir.display())?;
    if out.is_terminal() {
        let program = std::env::current_exe()?;
        let (program, dir) = (program.display(), dir.display());
        for address in addresses {
            writeln!(out, "  Clients:  amqp://{}@{address}", login(options))?;
        }
        for address in encrypted {
            writeln!(out, "  Clients:  amqps://{}@{address}", login(options))?;
        }
        if let Some(address) = https {
            writeln!(out, "  Web UI:   https://{address}/")?;
        }
        if let Some(address) = http {
            writeln!(out, "  Web UI:   http://{address}/ (its HTTP API is RabbitMQ's: /api/)")?;
        }
        writeln!(out, "  Try:      {program} ctl --data-dir {dir} status\n  Stop:     Ctrl-C")?;
    }
    out.flush()?;
    if let Err(error) = readiness::tell() {
        tracing::warn!("the service manager was not told that the server is ready: {error:#}");
    }
    Ok(())
}

/// The first user, with a password that is no secret or with none.
fn login(options: &Options) -> String {
    let access = &options.access;
    let is_public = access.default_user == "guest" && access.default_pass.expose() == "guest";
    if is_public { "guest:guest".into() } else { access.default_user.clone() }
}

/// Ends the process without waiting for anything: durable data stay, as after a kill.
fn stop_at_once(why: &str) -> ! {
    tracing::warn!("stopping at once: {why}");
    std::process::exit(1)
}

/// Shovels settle what is on their way; a second signal or ten seconds end the wait.
async fn end(shovels: &Shovels, signals: &mut Signals) {
    tokio::select! {
        () = shovels.stop() => {}
        () = tokio::time::sleep(DRAIN_TIMEOUT) => tracing::warn!("some shovels did not end; stopping without them"),
        () = signals.come() => tracing::warn!("second signal: stopping without shovels"),
    }
}

/// Closes all connections with 320; a second signal or ten seconds end the wait.
async fn drain(broker: &Broker, signals: &mut Signals) {
    broker.close_all_connections(&CloseReason::Shutdown);
    let gone = async {
        while broker.connections().count() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        () = gone => {}
        () = tokio::time::sleep(DRAIN_TIMEOUT) => tracing::warn!("some clients did not answer; stopping without them"),
        () = signals.come() => tracing::warn!("second signal: stopping at once"),
    }
}

/// A node with less than this before publishers are blocked has little memory.
const LITTLE_MEMORY_BYTES: u64 = 1 << 30;

/// Pieces of memory that go back to the system by themselves while there is little: larger than blocks of messages, which come and go all the
/// time.
const LARGE_BYTES: u32 = 512 << 10;

/// The same while there is enough, from when there was little, or a piece as large: those that the allocator asks huge pages for, which must not
/// be left to small pieces.
const LARGE_BYTES_USUAL: u32 = HUGE_BYTES_MIN as u32;

fn broker_options(options: &Options, name: &NodeName) -> BrokerOptions {
    let access = &options.access;
    BrokerOptions {
        cluster_name: name.to_string(),
        node_name: name.to_string(),
        message_size_max: options.limits.message_bytes_max,
        fsync: options.node.durability == Durability::Fsync,
        defaults: (!options.node.imports_definitions()).then(|| DefaultObjects {
            vhost: access.default_vhost.clone(),
            user: access.default_user.clone(),
            password: access.default_pass.expose().to_owned(),
            tags: access.default_user_tags.clone(),
            permissions: [
                access.default_permissions.configure.clone(),
                access.default_permissions.write.clone(),
                access.default_permissions.read.clone(),
            ],
        }),
        password_rule: access.password_rule.to_broker(),
        vhost_seeds: options.seeds.clone(),
        loopback_users: access.loopback_users.clone(),
        default_queue_type: options.queues.default_queue_type.name().into(),
        placement: options.queues.placement,
        consumer_disconnected_timeout_ms: options.queues.consumer_disconnected_timeout_ms,
        reconciliation: options.queues.reconciliation,
        transient_queues: options.queues.transient_nonexclusive == Permit::Permitted,
        amqp_address_v1: options.queues.amqp_address_v1 == Permit::Permitted,
        relaxed_redeclaration: options.queues.relaxed_redeclaration == Permit::Permitted,
        queues_max: options.limits.queues_max,
        exchanges_max: options.limits.exchanges_max,
        vhosts_max: options.limits.vhosts_max,
        connections_max: options.limits.connections_max,
        memory_limit: options.alarms.memory_limit(),
        disk_limit: options.alarms.disk,
        channels_max: options.limits.channels_max,
        log_exchange_vhost: (options.log.exchange.switch == Switch::On).then(|| access.default_vhost.clone()),
        event_exchange_vhost: (options.node.event_exchange == Switch::On)
            .then(|| options.node.event_exchange_vhost.clone()),
        ..BrokerOptions::default()
    }
}

fn settings(options: &Options, broker: &Broker) -> Settings {
    let (network, access) = (&options.network, &options.access);
    let mechanism = |one: &config::Mechanism| match one {
        config::Mechanism::Plain => Mechanism::Plain,
        config::Mechanism::AmqPlain => Mechanism::AmqPlain,
        config::Mechanism::Anonymous => Mechanism::Anonymous,
        config::Mechanism::External => Mechanism::External,
    };
    let anonymous = access
        .anonymous_login_user
        .clone()
        .map(|user| Anonymous { user, password: access.anonymous_login_pass.expose().to_owned() });
    let settings = Settings {
        heartbeat_s: network.heartbeat_s,
        frame_size_max: network.frame_size_max,
        frame_size_min: network.frame_size_negotiable_min,
        initial_frame_size_max: network.frame_size_initial_max,
        channel_max: network.channels_per_connection_max,
        handshake_timeout_ms: network.handshake_timeout_ms.unwrap_or(u64::MAX),
        consumer_timeout_ms: Some(options.queues.consumer_timeout_ms),
        consumers_per_channel_max: options
            .limits
            .consumers_per_channel_max
            .map(|max| usize::try_from(max).unwrap_or(usize::MAX)),
        logins: Logins { mechanisms: access.mechanisms.iter().map(mechanism).collect(), anonymous },
        global_qos: match options.queues.global_qos {
            Permit::Permitted => GlobalQos::Honoured,
            Permit::Denied => GlobalQos::PerConsumer,
        },
        ..Settings::default()
    };
    share_memory(broker, &settings);
    settings
}

/// The door of AMQP: one port for both protocols, with the same limits.
fn doors(options: &Options, broker: &Broker, settings: &Arc<Settings>) -> AmqpDoor {
    let of_amqp10 = amqp10::Settings {
        heartbeat_s: settings.heartbeat_s,
        frame_size_max: if settings.frame_size_max == 0 { 131_072 } else { settings.frame_size_max },
        initial_frame_size_max: settings.initial_frame_size_max,
        handshake_timeout_ms: settings.handshake_timeout_ms,
        close_timeout_ms: settings.close_timeout_ms,
        consumer_timeout_ms: settings.consumer_timeout_ms,
        default_vhost: options.access.default_vhost.clone(),
        unfinished: settings.unfinished.clone(),
        logins: settings.logins.clone(),
        product: settings.product.clone(),
        ..amqp10::Settings::default()
    };
    AmqpDoor {
        amqp091: amqp091::Door { broker: broker.clone(), settings: settings.clone() },
        amqp10: amqp10::Door { broker: broker.clone(), settings: Arc::new(of_amqp10) },
    }
}

/// Memory for incomplete messages and open transactions of all clients, and as much again for large deliveries on their way: a
/// quarter of the memory threshold, also when that moves. Bytes that clients leave lying never raise the alarm alone. Below
/// [`LITTLE_MEMORY_BYTES`] large bodies leave no holes in memory either.
fn share_memory(broker: &Broker, settings: &Settings) {
    const BYTES_MIN: u64 = 16 << 20;
    const BYTES_MAX: u64 = 1 << 30;
    let budgets = [settings.unfinished.clone(), settings.large_deliveries.clone()];
    let set_bytes = AtomicU32::new(0);
    broker.alarms().follow_memory_limit(move |limit_bytes| {
        let set = set_bytes.load(Ordering::Relaxed);
        let wanted = match limit_bytes < LITTLE_MEMORY_BYTES {
            true => LARGE_BYTES,
            false if set > 0 || has_huge_pieces() => LARGE_BYTES_USUAL,
            false => 0,
        };
        if wanted != set {
            set_bytes.store(wanted, Ordering::Relaxed);
            platform::memory::map_large_pieces(wanted);
        }
        let bytes_max = (limit_bytes / 4).clamp(BYTES_MIN, BYTES_MAX);
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        budgets.iter().for_each(|budget| budget.set_bytes_max(bytes_max));
    });
}
