//! Encodings of the specification's tables, and values through writer and reader.

use proptest::prelude::*;

use super::super::{MixedArray, Writer};
use super::*;

fn parse(bytes: &[u8]) -> Value<'_> {
    let (value, used) = Value::parse(bytes).unwrap();
    assert_eq!(used, bytes.len());
    value
}

fn written(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut Writer::new(&mut out));
    out
}

fn encoded(value: &Value<'_>) -> Vec<u8> {
    written(|writer| writer.value(value))
}

/// Every encoding of section 1.6 with its value, and the encoding that is written for it.
const ENCODINGS: &[(&[u8], Value<'static>, &[u8])] = &[
    (b"\x40", Value::Null, b"\x40"),
    (b"\x56\x01", Value::Bool(true), b"\x41"),
    (b"\x41", Value::Bool(true), b"\x41"),
    (b"\x56\x00", Value::Bool(false), b"\x42"),
    (b"\x42", Value::Bool(false), b"\x42"),
    (b"\x50\xFF", Value::Ubyte(255), b"\x50\xFF"),
    (b"\x60\x01\x02", Value::Ushort(0x0102), b"\x60\x01\x02"),
    (b"\x70\x01\x02\x03\x04", Value::Uint(0x0102_0304), b"\x70\x01\x02\x03\x04"),
    (b"\x70\x00\x00\x00\x04", Value::Uint(4), b"\x52\x04"),
    (b"\x52\x04", Value::Uint(4), b"\x52\x04"),
    (b"\x43", Value::Uint(0), b"\x43"),
    (b"\x80\x00\x00\x00\x00\x00\x00\x01\x00", Value::Ulong(256), b"\x80\x00\x00\x00\x00\x00\x00\x01\x00"),
    (b"\x53\x10", Value::Ulong(16), b"\x53\x10"),
    (b"\x44", Value::Ulong(0), b"\x44"),
    (b"\x51\x80", Value::Byte(-128), b"\x51\x80"),
    (b"\x61\xFF\xFE", Value::Short(-2), b"\x61\xFF\xFE"),
    (b"\x71\xFF\xFF\xFF\x7F", Value::Int(-129), b"\x71\xFF\xFF\xFF\x7F"),
    (b"\x54\x80", Value::Int(-128), b"\x54\x80"),
    (b"\x81\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", Value::Long(-1), b"\x55\xFF"),
    (b"\x55\x7F", Value::Long(127), b"\x55\x7F"),
    (b"\x72\x3F\xC0\x00\x00", Value::Float(1.5), b"\x72\x3F\xC0\x00\x00"),
    (b"\x82\xC0\x04\0\0\0\0\0\0", Value::Double(-2.5), b"\x82\xC0\x04\0\0\0\0\0\0"),
    (b"\x74\x22\x50\x00\x00", Value::Decimal32([0x22, 0x50, 0, 0]), b"\x74\x22\x50\x00\x00"),
    (b"\x84\x01\0\0\0\0\0\0\x02", Value::Decimal64([1, 0, 0, 0, 0, 0, 0, 2]), b"\x84\x01\0\0\0\0\0\0\x02"),
    (b"\x73\x00\x01\xF6\x00", Value::Char(0x1_F600), b"\x73\x00\x01\xF6\x00"),
    (b"\x83\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", Value::Timestamp(-1), b"\x83\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"),
    (b"\x98abcdefghijklmnop", Value::Uuid(*b"abcdefghijklmnop"), b"\x98abcdefghijklmnop"),
    (b"\xA0\x02\x00\x01", Value::Binary(&[0, 1]), b"\xA0\x02\x00\x01"),
    (b"\xB0\x00\x00\x00\x02\x00\x01", Value::Binary(&[0, 1]), b"\xA0\x02\x00\x01"),
    (
        b"\xA1\x1EHello Glorious Messaging World",
        Value::Str(b"Hello Glorious Messaging World"),
        b"\xA1\x1EHello Glorious Messaging World",
    ),
    (b"\xB1\x00\x00\x00\x01a", Value::Str(b"a"), b"\xA1\x01a"),
    (b"\xA3\x01a", Value::Symbol(b"a"), b"\xA3\x01a"),
    (b"\xB3\x00\x00\x00\x01a", Value::Symbol(b"a"), b"\xA3\x01a"),
    (b"\x45", Value::List(List::EMPTY), b"\x45"),
    (b"\xC0\x01\x00", Value::List(List::EMPTY), b"\x45"),
    (b"\xC1\x01\x00", Value::Map(Map::EMPTY), b"\xC1\x01\x00"),
    (b"\xD0\x00\x00\x00\x05\x00\x00\x00\x01\x41", Value::List(List::from_raw(b"\x41")), b"\xC0\x02\x01\x41"),
    (
        b"\xD1\x00\x00\x00\x06\x00\x00\x00\x02\x41\x42",
        Value::Map(Map::from_raw(b"\x41\x42")),
        b"\xC1\x03\x02\x41\x42",
    ),
];

#[test]
fn every_encoding_of_the_specification_is_read_and_written_in_its_shortest_form() {
    for (bytes, value, shortest) in ENCODINGS {
        assert_eq!(parse(bytes), *value);
        assert_eq!(encoded(value), *shortest, "{value:?}");
        assert_eq!(value.validate(), Ok(()));
        for length in 0..bytes.len() {
            assert_eq!(Value::parse(&bytes[..length]), Err(TypeError::Truncated), "{bytes:?}");
        }
    }
}

#[test]
fn a_described_value_is_read_as_in_the_specification() {
    // Section 1.2, figure 1.2: a book, its title, its authors as an array of strings, and null.
    let bytes = b"\x00\xA3\x11example:book:list\xC0\x40\x03\xA1\x15AMQP for & by Dummies\
        \xE0\x25\x02\xA1\x0ERob J. Godfrey\x13Rafael H. Schloming\x40";
    let value = parse(bytes);
    assert_eq!(value.validate(), Ok(()));
    let book = value.as_described().unwrap();
    assert_eq!(book.descriptor(), Some(super::super::Descriptor::Symbol(b"example:book:list")));
    let fields = book.value().unwrap().as_list().unwrap();
    assert_eq!(fields.get(0), Some(Value::Str(b"AMQP for & by Dummies")));
    let Some(Value::Array(authors)) = fields.get(1) else { panic!("an array of authors") };
    let names: Vec<_> = authors.elements().map(Result::unwrap).collect();
    assert_eq!(names, [Value::Str(b"Rob J. Godfrey"), Value::Str(b"Rafael H. Schloming")]);
    assert_eq!((fields.get(2), fields.get(3)), (Some(Value::Null), None));
    assert_eq!(encoded(&value), bytes);
}

#[test]
fn a_value_is_small() {
    assert!(size_of::<Value<'_>>() <= 40, "{} bytes", size_of::<Value<'_>>());
}

#[test]
fn unknown_codes_and_bad_booleans_are_refused() {
    for code in [0x01, 0x3F, 0x46, 0x57, 0x62, 0x75, 0x85, 0x99, 0xA2, 0xB2, 0xC2, 0xD2, 0xE1, 0xF1] {
        let bytes = [code, 4, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let error = Value::parse(&bytes).unwrap_err();
        assert!(
            matches!(error, TypeError::UnknownCode { .. } | TypeError::Truncated),
            "{code:#x}: {error:?}"
        );
    }
    assert_eq!(Value::parse(b"\x56\x02"), Err(TypeError::BadBool { octet: 2 }));
    assert_eq!(Value::parse(b"\xC0\x00"), Err(TypeError::Truncated), "the size covers the count");
}

/// `depth` levels of lists.
fn nested(depth: usize) -> Vec<u8> {
    let mut bytes = vec![0x45];
    for _ in 1..depth {
        bytes = encoded(&Value::List(List::from_raw(&bytes)));
    }
    bytes
}

#[test]
fn nesting_is_allowed_to_the_bound_and_no_deeper() {
    assert_eq!(parse(&nested(DEPTH_MAX)).validate(), Ok(()));
    let error = TypeError::TooDeep { depth_max: DEPTH_MAX };
    assert_eq!(parse(&nested(DEPTH_MAX + 1)).validate(), Err(error));
    assert_eq!(parse(&nested(5_000)).validate(), Err(error));
    assert_eq!(Value::parse(&[0; 100_000]), Err(error), "a chain of descriptors");
    let mut chain = vec![0; DEPTH_MAX - 1];
    chain.extend_from_slice(&[0x40; DEPTH_MAX]);
    assert!(Value::parse(&chain).is_ok());
}

#[test]
fn compound_values_grow_into_the_wide_form() {
    let list = written(|writer| writer.list(|writer| (0..254).for_each(|_| writer.bool(true))));
    assert_eq!((list[0], list.len()), (0xC0, 257));
    let list = written(|writer| writer.list(|writer| (0..255).for_each(|_| writer.bool(true))));
    assert_eq!(&list[..9], b"\xD0\x00\x00\x01\x03\x00\x00\x00\xFF");
    assert_eq!(parse(&list).as_list().unwrap().iter().count(), 255);
    let map = written(|writer| {
        writer.map(|writer| {
            writer.symbol(b"key");
            writer.binary(&[7; 1000]);
        });
    });
    assert_eq!(map[0], 0xD1);
    assert_eq!(parse(&map).as_map().unwrap().get("key"), Some(Value::Binary(&[7; 1000])));
    let long = [b'x'; 256];
    let symbols = written(|writer| writer.symbols([&b"a"[..], &long]));
    let Value::Array(array) = parse(&symbols) else { panic!("an array") };
    assert_eq!((symbols[0], array.len(), array.code()), (0xF0, 2, 0xB3));
    assert_eq!(Value::Array(array).validate(), Ok(()));
}

#[test]
fn arrays_have_one_type() {
    let mut out = vec![1];
    assert_eq!(Writer::new(&mut out).array([Value::Null, Value::Uint(1)]), Err(MixedArray));
    assert_eq!(out, [1], "nothing is left of an array that cannot be written");
    for value in ENCODINGS.iter().map(|(_, value, _)| *value).filter(|value| *value != Value::Null) {
        let bytes = written(|writer| writer.array([value, value]).unwrap());
        let Value::Array(array) = parse(&bytes) else { panic!("an array") };
        assert_eq!(array.elements().collect::<Vec<_>>(), [Ok(value), Ok(value)]);
    }
}

/// Writes a value from a script: one byte chooses its type, the next ones its content.
fn write_from(script: &mut impl Iterator<Item = u8>, depth: usize, writer: &mut Writer<'_>) {
    let (kind, content) = (script.next().unwrap_or(0), script.next().unwrap_or(0));
    let text = vec![content; usize::from(content) * 3];
    match kind % 10 {
        0..=2 => writer.value(&ENCODINGS[usize::from(content) % ENCODINGS.len()].1),
        3 => writer.binary(&text),
        4 => writer.string(&text),
        5 => writer.symbol(&text),
        _ if depth == 0 => writer.null(),
        6 => writer.list(|writer| (0..content % 5).for_each(|_| write_from(script, depth - 1, writer))),
        7 => writer.map(|writer| (0..content % 3 * 2).for_each(|_| write_from(script, depth - 1, writer))),
        8 => writer.described(content.into(), |writer| write_from(script, depth - 1, writer)),
        _ => writer.array(vec![Value::Str(&text); usize::from(content % 4)]).unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_and_written_again_the_same(script in prop::collection::vec(any::<u8>(), 0..400)) {
        let bytes = written(|writer| write_from(&mut script.into_iter(), 6, writer));
        let value = parse(&bytes);
        prop_assert_eq!(value.validate(), Ok(()));
        prop_assert_eq!(encoded(&value), bytes);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        crate::fuzzing::amqp10_value(&bytes);
    }

    #[test]
    fn damaged_values_are_read_or_refused(
        script in prop::collection::vec(any::<u8>(), 0..200), at in any::<prop::sample::Index>(), with in any::<u8>(),
    ) {
        let mut bytes = written(|writer| write_from(&mut script.into_iter(), 6, writer));
        let at = at.index(bytes.len());
        bytes[at] = with;
        crate::fuzzing::amqp10_value(&bytes);
    }
}
