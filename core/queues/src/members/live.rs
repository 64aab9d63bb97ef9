//! One member of a quorum queue tells another about its messages: which of them live, and how far it has come. Refuses to know how that travels.
//!
//! Both are written as numbers of seven bits a byte, the lowest first; the highest bit of a byte says that more follow.
//!
//! ```text
//! live set: levels | per level with messages: level | runs | per run: numbers since the end of the one before | messages
//! cursor: levels | per level: next number
//! ```

use crate::traffic::MessageSeq;

/// Numbers behind the last one that a message may have.
const NUMBERS_END: u64 = MessageSeq::NUMBER_MAX + 1;

/// Bytes of a member's message that are no live set, or no cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Garbled;

impl std::fmt::Display for Garbled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a member's report on its messages cannot be read")
    }
}

impl std::error::Error for Garbled {}

/// Which messages of a queue live: ready, unacked, or dying with a letter that is not safe yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveSet {
    /// By level: runs in order, with gaps between them, as first number and the one behind the last.
    levels: Vec<Vec<(u64, u64)>>,
}

impl LiveSet {
    /// Messages in it.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.levels.iter().flatten().map(|(first, end)| end - first).sum()
    }

    /// Whether no message lives.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.levels.iter().all(Vec::is_empty)
    }

    /// Whether a message lives.
    #[must_use]
    pub fn contains(&self, seq: MessageSeq) -> bool {
        let runs = self.runs(seq.level());
        let at = runs.partition_point(|(_, end)| *end <= seq.number());
        runs.get(at).is_some_and(|(first, _)| *first <= seq.number())
    }

    /// Runs of a level in order: the first number, and the one behind the last.
    pub(crate) fn runs(&self, level: u8) -> &[(u64, u64)] {
        self.levels.get(usize::from(level)).map_or(&[], |runs| runs)
    }

    /// These live, too: they come behind all others of their level.
    pub(crate) fn push(&mut self, level: u8, first: u64, end: u64) {
        let level = usize::from(level);
        self.levels.resize_with(self.levels.len().max(level + 1), Vec::new);
        match self.levels[level].last_mut() {
            Some(latest) if latest.1 == first => latest.1 = end,
            _ => self.levels[level].push((first, end)),
        }
    }

    /// This message lives, too, wherever it stands.
    pub(crate) fn insert(&mut self, seq: MessageSeq) {
        if self.contains(seq) {
            return;
        }
        let (level, number) = (usize::from(seq.level()), seq.number());
        self.levels.resize_with(self.levels.len().max(level + 1), Vec::new);
        let runs = &mut self.levels[level];
        let at = runs.partition_point(|(_, end)| *end <= number);
        runs.insert(at, (number, number + 1));
        if runs.get(at + 1).is_some_and(|next| next.0 == number + 1) {
            runs[at].1 = runs.remove(at + 1).1;
        }
        if at > 0 && runs[at - 1].1 == number {
            runs[at - 1].1 = runs.remove(at).1;
        }
    }

    /// Numbers from `first` to before `end` that do not live, in runs like the runs of the set.
    pub(crate) fn gaps(&self, level: u8, first: u64, end: u64, mut each: impl FnMut(u64, u64)) {
        let runs = self.runs(level);
        let mut from = first;
        for run in &runs[runs.partition_point(|(_, run_end)| *run_end <= first)..] {
            if run.0 >= end {
                break;
            }
            if run.0 > from {
                each(from, run.0);
            }
            from = run.1;
        }
        if from < end {
            each(from, end);
        }
    }

    /// Appends it in the form that [`LiveSet::decode`] reads: about two bytes a run.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let used = || (0..).zip(&self.levels).filter(|(_, runs)| !runs.is_empty());
        write(out, used().count() as u64);
        for (level, runs) in used() {
            write(out, level);
            write(out, runs.len() as u64);
            let mut end_before = 0;
            for (first, end) in runs {
                write(out, first - end_before);
                write(out, end - first);
                end_before = *end;
            }
        }
    }

    /// Reads all of `bytes`. Takes no more memory than eight times as much.
    ///
    /// # Errors
    /// [`Garbled`] when they are not of [`LiveSet::encode`].
    pub fn decode(bytes: &[u8]) -> Result<LiveSet, Garbled> {
        let mut from = bytes;
        let mut set = LiveSet::default();
        let mut level_min = 0;
        for _ in 0..read(&mut from)? {
            let level = u8::try_from(read(&mut from)?).map_err(|_| Garbled)?;
            let runs = read(&mut from)?;
            if u16::from(level) < level_min || runs == 0 || runs > from.len() as u64 / 2 {
                return Err(Garbled);
            }
            level_min = u16::from(level) + 1;
            let mut end_before = 0u64;
            for nth in 0..runs {
                let (gap, count) = (read(&mut from)?, read(&mut from)?);
                let first = end_before.checked_add(gap).ok_or(Garbled)?;
                let end = first.checked_add(count).filter(|end| *end <= NUMBERS_END).ok_or(Garbled)?;
                if count == 0 || (gap == 0 && nth > 0) {
                    return Err(Garbled);
                }
                set.push(level, first, end);
                end_before = end;
            }
        }
        if from.is_empty() { Ok(set) } else { Err(Garbled) }
    }
}

/// How far a member has come: the number after its newest message of each level. The messages of its leader that it lacks are behind that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// By level.
    next: Vec<u64>,
    /// A leader has told, from here, how often messages came back. Not written.
    pub(crate) has_told: bool,
}

impl Cursor {
    /// With these numbers, by level.
    pub(crate) fn new(next: Vec<u64>) -> Cursor {
        Cursor { next, has_told: false }
    }

    /// The first number of a level that the member lacks.
    #[must_use]
    pub fn next_number(&self, level: u8) -> u64 {
        self.next.get(usize::from(level)).copied().unwrap_or(0)
    }

    /// The member has everything of a level before this number.
    pub(crate) fn advance(&mut self, level: u8, next: u64) {
        let level = usize::from(level);
        self.next.resize(self.next.len().max(level + 1), 0);
        self.next[level] = next;
    }

    /// Appends it in the form that [`Cursor::decode`] reads.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write(out, self.next.len() as u64);
        self.next.iter().for_each(|number| write(out, *number));
    }

    /// Reads all of `bytes`.
    ///
    /// # Errors
    /// [`Garbled`] when they are not of [`Cursor::encode`].
    pub fn decode(bytes: &[u8]) -> Result<Cursor, Garbled> {
        let mut from = bytes;
        let levels = read(&mut from)?;
        if levels > u64::from(u8::MAX) + 1 {
            return Err(Garbled);
        }
        let mut next = Vec::new();
        for _ in 0..levels {
            next.push(Some(read(&mut from)?).filter(|number| *number <= NUMBERS_END).ok_or(Garbled)?);
        }
        if from.is_empty() { Ok(Cursor::new(next)) } else { Err(Garbled) }
    }
}

fn write(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7F {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A number of at most 63 bits.
fn read(from: &mut &[u8]) -> Result<u64, Garbled> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let (byte, rest) = from.split_first().ok_or(Garbled)?;
        *from = rest;
        number |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Garbled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(runs: &[(u8, u64, u64)]) -> LiveSet {
        let mut set = LiveSet::default();
        runs.iter().for_each(|(level, first, end)| set.push(*level, *first, *end));
        set
    }

    fn encoded(set: &LiveSet) -> Vec<u8> {
        let mut out = Vec::new();
        set.encode(&mut out);
        out
    }

    #[test]
    fn a_set_is_written_byte_for_byte_as_documented_and_read_back() {
        let set = set(&[(0, 0, 3), (0, 5, 205), (4, 1 << 32, (1 << 32) + 1)]);
        let bytes = encoded(&set);
        assert_eq!(bytes, [2, 0, 2, 0, 3, 2, 200, 1, 4, 1, 128, 128, 128, 128, 16, 1]);
        assert_eq!(LiveSet::decode(&bytes), Ok(set.clone()));
        assert_eq!(set.len(), 204);
        let all = [(0, 2, true), (0, 3, false), (0, 5, true), (0, 204, true), (0, 205, false), (4, 7, false)];
        for (level, number, lives) in all {
            assert_eq!(set.contains(MessageSeq::new(level, number)), lives, "{level} {number}");
        }
        let end = set.runs(4)[0].1;
        assert!(set.contains(MessageSeq::new(4, end - 1)) && set.runs(9).is_empty());
        (0..bytes.len()).for_each(|cut| assert_eq!(LiveSet::decode(&bytes[..cut]), Err(Garbled)));
        assert!(LiveSet::decode(&encoded(&LiveSet::default())).unwrap().is_empty());
    }

    #[test]
    fn what_no_member_writes_is_refused() {
        let many = [1, 0, 255, 255, 255, 255, 255, 255, 255, 255, 127, 0, 1];
        let beyond = [1, 0, 1, 255, 255, 255, 255, 255, 255, 255, 127, 9];
        let wide = [1, 128, 2, 1, 0, 1];
        let all: [&[u8]; 9] = [
            &[1, 0, 0],
            &[1, 0, 1, 0, 0],
            &[1, 0, 2, 0, 1, 0, 1],
            &[2, 3, 1, 0, 1, 3, 1, 0, 1],
            &[0, 0],
            &many,
            &beyond,
            &wide,
            &[255; 12],
        ];
        all.iter().for_each(|bytes| assert_eq!(LiveSet::decode(bytes), Err(Garbled), "{bytes:?}"));
        assert_eq!(Cursor::decode(&[1]), Err(Garbled));
        assert_eq!(Cursor::decode(&[0, 0]), Err(Garbled));
        assert_eq!(Cursor::decode(&[255, 127]), Err(Garbled));
        assert_eq!(Cursor::decode(&[1, 255, 255, 255, 255, 255, 255, 255, 255, 1]), Err(Garbled));
    }

    #[test]
    fn a_cursor_comes_back() {
        let cursor = Cursor::new(vec![7, 0, 1 << 40]);
        let mut bytes = Vec::new();
        cursor.encode(&mut bytes);
        let again = Cursor::decode(&bytes).unwrap();
        assert_eq!([0, 1, 2, 3].map(|level| again.next_number(level)), [7, 0, 1 << 40, 0]);
        (0..bytes.len()).for_each(|cut| assert_eq!(Cursor::decode(&bytes[..cut]), Err(Garbled)));
    }

    #[test]
    fn what_does_not_live_is_found_between_what_does() {
        let set = set(&[(1, 2, 4), (1, 6, 7)]);
        let gaps = |first, end| {
            let mut all = Vec::new();
            set.gaps(1, first, end, |first, end| all.push((first, end)));
            all
        };
        assert_eq!(gaps(0, 9), [(0, 2), (4, 6), (7, 9)]);
        assert_eq!(gaps(2, 7), [(4, 6)]);
        assert_eq!(gaps(3, 4), []);
        assert_eq!(gaps(4, 6), [(4, 6)]);
        assert_eq!(gaps(8, 9), [(8, 9)]);
    }

    #[test]
    fn one_more_joins_the_runs_beside_it() {
        let mut all = set(&[(0, 2, 4), (0, 5, 7)]);
        [4, 1, 9, 5].iter().for_each(|number| all.insert(MessageSeq::new(0, *number)));
        assert_eq!(all, set(&[(0, 1, 7), (0, 9, 10)]));
        all.insert(MessageSeq::new(2, 0));
        assert_eq!(all.len(), 8);
    }
}
