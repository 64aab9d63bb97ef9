//! URLs, heads and bodies of answers.

use super::*;

fn parsed(text: &str) -> ServerUrl {
    ServerUrl::parse(text).unwrap()
}

#[test]
fn a_url_names_user_password_host_port_and_prefix() {
    let url = parsed("http://ops:p%40ss%3A%2F@broker.example:8080/rabbit/");
    assert_eq!((url.user(), url.password.as_deref()), ("ops", Some("p@ss:/")));
    assert_eq!((url.host.as_str(), url.port, url.path.as_str()), ("broker.example", 8080, "/rabbit"));
    assert_eq!(
        format!("{url} {url:?}"),
        "http://broker.example:8080/rabbit http://broker.example:8080/rabbit"
    );
}

#[test]
fn what_a_url_leaves_out_is_rabbitmqs_default() {
    let url = parsed("http://host");
    assert_eq!((url.user(), url.password.as_deref(), url.port), ("guest", Some("guest"), 15672));
    assert!(parsed("HTTP://ops@host").lacks_password());
    assert_eq!(parsed("http://[::1]:1/").to_string(), "http://[::1]:1");
}

#[test]
fn what_is_no_url_is_told_why() {
    for (text, wanted) in [
        ("host:15672", UrlError::Scheme),
        ("amqp://host", UrlError::Scheme),
        ("ftp://host", UrlError::Scheme),
        ("http://", UrlError::Host),
        ("http://u@/x", UrlError::Host),
        ("http://[::1", UrlError::Host),
        ("http://host:", UrlError::Port),
        ("http://host:0", UrlError::Port),
        ("http://host:99999", UrlError::Port),
        ("http://u:%4@host", UrlError::Letter),
        ("http://u:%zz@host", UrlError::Letter),
        ("http://host/a b", UrlError::Letter),
        ("http://host/\r\nX: y", UrlError::Letter),
        ("http://host?x", UrlError::Letter),
    ] {
        assert_eq!(ServerUrl::parse(text), Err(wanted), "{text}");
    }
}

fn answer(text: &str) -> Result<(u16, Vec<u8>), String> {
    let mut reader = text.as_bytes();
    let head = Head::read(&mut reader).map_err(|error| error.to_string())?;
    head.body(&mut reader).map(|body| (head.status, body)).map_err(|error| error.to_string())
}

#[test]
fn bodies_end_where_their_heads_say() {
    let whole = |text: &str| answer(text).unwrap();
    assert_eq!(whole("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nabc"), (200, b"ab".to_vec()));
    assert_eq!(whole("HTTP/1.0 404 No\r\n\r\nabc"), (404, b"abc".to_vec()));
    let chunked =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\nA;x=1\r\n0123456789\r\n0\r\n\r\n";
    assert_eq!(whole(chunked), (200, b"ab0123456789".to_vec()));
}

#[test]
fn answers_that_are_cut_off_or_are_none_are_errors() {
    for text in [
        "",
        "HTTP/1.1 200 OK\r\n",
        "AMQP\0\0\x09\x01\n\n",
        "HTTP/1.1 2x0 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ] {
        assert!(answer(text).is_err(), "{text}");
    }
}

#[test]
fn refusals_are_told_apart() {
    let of =
        |status, reason: &str| refused(status, format!(r#"{{"error":"e","reason":"{reason}"}}"#).as_bytes());
    let not_allowed = |error: CallError| match error {
        CallError::NotAllowed { why, .. } => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(not_allowed(of(401, "Not_Authorized")), NotAllowed::Login);
    assert_eq!(not_allowed(of(401, "Not administrator user")), NotAllowed::NoAdministrator);
    assert_eq!(not_allowed(of(401, "Not management user")), NotAllowed::NoAdministrator);
    assert_eq!(not_allowed(of(401, "User can only log in via localhost")), NotAllowed::FromElsewhere);
    assert_eq!(not_allowed(refused(401, b"")), NotAllowed::Login);
    assert!(matches!(of(404, "Not Found"), CallError::NoDoor));
    assert!(matches!(of(400, "too large"), CallError::Refused { status: 400, .. }));
}
