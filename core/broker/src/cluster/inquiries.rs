//! Questions of tools on one node that another node answers: opaque bytes both ways. Refuses to know what they mean.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use parking_lot::Mutex;
use platform::Monotonic;

use super::doors::StreamDoors;
use super::name::NodeName;

/// Bytes of an answer of another node at most; a longer one is none.
pub const ANSWER_BYTES_MAX: usize = 256 << 20;

/// A node that has not answered by then counts as silent.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);

/// Answers questions of other nodes; runs on a thread that may block.
pub type Answerer = Arc<dyn Fn(&[u8]) -> Vec<u8> + Send + Sync>;

/// The answerer of this node, and how many answers are being made.
#[derive(Default)]
pub(super) struct Answering {
    pub(super) answerer: Mutex<Option<Answerer>>,
    pub(super) running: AtomicUsize,
    pub(super) stream_doors: Mutex<StreamDoors>,
}

/// Takes the answer to a question, or that there is none.
pub(super) type TakeAnswer = Box<dyn FnOnce(Option<Vec<u8>>) + Send>;

/// A question that waits for its answer.
pub(super) struct Asked {
    pub(super) node: NodeName,
    pub(super) until: Monotonic,
    pub(super) reply: TakeAnswer,
}

/// Questions of this node.
#[derive(Default)]
pub(super) struct Inquiries {
    pub(super) next: u64,
    pub(super) asked: HashMap<u64, Asked>,
}

impl Inquiries {
    /// Ends questions that hold this without an answer.
    fn end(&mut self, is_over: impl Fn(&Asked) -> bool) {
        let over: Vec<u64> =
            self.asked.iter().filter(|(_, asked)| is_over(asked)).map(|(id, _)| *id).collect();
        for asked in over.into_iter().filter_map(|id| self.asked.remove(&id)) {
            (asked.reply)(None);
        }
    }

    pub(super) fn down(&mut self, name: &NodeName) {
        self.end(|asked| asked.node == *name);
    }

    pub(super) fn tick(&mut self, now: Monotonic) {
        self.end(|asked| asked.until <= now);
    }
}
