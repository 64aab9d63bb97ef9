//! A tree of calls as a flame graph: one SVG that any browser shows, with zoom and search by a script of its own. Nothing is
//! loaded from elsewhere. Knows nothing of where trees come from.

use stdx::markup::escaped;

use super::report::{Profile, Unit};
use super::tree::Node;

/// Width of the picture, pixels.
const WIDTH: f64 = 1200.0;

/// Height of one level, pixels.
const ROW: f64 = 17.0;

/// Room for title and legend.
const TOP: f64 = 44.0;

/// Narrower functions are left out, pixels.
const NARROWEST: f64 = 0.3;

/// Width of a character of the font, pixels.
const CHARACTER: f64 = 6.6;

/// Functions drawn at most; a profile seldom has a tenth of it.
const BOXES_MAX: usize = 20_000;

/// How boxes are coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Palette {
    /// By the crate of the function.
    Crates,
    /// Red where the share has grown, blue where it has shrunk.
    Change,
}

/// The picture of a tree.
#[must_use]
pub(super) fn svg(tree: &Node, title: &str, unit: Unit, palette: Palette) -> String {
    let mut drawing =
        Drawing { out: String::new(), whole: tree.value.max(1), unit, palette, boxes: 0, left_out: false };
    let height = TOP + ROW * tree.depth() as f64 + 12.0;
    drawing.node(tree, 0.0, 0);
    let note = match palette {
        Palette::Crates => "click to zoom, Ctrl-F to search",
        Palette::Change => "red: larger share than before, blue: smaller; click to zoom, Ctrl-F to search",
    };
    format!(
        "<?xml version=\"1.0\" standalone=\"no\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"{WIDTH}\" \
         height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" data-whole=\"{}\" font-family=\"monospace\" font-size=\"11\">\n\
         <style>{}</style>\n<rect width=\"100%\" height=\"100%\" class=\"paper\"/>\n\
         <text x=\"10\" y=\"18\" class=\"title\">{}</text>\n<text x=\"10\" y=\"34\" class=\"note\" id=\"note\">{note}{}</text>\n\
         <text x=\"1190\" y=\"18\" class=\"note\" id=\"reset\" text-anchor=\"end\" visibility=\"hidden\">reset zoom</text>\n\
         <text x=\"1190\" y=\"34\" class=\"note\" id=\"found\" text-anchor=\"end\"></text>\n\
         <g id=\"boxes\">\n{}</g>\n<script><![CDATA[{}]]></script>\n</svg>\n",
        tree.value.max(1),
        include_str!("flame.css"),
        escaped(title),
        if drawing.left_out { "; narrow functions are left out" } else { "" },
        drawing.out,
        include_str!("flame.js"),
    )
}

struct Drawing {
    out: String,
    whole: u64,
    unit: Unit,
    palette: Palette,
    boxes: usize,
    left_out: bool,
}

impl Drawing {
    /// Draws a function and what it called, from the top down; `before` is what stands to its left.
    fn node(&mut self, node: &Node, before: f64, level: usize) {
        let scale = WIDTH / self.whole as f64;
        let (x, width) = (before * scale, node.value as f64 * scale);
        if width < NARROWEST || self.boxes >= BOXES_MAX {
            self.left_out = true;
            return;
        }
        self.boxes += 1;
        let y = TOP + level as f64 * ROW;
        let share = node.value as f64 * 100.0 / self.whole as f64;
        let change = match self.palette {
            Palette::Crates => String::new(),
            Palette::Change => format!(", {:+.2} points", node.delta * 100.0),
        };
        let (name, amount) = (escaped(&node.name), self.unit.show(node.value));
        let label = escaped(&clipped(&node.name, width));
        self.out.push_str(&format!(
            "<g data-x=\"{x:.3}\" data-w=\"{width:.3}\" data-l=\"{level}\"><title>{name}: {amount}, {share:.2}%{change}</title>\
             <rect x=\"{x:.2}\" y=\"{y}\" width=\"{:.2}\" height=\"{}\" rx=\"1\" fill=\"{}\"/><text x=\"{:.2}\" y=\"{}\">{label}</text></g>\n",
            (width - 0.4).max(0.2),
            ROW - 1.0,
            self.colour(node),
            x + 3.0,
            y + 12.0,
        ));
        let mut left = before;
        for child in &node.children {
            self.node(child, left, level + 1);
            left += child.value as f64;
        }
    }

    fn colour(&self, node: &Node) -> String {
        if self.palette == Palette::Change {
            // A change of ten points is as strong as it gets.
            let strength = (node.delta.abs() * 10.0).min(1.0).sqrt();
            let pale = (235.0 - 135.0 * strength) as u8;
            let (red, blue) = if node.delta > 0.0 { (240, pale) } else { (pale, 240) };
            return if node.delta.abs() < 1e-4 {
                "#e6e6e6".into()
            } else {
                format!("#{red:02x}{pale:02x}{blue:02x}")
            };
        }
        let path = node.name.trim_start_matches(['<', '&']).trim_start_matches("impl ");
        let crate_name = path.split([':', ' ']).next().unwrap_or_default();
        let sum = crate_name.bytes().fold(5381u32, |sum, byte| sum.wrapping_mul(33) ^ u32::from(byte));
        // Warm colours, readable with black letters.
        let hue = match crate_name {
            "core" | "alloc" | "std" | "hashbrown" => 200 + sum % 30,
            _ => sum % 62,
        };
        format!("hsl({hue},{}%,{}%)", 62 + sum / 64 % 20, 66 + sum / 4096 % 10)
    }
}

/// As much of a name as there is room for.
fn clipped(name: &str, width: f64) -> String {
    let room = ((width - 6.0) / CHARACTER) as usize;
    if name.chars().count() <= room {
        return name.to_owned();
    }
    if room < 3 {
        return String::new();
    }
    let mut clipped: String = name.chars().take(room - 2).collect();
    clipped.push_str("..");
    clipped
}

/// The flame graph of a profile as an SVG document; functions of one crate have one colour.
#[must_use]
pub fn flame_graph(profile: &Profile) -> String {
    svg(&Node::of(profile), &profile.summary(), profile.unit, Palette::Crates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_a_box_for_each_function_and_no_name_breaks_it() {
        let tree = Node::of_folded("main;<a & b> 90\nmain;c 10\nmain;tiny 0\n").unwrap();
        let picture = svg(&tree, "a \"title\" <b>", Unit::Nanoseconds, Palette::Crates);
        assert_eq!(picture.matches("<g data-x").count(), 4);
        assert!(picture.contains("&lt;a &amp; b&gt;: 0.0 ms, 90.00%") && !picture.contains("<a & b>"));
        assert!(picture.contains("a &quot;title&quot; &lt;b&gt;"));
    }

    #[test]
    fn growth_is_red_and_shrinkage_blue() {
        let super::super::Difference { tree, .. } =
            super::super::diff("a 50\nb 50\n", "a 90\nb 10\n").unwrap();
        let picture = svg(&tree, "t", Unit::Bytes, Palette::Change);
        assert!(picture.contains("fill=\"#f06464\"") && picture.contains("fill=\"#6464f0\""), "{picture}");
    }

    #[test]
    fn names_are_clipped_to_their_room() {
        assert_eq!(clipped("abcdefghij", 60.0), "abcdef..");
        assert_eq!(clipped("abc", 600.0), "abc");
        assert_eq!(clipped("abc", 10.0), "");
    }
}
