//! Verdict on the leader and its factor: a sentence for each peer, and a line for each test.
//!
//! Refuses to measure: a factor is the first broker's main figure of a test against the peer's, so that above 1 is better.

use super::{bytes, main_figure, sizes_of};
use crate::suite::catalogue::{Figure, GROUPS, Test};
use crate::suite::results::{Measurement, Results};
use std::fmt::Write;
use stdx::markup::escaped;

/// Factors nearer to 1 than this are noise.
const EVEN: f64 = 0.1;

/// The broker that is ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Ahead,
    Even,
    Behind,
}

impl Standing {
    /// The meaning of a factor.
    pub(super) fn of(times: f64) -> Self {
        match times {
            times if times >= 1.0 + EVEN => Self::Ahead,
            times if times <= 1.0 - EVEN => Self::Behind,
            _ => Self::Even,
        }
    }

    /// The class of its cells.
    pub(super) const fn class(self) -> &'static str {
        match self {
            Self::Ahead => "good",
            Self::Even => "",
            Self::Behind => "bad",
        }
    }
}

/// How many times better the first value is, by what is better for this figure.
pub(super) fn factor(figure: Figure, own: f64, peer: f64) -> Option<f64> {
    let more_is_better = matches!(figure, Figure::Sent | Figure::Received);
    let (above, below) = if more_is_better { (own, peer) } else { (peer, own) };
    (above > 0.0 && below > 0.0).then(|| above / below)
}

/// One test and size against one peer.
struct Duel {
    test: &'static Test,
    size: u32,
    figure: Option<f64>,
    cpu: Option<f64>,
}

/// The verdicts; nothing without a peer.
pub(super) fn verdicts(results: &Results) -> String {
    let Some((own, peers)) = results.plan.brokers.split_first().filter(|(_, peers)| !peers.is_empty()) else {
        return String::new();
    };
    let duels: Vec<Vec<Duel>> = peers.iter().map(|peer| duels(results, own, peer)).collect();
    let mut html = String::from("<h2>Verdict</h2>");
    for (peer, duels) in peers.iter().zip(&duels) {
        html += &sentence(own, peer, duels);
    }
    html += "<div class=\"scroll\"><table><tr><th>test</th>";
    for peer in peers {
        // Writing to a string cannot fail, here and below.
        let _ = write!(html, "<th class=\"left\">against {0}</th><th>CPU less by</th>", escaped(peer));
    }
    html += "</tr>";
    for test in GROUPS.iter().flat_map(|group| group.tests) {
        let of_test = |duels: &[Duel]| -> Vec<(Option<f64>, Option<f64>)> {
            let found = duels.iter().filter(|duel| duel.test.name == test.name);
            found.map(|duel| (duel.figure, duel.cpu)).collect()
        };
        let found: Vec<Vec<(Option<f64>, Option<f64>)>> = duels.iter().map(|duels| of_test(duels)).collect();
        if found.iter().all(Vec::is_empty) {
            continue;
        }
        let _ = write!(html, "<tr><td><a href=\"#{0}\">{0}</a></td>", test.name);
        for pairs in found {
            let (figures, cpu): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            html += &verdict(&figures.into_iter().flatten().collect::<Vec<_>>());
            let cpu = span(&cpu.into_iter().flatten().collect::<Vec<_>>());
            let _ = write!(html, "<td>{}</td>", cpu.unwrap_or_else(|| "–".to_owned()));
        }
        html += "</tr>";
    }
    html + "</table></div>"
}

fn duels(results: &Results, own: &str, peer: &str) -> Vec<Duel> {
    let mut duels = Vec::new();
    for test in GROUPS.iter().flat_map(|group| group.tests) {
        for size in sizes_of(results, test) {
            let both = results.find(test.name, size, own).zip(results.find(test.name, size, peer));
            let Some((mine, theirs)) = both else { continue };
            let figure = main_figure(test, mine).zip(main_figure(test, theirs));
            let figure = figure.and_then(|(mine, theirs)| factor(test.figure, mine, theirs));
            // A microsecond per message sent is none per message received.
            let cpu = cpu(mine).zip(cpu(theirs)).filter(|_| has_received(mine) == has_received(theirs));
            let cpu = cpu.filter(|(mine, theirs)| *mine > 0.0 && *theirs > 0.0);
            duels.push(Duel { test, size, figure, cpu: cpu.map(|(mine, theirs)| theirs / mine) });
        }
    }
    duels
}

fn has_received(found: &Measurement) -> bool {
    found.figures.as_ref().is_some_and(|figures| figures.received > 0)
}

fn cpu(found: &Measurement) -> Option<f64> {
    found.figures.as_ref()?.broker?.cpu_us_per_message
}

/// How often the first broker is ahead, where it is not, and its processor time.
fn sentence(own: &str, peer: &str, duels: &[Duel]) -> String {
    let measured: Vec<(&Duel, f64)> = duels.iter().filter_map(|duel| Some((duel, duel.figure?))).collect();
    let that = |standing| measured.iter().filter(move |(_, times)| Standing::of(*times) == standing);
    let behind: Vec<String> = that(Standing::Behind)
        .map(|(duel, times)| format!("{} {} ({times:.2}×)", duel.test.name, bytes(duel.size)))
        .collect();
    let (ahead, even) = (that(Standing::Ahead).count(), that(Standing::Even).count());
    let mut html = format!(
        "<p><b>{} against {}:</b> ahead in {ahead} of {} measurements, even in {even}, behind in {}",
        escaped(own),
        escaped(peer),
        measured.len(),
        behind.len()
    );
    if !behind.is_empty() {
        let _ = write!(html, ": {}", escaped(&behind.join(", ")));
    }
    let mut cpu: Vec<f64> = duels.iter().filter_map(|duel| duel.cpu).collect();
    cpu.sort_by(f64::total_cmp);
    if let (Some(median), Some(span)) = (cpu.get(cpu.len() / 2), span(&cpu)) {
        let _ = write!(html, ". It takes {} less CPU per message in the median ({span})", times(*median));
    }
    html + ".</p>"
}

/// A cell with who is ahead over all sizes.
fn verdict(figures: &[f64]) -> String {
    let Some(span) = span(figures) else { return "<td class=\"left\">not measured</td>".to_owned() };
    let standings: Vec<Standing> = figures.iter().map(|times| Standing::of(*times)).collect();
    let all = |standing| standings.iter().all(|found| *found == standing);
    let (class, word) = if all(Standing::Ahead) {
        ("good", "ahead")
    } else if all(Standing::Behind) {
        ("bad", "behind")
    } else if all(Standing::Even) {
        ("", "even")
    } else if standings.contains(&Standing::Behind) {
        ("bad", "mixed")
    } else {
        ("good", "even or ahead")
    };
    format!("<td class=\"left {class}\">{word} {span}</td>")
}

/// The least and the largest factor.
fn span(figures: &[f64]) -> Option<String> {
    let (least, most) = figures
        .iter()
        .fold((f64::INFINITY, 0.0_f64), |(least, most), times| (least.min(*times), most.max(*times)));
    let (first, last) = (times(least), times(most));
    (!figures.is_empty()).then(|| if first == last { first } else { format!("{first} to {last}") })
}

/// A factor in few characters.
fn times(value: f64) -> String {
    match value {
        value if value < 1.0 => format!("{value:.2}×"),
        value if value < 10.0 => format!("{value:.1}×"),
        value => format!("{value:.0}×"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_above_one_is_better_whatever_the_figure() {
        assert_eq!(factor(Figure::Received, 400.0, 100.0), Some(4.0));
        assert_eq!(factor(Figure::Latency, 1.0, 4.0), Some(4.0));
        assert_eq!((factor(Figure::Latency, 0.0, 4.0), factor(Figure::Sent, 5.0, 0.0)), (None, None));
    }

    #[test]
    fn sizes_together_are_ahead_behind_even_or_mixed() {
        let text = |figures: &[f64]| verdict(figures);
        assert!(text(&[2.0, 14.2]).contains("good\">ahead 2.0× to 14×"));
        assert!(text(&[0.5]).contains("bad\">behind 0.50×") && text(&[1.05, 0.95]).contains("even 0.95×"));
        assert!(text(&[0.5, 3.0]).contains("bad\">mixed") && text(&[1.0, 3.0]).contains("even or ahead"));
        assert!(text(&[]).contains("not measured"));
    }
}
