//! Files that change under a slot.

use std::path::Path;
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};

use super::*;

/// Writes a certificate and its key; their time of change is so long after 1970.
fn write(folder: &Path, name: &str, at_s: u64) {
    let key = KeyPair::generate().unwrap();
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(rcgen::DnType::CommonName, name);
    let certificate = parameters.self_signed(&key).unwrap();
    for (file, text) in [("server.pem", certificate.pem()), ("server.key", key.serialize_pem())] {
        std::fs::write(folder.join(file), text).unwrap();
        touch(&folder.join(file), at_s);
    }
}

fn touch(file: &Path, at_s: u64) {
    let file = std::fs::File::options().write(true).open(file).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(at_s)).unwrap();
}

fn slot(folder: &Path) -> Arc<TlsSlot> {
    let options = ServerOptions {
        certificate_file: Some(folder.join("server.pem")),
        key_file: Some(folder.join("server.key")),
        ..ServerOptions::default()
    };
    TlsSlot::new(options, CertificateLogin::default()).unwrap()
}

fn name(slot: &TlsSlot) -> Option<String> {
    slot.material().own().facts.common_name.clone()
}

#[test]
fn files_are_read_again_when_they_have_changed() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "first", 1000);
    let slot = slot(folder.path());
    assert!(slot.reload_if_changed().is_none(), "nothing has changed");
    let before = slot.material();
    write(folder.path(), "second", 2000);
    assert_eq!(name(&slot).as_deref(), Some("first"), "nobody has looked yet");
    slot.reload_if_changed().expect("a change").unwrap();
    assert_eq!(name(&slot).as_deref(), Some("second"));
    assert_eq!(before.own().facts.common_name.as_deref(), Some("first"), "who has the old one keeps it");
    assert!(slot.reload_if_changed().is_none());
    // An older time is a change, too: files that are put back.
    write(folder.path(), "third", 1500);
    slot.reload_if_changed().expect("a change").unwrap();
    assert_eq!(name(&slot).as_deref(), Some("third"));
}

#[test]
fn what_cannot_be_used_changes_nothing_and_is_told_once() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "first", 1000);
    let slot = slot(folder.path());
    let key = folder.path().join("server.key");
    std::fs::write(&key, KeyPair::generate().unwrap().serialize_pem()).unwrap();
    touch(&key, 2000);
    let error = slot.reload_if_changed().expect("a change").expect_err("another certificate's key");
    assert!(error.to_string().contains("server.key"), "{error}");
    assert!(slot.reload_if_changed().is_none(), "the same bad files are told of once");
    assert!(slot.reload().is_err(), "unless somebody asks");
    assert_eq!(name(&slot).as_deref(), Some("first"));
    std::fs::remove_file(&key).unwrap();
    assert!(slot.reload_if_changed().expect("a change").is_err());
    assert_eq!(name(&slot).as_deref(), Some("first"));
    write(folder.path(), "second", 3000);
    slot.reload_if_changed().expect("a change").unwrap();
    assert_eq!(name(&slot).as_deref(), Some("second"));
}

#[test]
fn a_login_has_the_part_of_the_certificate_that_is_chosen() {
    let certificate = CertificateFacts {
        subject: "CN=orders,O=example".to_owned(),
        issuer: "CN=ca".to_owned(),
        common_name: Some("orders".to_owned()),
        alternative_names: vec![
            (SanType::Dns, "a.example".to_owned()),
            (SanType::Email, "orders@example".to_owned()),
            (SanType::Dns, "b.example".to_owned()),
        ],
        not_before_s: 0,
        not_after_s: 0,
        serial: "01".to_owned(),
    };
    let name = |login: CertificateLogin| login.name(&certificate);
    assert_eq!(name(CertificateLogin::default()).as_deref(), Some("CN=orders,O=example"));
    assert_eq!(name(CertificateLogin::CommonName).as_deref(), Some("orders"));
    assert_eq!(name(CertificateLogin::AlternativeName(SanType::Dns, 1)).as_deref(), Some("b.example"));
    assert_eq!(name(CertificateLogin::AlternativeName(SanType::Email, 0)).as_deref(), Some("orders@example"));
    assert_eq!(name(CertificateLogin::AlternativeName(SanType::Dns, 2)), None);
    assert_eq!(name(CertificateLogin::AlternativeName(SanType::Uri, 0)), None);
}
