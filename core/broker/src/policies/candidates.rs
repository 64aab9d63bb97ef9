//! Of many patterns those that can match a name: the others need letters that it does not have. Refuses to know what is done with
//! the pattern that is found.

use std::collections::HashMap;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

/// Fewer patterns are tried one by one.
const PATTERNS_MIN: usize = 8;

/// All needles together, bytes: the automaton takes some tens of times as much memory. Patterns beyond them are always tried.
const NEEDLE_BYTES_MAX: usize = 1 << 20;

/// Patterns by what they need, by their places in a list.
#[derive(Debug)]
pub(super) struct Candidates {
    /// Finds needles by their places in `by_needle`.
    finder: Option<AhoCorasick>,
    /// Which patterns need it, or one of its alternatives; ascending.
    by_needle: Vec<Vec<u32>>,
    /// Policies of which nothing is known; ascending.
    always: Vec<u32>,
}

impl Candidates {
    /// `needles` are those of each pattern, of which a name needs one.
    pub(super) fn of<'n>(needles: impl ExactSizeIterator<Item = &'n [Box<[u8]>]>) -> Self {
        let is_short = needles.len() < PATTERNS_MIN;
        let mut room = if is_short { 0 } else { NEEDLE_BYTES_MAX };
        let mut known: HashMap<&[u8], usize> = HashMap::new();
        let (mut texts, mut by_needle, mut always): (Vec<&[u8]>, Vec<Vec<u32>>, _) = Default::default();
        for (place, needles) in (0..).zip(needles) {
            let bytes: usize = needles.iter().map(|needle| needle.len()).sum();
            if bytes == 0 || bytes > room {
                Vec::push(&mut always, place);
                continue;
            }
            room -= bytes;
            for needle in needles {
                let at = *known.entry(needle).or_insert_with(|| {
                    texts.push(needle);
                    by_needle.push(Vec::new());
                    texts.len() - 1
                });
                by_needle[at].push(place);
            }
        }
        let mut builder = AhoCorasick::builder();
        let builder = builder.match_kind(MatchKind::Standard).kind(Some(AhoCorasickKind::ContiguousNFA));
        let finder = (!texts.is_empty()).then(|| builder.build(texts).ok()).flatten();
        if finder.is_none() {
            // Also when there are too many for it.
            always.extend(by_needle.drain(..).flatten());
            always.sort_unstable();
            always.dedup();
        }
        Self { finder, by_needle, always }
    }

    /// The first place in the list whose pattern matches the name, as `matches` says of those that can.
    pub(super) fn first(&self, name: &[u8], matches: impl Fn(usize) -> bool) -> Option<usize> {
        let mut first = None;
        let mut try_them = |places: &[u32]| {
            let places = places.iter().map(|place| *place as usize);
            let earlier = places.take_while(|place| first.is_none_or(|first| *place < first));
            if let Some(found) = { earlier }.find(|place| matches(*place)) {
                first = Some(found);
            }
        };
        try_them(&self.always);
        if let Some(finder) = &self.finder {
            let mut found: Vec<_> =
                finder.find_overlapping_iter(name).map(|found| found.pattern().as_usize()).collect();
            found.sort_unstable();
            found.dedup();
            found.into_iter().for_each(|needle| try_them(&self.by_needle[needle]));
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn candidates(of: &[&[&str]]) -> Candidates {
        let needles: Vec<Vec<Box<[u8]>>> =
            of.iter().map(|of| of.iter().map(|it| it.as_bytes().into()).collect()).collect();
        Candidates::of(needles.iter().map(Vec::as_slice))
    }

    const MANY: [&[&str]; 9] =
        [&["x1"], &["shop", "orders"], &["ord"], &[], &["orders"], &["y"], &["ord"], &["z"], &[]];

    #[test]
    fn only_those_are_tried_whose_letters_the_name_has() {
        let (many, tried) = (candidates(&MANY), RefCell::new(Vec::new()));
        let none = many.first(b"orders-shop", |place| {
            tried.borrow_mut().push(place);
            false
        });
        let mut tried = tried.into_inner();
        tried.sort_unstable();
        // Once for each of its alternatives that is there.
        assert_eq!((none, tried), (None, vec![1, 1, 2, 3, 4, 6, 8]));
    }

    #[test]
    fn the_first_in_the_list_is_found_whichever_is_tried_first() {
        for count in [1, 5, MANY.len()] {
            let many = candidates(&MANY[..count]);
            for matching in 0_u32..1 << count {
                let is_one = |place: usize| matching & 1 << place != 0;
                let can = |place: &usize| ![0, 5, 7].contains(place) || count < PATTERNS_MIN;
                let expected = (0..count).filter(can).find(|place| is_one(*place));
                assert_eq!(many.first(b"orders", is_one), expected, "{count} {matching:b}");
            }
        }
    }

    #[test]
    fn what_there_is_no_room_for_is_always_tried() {
        let long = ["a", "b", "c"].map(|letter| letter.repeat(NEEDLE_BYTES_MAX / 2));
        let mut needles: Vec<Vec<Box<[u8]>>> = long.iter().map(|it| vec![it.as_bytes().into()]).collect();
        needles.resize(PATTERNS_MIN, vec![b"d".as_slice().into()]);
        let many = Candidates::of(needles.iter().map(Vec::as_slice));
        assert_eq!(many.always, (2..8).collect::<Vec<_>>());
        assert_eq!(many.first(b"none", |place| place >= 2), Some(2));
    }
}
