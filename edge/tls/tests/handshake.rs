//! Files on disk, handshakes in memory.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use stdx::Secret;
use tls::rustls::pki_types::ServerName;
use tls::rustls::{ClientConnection, Error, ServerConnection};
use tls::{
    ClientOptions, NamedCertificate, ServerOptions, SessionFacts, Verify, Version, client_config,
    server_config,
};

struct Files {
    folder: tempfile::TempDir,
}

fn named(name: &str) -> CertificateParams {
    let mut parameters = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters
}

fn authority(name: &str) -> CertificateParams {
    let mut parameters = named(name);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    parameters
}

impl Files {
    /// An authority, a second one below it, and certificates of a server and of two clients: one by each authority.
    fn new() -> Files {
        let files = Files { folder: tempfile::tempdir().unwrap() };
        let ca = CertifiedIssuer::self_signed(authority("ca"), KeyPair::generate().unwrap()).unwrap();
        files.write("ca.pem", &ca.pem());
        let below =
            CertifiedIssuer::signed_by(authority("below"), KeyPair::generate().unwrap(), &ca).unwrap();
        for (name, issuer, chain) in
            [("server", &ca, String::new()), ("client", &ca, String::new()), ("deep", &below, below.pem())]
        {
            let key = KeyPair::generate().unwrap();
            let certificate = named(name).signed_by(&key, issuer).unwrap();
            files.write(&format!("{name}.pem"), &format!("{}{chain}", certificate.pem()));
            files.write(&format!("{name}.key"), &key.serialize_pem());
        }
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn server(&self) -> ServerOptions {
        ServerOptions {
            ca_file: Some(self.path("ca.pem")),
            certificate_file: Some(self.path("server.pem")),
            key_file: Some(self.path("server.key")),
            ..ServerOptions::default()
        }
    }

    fn client(&self) -> ClientOptions {
        ClientOptions { verify: Verify::Peer, ca_file: Some(self.path("ca.pem")), ..ClientOptions::default() }
    }

    fn client_as(&self, name: &str) -> ClientOptions {
        let certificate_file = Some(self.path(&format!("{name}.pem")));
        ClientOptions { certificate_file, key_file: Some(self.path(&format!("{name}.key"))), ..self.client() }
    }
}

/// Lets both sides talk until neither has anything to say.
fn shake(server: &ServerOptions, client: &ClientOptions) -> Result<(SessionFacts, SessionFacts), Error> {
    shake_with(server, client, "localhost")
}

/// The same, with a client that asks for this name.
fn shake_with(
    server: &ServerOptions,
    client: &ClientOptions,
    name: &str,
) -> Result<(SessionFacts, SessionFacts), Error> {
    let mut server = ServerConnection::new(server_config(server).unwrap().config).unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(client_config(client).unwrap(), name).unwrap();
    for _ in 0..10 {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        let mut bytes = &bytes[..];
        while !bytes.is_empty() {
            server.read_tls(&mut bytes).unwrap();
            server.process_new_packets()?;
        }
        let mut bytes = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        let mut bytes = &bytes[..];
        while !bytes.is_empty() {
            client.read_tls(&mut bytes).unwrap();
            client.process_new_packets()?;
        }
    }
    Ok((SessionFacts::of(&server).expect("over"), SessionFacts::of(&client).expect("over")))
}

fn refusal(options: &ServerOptions) -> String {
    server_config(options).expect_err("refused").to_string()
}

#[test]
fn both_versions_are_spoken_and_told() {
    let files = Files::new();
    for (version, key_exchange) in [(Version::V1_2, "ecdhe_ecdsa"), (Version::V1_3, "any")] {
        let server = ServerOptions { versions: vec![version], ..files.server() };
        let (facts, _) = shake(&server, &files.client()).unwrap();
        assert_eq!((facts.protocol, facts.key_exchange, facts.hash), (version.name(), key_exchange, "aead"));
        assert_eq!(facts.peer, None, "nobody asked for a certificate");
    }
    let server = ServerOptions { versions: vec![Version::V1_2], ..files.server() };
    let client = ClientOptions { versions: vec![Version::V1_3], ..files.client() };
    assert!(shake(&server, &client).is_err(), "no version in common");
}

#[test]
fn a_client_that_shows_a_good_certificate_is_known() {
    let files = Files::new();
    let server = ServerOptions { verify: Verify::Peer, fail_if_no_peer_cert: true, ..files.server() };
    let (facts, _) = shake(&server, &files.client_as("client")).unwrap();
    assert_eq!(facts.peer.unwrap().subject, "CN=client");
    assert!(shake(&server, &files.client()).is_err(), "a client without certificate is refused");
    let lenient = ServerOptions { fail_if_no_peer_cert: false, ..server };
    assert_eq!(shake(&lenient, &files.client()).unwrap().0.peer, None);
    let strangers = Files::new();
    let stranger = ClientOptions { ca_file: files.client().ca_file, ..strangers.client_as("client") };
    assert!(shake(&lenient, &stranger).is_err(), "a certificate of a foreign authority is refused");
}

#[test]
fn who_shows_a_certificate_gets_no_ticket_that_outlives_it() {
    let files = Files::new();
    let tickets = |options: &ServerOptions| {
        let config = server_config(options).unwrap().config;
        (config.ticketer.enabled(), config.send_tls13_tickets)
    };
    assert_eq!(tickets(&files.server()), (true, 1));
    assert_eq!(tickets(&ServerOptions { verify: Verify::Peer, ..files.server() }), (false, 0));
}

#[test]
fn the_depth_limits_the_certificates_in_between() {
    let files = Files::new();
    let server = ServerOptions { verify: Verify::Peer, depth: 1, ..files.server() };
    assert_eq!(shake(&server, &files.client_as("deep")).unwrap().0.peer.unwrap().subject, "CN=deep");
    let shallow = ServerOptions { depth: 0, ..server };
    assert!(shake(&shallow, &files.client_as("deep")).is_err());
    assert!(shake(&shallow, &files.client_as("client")).is_ok());
}

#[test]
fn a_server_of_a_foreign_authority_is_refused_unless_nobody_looks() {
    let files = Files::new();
    let strangers = Files::new();
    assert!(shake(&strangers.server(), &files.client()).is_err());
    let trusting = ClientOptions { verify: Verify::None, ..files.client() };
    assert!(shake(&strangers.server(), &trusting).is_ok());
}

#[test]
fn encrypted_keys_need_their_password() {
    let files = Files::new();
    let key = KeyPair::generate().unwrap();
    files.write("server.pem", &named("server").self_signed(&key).unwrap().pem());
    let plain = pkcs8::PrivateKeyInfo::try_from(key.serialized_der()).unwrap();
    let parameters =
        pkcs8::pkcs5::pbes2::Parameters::pbkdf2_sha256_aes256cbc(2048, &[1; 16], &[2; 16]).unwrap();
    let sealed = plain.encrypt_with_params(parameters, "secret").unwrap();
    let text = sealed.to_pem("ENCRYPTED PRIVATE KEY", pkcs8::LineEnding::LF).unwrap();
    files.write("server.key", &text);
    let with = |password: Option<&str>| ServerOptions {
        password: password.map(|text| Secret::new(text.to_owned())),
        ..files.server()
    };
    assert!(server_config(&with(Some("secret"))).is_ok());
    let wrong = refusal(&with(Some("guess")));
    assert!(wrong.contains("server.key") && wrong.contains("password"), "{wrong}");
    assert!(refusal(&with(None)).contains("openssl pkey"));
}

#[test]
fn files_that_do_not_fit_are_named() {
    let files = Files::new();
    let foreign = ServerOptions { key_file: Some(files.path("client.key")), ..files.server() };
    let text = refusal(&foreign);
    assert!(text.contains("client.key") && text.contains("server.pem"), "{text}");
    let missing = ServerOptions { certificate_file: Some(files.path("nowhere.pem")), ..files.server() };
    assert!(refusal(&missing).contains("cannot read") && refusal(&missing).contains("nowhere.pem"));
    let swapped = ServerOptions { certificate_file: Some(files.path("server.key")), ..files.server() };
    assert!(refusal(&swapped).contains("no certificate in this file"));
    let no_authority = ServerOptions { verify: Verify::Peer, ca_file: None, ..files.server() };
    assert!(refusal(&no_authority).contains("cacertfile"));
    let unchecked = ServerOptions { fail_if_no_peer_cert: true, ..files.server() };
    assert!(refusal(&unchecked).contains("verify_peer"));
}

#[test]
fn a_certificate_with_a_broken_hash_is_refused_at_the_start() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sha1.pem");
    let files = Files::new();
    let text = refusal(&ServerOptions { certificate_file: Some(file), ..files.server() });
    assert!(text.contains("sha1.pem") && text.contains("SHA-1") && text.contains("SHA-256"), "{text}");
}

#[test]
fn a_revoked_client_is_refused() {
    let files = Files::new();
    let ca = CertifiedIssuer::self_signed(authority("ca"), KeyPair::generate().unwrap()).unwrap();
    files.write("ca.pem", &ca.pem());
    for (name, serial) in [("server", 1_u64), ("client", 2), ("deep", 3)] {
        let key = KeyPair::generate().unwrap();
        let mut parameters = named(name);
        parameters.serial_number = Some(serial.into());
        files.write(&format!("{name}.pem"), &parameters.signed_by(&key, &ca).unwrap().pem());
        files.write(&format!("{name}.key"), &key.serialize_pem());
    }
    let list = rcgen::CertificateRevocationListParams {
        this_update: rcgen::date_time_ymd(2020, 1, 1),
        next_update: rcgen::date_time_ymd(2120, 1, 1),
        crl_number: 1_u64.into(),
        issuing_distribution_point: None,
        revoked_certs: vec![rcgen::RevokedCertParams {
            serial_number: 2_u64.into(),
            revocation_time: rcgen::date_time_ymd(2021, 1, 1),
            reason_code: None,
            invalidity_date: None,
        }],
        key_identifier_method: rcgen::KeyIdMethod::Sha256,
    };
    files.write("crl.pem", &list.signed_by(&ca).unwrap().pem().unwrap());
    let server = ServerOptions {
        verify: Verify::Peer,
        revocation_files: vec![files.path("crl.pem")],
        ..files.server()
    };
    assert!(shake(&server, &files.client_as("deep")).is_ok());
    assert!(shake(&server, &files.client_as("client")).is_err());
}

#[test]
fn a_client_gets_the_certificate_for_the_name_that_it_asks_for() {
    let files = Files::new();
    let ca = CertifiedIssuer::self_signed(authority("ca"), KeyPair::generate().unwrap()).unwrap();
    files.write("ca.pem", &ca.pem());
    let mut options = ServerOptions { ca_file: None, ..files.server() };
    for (name, dns) in [("shop", vec!["shop.example", "*.shops.example"]), ("mail", vec!["Mail.Example"])] {
        let key = KeyPair::generate().unwrap();
        let mut parameters =
            CertificateParams::new(dns.into_iter().map(str::to_owned).collect::<Vec<_>>()).unwrap();
        parameters.distinguished_name = named(name).distinguished_name;
        files.write(&format!("{name}.pem"), &parameters.signed_by(&key, &ca).unwrap().pem());
        files.write(&format!("{name}.key"), &key.serialize_pem());
        let pair = NamedCertificate {
            certificate_file: Some(files.path(&format!("{name}.pem"))),
            key_file: Some(files.path(&format!("{name}.key"))),
        };
        options.named.insert(name.to_owned(), pair);
    }
    let client = ClientOptions { verify: Verify::None, ca_file: None, ..ClientOptions::default() };
    for (asked, shown) in [
        ("shop.example", "CN=shop"),
        ("SHOP.example", "CN=shop"),
        ("a.shops.example", "CN=shop"),
        ("a.b.shops.example", "CN=server"),
        ("shops.example", "CN=server"),
        ("mail.example", "CN=mail"),
        ("localhost", "CN=server"),
        ("127.0.0.1", "CN=server"),
    ] {
        let (_, seen) = shake_with(&options, &client, asked).unwrap();
        assert_eq!(seen.peer.unwrap().subject, shown, "{asked}");
    }
    let keys: Vec<String> =
        server_config(&options).unwrap().certificates.into_iter().map(|one| one.key).collect();
    assert_eq!(keys, ["certfile", "sni.mail.certfile", "sni.shop.certfile"]);

    let mut twice = options.clone();
    twice.named.insert("other".to_owned(), options.named["shop"].clone());
    assert!(refusal(&twice).contains("shop.example, too"), "{}", refusal(&twice));
    options.named.get_mut("shop").unwrap().key_file = None;
    assert!(refusal(&options).contains("sni.shop.keyfile"), "{}", refusal(&options));
}
