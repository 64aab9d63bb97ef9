//! Parts of the services, and how they begin: the objects that answer for the log and the segments are connected to them here.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use commitlog::{Log, SegmentIo, Segments};
use metadata::FIRST_NODE;

use super::roster::{QueuesById, Roster};
use super::{LogWaiters, Services, Stalls};
use crate::BrokerOptions;
use crate::alarms::Alarms;
use crate::announcements::events::Announcer;
use crate::background::Background;
use crate::bodies::{Bodies, BodyNode};
use crate::cell::configs::Configs;
use crate::checkpointer::notes::Checkpointer;
use crate::cluster::{Cluster, Surroundings};
use crate::foundation::Foundation;
use crate::log_places::LogPlaces;
use crate::seen_files::SeenFiles;
use crate::services::motion::Motion;
use crate::services::segment_answers::SegmentAnswers;
use crate::stages::Stages;
use crate::streams::Streams;

/// Threads that read and write segments.
const SEGMENT_THREADS: usize = 2;

/// The opened parts, and the facts that others know already.
pub(crate) struct Parts {
    pub(crate) log: Log,
    pub(crate) segments: Arc<Segments>,
    pub(crate) bodies: Arc<Bodies>,
    pub(crate) streams: Streams,
    pub(crate) alarms: Arc<Alarms>,
    pub(crate) checkpointer: Checkpointer,
    pub(crate) seen_files: SeenFiles,
    pub(crate) announcer: Arc<Announcer>,
    pub(crate) motion: Motion,
    pub(crate) cluster: Option<Cluster>,
}

impl Parts {
    /// Services without queues.
    ///
    /// # Errors
    /// No thread can be started for the segments.
    pub(crate) fn start(
        self,
        foundation: &Foundation,
        options: &BrokerOptions,
    ) -> std::io::Result<Arc<Services>> {
        let Parts {
            log,
            segments,
            bodies,
            streams,
            alarms,
            checkpointer,
            seen_files,
            announcer,
            motion,
            cluster,
        } = self;
        let stages = Arc::new(Stages::new(foundation.clock.clone(), options.stages));
        let waiting = Arc::new(LogWaiters::new(checkpointer.clone(), alarms.clone(), stages.clone()));
        log.set_listener(waiting.clone());
        let by_id = QueuesById::default();
        let answers = Arc::new(SegmentAnswers {
            queues: by_id.clone(),
            bodies: bodies.clone(),
            waiting: waiting.clone(),
            alarms: alarms.clone(),
        });
        let segments = match motion {
            Motion::Threads => SegmentIo::start(segments, answers, SEGMENT_THREADS)?,
            Motion::Steps => SegmentIo::driven(segments, answers),
        };
        let services = Arc::new(Services {
            log,
            segments,
            bodies,
            streams,
            clock: foundation.clock.clone(),
            stopped_ms: AtomicU64::new(0),
            letters_out: AtomicU64::new(0),
            random: foundation.random.clone(),
            background: Background::default(),
            checkpointer,
            log_places: LogPlaces::default(),
            alarms,
            seen_files,
            waiting,
            queues: Roster::of(by_id),
            control: OnceLock::new(),
            parameter_watch: OnceLock::new(),
            announcer,
            counters: Arc::default(),
            stalls: Stalls::after(options.stall_ms),
            consumer_disconnected_timeout_ms: options.consumer_disconnected_timeout_ms,
            configs: Configs::default(),
            stages,
            motion,
            own_node: cluster.as_ref().and_then(Cluster::own).map_or(FIRST_NODE, |(number, _)| number),
            cluster: cluster.map(|cluster| Arc::new(cluster) as Arc<dyn Surroundings>),
            sizes: foundation.sizes,
            segment_totals: Arc::default(),
        });
        services.bodies.belong_to(Arc::downgrade(&(services.clone() as Arc<dyn BodyNode>)));
        Ok(services)
    }
}
