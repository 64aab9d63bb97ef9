//! RabbitMQ's salted password hashes (B170): four bytes of salt, then the hash of salt and password.
//!
//! Draws no salt of its own and knows no user names; the salt comes from the caller.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256, Sha512};
use subtle::ConstantTimeEq;

use crate::codec::plain_codes;
use crate::command::Credentials;

/// Bytes of salt in front of every hash.
pub const SALT_BYTES: usize = 4;

/// How a password hash was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Hashing {
    /// `rabbit_password_hashing_sha256`, the default.
    #[default]
    Sha256,
    /// `rabbit_password_hashing_sha512`.
    Sha512,
    /// `rabbit_password_hashing_md5`: kept so that old definitions round-trip; no password logs in with it.
    Md5,
}

plain_codes!(Hashing as "password hashing" { 1 => Sha256, 2 => Sha512, 3 => Md5, });

impl Hashing {
    /// RabbitMQ's name of it, as in definitions.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "rabbit_password_hashing_sha256",
            Self::Sha512 => "rabbit_password_hashing_sha512",
            Self::Md5 => "rabbit_password_hashing_md5",
        }
    }

    /// The algorithm of that name in definitions, if it is known.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Sha256, Self::Sha512, Self::Md5].into_iter().find(|hashing| hashing.name() == name)
    }

    /// Bytes of salt and hash together.
    #[must_use]
    pub const fn hash_bytes(self) -> usize {
        SALT_BYTES
            + match self {
                Self::Sha256 => 32,
                Self::Sha512 => 64,
                Self::Md5 => 16,
            }
    }
}

/// Why a hash from outside is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HashError {
    /// The text is not standard base64.
    #[error("a password hash that is not base64")]
    NotBase64,
    /// Neither empty nor salt and hash.
    #[error("a password hash of {found} bytes, expected {expected}")]
    WrongSize {
        /// Bytes found.
        found: usize,
        /// Bytes of salt and hash of this algorithm.
        expected: usize,
    },
}

impl Credentials {
    /// Credentials with which no password logs in.
    #[must_use]
    pub fn none() -> Self {
        Self { password_hash: Box::default(), hashing: Hashing::default() }
    }

    /// Hashes a password with a salt that the caller drew; `None` for MD5, which is not made any more.
    #[must_use]
    pub fn of_password(hashing: Hashing, salt: [u8; SALT_BYTES], password: &[u8]) -> Option<Self> {
        let digest = digest(hashing, &salt, password)?;
        Some(Self { password_hash: [&salt[..], &digest[..]].concat().into(), hashing })
    }

    /// Reads the `password_hash` of definitions; empty text means that no password logs in.
    ///
    /// # Errors
    /// [`HashError`] when it is not base64 of a salt and a hash of this algorithm.
    pub fn from_base64(hashing: Hashing, text: &str) -> Result<Self, HashError> {
        let bytes = STANDARD.decode(text).map_err(|_| HashError::NotBase64)?;
        let (found, expected) = (bytes.len(), hashing.hash_bytes());
        if found != 0 && found != expected {
            return Err(HashError::WrongSize { found, expected });
        }
        Ok(Self { password_hash: bytes.into(), hashing })
    }

    /// The hash as definitions write it.
    #[must_use]
    pub fn to_base64(&self) -> String {
        STANDARD.encode(&self.password_hash)
    }

    /// Whether this is the password. The comparison takes the same time wherever the hashes differ. An empty
    /// password, an empty hash and an MD5 hash never match.
    #[must_use]
    pub fn verify(&self, password: &[u8]) -> bool {
        let Some((salt, stored)) = self.password_hash.split_first_chunk::<SALT_BYTES>() else { return false };
        if password.is_empty() {
            return false;
        }
        digest(self.hashing, salt, password).is_some_and(|computed| bool::from(computed.ct_eq(stored)))
    }
}

fn digest(hashing: Hashing, salt: &[u8; SALT_BYTES], password: &[u8]) -> Option<Box<[u8]>> {
    match hashing {
        Hashing::Sha256 => {
            Some(Sha256::new().chain_update(salt).chain_update(password).finalize().to_vec().into())
        }
        Hashing::Sha512 => {
            Some(Sha512::new().chain_update(salt).chain_update(password).finalize().to_vec().into())
        }
        Hashing::Md5 => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_rabbitmqs_documentation_is_reproduced() {
        // The worked example of RabbitMQ's "Passwords" page: salt 908DC60A, password test12.
        let hash = Credentials::of_password(Hashing::Sha256, [0x90, 0x8D, 0xC6, 0x0A], b"test12").unwrap();
        assert_eq!(hash.to_base64(), "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR");
        assert!(hash.verify(b"test12"));
        assert!(!hash.verify(b"test13"));
    }

    #[test]
    fn sha512_round_trips_through_definitions() {
        let hash = Credentials::of_password(Hashing::Sha512, *b"salt", "pässword".as_bytes()).unwrap();
        let again = Credentials::from_base64(Hashing::Sha512, &hash.to_base64()).unwrap();
        assert_eq!(hash, again);
        assert!(again.verify("pässword".as_bytes()));
    }

    #[test]
    fn empty_hashes_empty_passwords_and_md5_never_match() {
        assert!(!Credentials::none().verify(b""));
        assert!(!Credentials::none().verify(b"x"));
        assert!(!Credentials::of_password(Hashing::Sha256, *b"salt", b"").unwrap().verify(b""));
        let md5 = Credentials { password_hash: vec![0; 20].into(), hashing: Hashing::Md5 };
        assert!(!md5.verify(b"x"));
        assert_eq!(Credentials::of_password(Hashing::Md5, *b"salt", b"x"), None);
    }

    #[test]
    fn hashes_of_the_wrong_size_are_refused() {
        assert_eq!(Credentials::from_base64(Hashing::Sha256, "***"), Err(HashError::NotBase64));
        let short = Credentials::from_base64(Hashing::Sha256, "AAAA");
        assert_eq!(short, Err(HashError::WrongSize { found: 3, expected: 36 }));
        assert_eq!(
            Credentials::from_base64(Hashing::Md5, ""),
            Ok(Credentials { password_hash: Box::default(), hashing: Hashing::Md5 })
        );
    }
}
