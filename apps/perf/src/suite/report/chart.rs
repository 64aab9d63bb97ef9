//! Lines over time as inline SVG. Colours come from the page's style sheet, so that a chart follows light and dark.

use std::fmt::Write;

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 190.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 20.0;
/// More points than this say nothing more at this width.
const POINTS_MAX: usize = 300;

/// How values lie on the vertical axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    /// From 0.
    Linear,
    /// A line per factor of ten.
    Logarithmic,
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stroke {
    Solid,
    Dashed,
}

/// Points of one line.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// The name, for a hint at its points.
    pub(super) name: String,
    /// Number of its colour.
    pub(super) colour: usize,
    pub(super) stroke: Stroke,
    /// Time in seconds, and value.
    pub(super) points: Vec<(f64, f64)>,
}

/// A chart, or nothing if no line has a point.
pub(super) fn chart(title: &str, unit: &str, scale: Scale, lines: &[Line]) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    let (x_max, y_max) = points().fold((0.0_f64, 0.0_f64), |(x, y), point| (x.max(point.0), y.max(point.1)));
    if x_max <= 0.0 {
        return String::new();
    }
    let least = points().map(|point| point.1).filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
    let axis = Axis::new(scale, least, y_max);
    let mut svg = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = write!(
        svg,
        "<figure><figcaption>{title} <span>{unit}</span></figcaption>\
         <svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">"
    );
    for tick in axis.ticks() {
        let (y, end) = (axis.y(tick), WIDTH - RIGHT);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{end}\" y2=\"{y:.1}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 5.0,
            y + 3.5,
            short(tick)
        );
    }
    let x = |seconds: f64| LEFT + seconds / x_max * (WIDTH - LEFT - RIGHT);
    for share in [0.0, 0.5, 1.0] {
        let (seconds, anchor) = (x_max * share, ["start", "middle", "end"][(share * 2.0) as usize % 3]);
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{} s</text>",
            x(seconds),
            HEIGHT - 5.0,
            short((seconds * 2.0).round() / 2.0)
        );
    }
    lines.iter().for_each(|line| draw(&mut svg, line, &axis, &x));
    svg += "</svg></figure>";
    svg
}

fn draw(svg: &mut String, line: &Line, axis: &Axis, x: &dyn Fn(f64) -> f64) {
    let every = line.points.len().div_ceil(POINTS_MAX).max(1);
    let points: Vec<(f64, f64)> = line.points.iter().copied().step_by(every).collect();
    let place = |(seconds, value): (f64, f64)| format!("{:.1},{:.1}", x(seconds), axis.y(value));
    let (colour, dash) = (line.colour % 4, if line.stroke == Stroke::Dashed { " dash" } else { "" });
    let path = points.iter().copied().map(place).collect::<Vec<_>>().join(" ");
    let _ = write!(svg, "<polyline class=\"plot c{colour}{dash}\" points=\"{path}\"/>");
    let radius = if points.len() > 60 { 1.2 } else { 2.2 };
    for (seconds, value) in points {
        let (cx, cy, hint) = (x(seconds), axis.y(value), short(value));
        let _ = write!(
            svg,
            "<circle class=\"dot d{colour}\" cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"{radius}\"><title>{}: {hint} at {seconds:.1} s</title></circle>",
            line.name
        );
    }
}

struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Axis {
    fn new(scale: Scale, least: f64, most: f64) -> Self {
        match scale {
            Scale::Linear => Self { scale, low: 0.0, high: round_up(most.max(f64::MIN_POSITIVE)) },
            Scale::Logarithmic => {
                let least = if least.is_finite() { least } else { 1.0 };
                let low = 10_f64.powf(least.log10().floor());
                let high = 10_f64.powf(most.max(low).log10().ceil()).max(low * 10.0);
                Self { scale, low, high }
            }
        }
    }

    fn y(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => value / self.high,
            Scale::Logarithmic => {
                (value.max(self.low).log10() - self.low.log10()) / (self.high.log10() - self.low.log10())
            }
        };
        HEIGHT - BOTTOM - share.clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM)
    }

    fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => (0..=4).map(|n| self.high * f64::from(n) / 4.0).collect(),
            Scale::Logarithmic => {
                let mut ticks = vec![self.low];
                while let Some(last) = ticks.last().filter(|last| **last * 1.5 < self.high) {
                    ticks.push(last * 10.0);
                }
                ticks
            }
        }
    }
}

/// The next of 1, 2, 4, 6, 8 and 10 times a power of ten.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let step = [1.0, 2.0, 4.0, 6.0, 8.0].into_iter().find(|step| step * power >= value);
    step.unwrap_or(10.0) * power
}

/// A number in few characters.
pub(super) fn short(value: f64) -> String {
    let (value, unit) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, "G"),
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = match value.abs() {
        size if size >= 100.0 || size == 0.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    let text = if digits > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let all = [0.0, 0.25, 5.0, 12.34, 999.6, 12_345.0, 2_500_000.0].map(short);
        assert_eq!(all, ["0", "0.25", "5", "12.3", "1000", "12.3k", "2.5M"]);
    }

    #[test]
    fn a_chart_holds_its_points_between_its_axes() {
        let line = |points: &[(f64, f64)]| Line {
            name: "a".to_owned(),
            colour: 1,
            stroke: Stroke::Dashed,
            points: points.to_vec(),
        };
        for scale in [Scale::Linear, Scale::Logarithmic] {
            let svg = chart("t", "u", scale, &[line(&[(1.0, 0.0), (2.0, 37.0), (3.0, 12_000.0)])]);
            assert_eq!(svg.matches("<circle").count(), 3);
            for cy in
                svg.split("cy=\"").skip(1).map(|rest| rest.split('"').next().unwrap().parse::<f64>().unwrap())
            {
                assert!((TOP - 0.1..=HEIGHT - BOTTOM + 0.1).contains(&cy), "{cy}");
            }
        }
        assert_eq!(chart("t", "u", Scale::Linear, &[line(&[])]), "");
    }

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!([0.9, 1.0, 1.1, 3.0, 7.0, 95.0].map(round_up), [1.0, 1.0, 2.0, 4.0, 8.0, 100.0]);
        assert_eq!(Axis::new(Scale::Logarithmic, 30.0, 4000.0).ticks(), [10.0, 100.0, 1000.0, 10_000.0]);
    }
}
