//! Metrics of shovels, as RabbitMQ's plugin `rabbitmq_shovel_prometheus` has them. Refuses to know pages.

use std::io;

use shovel::State;

use super::families::Asked;
use super::page::{Kind, Page};

/// How many shovels are in each state; states in which none is are left out.
pub(crate) fn states(asked: &Asked<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let (dynamic, of_config) = ("shovel_dynamic", "shovel_static");
    page.head(dynamic, Kind::Gauge, "Shovels of runtime parameters, by state")?;
    let reports: Vec<_> = asked.node.shovels.iter().flat_map(shovel::Shovels::reports).collect();
    for state in [State::STARTING, State::RUNNING, State::TERMINATED] {
        let count = reports.iter().filter(|report| report.state.name() == state).count();
        if count > 0 {
            page.sample(dynamic, &format!("status=\"{state}\""), count as f64)?;
        }
    }
    page.head(of_config, Kind::Gauge, "Shovels of the configuration, by state: there are none")
}
