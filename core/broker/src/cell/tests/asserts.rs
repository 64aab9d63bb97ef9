//! Counters that cannot be right end the service of their queue, not of the node, and not the messages.

use queues::SettledRun;

use super::*;
use crate::cell::Life;

#[test]
fn a_letter_that_is_reported_twice_ends_the_service_of_its_queue_which_comes_back_whole() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let bench = Bench::open(folder.path());
    let (queue, other) = (bench.declare("counted", no_arguments()), bench.declare("other", no_arguments()));
    bench.publish("counted", &["one", "two"]);
    bench.publish("other", &["three"]);
    bench.sync();
    let removal = SettledRun { first: MessageSeq::new(0, 0), count: 1, body_bytes: 3 };
    queue.submit(Event::LettersTaken(queue.life(), vec![removal]));
    assert_ne!(queue.life(), Life::default(), "no letter was on its way");
    assert_eq!((ready(&other), other.life()), (1, Life::default()));
    while queue.condition() != Condition::Running {
        std::thread::yield_now();
    }
    assert_eq!(ready(&queue), 2, "nothing was removed for a letter that never was");
    assert_eq!(bench.get("counted").expect("it is in service").map(|(_, body)| body), Some("one".to_owned()));
}
