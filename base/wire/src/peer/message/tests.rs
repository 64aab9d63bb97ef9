//! Messages that the codec between nodes takes and refuses. Refuses to know frames.

use super::*;
use proptest::prelude::*;

fn texts() -> impl Strategy<Value = String> {
    proptest::string::string_regex("[a-zß@.:0-9]{0,60}").expect("a pattern")
}

fn written(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut bytes);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_hello_comes_back_and_may_have_more_behind_it(
        (version_min, version_max, lane, link) in any::<(u16, u16, u8, u64)>(),
        (data_id, life, instance, nonce) in any::<([u8; 16], u32, u64, [u8; 32])>(),
        (name, address) in (texts(), texts()),
        more in proptest::collection::vec(any::<u8>(), 0..9),
    ) {
        let (name, address) = (name.as_str(), address.as_str());
        let hello = Hello { version_min, version_max, lane, link, data_id, life, instance, nonce, name, address };
        let mut bytes = written(|out| hello.encode(out));
        let whole = bytes.len();
        bytes.extend(more);
        prop_assert_eq!(Hello::decode(&bytes), Ok(hello));
        for cut in 0..whole {
            prop_assert_eq!(Hello::decode(&bytes[..cut]), Err(MessageError("hello")));
        }
    }

    #[test]
    fn signs_of_life_come_back(
        (sent_us, echo_us, held_us, alarms) in any::<(u64, u64, u64, u8)>(),
        (unsynced_ms, disk_free_bytes, wall_ms, metadata_applied) in any::<(u32, u64, u64, u64)>(),
    ) {
        let sign = Liveness {
            sent_us, echo_us, held_us, alarms, unsynced_ms, disk_free_bytes, wall_ms, metadata_applied,
        };
        let bytes = written(|out| sign.encode(out));
        prop_assert_eq!(Liveness::decode(&bytes), Ok(sign));
        prop_assert!(Liveness::decode(&bytes[1..]).is_err());
    }

    #[test]
    fn neighbours_come_back(texts in proptest::collection::vec((texts(), texts()), 0..9)) {
        let list = texts.iter().map(|(name, address)| Neighbour { name, address }).collect();
        let list = Neighbours(list);
        let bytes = written(|out| list.encode(out));
        prop_assert_eq!(Neighbours::decode(&bytes), Ok(list));
    }

    #[test]
    fn nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = (Hello::decode(&bytes), Auth::decode(&bytes), Verdict::decode(&bytes));
        let _ = (Liveness::decode(&bytes), Neighbours::decode(&bytes));
    }
}

#[test]
fn proofs_and_verdicts_come_back() {
    let auth = Auth { proof: [7; PROOF_BYTES] };
    assert_eq!(Auth::decode(&written(|out| auth.encode(out))), Ok(auth));
    assert!(Auth::decode(&[7; PROOF_BYTES - 1]).is_err());
    for verdict in Verdict::ALL {
        assert_eq!(Verdict::decode(&written(|out| verdict.encode(out))), Ok(verdict));
    }
    assert!(Verdict::decode(&[8]).is_err() && Verdict::decode(&[]).is_err());
}

#[test]
fn a_list_of_more_nodes_than_allowed_is_refused_before_it_is_read() {
    let lying = ((NEIGHBOURS_MAX + 1) as u16).to_be_bytes();
    assert!(Neighbours::decode(&[lying.to_vec(), vec![0; 1000]].concat()).is_err());
    let many = Neighbours(vec![Neighbour { name: "a@b", address: "" }; NEIGHBOURS_MAX + 1]);
    let bytes = written(|out| many.encode(out));
    assert_eq!(Neighbours::decode(&bytes).map(|read| read.0.len()), Ok(NEIGHBOURS_MAX));
}

#[test]
fn text_that_is_too_long_is_cut_between_characters() {
    let long = "ß".repeat(200);
    let bytes = written(|out| put_text(&long, out));
    assert_eq!(text(&mut Reader::new(&bytes)), Some("ß".repeat(127).as_str()));
}
