//! Part of a report on the places in the logs that cannot be read: how many messages were in them, and what is known of their ends. Knows
//! nothing of how they were found.

use std::collections::HashMap;

use commitlog::LogOptions;
use stdx::QueueId;

use super::gaps::{Gaps, MESSAGE_BYTES_MIN};
use super::strays::Levels;
use super::survey::{FileSurvey, QueueSurvey, Survey};
use crate::control::follow::Contents;

/// How many numbers the messages of each queue had, where some of them cannot be read: those that were found take theirs.
pub(super) struct Numbers(HashMap<u64, u64>);

impl Numbers {
    /// By what all readable records of the log tell.
    pub(super) fn of(contents: &Contents, gaps: &Gaps) -> Numbers {
        let unread = contents.iter().filter(|(id, _)| gaps.messages_max(id.0) > 0);
        Numbers(
            unread
                .map(|(QueueId(id), queue)| (*id, (0..=u8::MAX).map(|level| queue.next_number(level)).sum()))
                .collect(),
        )
    }

    /// The places that are left for messages of which nothing is known. A message that may be there twice counts once.
    fn left(&self, queue: &QueueSurvey) -> u64 {
        let QueueSurvey { messages, returned_twins, lost_messages, doubtful_messages, gone_messages, .. } =
            queue;
        let known =
            messages.saturating_sub(*returned_twins) + lost_messages + doubtful_messages + gone_messages;
        self.0.get(&queue.id).map_or(0, |numbers| numbers.saturating_sub(known))
    }
}

/// Tells of messages in records that cannot be read.
pub(super) fn tell_gaps(gaps: &Gaps, levels: &HashMap<u64, Levels>, numbers: &Numbers, survey: &mut Survey) {
    for queue in &mut survey.queues {
        queue.untold_loss = gaps.untold_loss(queue.id, levels.contains_key(&queue.id));
        // Where nobody knows how many there were, the found messages may be of those.
        let is_counted = queue.untold_loss.is_none() && !gaps.has_tail();
        let left = if is_counted { numbers.left(queue) } else { u64::MAX };
        queue.unread_messages_max = gaps.messages_max(queue.id).min(left);
    }
    let unread = match (gaps.bytes(), gaps.unmeasured_bytes_max()) {
        (0, 0) => return,
        (bytes, 0) => format!("{bytes} bytes of records cannot be read"),
        (bytes, most) => {
            let beside = match bytes {
                0 => String::new(),
                _ => format!(". Beside it, {bytes} bytes of records cannot be read"),
            };
            format!(
                "the newest file is missing, and nothing tells how long it was: {most} bytes at most{beside}"
            )
        }
    };
    let known: u64 = survey.queues.iter().map(|queue| queue.unread_messages_max).sum();
    let open = survey.queues.iter().filter(|queue| queue.untold_loss.is_some()).count();
    let most = gaps.any_messages_max();
    let rest = match open {
        0 => String::new(),
        _ => format!(
            ". Of {open} of the queues no later record tells their messages: their losses cannot be known, {most} messages at most"
        ),
    };
    let counted = match (known, open) {
        (0, 1..) => String::new(),
        _ => format!(": by what comes behind them, up to {known} messages are lost"),
    };
    survey.problems.add(format!("log/: {unread}{counted}{rest}"));
    let doubtful = survey.segments_doubtful;
    if doubtful > 0 {
        survey.problems.add(format!(
            "no readable record names {doubtful} of the segment files, of queues whose newest state may be in what cannot be read: what of their \
             messages was neither settled nor found is lost, too, and is not counted"
        ));
    }
}

/// Tells of the ends of logs that cannot be read.
pub(super) fn tell_ends(gaps: &Gaps, survey: &mut Survey) {
    let unfinished = survey.files.iter().filter(|file| file.unfinished_bytes > 0);
    let of = gaps.tail_enqueue().and_then(|id| survey.queues.iter().find(|queue| queue.id == id));
    survey.notes = unfinished.map(|file| end(file, of)).collect();
}

/// The knowledge of the end of a file that cannot be read; it seems to be messages `of` a queue.
fn end(file: &FileSurvey, of: Option<&QueueSurvey>) -> String {
    let FileSurvey { log, path, bytes, unfinished_bytes, may_be_cut, .. } = file;
    let what = match (*log, of) {
        ("meta", _) => "declarations, deletions or bindings".to_owned(),
        (_, Some(queue)) => {
            format!("messages of queue '{}' in vhost '{}', it seems,", queue.name, queue.vhost)
        }
        (_, None) => "messages, settlements or states of queues".to_owned(),
    };
    let path = path.display();
    let mut told = format!(
        "{path}: the last {unfinished_bytes} bytes cannot be read: a write that a crash interrupted, of which nobody had been told, or damage of the \
         last one. Then the {what} in it are lost, and nothing tells which"
    );
    if *may_be_cut {
        let room = LogOptions::default().file_bytes_max.saturating_sub(*bytes);
        let messages = room / MESSAGE_BYTES_MIN;
        told += &format!(
            ". The file ends where a server lets one end only on a full disk or with a large write: if it was neither that nor the crash, the bytes behind are lost: up to {room} more bytes, {messages} messages \
             at most, of any queue"
        );
    }
    told
}
