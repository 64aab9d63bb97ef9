//! A run: streams are made, publishers and consumers started, figures printed, streams deleted.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use wire::stream::requests::{Create, Delete};

use super::client::{Client, pairs};
use super::options::StreamOptions;
use super::{consumer, producer};
use crate::threads::{Counts, Plan, measure};

/// Runs it.
///
/// # Errors
/// The broker cannot be reached, or refuses something.
pub(crate) fn run(options: &StreamOptions) -> Result<ExitCode> {
    let mut control = Client::open(&options.uris)?;
    if !options.predeclared {
        let arguments = pairs([("max-length-bytes", options.max_length_bytes.as_str())]);
        for stream in &options.streams {
            // An earlier run may have left a stream.
            let _not_there = control.request(Delete { stream }, |_| ());
            control.request(Create { stream, arguments: arguments.as_list() }, |_| ())?;
        }
    }
    let plan = Plan {
        seconds: options.time,
        enough: options.cmessages * options.consumers as u64,
        pid: options.pid,
        json: options.json,
        groups: "chunks",
        latency_of: "first message of a chunk",
    };
    let counts = Arc::new(Counts::new());
    let measured = measure(
        &plan,
        &counts,
        || (0..options.consumers).map(|nth| consumer::start(options, nth, &counts)).collect(),
        || {
            let started: Result<Vec<_>> =
                (0..options.producers).map(|nth| producer::start(options, nth, &counts)).collect();
            Ok(started?.into_iter().flatten().collect())
        },
    );
    if !options.predeclared && !options.keep {
        let mut control = Client::open(&options.uris)?;
        for stream in &options.streams {
            control.request(Delete { stream }, |_| ())?;
        }
    }
    measured.map(|()| ExitCode::SUCCESS)
}
