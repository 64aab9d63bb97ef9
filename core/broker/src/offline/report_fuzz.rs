//! Reports of a salvage, compared with the folder: folders of queues with fanouts whose messages were settled now and then, damaged at
//! one place anywhere, the metadata included. The report never tells of a message as lost that is there, and is never silent about one that is not.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use commitlog::{Found, LogFile, Record, inspect_log_file, list_log_files, read_manifest};
use platform::{RealDisk, SeededRandom};
use queues::RecordKind;

use super::fuzz::{Harm, Held, Node, body, copy, drain, harm, is_mistaken, one_of, salvaged, seeds};
use super::{Depth, LostFrom, Offline, QueueSurvey, Survey, UntoldLoss};

const FANS: [&str; 2] = ["fan0", "fan1"];
const QUEUES: [&str; 4] = ["fan0", "fan1", "alone", "prio"];
const SEEDS: [u64; 2] = [3, 65];
/// Of servers that were killed with much in the newest file of the log.
const KILLED_SEEDS: [u64; 2] = [2, 4];
const TRIALS: u64 = 15;
const HARMS: [Harm; 6] =
    [Harm::Flip, Harm::Wreck(2), Harm::Wreck(60), Harm::Zeros(512), Harm::Zeros(4096), Harm::Cut];

/// A folder, the numbers of its queues, what was sent to each, and what of that was not settled until the end.
struct Base {
    folder: tempfile::TempDir,
    ids: HashMap<String, u64>,
    sent: Held,
    live: Held,
}

/// Queues in which much was settled while the log went on; as a killed server leaves them, or one that was stopped.
fn base(seed: u64) -> Base {
    let random = SeededRandom::new(seed);
    let folder = tempfile::tempdir().expect("a folder");
    let killed = tempfile::tempdir().expect("a folder");
    let mut nth = 0;
    let mut sent: Held = QUEUES.iter().map(|name| ((*name).to_owned(), Vec::new())).collect();
    let lives = 1 + random.below(2);
    for life in 0..=lives {
        let mut node = Node::open(folder.path());
        if life == 0 {
            QUEUES.iter().for_each(|name| node.declare(name));
        }
        for _ in 0..4 {
            for _ in 0..random.below(120) {
                let to: &[&str] = if random.below(3) > 0 { &["fan"] } else { &["alone", "prio"] };
                node.publish(nth, to);
                node.work(&random);
                let is_sent = |name: &&str| to.contains(name) || (to == ["fan"] && FANS.contains(name));
                for name in QUEUES.iter().filter(|name| is_sent(name)) {
                    let own = if FANS.contains(name) { "fan" } else { name };
                    sent.get_mut(*name).expect("all are there").push(body(own, nth));
                }
                nth += 1;
            }
            node.rest();
            for name in QUEUES {
                // Some are nearly drained, others hardly touched.
                let count = random.below(1 + random.below(120)) as usize;
                node.take(name, count);
            }
            node.rest();
        }
        if life == lives {
            copy(folder.path(), killed.path());
        }
        node.stop();
    }
    let folder = if random.below(2) == 0 { folder } else { killed };
    let reading = tempfile::tempdir().expect("a folder");
    copy(folder.path(), reading.path());
    let whole =
        Offline::open(reading.path()).expect("nobody has it").survey(Depth::Lengths).expect("it is whole");
    let ids = whole.queues.into_iter().map(|queue| (queue.name, queue.id)).collect();
    let live = drain(reading.path(), QUEUES.iter().map(|name| (*name).to_owned()));
    Base { folder, ids, sent, live }
}

/// The errors of the report on one queue, which had this name. With a log that `is_shorter` than it was, and does not show it, nothing can be told.
fn judge(
    (name, queue): (&str, &QueueSurvey),
    base: &Base,
    held: &[String],
    (survey, is_shorter): (&Survey, bool),
) -> Vec<String> {
    let set = |bodies: &'_ [String]| bodies.iter().cloned().collect::<BTreeSet<String>>();
    let (live, sent, there) = (set(&base.live[name]), set(&base.sent[name]), set(held));
    let missing = live.difference(&there).count() as u64;
    let not_there = sent.difference(&there).count() as u64;
    let twice = (held.len() - there.len()) as u64;
    let QueueSurvey { lost_messages, doubtful_messages, unread_messages_max, untold_loss, .. } = queue;
    let mut wrong = Vec::new();
    let mut check = |is_right: bool, what: String| {
        if !is_right {
            wrong.push(format!("{name}: {what}"));
        }
    };
    check(there.is_subset(&sent), "something is there that nobody sent".to_owned());
    check(twice <= queue.returned_twins, format!("{twice} are there twice"));
    if is_shorter {
        return wrong;
    }
    check(*lost_messages <= missing, format!("{lost_messages} are told to be lost, {missing} are not there"));
    check(
        *doubtful_messages <= not_there,
        format!("{doubtful_messages} are told to be lost or settled, {not_there} are not there"),
    );
    let LostFrom { segments, log, bodies } = queue.lost_from;
    check(
        segments + log + bodies == lost_messages + doubtful_messages,
        format!("{:?} are not the {lost_messages} and {doubtful_messages}", queue.lost_from),
    );
    let known = lost_messages + doubtful_messages + queue.gone_messages + queue.left_out_messages;
    let told = known + unread_messages_max;
    let is_open = match untold_loss {
        None => false,
        Some(UntoldLoss::AtMost(most)) => told + most >= missing,
        Some(UntoldLoss::Unknown) => true,
    };
    let is_uncounted = survey.problems.texts.iter().any(|text| text.contains("are not counted"));
    let is_told = told >= missing || is_open || is_uncounted || !survey.notes.is_empty();
    check(is_told, format!("{missing} are not there, {told} are told, and {untold_loss:?}"));
    if untold_loss.is_none() && survey.notes.is_empty() {
        let told = format!("up to {unread_messages_max} are told to be lost, {not_there} are not there");
        check(*unread_messages_max <= not_there, told);
    }
    wrong
}

/// A record of a log file: the file, and where its payload begins and ends there.
type RecordOf = (PathBuf, u64, u64);

/// The files of the log, each good record in them, and whether there is nothing else.
fn records(folder: &Path, mut show: impl FnMut(&LogFile, &Record<'_>)) -> bool {
    let mut is_whole = true;
    for file in list_log_files(&RealDisk, &folder.join("log")).expect("it is there") {
        let note = |found: Found<'_>| match found {
            Found::Record(record) => show(&file, &record),
            _ => is_whole = false,
        };
        inspect_log_file(&RealDisk, &file, note).expect("it can be read");
    }
    is_whole
}

/// State records in the log.
fn states(folder: &Path) -> Vec<RecordOf> {
    let mut states = Vec::new();
    records(folder, |file, record| {
        if record.kind == RecordKind::State as u8 {
            // Behind the file's header.
            let end = record.position.0 - file.first.0 + 32;
            states.push((file.path.clone(), end - record.payload.len() as u64, end));
        }
    });
    states
}

/// Where the last good record of the log ends, and whether there is nothing else in its files.
fn end_of_log(folder: &Path) -> (u64, bool) {
    let mut end = 0;
    let is_whole = records(folder, |_, record| end = record.position.0);
    (end, is_whole)
}

/// Whether the end of the log is gone and what is left looks as the log of a server that was killed there. Nothing of the metadata or of what
/// segments hold can tell otherwise.
pub(super) fn is_shorter_unseen(base: &Path, damaged: &Path) -> bool {
    let (end, is_whole) = end_of_log(damaged);
    let newest =
        list_log_files(&RealDisk, &damaged.join("log")).expect("it is there").last().map(|it| it.first);
    let held = read_manifest(&RealDisk, &damaged.join("log")).expect("nobody damages it");
    let is_held =
        held.is_none_or(|held| held.end.0 <= end && newest.is_some_and(|first| first >= held.newest));
    is_whole && end < end_of_log(base).0 && is_held
}

/// Takes records off the end of the log, just where one begins or a byte later: by zeros, or by cutting.
fn shorten(folder: &Path, random: &SeededRandom) -> String {
    let files = list_log_files(&RealDisk, &folder.join("log")).expect("it is there");
    let newest = files.last().expect("there is one").first;
    let mut begins = Vec::new();
    records(folder, |file, record| {
        if file.first == newest {
            begins.push((file.path.clone(), record.range().start - file.first.0 + 32));
        }
    });
    if begins.is_empty() {
        return "nothing to be taken off".to_owned();
    }
    let (path, begin) = one_of(&begins, random);
    let at = (begin + random.below(2)) as usize;
    let mut bytes = std::fs::read(path).expect("it is there");
    let is_cut = random.below(2) == 0;
    if is_cut {
        bytes.truncate(at);
    } else {
        bytes[at..].fill(0);
    }
    std::fs::write(path, bytes).expect("it can be written");
    format!("{} from byte {at} of {} on", if is_cut { "nothing" } else { "zeros" }, path.display())
}

/// More than the record's checksum could put right.
fn wreck_record((path, first, end): &RecordOf, random: &SeededRandom) -> String {
    let at = (first + random.below(end - first - 1)) as usize;
    let mut bytes = std::fs::read(path).expect("it is there");
    bytes[at..at + 2].iter_mut().for_each(|byte| *byte ^= 1 + random.below(255) as u8);
    std::fs::write(path, bytes).expect("it can be written");
    format!("a state record wrecked at byte {at} of {}", path.display())
}

/// Damages a folder somewhere, and says how.
fn harm_anywhere(folder: &Path, random: &SeededRandom) -> String {
    let below = |parts: &[&str]| -> Vec<PathBuf> {
        parts.iter().flat_map(|part| crate::recovery::tests::files_below(&folder.join(part))).collect()
    };
    let states = states(folder);
    let files = match random.below(9) {
        0 => return shorten(folder, random),
        1..=3 if !states.is_empty() => return wreck_record(one_of(&states, random), random),
        4 => below(&["meta"]),
        _ => below(&["log", "segments"]),
    };
    harm(one_of::<PathBuf>(&files, random), *one_of(&HARMS, random), random)
}

/// Takes the newest file of the log away.
fn lose_newest(folder: &Path) -> String {
    let files = list_log_files(&RealDisk, &folder.join("log")).expect("it is there");
    let newest = files.last().expect("there is one").path.clone();
    std::fs::remove_file(&newest).expect("it is there");
    format!("{} is missing", newest.display())
}

/// Damages a copy, and says what of the report is wrong.
fn trial(base: &Base, damage: impl FnOnce(&Path) -> String) -> Vec<String> {
    let damaged = tempfile::tempdir().expect("a folder");
    copy(base.folder.path(), damaged.path());
    let what = damage(damaged.path());
    let is_shorter = is_shorter_unseen(base.folder.path(), damaged.path());
    let (survey, held) = salvaged(damaged.path());
    if is_mistaken(base.folder.path(), damaged.path()) {
        return Vec::new();
    }
    let nothing = Vec::new();
    // Without its declaration a queue has another name.
    let by_id: HashMap<u64, &QueueSurvey> = survey.queues.iter().map(|it| (it.id, it)).collect();
    let mut wrong = Vec::new();
    for (name, live) in &base.live {
        if let Some(queue) = by_id.get(&base.ids[name]) {
            let held = held.get(&queue.name).unwrap_or(&nothing);
            wrong.extend(judge((name, queue), base, held, (&survey, is_shorter)));
            let LostFrom { segments, log, .. } = queue.lost_from;
            // All damage is at one place.
            for (part, count) in [("/segments/", log), ("/log/", segments)] {
                if what.contains(part) && count > 0 && !is_shorter {
                    wrong.push(format!("{name}: {:?}, but the damage is elsewhere", queue.lost_from));
                }
            }
        } else if !live.is_empty() && survey.problems.is_empty() && !is_shorter {
            wrong.push(format!("nothing is told of {name}, which is gone"));
        }
    }
    if !wrong.is_empty() {
        wrong.push(what);
        wrong.extend(survey.queues.iter().map(|queue| format!("    {queue:?}")));
        wrong.extend(survey.problems.texts.iter().map(|text| format!("    {text}")));
    }
    wrong
}

#[test]
fn what_is_reported_is_what_is_there() {
    let mut wrong = Vec::new();
    for seed in seeds(&SEEDS) {
        let base = base(seed);
        for nth in 0..TRIALS {
            let random = SeededRandom::new(seed * 1000 + nth);
            let found = trial(&base, |folder| harm_anywhere(folder, &random));
            if !found.is_empty() {
                wrong.push(format!("seed {seed}, damage {nth}:\n{}", found.join("\n")));
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_is_reported_of_a_log_without_its_newest_file_is_what_is_there() {
    let wrong: Vec<String> =
        seeds(&KILLED_SEEDS).into_iter().flat_map(|seed| trial(&base(seed), lose_newest)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
