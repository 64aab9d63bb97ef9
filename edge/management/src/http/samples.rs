//! Rates: the values of counters a moment ago, and over the last minutes. Refuses to know the counters.
//!
//! Counters of the node are sampled every [`INTERVAL_MS`] for [`KEPT`] samples, and one of every minute is kept for longer. Of each
//! kind of object at most [`ALWAYS_MAX`] are sampled all the time, for [`KEPT_UNSEEN`] samples: where there are more, the busiest ones.
//! Others are sampled when somebody asks for them: a hundred thousand queues that nobody looks at cost nothing, and the first look at
//! one shows a rate of 0. Steps of a history between two samples have what a steady change would have brought; those before
//! the first have its value, and `seen_since` says when that was.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::resources::values::now_ms;

/// Between two samples: RabbitMQ's.
pub(crate) const INTERVAL_MS: u64 = 5_000;

/// Samples kept of what is sampled all the time, or shown with its history: ten minutes.
const KEPT: usize = 121;

/// Between two samples of the node that are kept for longer, milliseconds, ...
const COARSE_MS: u64 = 60_000;

/// ... and how many those are: eight hours and a little.
const COARSE_KEPT: usize = 490;

/// Samples kept of an object in a list.
const KEPT_OF_LISTED: usize = 2;

/// Objects of a kind that are sampled all the time at most.
pub(crate) const ALWAYS_MAX: usize = 500;

/// Samples kept of an object that nobody has looked at: a minute and a little.
const KEPT_UNSEEN: usize = 14;

/// Objects whose samples are kept; when there are more, those that nobody has asked for in a while are forgotten.
const OBJECTS_MAX: usize = 8_192;

/// After this time without anybody asking, an object may be forgotten.
const FORGOTTEN_MS: u64 = 30_000;

/// A sample this old is the one before: a little less than the interval, since clients are not exact.
const BEFORE_MS: u64 = 4_000;

/// Steps of one history at most.
const STEPS_MAX: u64 = 1_000;

/// The object that is sampled.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// Message counters of the node, ...
    NodeTraffic,
    /// ... its comings and goings, ...
    NodeChurn,
    /// ... how much is in its queues, ...
    NodeQueues,
    /// ... and what the process uses.
    Process,
    /// Message counters of the vhosts that a user sees, ...
    Seen(Arc<str>),
    /// ... and how much is in their queues.
    SeenQueues(Arc<str>),
    /// Message counters of a vhost, ...
    Vhost(Arc<str>),
    /// ... its bytes, and how much is in its queues.
    VhostLengths(Arc<str>),
    /// Message counters of a queue, by its id, ...
    Queue(u64),
    /// ... and how much is in it.
    QueueLengths(u64),
    Connection(u64),
    Channel(u64, u16),
    Exchange(u64),
}

impl Key {
    fn is_of_node(&self) -> bool {
        matches!(self, Key::NodeTraffic | Key::NodeChurn | Key::NodeQueues | Key::Process)
    }
}

/// How much history is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Range {
    age_s: u64,
    step_s: u64,
}

/// Longest time back and longest step, seconds: ten years.
const AGE_S_MAX: u64 = 315_360_000;

impl Range {
    /// `lengths_age` and `lengths_incr`, or the like; `None` if either is missing or makes no sense.
    pub(crate) fn new(age: Option<&str>, step: Option<&str>) -> Option<Self> {
        let (age_s, step_s) = (age?.parse().ok()?, step?.parse().ok()?);
        let range = Self { age_s, step_s };
        (step_s > 0 && age_s <= AGE_S_MAX && step_s <= AGE_S_MAX && age_s / step_s <= STEPS_MAX)
            .then_some(range)
    }
}

/// Counters at one time.
#[derive(Debug)]
struct Sample {
    at_ms: u64,
    values: Box<[u64]>,
}

/// Samples of one object, oldest first.
#[derive(Debug, Default)]
struct Track {
    samples: VecDeque<Sample>,
    /// The samples that left `samples`, one of every minute.
    coarse: VecDeque<Sample>,
    asked_ms: u64,
    /// When it was asked for last, as [`Tracks`] counts looks.
    turn: u64,
    /// The latest round of [`Samples::take_all`] that had it; 0 if none had.
    round: u64,
}

impl Track {
    /// Takes a sample if it is time for one; gives what had to go for it.
    fn push(&mut self, at_ms: u64, values: &[u64], kept: usize) -> Option<Sample> {
        let is_due = self.samples.back().is_none_or(|latest| at_ms >= latest.at_ms + BEFORE_MS);
        if !is_due {
            return None;
        }
        let leaves = if self.samples.len() >= kept { self.samples.pop_front() } else { None };
        self.samples.push_back(Sample { at_ms, values: values.into() });
        leaves
    }

    /// As `push`, and keeps one of each minute for longer.
    fn push_of_node(&mut self, at_ms: u64, values: &[u64]) {
        let Some(leaves) = self.push(at_ms, values, KEPT) else { return };
        if self.coarse.back().is_none_or(|latest| leaves.at_ms + BEFORE_MS >= latest.at_ms + COARSE_MS) {
            if self.coarse.len() >= COARSE_KEPT {
                self.coarse.pop_front();
            }
            self.coarse.push_back(leaves);
        }
    }

    /// The latest sample that is old enough, else the oldest.
    fn before(&self, at_ms: u64) -> Option<&Sample> {
        let old = self.samples.iter().rev().find(|sample| sample.at_ms + BEFORE_MS <= at_ms);
        old.or_else(|| self.samples.front())
    }

    /// Per second; negative when a gauge falls.
    #[expect(clippy::cast_precision_loss, reason = "rates are shown with a few digits")]
    fn rate(&self, nth: usize, at_ms: u64, value: u64) -> f64 {
        let Some(before) = self.before(at_ms).filter(|before| before.at_ms < at_ms) else { return 0.0 };
        let was = before.values.get(nth).copied().unwrap_or(0);
        let change = value as f64 - was as f64;
        (change * 1000.0 / (at_ms - before.at_ms) as f64 * 10.0).round() / 10.0
    }

    /// The samples around a time. Nothing before the first.
    fn around(&self, at_ms: u64) -> (Option<&Sample>, Option<&Sample>) {
        let fine = self.samples.partition_point(|sample| sample.at_ms <= at_ms);
        if let Some(before) = fine.checked_sub(1) {
            return (self.samples.get(before), self.samples.get(fine));
        }
        let coarse = self.coarse.partition_point(|sample| sample.at_ms <= at_ms);
        let before = coarse.checked_sub(1).and_then(|before| self.coarse.get(before));
        (before, self.coarse.get(coarse).or_else(|| self.samples.front()))
    }

    /// The value at a time, between those of the samples around it; `now` is the time and value of this moment.
    fn at(&self, nth: usize, at_ms: u64, now: (u64, u64)) -> u64 {
        let of = |sample: &Sample| (sample.at_ms, sample.values.get(nth).copied().unwrap_or(0));
        let (before, after) = self.around(at_ms);
        let (to_ms, to) = after.map_or(now, of);
        let Some((from_ms, from)) = before.map(of) else { return to };
        let (passed, whole) = (at_ms - from_ms, to_ms.saturating_sub(from_ms));
        if passed == 0 || whole == 0 {
            return from;
        }
        let part = |difference: u64| u128::from(difference) * u128::from(passed) / u128::from(whole);
        let moved = u64::try_from(part(to.abs_diff(from))).unwrap_or(u64::MAX);
        if to >= from { from.saturating_add(moved) } else { from.saturating_sub(moved) }
    }

    #[expect(clippy::cast_precision_loss, reason = "averages are shown with a few digits")]
    fn history(&self, nth: usize, now: (u64, u64), range: Range, details: &mut Map<String, Value>) {
        let step_ms = range.step_s * 1000;
        let end = now.0 / step_ms * step_ms;
        let times = (0..=range.age_s / range.step_s).map(|step| end.saturating_sub(step * step_ms));
        let samples: Vec<(u64, u64)> = times.map(|time| (time, self.at(nth, time, now))).collect();
        let newest = samples.first().map_or(0, |sample| sample.1);
        let oldest = samples.last().map_or(0, |sample| sample.1);
        let sum: f64 = samples.iter().map(|sample| sample.1 as f64).sum();
        let list: Value =
            samples.iter().map(|(at, value)| json!({"sample": value, "timestamp": at})).collect();
        details.insert("samples".into(), list);
        let first = self.coarse.front().or(self.samples.front());
        details.insert("seen_since".into(), first.map_or(now.0, |sample| sample.at_ms).into());
        details
            .insert("avg_rate".into(), ((newest as f64 - oldest as f64) / range.age_s.max(1) as f64).into());
        details.insert("avg".into(), (sum / samples.len().max(1) as f64).into());
    }
}

/// The samples that are remembered, and the order in which they are forgotten.
#[derive(Debug, Default)]
struct Tracks {
    all: HashMap<Key, Track>,
    /// Objects that were sampled once, the one that was looked at longest ago first, ...
    once: BTreeMap<u64, Key>,
    /// ... and those that were sampled more often. The node is in neither.
    again: BTreeMap<u64, Key>,
    /// Looks so far.
    turn: u64,
    /// Rounds of [`Samples::take_all`] so far.
    round: u64,
}

impl Tracks {
    /// Makes room for a new object: objects that nobody has looked at for long go, and if that is not enough, the one that was looked at
    /// longest ago. Whole lists that somebody asks for must not keep those out who look at one thing again and again, so what was sampled
    /// once goes before all else.
    fn make_room(&mut self, at_ms: u64) {
        if self.all.len() < OBJECTS_MAX {
            return;
        }
        let Self { all, once, again, .. } = self;
        for order in [&mut *once, &mut *again] {
            while let Some(oldest) = order.first_entry() {
                if all.get(oldest.get()).is_some_and(|track| track.asked_ms + FORGOTTEN_MS > at_ms) {
                    break;
                }
                all.remove(&oldest.remove());
            }
        }
        if all.len() >= OBJECTS_MAX
            && let Some((_, key)) = once.pop_first().or_else(|| again.pop_first())
        {
            all.remove(&key);
        }
    }

    /// Notes that an object was looked at now.
    fn looked_at(&mut self, key: Key) {
        let Some(track) = self.all.get_mut(&key) else { return };
        self.once.remove(&track.turn);
        self.again.remove(&track.turn);
        self.turn += 1;
        track.turn = self.turn;
        let order = if track.samples.len() > 1 { &mut self.again } else { &mut self.once };
        order.insert(self.turn, key);
    }
}

/// Remembers counters for rates.
#[derive(Debug, Default)]
pub(crate) struct Samples(Mutex<Tracks>);

impl Samples {
    /// Each counter, and beside it its `_details` with the rate, and with the history if one is asked for.
    pub(crate) fn with_rates(
        &self,
        key: Key,
        counters: &[(&'static str, u64)],
        range: Option<Range>,
    ) -> Map<String, Value> {
        self.at(now_ms(), key, counters, range)
    }

    /// Takes a sample that nobody has asked for.
    pub(crate) fn take(&self, key: Key, counters: &[(&'static str, u64)]) {
        let values: Vec<u64> = counters.iter().map(|(_, value)| *value).collect();
        self.0.lock().all.entry(key).or_default().push_of_node(now_ms(), &values);
    }

    /// Takes a sample of every object that is sampled all the time. An object that an earlier round had and this one has not is gone, and
    /// forgotten.
    pub(crate) fn take_all(&self, objects: &[(Key, Vec<(&'static str, u64)>)]) {
        self.take_all_at(now_ms(), objects);
    }

    fn take_all_at(&self, at_ms: u64, objects: &[(Key, Vec<(&'static str, u64)>)]) {
        let mut tracks = self.0.lock();
        tracks.round += 1;
        let round = tracks.round;
        for (key, counters) in objects {
            if tracks.all.len() >= OBJECTS_MAX && !tracks.all.contains_key(key) {
                continue;
            }
            let values: Vec<u64> = counters.iter().map(|(_, value)| *value).collect();
            let track = tracks.all.entry(key.clone()).or_default();
            track.round = round;
            let kept = KEPT_UNSEEN.max(track.samples.len().min(KEPT));
            track.push(at_ms, &values, kept);
        }
        let Tracks { all, once, again, .. } = &mut *tracks;
        all.retain(|_, track| {
            let stays = track.round == 0 || track.round == round;
            if !stays {
                once.remove(&track.turn);
                again.remove(&track.turn);
            }
            stays
        });
    }

    /// Whether somebody has asked for it lately.
    pub(crate) fn is_watched(&self, key: &Key) -> bool {
        let now = now_ms();
        self.0.lock().all.get(key).is_some_and(|track| track.asked_ms + 2 * FORGOTTEN_MS > now)
    }

    /// Forgets everything.
    pub(crate) fn reset(&self) {
        *self.0.lock() = Tracks::default();
    }

    fn at(
        &self,
        at_ms: u64,
        key: Key,
        counters: &[(&'static str, u64)],
        range: Option<Range>,
    ) -> Map<String, Value> {
        let is_of_node = key.is_of_node();
        let kept = if is_of_node || range.is_some() { KEPT } else { KEPT_OF_LISTED };
        let values: Vec<u64> = counters.iter().map(|(_, value)| *value).collect();
        let mut tracks = self.0.lock();
        if !tracks.all.contains_key(&key) {
            tracks.make_room(at_ms);
        }
        let track = tracks.all.entry(key.clone()).or_default();
        track.asked_ms = at_ms;
        let kept = kept.max(track.samples.len().min(KEPT));
        let mut object = Map::new();
        for (nth, (name, value)) in counters.iter().enumerate() {
            let mut details = Map::new();
            details.insert("rate".into(), track.rate(nth, at_ms, *value).into());
            if let Some(range) = range {
                if track.samples.is_empty() {
                    track.push(at_ms, &values, kept);
                }
                track.history(nth, (at_ms, *value), range, &mut details);
            }
            object.insert((*name).to_owned(), (*value).into());
            object.insert(format!("{name}_details"), Value::Object(details));
        }
        if is_of_node {
            track.push_of_node(at_ms, &values);
        } else {
            track.push(at_ms, &values, kept);
            tracks.looked_at(key);
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_look_at_an_object_that_is_sampled_all_the_time_shows_its_last_minute() {
        let samples = Samples::default();
        let range = Range::new(Some("60"), Some("5"));
        for second in (0..200).step_by(5) {
            samples.take_all_at(100_000 + second * 1000, &[(Key::Queue(7), vec![("publish", second * 10)])]);
        }
        let shown = samples.at(296_000, Key::Queue(7), &[("publish", 1_960)], range);
        let details = &shown["publish_details"];
        assert_eq!((&details["rate"], &details["seen_since"]), (&json!(10.0), &json!(230_000)));
        let first = details["samples"].as_array().unwrap().last().unwrap();
        assert_eq!(first, &json!({"sample": 1_350, "timestamp": 235_000}));
        samples.take_all_at(300_000, &[]);
        assert!(samples.0.lock().all.is_empty(), "a queue that is gone is forgotten");
    }

    #[test]
    fn a_rate_is_what_came_between_two_looks() {
        let samples = Samples::default();
        let look = |at_ms, value| samples.at(at_ms, Key::Queue(1), &[("publish", value)], None);
        assert_eq!(look(10_000, 100)["publish_details"], json!({"rate": 0.0}));
        assert_eq!(look(15_000, 600)["publish_details"], json!({"rate": 100.0}));
        assert_eq!(
            look(16_000, 700)["publish_details"],
            json!({"rate": 100.0}),
            "too early for a new sample"
        );
        assert_eq!(look(20_000, 600)["publish_details"], json!({"rate": 0.0}));
        assert_eq!(look(25_000, 100)["publish_details"], json!({"rate": -100.0}), "a gauge falls");
    }

    #[test]
    fn a_history_has_a_value_for_every_step() {
        let samples = Samples::default();
        for second in 0..13 {
            samples.at(second * 5_000, Key::NodeTraffic, &[("publish", second * 10)], None);
        }
        let range = Range::new(Some("60"), Some("5"));
        let shown = samples.at(60_000, Key::NodeTraffic, &[("publish", 120)], range);
        let details = &shown["publish_details"];
        assert_eq!(details["samples"].as_array().unwrap().len(), 13);
        assert_eq!(details["samples"][0], json!({"sample": 120, "timestamp": 60_000}));
        assert_eq!(details["samples"][12], json!({"sample": 0, "timestamp": 0}));
        assert_eq!((&details["avg_rate"], &details["avg"]), (&json!(2.0), &json!(60.0)));
    }

    #[test]
    fn a_history_is_steady_between_two_looks_and_says_when_it_begins() {
        let samples = Samples::default();
        let range = Range::new(Some("60"), Some("5"));
        let look = |at_ms, value| {
            let shown = samples.at(at_ms, Key::Queue(1), &[("publish", value)], range);
            assert_eq!(shown["publish_details"]["seen_since"], 101_000);
            let steps = shown["publish_details"]["samples"].as_array().unwrap().clone();
            steps.iter().take(6).map(|step| step["sample"].as_u64().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(look(101_000, 500), [500; 6], "nobody has looked before");
        assert_eq!(look(121_000, 2_500), [2_400, 1_900, 1_400, 900, 500, 500], "and not 2,000 in one step");
        assert_eq!(look(126_000, 0), [500, 2_400, 1_900, 1_400, 900, 500], "a gauge falls");
    }

    #[test]
    fn the_node_is_remembered_for_hours_minute_by_minute() {
        let mut track = Track::default();
        let ten_hours_ms = 36_000_000;
        for at_ms in (0..=ten_hours_ms).step_by(5_000) {
            track.push_of_node(at_ms, &[at_ms / 1_000]);
        }
        let mut details = Map::new();
        let range = Range::new(Some("28800"), Some("600")).unwrap();
        track.history(0, (ten_hours_ms, 36_000), range, &mut details);
        let steps = details["samples"].as_array().unwrap();
        assert_eq!(steps.len(), 49);
        assert!(
            steps
                .iter()
                .all(|step| step["sample"].as_u64() == step["timestamp"].as_u64().map(|ms| ms / 1_000))
        );
        assert_eq!((track.samples.len(), track.coarse.len()), (KEPT, COARSE_KEPT));
    }

    #[test]
    fn ranges_that_make_no_sense_are_passed_over() {
        assert_eq!(Range::new(Some("60"), Some("0")), None);
        assert_eq!(Range::new(Some("x"), Some("5")), None);
        assert_eq!(Range::new(Some("100000000"), Some("1")), None);
        assert!(Range::new(Some("60"), Some("5")).is_some());
    }

    #[test]
    fn a_long_list_does_not_keep_others_from_being_remembered() {
        let samples = Samples::default();
        samples.at(1_000, Key::NodeTraffic, &[("publish", 1)], None);
        for queue in 0..2 * OBJECTS_MAX as u64 {
            samples.at(1_000, Key::Queue(queue), &[("publish", 1)], None);
        }
        let range = Range::new(Some("60"), Some("5"));
        let shown = samples.at(1_000, Key::Queue(u64::MAX), &[("publish", 1)], range);
        assert!(shown["publish_details"]["samples"].is_array());
        assert!(samples.0.lock().all.contains_key(&Key::NodeTraffic));
    }

    #[test]
    fn what_was_looked_at_longest_ago_is_forgotten_first_and_what_is_watched_stays() {
        let samples = Samples::default();
        let look = |at_ms, key: Key, value| {
            samples.at(at_ms, key, &[("publish", value)], None)["publish_details"]["rate"].clone()
        };
        for queue in 10..10 + OBJECTS_MAX as u64 {
            look(1_000, Key::Queue(queue), 0);
        }
        // Both counters of each, as every look takes them.
        for at_ms in [2_000, 7_000] {
            for queue in 0..10 {
                let traffic = look(at_ms, Key::Queue(queue), at_ms);
                let lengths = look(at_ms, Key::QueueLengths(queue), at_ms);
                let rate = if at_ms == 2_000 { 0.0 } else { 1000.0 };
                assert_eq!((traffic, lengths), (json!(rate), json!(rate)), "{queue} at {at_ms}");
            }
        }
        for queue in 10..10 + 2 * OBJECTS_MAX as u64 {
            look(8_000, Key::Queue(queue), 0);
        }
        assert_eq!(look(12_000, Key::Queue(3), 12_000), json!(1000.0), "a long list came between");
        let tracks = samples.0.lock();
        assert_eq!((tracks.all.len(), tracks.once.len() + tracks.again.len()), (OBJECTS_MAX, OBJECTS_MAX));
    }

    #[test]
    fn no_more_objects_are_remembered_than_there_may_be() {
        let samples = Samples::default();
        for queue in 0..OBJECTS_MAX as u64 + 10 {
            samples.at(1_000, Key::Queue(queue), &[("publish", 1)], None);
        }
        assert_eq!(samples.0.lock().all.len(), OBJECTS_MAX);
        samples.at(1_001 + FORGOTTEN_MS, Key::Queue(0), &[("publish", 1)], None);
        samples.at(1_001 + FORGOTTEN_MS, Key::Queue(u64::MAX), &[("publish", 1)], None);
        assert_eq!(samples.0.lock().all.len(), 2);
    }
}
