//! The secret that all nodes of a cluster share, and proofs of having it: HMAC-SHA256 (RFC 2104).

use sha2::{Digest, Sha256};
use stdx::Secret;
use subtle::ConstantTimeEq;

/// Bytes of a block of SHA-256.
const BLOCK_BYTES: usize = 64;

/// The secret that all nodes of a cluster know and nobody else: RabbitMQ's Erlang cookie.
#[derive(Clone, Debug)]
pub struct LinkSecret(Secret);

/// Which side of a connection proves. A proof of one side is none of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Dials,
    Accepts,
}

/// The payloads of both hellos, as they were sent: names, folders, version ranges and nonces.
#[derive(Clone, Debug, Default)]
pub(super) struct Hellos {
    pub(super) dialled: Vec<u8>,
    pub(super) accepted: Vec<u8>,
}

impl LinkSecret {
    /// The text of a cookie, without the blanks and line ends around it.
    #[must_use]
    pub fn new(text: &str) -> LinkSecret {
        LinkSecret(Secret::new(text.trim()))
    }

    /// The proof for these hellos.
    pub(super) fn prove(&self, side: Side, hellos: &Hellos) -> [u8; 32] {
        let label: &[u8] = match side {
            Side::Dials => b"warren link 1: dials",
            Side::Accepts => b"warren link 1: accepts",
        };
        let mut text = Vec::new();
        for part in [label, &hellos.dialled, &hellos.accepted] {
            text.extend_from_slice(&(part.len() as u64).to_be_bytes());
            text.extend_from_slice(part);
        }
        hmac(self.0.expose().as_bytes(), &text)
    }

    /// Whether the proof is right, in constant time.
    pub(super) fn accepts(&self, side: Side, hellos: &Hellos, proof: &[u8; 32]) -> bool {
        self.prove(side, hellos).ct_eq(proof).into()
    }
}

fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut block = [0; BLOCK_BYTES];
    if key.len() > BLOCK_BYTES {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let inner = Sha256::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(block.map(|byte| byte ^ 0x5c)).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Test cases 2 and 6 of RFC 4231.
    #[test]
    fn codes_are_those_of_the_rfc() {
        assert_eq!(
            hex(&hmac(b"Jefe", b"what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            hex(&hmac(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    #[test]
    fn a_proof_is_of_one_side_one_secret_and_these_hellos() {
        let (secret, other) = (LinkSecret::new("COOKIE\n"), LinkSecret::new("OTHER"));
        let hellos = Hellos { dialled: b"ab".to_vec(), accepted: b"c".to_vec() };
        let moved = Hellos { dialled: b"a".to_vec(), accepted: b"bc".to_vec() };
        let proof = secret.prove(Side::Dials, &hellos);
        assert!(LinkSecret::new(" COOKIE").accepts(Side::Dials, &hellos, &proof));
        assert!(!secret.accepts(Side::Accepts, &hellos, &proof));
        assert!(!other.accepts(Side::Dials, &hellos, &proof));
        assert!(!secret.accepts(Side::Dials, &moved, &proof));
    }
}
