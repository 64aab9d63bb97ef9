//! Connections that broke are opened again, as PerfTest does, on a thread that may wait while others work.
//!
//! ```text
//!  thread with load ── lost ──► reopener: waits, declares what may be gone, connects ── back ──► thread with load
//! ```
//!
//! Refuses to know what a connection carries. Messages that were due meanwhile are sent late and their latency shows it;
//! those that were on their way are lost or come twice, as the broker sees fit.

use super::link::Closed;
use super::random::Random;
use crate::io::monotonic_ns;
use anyhow::Result;
use std::io::Write;
use std::str::FromStr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// How soon the end of a run is noticed.
const NOTICE: Duration = Duration::from_millis(50);
/// A broker that is not there is never asked more often.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The code of a broker that ends connections because it stops (AMQP 0-9-1, 1.2 `connection-forced`).
const CONNECTION_FORCED: u16 = 320;

/// The broker ended a connection and gave no reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the broker ended the connection without a reason")]
pub(crate) struct Ended;

/// Whether this error of a connection may be gone with another one: the broker went away or stops. Anything else, such as a
/// refused operation, would happen again.
pub(crate) fn may_pass(error: &anyhow::Error) -> bool {
    let forced = |closed: &Closed| closed.channel == 0 && closed.code == CONNECTION_FORCED;
    error.is::<Ended>() || error.is::<std::io::Error>() || error.downcast_ref().is_some_and(forced)
}

/// Seconds before a lost connection is tried again, anew each time: `5`, or `30-60` for a random time between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pause {
    least_s: u32,
    most_s: u32,
}

/// Text that is no pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is written in seconds, such as 5, or 30-60 for a random time between")]
pub(crate) struct NoPause;

impl FromStr for Pause {
    type Err = NoPause;

    fn from_str(text: &str) -> Result<Self, NoPause> {
        let (least, most) = text.split_once('-').unwrap_or((text, text));
        let seconds = |text: &str| text.trim().parse::<u32>().map_err(|_| NoPause);
        let (least_s, most_s) = (seconds(least)?, seconds(most)?);
        if least_s > most_s { Err(NoPause) } else { Ok(Self { least_s, most_s }) }
    }
}

impl Pause {
    fn draw(self, random: &mut Random) -> Duration {
        let span_ms = u64::from(self.most_s - self.least_s) * 1000;
        let pause =
            Duration::from_secs(self.least_s.into()) + Duration::from_millis(random.below(span_ms + 1));
        pause.max(PAUSE_MIN)
    }
}

/// A connection that is gone.
#[derive(Debug)]
struct Lost {
    /// Its place among those of its thread.
    token: usize,
    /// Its number in the run.
    seat: usize,
    reason: String,
}

/// The side of a thread with load.
#[derive(Debug)]
pub(crate) struct Recovery<S> {
    lost: Sender<Lost>,
    back: Receiver<(usize, S)>,
}

/// The side that opens.
#[derive(Debug)]
pub(crate) struct Reopener<S> {
    lost: Receiver<Lost>,
    back: Sender<(usize, S)>,
}

/// Both sides.
pub(crate) fn recovery<S>() -> (Recovery<S>, Reopener<S>) {
    let ((lost, to_open), (opened, back)) = (channel(), channel());
    (Recovery { lost, back }, Reopener { lost: to_open, back: opened })
}

impl<S> Recovery<S> {
    /// Asks for a connection in place of this one.
    pub(crate) fn lose(&self, token: usize, seat: usize, error: &anyhow::Error) {
        // Without a reopener nothing comes back; that is only so when the run is over.
        let _ = self.lost.send(Lost { token, seat, reason: format!("{error:#}") });
    }

    /// A connection that is there again, and its place.
    pub(crate) fn back(&self) -> Option<(usize, S)> {
        self.back.try_recv().ok()
    }
}

/// How connections are opened.
pub(crate) struct Opening<'o, S> {
    /// Their name, for people.
    pub(crate) what: &'static str,
    /// How long to wait before each attempt.
    pub(crate) pause: Pause,
    /// Done once before some are opened.
    pub(crate) prepare: &'o (dyn Fn() -> Result<()> + Sync),
    /// Opens the one with this number.
    pub(crate) open: &'o (dyn Fn(usize) -> Result<S> + Sync),
    /// Whether the run is over.
    pub(crate) is_over: &'o (dyn Fn() -> bool + Sync),
}

impl<S> Reopener<S> {
    /// Opens what is lost, again and again, until the thread with load ends or the run is over.
    pub(crate) fn run(self, opening: &Opening<'_, S>) {
        let mut random = Random::new(monotonic_ns());
        while let Ok(first) = self.lost.recv() {
            let mut waiting = vec![first];
            while !waiting.is_empty() {
                let pause = opening.pause.draw(&mut random);
                if wait(pause.min(NOTICE), opening.is_over) {
                    return;
                }
                waiting.extend(self.lost.try_iter());
                let (count, what, reason) = (waiting.len(), opening.what, &waiting[0].reason);
                say(&format!("{count} {what} lost ({reason}), trying again in {:.1} s", pause.as_secs_f64()));
                if wait(pause.saturating_sub(NOTICE), opening.is_over) {
                    return;
                }
                waiting.extend(self.lost.try_iter());
                waiting = self.open(waiting, opening);
            }
        }
    }

    /// Opens these; gives those that could not be.
    fn open(&self, lost: Vec<Lost>, opening: &Opening<'_, S>) -> Vec<Lost> {
        let (count, prepared) = (lost.len(), (opening.prepare)());
        let mut left = Vec::new();
        for Lost { token, seat, .. } in lost {
            // One that cannot be prepared for is not tried.
            let opened = match &prepared {
                Ok(()) => (opening.open)(seat),
                Err(error) => Err(anyhow::anyhow!("{error:#}")),
            };
            match opened {
                // A thread that is gone needs it no more.
                Ok(opened) => drop(self.back.send((token, opened))),
                Err(error) => left.push(Lost { token, seat, reason: format!("{error:#}") }),
            }
        }
        if left.len() < count {
            say(&format!("{} {} back", count - left.len(), opening.what));
        }
        left
    }
}

/// Waits; says whether the run is over.
fn wait(pause: Duration, is_over: &dyn Fn() -> bool) -> bool {
    let began = Instant::now();
    while !is_over() {
        let left = pause.saturating_sub(began.elapsed());
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(left.min(NOTICE));
    }
    true
}

fn say(line: &str) {
    // Nobody is left to tell when the terminal is gone.
    let _ = writeln!(std::io::stderr(), "note: {line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[test]
    fn pauses_are_read_and_drawn_within_their_bounds() {
        let mut random = Random::new(1);
        let pause: Pause = "2-4".parse().unwrap();
        let drawn: Vec<Duration> = (0..50).map(|_| pause.draw(&mut random)).collect();
        assert!(drawn.iter().all(|pause| (2000..=4000).contains(&pause.as_millis())));
        assert!(drawn.iter().any(|pause| *pause != drawn[0]));
        assert_eq!("0".parse::<Pause>().unwrap().draw(&mut random), PAUSE_MIN);
        for text in ["", "x", "5-", "6-5", "-1", "1.5"] {
            assert_eq!(text.parse::<Pause>(), Err(NoPause), "{text}");
        }
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        let closed = |channel, code| Closed { channel, code, text: "t".to_owned() }.into();
        let reset = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert!(may_pass(&Ended.into()) && may_pass(&reset.into()) && may_pass(&closed(0, 320)));
        assert!(
            !may_pass(&closed(1, 404)) && !may_pass(&closed(0, 530)) && !may_pass(&anyhow::anyhow!("no"))
        );
        assert!(may_pass(&anyhow::Error::from(Ended).context("a publishing connection")));
    }

    #[test]
    fn what_cannot_be_opened_is_tried_until_it_can() {
        let (here, there) = recovery::<String>();
        let attempts = AtomicUsize::new(0);
        let open = |seat| match attempts.fetch_add(1, Relaxed) {
            0 => anyhow::bail!("not yet"),
            _ => Ok(format!("seat {seat}")),
        };
        here.lose(3, 17, &Ended.into());
        let (prepare, is_over) = (|| Ok(()), || false);
        std::thread::scope(|scope| {
            let pause = "0".parse().unwrap();
            let opening =
                Opening { what: "connections", pause, prepare: &prepare, open: &open, is_over: &is_over };
            scope.spawn(move || there.run(&opening));
            let back = here.back.recv_timeout(Duration::from_secs(20)).unwrap();
            assert_eq!((back, attempts.load(Relaxed)), ((3, "seat 17".to_owned()), 2));
            drop(here); // ends the reopener
        });
    }
}
