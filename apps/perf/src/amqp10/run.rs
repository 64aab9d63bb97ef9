//! A run: queues are declared, receivers and senders started, figures printed, queues deleted.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;

use super::management::Manager;
use super::options::Amqp10Options;
use super::{receiver, sender};
use crate::threads::{Counts, Plan, measure};

/// Runs it.
///
/// # Errors
/// The broker cannot be reached, or refuses something.
pub(crate) fn run(options: &Amqp10Options) -> Result<ExitCode> {
    let declared = options.declared();
    if !declared.is_empty() {
        let mut manager = Manager::open(&options.uri)?;
        for queue in declared {
            manager.declare(queue, &options.queue_type)?;
        }
    }
    let plan = Plan {
        seconds: options.time,
        enough: options.cmessages * options.consumers as u64,
        pid: options.pid,
        json: options.json,
        groups: "dispositions",
        latency_of: "first message of a read",
    };
    let counts = Arc::new(Counts::new());
    let measured = measure(
        &plan,
        &counts,
        || (0..options.consumers).map(|nth| receiver::start(options, nth, &counts)).collect(),
        || (0..options.producers).map(|nth| sender::start(options, nth, &counts)).collect(),
    );
    if !declared.is_empty() && !options.keep {
        let mut manager = Manager::open(&options.uri)?;
        for queue in declared {
            manager.delete(queue)?;
        }
    }
    measured.map(|()| ExitCode::SUCCESS)
}
