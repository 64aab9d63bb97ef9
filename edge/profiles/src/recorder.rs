//! The one thread that takes samples out of the ring while somebody wants them, and its callers: a capture on demand, and the
//! windows of the last hours. One for the process, as signals are. Knows neither functions nor names.

use std::collections::VecDeque;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use broker::Broker;
use parking_lot::Mutex;
use platform::profile::{FAULT, NameId};
use platform::{Clock, RealClock, profile};

use super::captures;
use super::cut::{Cut, Source};
use super::raw::{ProfileError, Raw, STACKS_MAX, Threads};
use super::report::{Profile, Watched, turn};

/// How often samples are taken out.
const DRAIN_INTERVAL: Duration = Duration::from_millis(100);

/// Length of a window of the history, milliseconds.
const WINDOW_MS: u64 = 60_000;

/// Windows kept: two hours.
const WINDOWS_MAX: usize = 120;

/// Different stacks kept of each window: a few hundred bytes each.
const WINDOW_STACKS_MAX: usize = 1000;

/// Samples in a second of CPU time for the history.
const HISTORY_HZ: u32 = 49;

/// Longest capture, seconds.
pub const SECONDS_MAX: u64 = 600;

/// The request for a CPU profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuRequest {
    /// How long, seconds; 1 to 600.
    pub seconds: u64,
    /// Samples in a second of CPU time; 1 to 999. The kernel's own clock may make it fewer, mostly 250.
    pub hz: u32,
    /// The wanted cut.
    pub cut: Cut,
}

impl Default for CpuRequest {
    fn default() -> Self {
        CpuRequest { seconds: 10, hz: 99, cut: Cut::default() }
    }
}

/// Whether a history is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continuous {
    /// 49 samples in a second of CPU time, all the time: less than a thousandth of it.
    On,
    /// Nothing is sampled unless asked for.
    Off,
}

/// The work of the thread.
#[derive(Default)]
struct Recorder {
    is_running: bool,
    capture: Option<Capture>,
    /// Samples that a [`watch`] keeps, and when it ends.
    watched: [Option<(Raw, Instant)>; Watch::COUNT],
    history: Option<History>,
    /// Whom samples' labels are asked of while there are some.
    source: Source,
}

/// The threads whose samples are taken beside those of threads that run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    /// Of threads that wait.
    Waits,
    /// Of threads that have page faults.
    Faults,
}

impl Watch {
    const COUNT: usize = 2;

    /// The thing that is profiled, in words.
    fn words(self) -> &'static str {
        match self {
            Watch::Waits => "waits",
            Watch::Faults => "page faults",
        }
    }

    fn watched(self) -> Watched {
        match self {
            Watch::Waits => Watched::Waiting,
            Watch::Faults => Watched::Faults,
        }
    }

    /// To whom a sample with this cause belongs; `None` for those of threads that run.
    fn of(cause: NameId) -> Option<Watch> {
        match cause {
            FAULT => Some(Watch::Faults),
            cause => (cause != NameId::default()).then_some(Watch::Waits),
        }
    }
}

struct Capture {
    raw: Raw,
    hz: u32,
    ends: Instant,
}

struct History {
    broker: Broker,
    windows: VecDeque<Raw>,
    open: Raw,
    open_since: Instant,
    open_cpu_ns: u64,
    watch: captures::Watch,
}

static RECORDER: LazyLock<Mutex<Recorder>> = LazyLock::new(Mutex::default);

fn wall_ms() -> u64 {
    RealClock::new().wall_ms()
}

/// Samples the process for a time, which the caller sleeps. Never on a thread that runs connections.
///
/// # Errors
/// Another profile is being taken, bounds are exceeded, or the operating system refuses.
pub fn cpu(broker: &Broker, request: &CpuRequest) -> Result<Profile, ProfileError> {
    if !(1..=SECONDS_MAX).contains(&request.seconds) {
        return Err(ProfileError::Asked(format!("a profile takes 1 to {SECONDS_MAX} seconds")));
    }
    if !(1..=profile::HZ_MAX).contains(&request.hz) {
        return Err(ProfileError::Asked(format!("1 to {} samples a second", profile::HZ_MAX)));
    }
    let time = Duration::from_secs(request.seconds);
    {
        let mut recorder = RECORDER.lock();
        if let Some(other) = &recorder.capture {
            return Err(ProfileError::busy("CPU time", other.ends));
        }
        let raw = Raw { began_ms: wall_ms(), ..Raw::default() };
        recorder.capture = Some(Capture { raw, hz: request.hz, ends: Instant::now() + time });
        recorder.source = Source::of(broker);
        if let Err(error) = recorder.follow() {
            recorder.capture = None;
            return Err(error);
        }
    }
    let (began, cpu_before, dropped_before) = (Instant::now(), profile::cpu_time_ns(), profile::dropped());
    std::thread::sleep(time);
    let mut recorder = RECORDER.lock();
    recorder.drain(&mut Threads::default());
    let taken = recorder.capture.take().map(|capture| capture.raw);
    recorder.follow()?;
    drop(recorder);
    let mut raw = taken.ok_or(ProfileError::busy("CPU time", Instant::now()))?;
    raw.wall_ms = began.elapsed().as_millis() as u64;
    raw.amount = profile::cpu_time_ns().saturating_sub(cpu_before);
    raw.dropped = profile::dropped() - dropped_before;
    Ok(named(&raw, &request.cut))
}

/// Keeps samples of a kind that come while `look` is called again and again, for so long. One of a kind at a time.
pub(super) fn watch(
    broker: &Broker,
    kind: Watch,
    time: Duration,
    mut look: impl FnMut() -> std::io::Result<()>,
) -> Result<Raw, ProfileError> {
    {
        let mut recorder = RECORDER.lock();
        let slot = &mut recorder.watched[kind as usize];
        if let Some((_, ends)) = slot {
            return Err(ProfileError::busy(kind.words(), *ends));
        }
        let raw = Raw { watched: kind.watched(), began_ms: wall_ms(), ..Raw::default() };
        *slot = Some((raw, Instant::now() + time));
        recorder.source = Source::of(broker);
        recorder.follow()?;
    }
    let (began, dropped_before) = (Instant::now(), profile::dropped());
    let mut outcome = Ok(());
    while outcome.is_ok() && began.elapsed() < time {
        outcome = look();
    }
    let mut recorder = RECORDER.lock();
    recorder.drain(&mut Threads::default());
    let mut raw = recorder.watched[kind as usize].take().map(|(raw, _)| raw).unwrap_or_default();
    outcome?;
    raw.wall_ms = began.elapsed().as_millis() as u64;
    raw.dropped = profile::dropped() - dropped_before;
    Ok(raw)
}

/// Gives samples their names.
pub(super) fn named(raw: &Raw, cut: &Cut) -> Profile {
    cut.apply(Profile::of_samples(raw))
}

/// Begins or ends the history. The kept samples are forgotten at the end.
///
/// # Errors
/// The operating system refuses.
pub fn set_continuous(broker: &Broker, to: Continuous) -> Result<(), ProfileError> {
    let mut recorder = RECORDER.lock();
    match to {
        Continuous::Off => recorder.history = None,
        Continuous::On if recorder.history.is_some() => {}
        Continuous::On => {
            recorder.source = Source::of(broker);
            recorder.history = Some(History {
                broker: broker.clone(),
                windows: VecDeque::new(),
                open: Raw { began_ms: wall_ms(), ..Raw::default() },
                open_since: Instant::now(),
                open_cpu_ns: profile::cpu_time_ns(),
                watch: captures::Watch::new(broker),
            });
        }
    }
    recorder.follow()
}

/// Keeps no history any more, and holds no broker: it is about to be closed.
pub fn forget_history() {
    let mut recorder = RECORDER.lock();
    recorder.history = None;
    // The rest asks nobody for samples, so nothing can be refused.
    let _followed = recorder.follow();
}

/// Whether a history is kept, and how many minutes there are.
pub fn continuous() -> (Continuous, usize) {
    match &RECORDER.lock().history {
        Some(history) => (Continuous::On, history.windows.len() + 1),
        None => (Continuous::Off, 0),
    }
}

/// The profile of the process in the last minutes, up to 120, if a history is kept.
///
/// # Errors
/// No history is kept.
pub fn history(minutes: usize, cut: &Cut) -> Result<Profile, ProfileError> {
    let _turn = turn();
    let mut recorder = RECORDER.lock();
    let Some(history) = &mut recorder.history else {
        let problem = "no history is kept; `profile continuous on` begins one";
        return Err(ProfileError::Asked(problem.into()));
    };
    let raw = history.latest(minutes);
    drop(recorder);
    Ok(named(&raw, cut))
}

impl Recorder {
    /// Lets the timer and the thread follow what is wanted.
    fn follow(&mut self) -> Result<(), ProfileError> {
        let wanted = self.capture.as_ref().map_or(0, |capture| capture.hz);
        let hz = if self.history.is_some() { wanted.max(HISTORY_HZ) } else { wanted };
        profile::set_rate(hz)?;
        if (hz > 0 || self.is_watching()) && !self.is_running {
            platform::thread::spawn_or_abort("profiler", run)?;
            self.is_running = true;
        }
        Ok(())
    }

    fn is_watching(&self) -> bool {
        self.watched.iter().any(Option::is_some)
    }

    fn drain(&mut self, threads: &mut Threads) {
        let source = &mut self.source;
        profile::drain(|sample| {
            let key = threads.key(sample);
            if let Some(watch) = Watch::of(key.waits) {
                if let Some((raw, _)) = &mut self.watched[watch as usize] {
                    raw.add(key, STACKS_MAX, source);
                }
                return;
            }
            if let Some(capture) = &mut self.capture {
                capture.raw.add(key.clone(), STACKS_MAX, source);
            }
            if let Some(history) = &mut self.history {
                history.open.add(key, WINDOW_STACKS_MAX, source);
            }
        });
    }
}

/// The thread's life: as long as somebody wants samples.
fn run() {
    let mut threads = Threads::default();
    loop {
        std::thread::sleep(DRAIN_INTERVAL);
        let mut recorder = RECORDER.lock();
        recorder.drain(&mut threads);
        let Recorder { history, source, .. } = &mut *recorder;
        if let Some(history) = history {
            history.turn(source);
        } else if recorder.capture.is_none() && !recorder.is_watching() {
            recorder.is_running = false;
            recorder.source = Source::default();
            return;
        }
    }
}

impl History {
    /// Closes the window when it is full; keeps a copy when something was slow or large.
    fn turn(&mut self, source: &mut Source) {
        if let Some(reason) = self.watch.look(&self.broker) {
            let raw = self.latest(1);
            captures::keep(reason, raw);
        }
        if self.open_since.elapsed().as_millis() as u64 >= WINDOW_MS {
            let closed = self.close();
            self.windows.push_back(closed);
            if self.windows.len() > WINDOWS_MAX {
                self.windows.pop_front();
            }
            source.tidy();
        }
    }

    /// Ends the open window and begins the next.
    fn close(&mut self) -> Raw {
        let (cpu_ns, now) = (profile::cpu_time_ns(), Instant::now());
        self.open.amount = cpu_ns.saturating_sub(self.open_cpu_ns);
        self.open.wall_ms = now.duration_since(self.open_since).as_millis() as u64;
        (self.open_cpu_ns, self.open_since) = (cpu_ns, now);
        std::mem::replace(&mut self.open, Raw { began_ms: wall_ms(), ..Raw::default() })
    }

    /// The last windows in one, the open one included.
    fn latest(&self, minutes: usize) -> Raw {
        let mut all = Raw::default();
        self.windows.iter().rev().take(minutes).for_each(|window| all.merge(window));
        let mut open = self.open.clone();
        open.amount = profile::cpu_time_ns().saturating_sub(self.open_cpu_ns);
        open.wall_ms = self.open_since.elapsed().as_millis() as u64;
        all.merge(&open);
        all
    }
}
