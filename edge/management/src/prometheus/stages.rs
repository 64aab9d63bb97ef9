//! Where the time of messages goes: one histogram per stage. Refuses to know how stages are measured.

use std::io;

use broker::{Broker, StageTimes};

use super::page::{Kind, Page};

/// Upper bounds of the classes, nanoseconds: 1 us to 17 s, each four times the one before. One less than a power of two, where
/// the histograms are exact.
const BOUNDS_NS: [u64; 13] = {
    let mut bounds = [0; 13];
    let mut at = 0;
    while at < bounds.len() {
        bounds[at] = (1 << (10 + 2 * at)) - 1;
        at += 1;
    }
    bounds
};

const NS_PER_S: f64 = 1e9;

/// All stages that were measured.
pub(crate) fn write(broker: &Broker, page: &mut Page<'_>) -> io::Result<()> {
    let before = page.set_prefix("warren_");
    page.head("stage_seconds", Kind::Histogram, "Time spent per batch in a stage of a message's way")?;
    for stage in broker.stages().snapshot().iter().filter(|stage| stage.times.count() > 0) {
        write_one(page, stage)?;
    }
    page.set_prefix(before);
    Ok(())
}

fn write_one(page: &mut Page<'_>, stage: &StageTimes) -> io::Result<()> {
    let kind = stage.kind.map_or(String::new(), |kind| format!(",queue_kind=\"{}\"", kind.name()));
    let of = format!("stage=\"{}\"{kind}", stage.stage.name());
    for (bound, count) in BOUNDS_NS.iter().zip(stage.times.cumulative(&BOUNDS_NS)) {
        let class = format!("{of},le=\"{}\"", *bound as f64 / NS_PER_S);
        page.sample("stage_seconds_bucket", &class, count as f64)?;
    }
    let count = stage.times.count() as f64;
    page.sample("stage_seconds_bucket", &format!("{of},le=\"+Inf\""), count)?;
    page.sample("stage_seconds_sum", &of, stage.times.sum() as f64 / NS_PER_S)?;
    page.sample("stage_seconds_count", &of, count)
}
