//! A profile in the format of pprof (`profile.proto`, gzipped), which `go tool pprof`, Parca and Pyroscope read. Only the fields
//! that are needed are written. Knows nothing of HTTP.

use std::collections::HashMap;
use std::io::Write as _;

use super::cut::LabelKey;
use super::report::{Profile, Unit, Watched};

/// A profile as the bytes of a `.pb.gz` file.
#[must_use]
pub fn pprof(profile: &Profile) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let written = writer.write_all(&message(profile)).and_then(|()| writer.finish());
    written.expect("writing to memory does not fail")
}

/// The message `Profile`, not compressed.
fn message(profile: &Profile) -> Vec<u8> {
    let mut strings = Strings::default();
    strings.index("");
    let mut out = Vec::new();
    let (count, value) = match profile.unit {
        Unit::Nanoseconds if profile.watched == Watched::Waiting => {
            (("samples", "count"), ("waiting", "nanoseconds"))
        }
        Unit::Nanoseconds => (("samples", "count"), ("cpu", "nanoseconds")),
        Unit::Bytes => (("inuse_objects", "count"), ("inuse_space", "bytes")),
        Unit::Faults => (("samples", "count"), ("page_faults", "count")),
    };
    field(&mut out, 1, &value_type(&mut strings, count));
    field(&mut out, 1, &value_type(&mut strings, value));
    for stack in &profile.stacks {
        let mut sample = Vec::new();
        // Locations are numbered as frames, from 1; the leaf comes first.
        let locations = stack.frames.iter().rev().map(|frame| u64::from(*frame) + 1);
        packed(&mut sample, 1, locations);
        packed(&mut sample, 2, [stack.count, stack.value].into_iter());
        for (key, name) in LabelKey::ALL.into_iter().zip(&stack.labels) {
            let Some(name) = name else { continue };
            let mut label = Vec::new();
            number(&mut label, 1, strings.index(key.name()));
            number(&mut label, 2, strings.index(name));
            field(&mut sample, 3, &label);
        }
        field(&mut out, 2, &sample);
    }
    for (at, frame) in (1..).zip(&profile.frames) {
        let mut line = Vec::new();
        number(&mut line, 1, at);
        let mut location = Vec::new();
        number(&mut location, 1, at);
        field(&mut location, 4, &line);
        field(&mut out, 4, &location);
        let mut function = Vec::new();
        number(&mut function, 1, at);
        // Without a name of the linker's: `go tool pprof` takes those to be of C++ and drops what is in brackets.
        number(&mut function, 2, strings.index(&frame.name));
        number(&mut function, 4, strings.index(&frame.file));
        field(&mut out, 5, &function);
    }
    let period = value_type(&mut strings, value);
    number(&mut out, 9, profile.began_ms.saturating_mul(1_000_000));
    number(&mut out, 10, profile.wall_ms.saturating_mul(1_000_000));
    field(&mut out, 11, &period);
    number(&mut out, 12, profile.total() / profile.samples.max(1));
    for string in &strings.list {
        field(&mut out, 6, string.as_bytes());
    }
    out
}

fn value_type(strings: &mut Strings, (kind, unit): (&str, &str)) -> Vec<u8> {
    let mut out = Vec::new();
    number(&mut out, 1, strings.index(kind));
    number(&mut out, 2, strings.index(unit));
    out
}

/// The table of strings; the first is empty.
#[derive(Default)]
struct Strings {
    list: Vec<String>,
    known: HashMap<String, u64>,
}

impl Strings {
    fn index(&mut self, text: &str) -> u64 {
        if let Some(at) = self.known.get(text) {
            return *at;
        }
        let at = self.list.len() as u64;
        self.list.push(text.to_owned());
        self.known.insert(text.to_owned(), at);
        at
    }
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A number; a zero is left out, as the format allows.
fn number(out: &mut Vec<u8>, tag: u64, value: u64) {
    if value != 0 {
        varint(out, tag << 3);
        varint(out, value);
    }
}

/// A message or a text.
fn field(out: &mut Vec<u8>, tag: u64, bytes: &[u8]) {
    varint(out, tag << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Numbers in one field.
fn packed(out: &mut Vec<u8>, tag: u64, values: impl Iterator<Item = u64>) {
    let mut bytes = Vec::new();
    values.for_each(|value| varint(&mut bytes, value));
    field(out, tag, &bytes);
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::sample;
    use super::*;
    use std::io::Read as _;

    #[test]
    fn numbers_are_written_in_seven_bit_groups_and_texts_with_their_length() {
        let mut out = Vec::new();
        varint(&mut out, 300);
        assert_eq!(out, [0xAC, 0x02]);
        out.clear();
        field(&mut out, 6, b"ab");
        number(&mut out, 9, 0);
        number(&mut out, 9, 1);
        assert_eq!(out, [0x32, 2, b'a', b'b', 0x48, 1]);
    }

    #[test]
    fn a_file_is_gzip_and_holds_every_name_once() {
        let file = pprof(&sample(&[("orders:main;work", 5), ("main;work", 2)]));
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&file[..]).read_to_end(&mut plain).unwrap();
        for name in ["main", "work", "orders", "queue", "cpu", "nanoseconds"] {
            let times = plain.windows(name.len()).filter(|part| *part == name.as_bytes()).count();
            assert_eq!(times, 1, "{name}");
        }
    }
}
