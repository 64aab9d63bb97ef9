//! A profile as a JSON document, for the web page, for files and for comparing: flat, because calls nest deeper than readers of
//! JSON allow. Knows nothing of pictures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cut::LabelKey;
use super::report::{Profile, Unit, Watched};

/// The document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// The unit of values.
    pub unit: Unit,
    /// The events that were watched; files of earlier builds do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched: Option<Watched>,
    /// When it began, milliseconds since the epoch.
    pub began_ms: u64,
    /// How long it took, milliseconds.
    pub wall_ms: u64,
    /// Samples taken.
    pub samples: u64,
    /// Samples that were lost.
    pub dropped: u64,
    /// Names of labels, in the order in which [`DocumentStack::labels`] has their values.
    pub label_names: Vec<String>,
    /// Names of functions.
    pub names: Vec<String>,
    /// The stacks, in no order.
    pub stacks: Vec<DocumentStack>,
}

/// A stack with its labels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DocumentStack {
    /// Indices into [`Document::names`], the outermost function first.
    pub frames: Vec<u32>,
    /// The work of its thread; null where it was nothing of the kind.
    pub labels: Vec<Option<String>>,
    /// How much, in the document's unit.
    pub value: u64,
    /// Samples, or pieces of memory.
    pub count: u64,
}

impl Document {
    /// Of a profile. Stacks that differ only in addresses within a function are added up.
    #[must_use]
    pub fn of(profile: &Profile) -> Document {
        let mut stacks: BTreeMap<(Vec<u32>, Vec<Option<String>>), (u64, u64)> = BTreeMap::new();
        for stack in &profile.stacks {
            let labels = stack.labels.iter().map(|label| label.as_deref().map(str::to_owned)).collect();
            let sums = stacks.entry((stack.frames.clone(), labels)).or_default();
            *sums = (sums.0 + stack.value, sums.1 + stack.count);
        }
        let stack = |((frames, labels), (value, count))| DocumentStack { frames, labels, value, count };
        Document {
            unit: profile.unit,
            watched: Some(profile.watched),
            began_ms: profile.began_ms,
            wall_ms: profile.wall_ms,
            samples: profile.samples,
            dropped: profile.dropped,
            label_names: LabelKey::ALL.iter().map(|key| key.name().to_owned()).collect(),
            names: profile.frames.iter().map(|frame| frame.name.to_string()).collect(),
            stacks: stacks.into_iter().map(stack).collect(),
        }
    }

    /// Stacks as names, the outermost function first; names that the document lacks are left out.
    pub(super) fn paths(&self) -> impl Iterator<Item = (Vec<&str>, u64)> {
        self.stacks.iter().map(|stack| {
            let name = |at: &u32| self.names.get(*at as usize).map(String::as_str);
            (stack.frames.iter().filter_map(name).collect(), stack.value)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::sample;
    use super::*;

    #[test]
    fn a_document_of_deep_stacks_is_read_as_it_was_written() {
        let deep = (0..300).map(|level| format!("f{level}")).collect::<Vec<_>>().join(";");
        let document = Document::of(&sample(&[(&deep, 5), ("orders:a;b", 2), ("orders:a;b", 3)]));
        let text = serde_json::to_string(&document).unwrap();
        assert_eq!(serde_json::from_str::<Document>(&text).unwrap(), document);
        let paths: Vec<_> = document.paths().collect();
        assert_eq!((paths.len(), paths[0].0.len()), (2, 300));
        assert_eq!(paths[1], (vec!["a", "b"], 5));
    }
}
