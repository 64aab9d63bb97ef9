//! Kinds of the pages that a process occupies: the program, stacks, the allocator's heaps, large pieces of it. Read from the list of
//! mappings that Linux shows; knows how glibc lays out heaps and stacks, and nothing of their content.

/// Bytes of memory that a process occupies, by what they were mapped for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResidentBytes {
    /// The program and its libraries, with their data.
    pub files: u64,
    /// Stacks of threads.
    pub stacks: u64,
    /// Heaps that the allocator cuts small pieces from, with what is free in them.
    pub heaps: u64,
    /// The rest: large pieces of the allocator, each mapped by itself.
    pub pieces: u64,
}

/// glibc's heaps of threads begin at multiples of this (`HEAP_MAX_SIZE` of 64-bit systems).
const HEAP_ALIGNMENT: u64 = 64 << 20;

/// A line of `/proc/self/smaps` that begins a mapping.
struct Mapping<'a> {
    begin: u64,
    end: u64,
    access: &'a str,
    is_file: bool,
    name: &'a str,
}

impl<'a> Mapping<'a> {
    /// `7f5588000000-7f5588044000 rw-p 00000000 00:00 0   [heap]`; `None` for lines that say something of the mapping.
    fn parse(line: &'a str) -> Option<Mapping<'a>> {
        let mut fields = line.split_ascii_whitespace();
        let (begin, end) = fields.next()?.split_once('-')?;
        let (begin, end) = (u64::from_str_radix(begin, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
        let (access, inode) = (fields.next()?, fields.nth(2)?);
        Some(Mapping { begin, end, access, is_file: inode != "0", name: fields.next().unwrap_or("") })
    }
}

/// Sums up the text of `/proc/self/smaps`.
pub(super) fn parse(smaps: &str) -> ResidentBytes {
    let mut resident = ResidentBytes::default();
    let mut kind = None;
    let (mut guarded_until, mut heap_until) = (0, 0);
    for line in smaps.lines() {
        if let Some(kib) = line.strip_prefix("Rss:") {
            let bytes = kib.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024;
            match kind {
                Some(kind) => *kind_of(&mut resident, kind) += bytes,
                None => resident.pieces += bytes,
            }
        } else if let Some(mapping) = Mapping::parse(line) {
            let found = match classify(&mapping, guarded_until) {
                // Huge pages were asked for in the middle of a heap: it is shown in parts.
                Kind::Pieces if mapping.begin == heap_until => Kind::Heaps,
                found => found,
            };
            if let Kind::Heaps = found {
                heap_until = mapping.end;
            }
            kind = Some(found);
            if mapping.access == "---p" && !mapping.is_file {
                guarded_until = mapping.end;
            }
        }
    }
    resident
}

#[derive(Clone, Copy)]
enum Kind {
    Files,
    Stacks,
    Heaps,
    Pieces,
}

fn kind_of(resident: &mut ResidentBytes, kind: Kind) -> &mut u64 {
    match kind {
        Kind::Files => &mut resident.files,
        Kind::Stacks => &mut resident.stacks,
        Kind::Heaps => &mut resident.heaps,
        Kind::Pieces => &mut resident.pieces,
    }
}

/// A heap of a thread has inaccessible room after it, so a mapping after another heap begins behind that room, too: alignment decides
/// first. A mapping after any other inaccessible page is a stack behind its guard.
fn classify(mapping: &Mapping<'_>, guarded_until: u64) -> Kind {
    match mapping.name {
        _ if mapping.is_file => Kind::Files,
        "[heap]" => Kind::Heaps,
        "[stack]" => Kind::Stacks,
        name if name.starts_with("[v") => Kind::Files,
        _ if mapping.begin.is_multiple_of(HEAP_ALIGNMENT) => Kind::Heaps,
        _ if mapping.begin == guarded_until && mapping.access == "rw-p" => Kind::Stacks,
        _ => Kind::Pieces,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_told_apart_by_name_alignment_and_guard() {
        let smaps = "\
5571eb39a000-5571eb612000 r--p 00000000 fe:00 123 /usr/bin/warren
Rss:                1000 kB
Anonymous:             4 kB
55722beee000-55722bf96000 rw-p 00000000 00:00 0                          [heap]
Rss:                 600 kB
7f5588000000-7f5588044000 rw-p 00000000 00:00 0
Rss:                 270 kB
7f5588044000-7f5589045000 rw-p 00000000 00:00 0
Rss:                8000 kB
7f5589045000-7f558c000000 ---p 00000000 00:00 0
Rss:                   0 kB
7f558d374000-7f558d375000 ---p 00000000 00:00 0
Rss:                   0 kB
7f558d375000-7f558d575000 rw-p 00000000 00:00 0
Rss:                  20 kB
7f558d600000-7f558d800000 rw-p 00000000 00:00 0
Rss:                  40 kB
7ffd1c2f0000-7ffd1c311000 rw-p 00000000 00:00 0                          [stack]
Rss:                  12 kB
7ffd1c3f5000-7ffd1c3f7000 r-xp 00000000 00:00 0                          [vdso]
Rss:                   8 kB
";
        let kib = |kib: u64| kib * 1024;
        let expected = ResidentBytes { files: kib(1008), stacks: kib(32), heaps: kib(8870), pieces: kib(40) };
        assert_eq!(parse(smaps), expected);
    }

    #[test]
    fn the_sum_is_what_this_process_occupies() {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let ResidentBytes { files, stacks, heaps, pieces } = parse(&smaps);
        assert!(files > 100_000 && heaps > 10_000 && stacks > 4096, "{files} {heaps} {stacks} {pieces}");
    }
}
