//! Hashes of passwords as definitions hold them, without a server. Refuses to know users.

use metadata::{Credentials, Hashing, SALT_BYTES};
use platform::{Random, RealRandom};

/// The base64 text of a fresh salt and the hash (B170), by RabbitMQ's name of the algorithm (`SHA256`, the default,
/// or `SHA512`, with or without the `rabbit_password_hashing_` in front). `None` for an empty password and for an
/// algorithm that makes no new hashes.
#[must_use]
pub fn hash_password(password: &str, algorithm: Option<&str>) -> Option<String> {
    let algorithm = algorithm.unwrap_or("sha256").to_ascii_lowercase();
    let hashing = match algorithm.trim_start_matches("rabbit_password_hashing_").replace('-', "").as_str() {
        "sha256" => Hashing::Sha256,
        "sha512" => Hashing::Sha512,
        _ => return None,
    };
    if password.is_empty() {
        return None;
    }
    let mut salt = [0; SALT_BYTES];
    RealRandom.fill(&mut salt);
    Some(Credentials::of_password(hashing, salt, password.as_bytes())?.to_base64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_lets_its_password_in_and_no_other() {
        let text = hash_password("secret", Some("SHA-512")).unwrap();
        let read = Credentials::from_base64(Hashing::Sha512, &text).unwrap();
        assert!(read.verify(b"secret") && !read.verify(b"other"));
        assert_eq!(hash_password("secret", Some("md5")), None);
        assert_eq!(hash_password("", None), None);
    }
}
