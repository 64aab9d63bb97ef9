//! Opening a data directory: lock, metadata, messages, runtime tables, threads.

mod missing;
#[cfg(test)]
mod sealed_tests;
#[cfg(test)]
pub(crate) mod tests;
mod unnamed;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use commitlog::{Log, LogError, LogOptions, LogWriter, Recovered, SegmentError, Segments, SyncPolicy};
use metadata::{ExchangeRecord, FIRST_NODE, VhostMetadata};
use parking_lot::{Mutex, RwLock};
use queues::{RecordKind, Recovering};
use routing::{Duty, ExchangeType};
use stdx::QueueId;

use crate::actor::{INTERNAL, on_behalf_of};
use crate::alarms::{Alarms, Sources, Woken};
use crate::announcements::events::Announcer;
use crate::announcements::outlet::THREAD_NAME;
use crate::bodies::{Bodies, BodiesFound};
use crate::broker::{Broker, Inner};
use crate::call::{Call, Commit};
use crate::cell::Queue;
use crate::checkpointer::notes::Checkpointer;
use crate::cluster::Cluster;
use crate::cluster_name::ClusterName;
use crate::connections::{ConnectionIds, Connections};
use crate::control::committing::Committing;
use crate::control::follow::{Contents, start_all_clocks, store_id};
use crate::control::long_changes::LongChanges;
use crate::control::proposals::Proposals;
use crate::control::users::new_vhost_metadata;
use crate::control::writer::Writer;
use crate::driven::Driver;
use crate::folder_lock::lock_folder;
use crate::foundation::Foundation;
use crate::log_places::pins::Pins;
use crate::open_errors::StartError;
use crate::options::BrokerOptions;
use crate::refused::Refused;
use crate::seen_files::SeenFiles;
use crate::services::motion::Motion;
use crate::services::{ControlPlane, Parts};
use crate::streams::Streams;
use crate::{bodies, seen_files};

/// A recovered broker in which nothing moves yet.
struct Opened {
    broker: Broker,
    metadata_log: LogWriter,
    message_log: LogWriter,
    is_known: bool,
}

/// See [`Broker::open`].
pub(crate) fn open(
    foundation: &Foundation,
    data_dir: &Path,
    options: BrokerOptions,
    cluster: Option<&Cluster>,
) -> Result<Broker, StartError> {
    let Opened { broker, metadata_log, message_log, is_known } =
        recover(foundation, data_dir, options, Motion::Threads, cluster)?;
    broker.0.services.log.start(message_log).map_err(StartError::storage)?;
    broker.0.writer.lock().start(metadata_log).map_err(StartError::storage)?;
    start_threads(&broker.0).map_err(StartError::storage)?;
    if let Some(cluster) = cluster {
        cluster.attach(&broker.0);
    }
    if !is_known {
        created(create_defaults(&broker).map(Call::wait))?;
    }
    Ok(broker)
}

/// See [`Broker::open_driven`].
pub(crate) fn open_driven(
    foundation: &Foundation,
    data_dir: &Path,
    options: BrokerOptions,
) -> Result<(Broker, Driver), StartError> {
    let Opened { broker, metadata_log, message_log, is_known } =
        recover(foundation, data_dir, options, Motion::Steps, None)?;
    let mut driver = Driver::new(&broker, metadata_log, message_log);
    if !is_known {
        let defaults = create_defaults(&broker);
        driver.run_until_idle();
        created(defaults.map(|mut call| call.try_take().unwrap_or(Err(Refused::Unavailable))))?;
    }
    Ok((broker, driver))
}

fn recover(
    foundation: &Foundation,
    data_dir: &Path,
    options: BrokerOptions,
    motion: Motion,
    cluster: Option<&Cluster>,
) -> Result<Opened, StartError> {
    let Foundation { disk, clock, commits, .. } = foundation;
    let lock = cluster.map_or_else(|| lock_folder(&**disk, data_dir).map(Some), |_| Ok(None))?;
    let connections = Arc::new(Connections::default());
    let checkpointer = Checkpointer::default();
    let announcer = Arc::new(Announcer::new(&options, clock.clone()));
    let alarms = alarms(foundation, data_dir, &options, &connections, &announcer, &checkpointer);
    alarms.make_room_to_start();
    let committing = Arc::new(Committing::new(alarms.clone()));
    // Seconds since the epoch grow from start to start.
    let seconds = (clock.wall_ms() / 1000) as u32;
    let (own_node, life) = cluster.and_then(Cluster::own).unwrap_or((FIRST_NODE, seconds));
    let (mut writer, metadata_log, is_known) =
        open_metadata(foundation, data_dir, &committing, (life, cluster))?;
    if !is_known {
        options.check_first_passwords().map_err(StartError::FirstPassword)?;
    }
    let (log, message_log, recovered) =
        open_log(foundation, &data_dir.join("log"), &options).map_err(StartError::storage)?;
    log.write_after(writer.names());
    missing::check_known(is_known || cluster.is_some(), recovered.end().0)?;
    let (mut contents, bodies, highest_logged) = read_messages(recovered, &writer)?;
    let segments = open_segments(foundation, &data_dir.join("segments")).map_err(StartError::storage)?;
    let lost = missing::lost_blocks(&segments, &log, &mut contents, &bodies).map_err(StartError::storage)?;
    let highest_stored = drop_unneeded(&segments, &log, &contents, &bodies)?;
    // A power cut may have taken a declaration and left messages: they are not for the next queue that is declared.
    writer.state.pass_over_ids(highest_logged.max(highest_stored));
    let parts = Parts {
        log,
        segments: Arc::new(segments),
        streams: open_streams(foundation, data_dir, (options.fsync, motion), &writer)?,
        bodies: Bodies::new(foundation.sizes.bodies, alarms.shares.clone(), bodies),
        alarms,
        checkpointer,
        seen_files: SeenFiles::new(disk.clone(), seen_files::dir_in(data_dir)),
        announcer,
        motion,
        cluster: cluster.cloned(),
    };
    let services = parts.start(foundation, &options).map_err(StartError::storage)?;
    let inner = Arc::new(Inner {
        cluster_name: ClusterName::new(&options.cluster_name),
        global_parameters: RwLock::default(),
        options,
        services,
        vhosts: RwLock::default(),
        users: RwLock::default(),
        connections,
        retired: Mutex::default(),
        writer: Mutex::new(writer),
        committing,
        proposals: Proposals::new(*commits),
        deletions: Arc::default(),
        long_changes: LongChanges::default(),
        connection_ids: ConnectionIds::new(own_node, life),
        cluster: cluster.cloned(),
        threads: Mutex::default(),
        lock: Mutex::new(lock),
    });
    let control: Arc<dyn ControlPlane> = inner.clone();
    assert!(inner.services.control.set(Arc::downgrade(&control)).is_ok(), "services belong to one broker");
    bring_up_queues(&inner, contents, &lost);
    Ok(Opened { broker: Broker(inner), metadata_log, message_log, is_known })
}

/// The metadata of a node alone are in its folder; those of a cluster come from its group.
fn open_metadata(
    foundation: &Foundation,
    data_dir: &Path,
    committing: &Arc<Committing>,
    (life, cluster): (u32, Option<&Cluster>),
) -> Result<(Writer, LogWriter, bool), StartError> {
    let (disk, dir) = (&*foundation.disk, data_dir.join("meta"));
    if let Some(cluster) = cluster {
        let own = cluster.own().map_or(FIRST_NODE, |(number, _)| number);
        return Writer::in_cluster(foundation, &dir, committing, (cluster.take_state(), own));
    }
    if Cluster::is_member(disk, data_dir)? {
        return Err(StartError::Metadata(
            "the data directory is that of a member of a cluster; start it with the options of the cluster, or reset it".into(),
        ));
    }
    let folders = missing::Parts::look(disk, data_dir)?;
    folders.check_metadata()?;
    unnamed::check(disk, data_dir)?;
    let opened = Writer::open(foundation, &dir, committing, life)?;
    if opened.2 {
        folders.check_messages()?;
    }
    Ok(opened)
}

/// Nothing is measured yet.
fn alarms(
    foundation: &Foundation,
    data_dir: &Path,
    options: &BrokerOptions,
    connections: &Arc<Connections>,
    announcer: &Arc<Announcer>,
    checkpointer: &Checkpointer,
) -> Arc<Alarms> {
    let sources = Sources {
        memory: foundation.memory.clone(),
        disk: foundation.disk.clone(),
        data_dir: data_dir.to_owned(),
        clock: foundation.clock.clone(),
        reserve_bytes_max: foundation.sizes.reserve_bytes_max,
    };
    let limits = (options.memory_limit, options.disk_limit);
    let told: (Arc<dyn Woken>, _) = (connections.clone(), announcer.clone());
    Arc::new(Alarms::new(limits, sources, told, checkpointer.clone()))
}

/// All that the metadata tell of, with what was read for each queue; those of which blocks are lost are out of service.
fn bring_up_queues(inner: &Inner, contents: Contents, lost: &HashMap<QueueId, missing::Lost>) {
    let queues = inner.follow_all(&inner.writer.lock().state, contents);
    missing::close_queues(&queues, lost);
    Queue::open_streams(&inner.services, &queues);
    inner.services.bodies.recovered();
    // Before any queue has a turn: letters would not know that there is hardly room for them.
    inner.services.alarms.look();
    start_all_clocks(&queues);
    let services = &inner.services;
    services.seen_files.remove_unknown();
    // Files that earlier lives filled go like those of this one: lives may be too short to fill files of their own.
    services.log.sealed_files().iter().for_each(|file| services.checkpointer.sealed(file.end));
}

fn open_segments(foundation: &Foundation, dir: &Path) -> Result<Segments, SegmentError> {
    Segments::open(foundation.disk.clone(), dir, foundation.sizes.segment_options())
}

fn open_streams(
    foundation: &Foundation,
    data_dir: &Path,
    (fsync, motion): (bool, Motion),
    writer: &Writer,
) -> Result<Streams, StartError> {
    let (disk, clock) = (foundation.disk.clone(), foundation.clock.clone());
    let how = (fsync, motion == Motion::Threads);
    Streams::start((disk, clock), data_dir, how, writer.names()).map_err(StartError::storage)
}

fn open_log(
    foundation: &Foundation,
    dir: &Path,
    options: &BrokerOptions,
) -> Result<(Log, LogWriter, Recovered), LogError> {
    let sync = if options.fsync { SyncPolicy::Fsync } else { SyncPolicy::Os };
    let log_options = LogOptions { sync, ..foundation.sizes.log_options() };
    Log::open_driven(foundation.disk.clone(), dir, log_options)
}

/// Whether messages wait at the exchange, in a queue of its own.
pub(crate) fn has_store(exchange: &ExchangeRecord) -> bool {
    ExchangeType::parse(exchange.kind.as_bytes(), exchange.arguments.as_table())
        .is_ok_and(|declared| declared.duty == Duty::Delay)
}

/// Folds the message log into queues that still exist. Tells the highest identifier in it, too.
fn read_messages(
    mut recovered: Recovered,
    writer: &Writer,
) -> Result<(Contents, BodiesFound, u64), StartError> {
    let mut highest = 0;
    let mut contents: Contents = HashMap::new();
    let mut bodies = BodiesFound::default();
    let mut known: HashSet<QueueId, foldhash::fast::RandomState> = HashSet::default();
    let (ids_end, mut unnamed) = (writer.state.durable_ids_end(), BTreeSet::new());
    for vhost in writer.state.vhosts() {
        known.extend(vhost.queues().into_iter().map(|queue| queue.id));
        let exchanges = vhost.exchanges().into_iter();
        known.extend(exchanges.filter(|exchange| has_store(exchange)).map(|exchange| store_id(exchange)));
    }
    while let Some(record) = recovered.next_record().map_err(StartError::storage)? {
        if record.stream == bodies::STREAM {
            bodies.apply(record.kind, record.payload, &record.range()).map_err(|error| {
                StartError::Storage(format!(
                    "a record of bodies before position {} of the message log cannot be used: {error}",
                    record.position.0
                ))
            })?;
            continue;
        }
        let id = QueueId(record.stream);
        highest = if metadata::is_durable_id(record.stream) { highest.max(record.stream) } else { highest };
        if !known.contains(&id) {
            if metadata::is_durable_id(id.0) && id.0 >= ids_end {
                unnamed.insert(id.0);
            }
            continue;
        }
        let queue = contents.entry(id).or_default();
        let kind = RecordKind::from_code(record.kind)
            .ok_or_else(|| {
                StartError::Storage(format!(
                    "the message log holds records of kind {}, which this version does not read: another version of Warren wrote the data directory; let that version drain its queues first",
                    record.kind
                ))
            })?;
        queue.apply(kind, record.payload, &record.range()).map_err(|error| {
            StartError::Storage(format!(
                "a record of queue {} before position {} of the message log cannot be used: {error}",
                record.stream, record.position.0
            ))
        })?;
    }
    if recovered.bytes_cut() > 0 {
        tracing::warn!(
            bytes = recovered.bytes_cut(),
            "an unfinished write was cut off the end of the message log"
        );
    }
    unnamed::tell(&unnamed);
    let named: HashSet<u64, foldhash::fast::RandomState> =
        contents.values().flat_map(Recovering::bodies).map(|body| body.id).collect();
    let id_max = contents.values().map(Recovering::body_id_max).max().unwrap_or(0);
    bodies.id_max = bodies.id_max.max(id_max);
    bodies.retain(|id| named.contains(&id));
    Ok((contents, bodies, highest))
}

/// Deletes kept log files and segments that no queue refers to: transient backlogs of an earlier life, deleted queues. Tells the
/// highest durable identifier that any segment was written for.
fn drop_unneeded(
    segments: &Segments,
    log: &Log,
    contents: &Contents,
    bodies: &BodiesFound,
) -> Result<u64, StartError> {
    drop_unread(log, contents)?;
    let mut highest = 0;
    let has_bodies = bodies.segments().next().is_some();
    let needed = |stream: u64| {
        let is_queue =
            || contents.get(&QueueId(stream)).is_some_and(|queue| queue.segments().next().is_some());
        if stream == bodies::STREAM { has_bodies } else { is_queue() }
    };
    let look = |stream: u64| {
        highest = if metadata::is_durable_id(stream) { highest.max(stream) } else { highest };
        needed(stream)
    };
    segments.retain(look).map_err(StartError::storage)?;
    let mut kept: Vec<_> = contents.iter().filter(|(id, _)| needed(id.0)).collect();
    kept.sort_unstable_by_key(|(id, _)| **id);
    for (id, queue) in kept {
        keep_segments(segments, id.0, &queue.segments().collect())?;
    }
    keep_segments(segments, bodies::STREAM, &bodies.segments().collect())?;
    Ok(highest)
}

/// Deletes the other segments of a stream.
fn keep_segments(segments: &Segments, stream: u64, kept: &HashSet<u64>) -> Result<(), StartError> {
    for segment in segments.segments_of(stream) {
        if !kept.contains(&segment) {
            segments.delete_segment(stream, segment).map_err(StartError::storage)?;
        }
    }
    Ok(())
}

/// Deletes kept files of the log in which no queue has a block.
fn drop_unread(log: &Log, contents: &Contents) -> Result<(), StartError> {
    let mut pins = Pins::of(log.kept_files());
    contents.values().flat_map(|queue| queue.log_ranges()).for_each(|range| pins.add(range.into()));
    let mut unread = pins.files().filter(|(_, need)| need.bytes == 0);
    unread.try_for_each(|(file, _)| log.remove_kept(file.start)).map_err(StartError::storage)
}

fn start_threads(inner: &Arc<Inner>) -> std::io::Result<()> {
    let weak = Arc::downgrade(inner);
    let services = inner.services.clone();
    let background = platform::thread::spawn_or_abort("background", move || {
        let gone = |queue: Arc<Queue>, reply| {
            if let Some(inner) = weak.upgrade() {
                inner.queue_gone(queue, reply);
            }
        };
        services.background.run(&*services.clock, gone, &services.segments);
    })?;
    let (weak, deletions) = (Arc::downgrade(inner), inner.deletions.clone());
    let deleting = platform::thread::spawn_or_abort("deletions", move || {
        while let (Some(deletion), Some(inner)) = (deletions.next(), weak.upgrade()) {
            deletion.perform(&inner, &inner.long_changes);
        }
    })?;
    let services = inner.services.clone();
    let checkpointer = platform::thread::spawn_or_abort("checkpointer", move || {
        services.checkpointer.run(&services);
    })?;
    let services = inner.services.clone();
    let seen_files = platform::thread::spawn_or_abort("seen-files", move || {
        services.seen_files.run(&services.log);
    })?;
    let services = inner.services.clone();
    let alarms = platform::thread::spawn_or_abort("alarms", move || {
        services.alarms.run(&*services.clock, || {
            services.relieve_queues();
            services.looked_at_disk();
        });
    })?;
    let (weak, services) = (Arc::downgrade(inner), inner.services.clone());
    let outlet = platform::thread::spawn_or_abort(THREAD_NAME, move || {
        services.announcer.outlet.run(|name| weak.upgrade()?.vhosts.read().get(name).cloned());
    })?;
    inner.threads.lock().extend([background, deleting, checkpointer, seen_files, alarms, outlet]);
    Ok(())
}

/// B17.
fn create_defaults(broker: &Broker) -> Result<Commit, Refused> {
    let Some(defaults) = broker.options().defaults.clone() else { return Ok(Call::ready(Ok(()))) };
    let metadata = VhostMetadata { description: "Default virtual host".into(), ..new_vhost_metadata() };
    // Its own exchanges are made by nobody in particular.
    on_behalf_of(INTERNAL, || broker.add_vhost_with(&defaults.vhost, metadata))
        .and_then(|_| broker.add_user(&defaults.user, &defaults.password, &defaults.tags))
        .and_then(|_| broker.set_permissions(&defaults.user, &defaults.vhost, &defaults.permissions))
}

fn created(defaults: Result<Result<(), Refused>, Refused>) -> Result<(), StartError> {
    defaults
        .and_then(|durable| durable)
        .map_err(|refused| StartError::Metadata(format!("default objects: {refused:?}")))
}
