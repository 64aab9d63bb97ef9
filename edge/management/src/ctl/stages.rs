//! `stages`: where the time of messages goes, as rows and in the status.

use broker::{Broker, StageTimes};
use serde_json::Value;

use crate::ctl::protocol::{Answer, Rows};
use crate::resources::stages::{SHARES, mean_us, us};

/// Each stage with the number of batches seen and percentiles in microseconds, since the node started.
pub(crate) fn stages(broker: &Broker) -> Answer {
    let mut columns = vec!["stage".to_owned(), "queue_kind".into(), "batches".into(), "mean_us".into()];
    columns.extend(SHARES.map(|(name, _)| format!("{name}_us")));
    let rows = broker.stages().snapshot().iter().map(row).collect();
    Answer::Rows(Rows { columns, rows })
}

fn row(times: &StageTimes) -> Vec<Value> {
    let kind = times.kind.map_or("", |kind| kind.name());
    let mut row =
        vec![times.stage.name().into(), kind.into(), times.times.count().into(), mean_us(times).into()];
    row.extend(SHARES.map(|(_, share)| Value::from(us(times.times.quantile(share)))));
    row
}

/// The section of `status`: the measured stages, one line each.
pub(crate) fn status(broker: &Broker) -> String {
    let seen = broker.stages().snapshot();
    let lines: Vec<String> = seen
        .iter()
        .filter(|times| times.times.count() > 0)
        .map(|times| {
            let kind = times.kind.map_or(String::new(), |kind| format!(" ({})", kind.name()));
            let at = |share| us(times.times.quantile(share));
            format!(
                "{}{kind}: {} batches, p50 {} us, p99 {} us, max {} us",
                times.stage.name(),
                times.times.count(),
                at(0.5),
                at(0.99),
                at(1.0)
            )
        })
        .collect();
    let lines = if lines.is_empty() { "(nothing yet)".into() } else { lines.join("\n") };
    format!("Where the time goes (`stages` has more)\n\n{lines}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::stages::status_entry;
    use broker::{BrokerOptions, Stage};

    #[test]
    fn what_was_measured_is_listed_and_told_in_the_status() {
        let folder = tempfile::tempdir().unwrap();
        let broker = Broker::open(folder.path(), BrokerOptions::default()).unwrap();
        broker.stages().record(Stage::Write, 1_023);
        let Answer::Rows(rows) = stages(&broker) else { panic!() };
        let write = rows.rows.iter().find(|row| row[0] == "write").unwrap();
        assert_eq!(
            write[2..],
            [Value::from(1), 1.0.into(), 1.0.into(), 1.0.into(), 1.0.into(), 1.0.into(), 1.0.into()]
        );
        assert!(status(&broker).contains("write: 1 batches, p50 1 us"), "{}", status(&broker));
        assert_eq!(status_entry(&broker).as_array().unwrap().len(), rows.rows.len());
    }
}
