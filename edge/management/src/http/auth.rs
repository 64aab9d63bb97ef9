//! Authentication of the caller, and rights by tags. Knows RabbitMQ's texts; refuses to know resources.

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use broker::{Broker, LoginOutcome, User};
use protocols::basic_login;

use super::problem::Problem;
use super::query::form;

/// The right that a route asks of the user who calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Anybody, without a password.
    Anyone,
    /// As `Management`, with the name and the password in a form, which is the body.
    Form,
    /// Any of the tags that open the API; the handler shows what the user may see.
    Management,
    /// As `Management`, and may look into the vhost in the path.
    Vhost,
    /// As `Vhost`, but monitors may, too.
    VhostSeen,
    /// As `Vhost`; the handler tells of missing objects.
    VhostIfAny,
    /// As `Vhost`, and `policymaker` or `administrator`.
    Policymaker,
    /// `monitoring` or `administrator`.
    Monitoring,
    /// `administrator`.
    Administrator,
}

impl Access {
    /// In words, for the reference.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Access::Anyone => "anyone",
            Access::Form => "management, with `username` and `password` in the form",
            Access::Management => "management",
            Access::Vhost | Access::VhostIfAny => "management, access to the vhost",
            Access::VhostSeen => "monitoring, or management and access to the vhost",
            Access::Policymaker => "policymaker, access to the vhost",
            Access::Monitoring => "monitoring",
            Access::Administrator => "administrator",
        }
    }
}

/// Tags that open the API.
const TAGS: [&str; 4] = ["administrator", "monitoring", "policymaker", "management"];

/// A user's tags as rules.
pub(crate) fn is_administrator(user: &User) -> bool {
    user.has_tag("administrator")
}

pub(crate) fn is_monitor(user: &User) -> bool {
    user.has_tag("monitoring") || is_administrator(user)
}

pub(crate) fn is_policymaker(user: &User) -> bool {
    user.has_tag("policymaker") || is_administrator(user)
}

/// Whether a user may look into a vhost. Monitors know of all vhosts, and look only into those that they may open.
pub(crate) fn enters_vhost(user: &User, vhost: &str) -> bool {
    is_administrator(user) || user.may_open(vhost)
}

/// Whether a user may know that there is a vhost, and how much is in it.
pub(crate) fn sees_vhost(user: &User, vhost: &str) -> bool {
    is_monitor(user) || user.may_open(vhost)
}

/// Whether RabbitMQ could read an `Authorization` header, with any name: a scheme, and something behind it.
fn is_readable(header: &str) -> bool {
    match header.split_once(' ') {
        Some((scheme, encoded)) if scheme.eq_ignore_ascii_case("basic") => {
            STANDARD.decode(encoded.trim()).is_ok_and(|plain| plain.contains(&b':'))
        }
        Some((scheme, rest)) => !scheme.is_empty() && !rest.is_empty(),
        None => false,
    }
}

/// The header that a form with name and password stands for.
///
/// # Errors
/// 401 without one of them.
pub(crate) fn header_of_form(body: &[u8]) -> Result<String, Problem> {
    let fields = form(&String::from_utf8_lossy(body));
    let field = |wanted: &str| fields.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
    match (field("username"), field("password")) {
        (Some(name), Some(password)) => {
            Ok(format!("Basic {}", STANDARD.encode(format!("{name}:{password}"))))
        }
        _ => Err(Problem::new(401, "not_authorized", "Not_Authorized")),
    }
}

/// The user with that header.
///
/// # Errors
/// 401 in RabbitMQ's words: a wrong password, a user that may only come from this machine, or one without a tag. 400 for a header
/// that makes no sense, which is nobody's login.
pub(crate) fn login(broker: &Broker, header: &str, from: IpAddr) -> Result<Arc<User>, Problem> {
    if !is_readable(header) {
        return Err(Problem::bad("the Authorization header cannot be read"));
    }
    let from = from.to_canonical();
    let (name, password) = basic_login(header).unzip();
    let name = name.unwrap_or_default();
    let user = identify(broker, &name, password.as_deref(), from.is_loopback());
    let outcome = if user.is_ok() { LoginOutcome::Succeeded } else { LoginOutcome::Refused };
    broker.http_login_tried(&from.to_string(), &name, outcome);
    user
}

fn identify(
    broker: &Broker,
    name: &str,
    password: Option<&[u8]>,
    from_loopback: bool,
) -> Result<Arc<User>, Problem> {
    let refused = || Problem::new(401, "not_authorized", "Not_Authorized");
    let password = password.ok_or_else(refused)?;
    if !from_loopback && broker.options().loopback_users.iter().any(|user| user == name) {
        return Err(Problem::new(401, "not_authorized", "User can only log in via localhost"));
    }
    let user = broker.authenticate(name, password, from_loopback).ok_or_else(refused)?;
    if TAGS.iter().any(|tag| user.has_tag(tag)) {
        Ok(user)
    } else {
        Err(Problem::new(401, "not_authorised", "Not management user"))
    }
}

/// Whether tags are enough; vhosts are looked at by [`Access::Vhost`]'s caller.
///
/// # Errors
/// 401 with RabbitMQ's reason.
pub(crate) fn check(access: Access, user: &User) -> Result<(), Problem> {
    match access {
        Access::Monitoring if !is_monitor(user) => Err(Problem::forbidden("Not monitor user")),
        Access::Administrator if !is_administrator(user) => Err(Problem::forbidden("Not administrator user")),
        Access::Policymaker if !is_policymaker(user) => {
            Err(Problem::forbidden("User not authorised to access object"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_stands_for_the_header_that_its_first_name_and_password_would_be() {
        let header = header_of_form(b"password=a+b%26c:d%25%c3%a4&username=gu%65st&username=other").unwrap();
        assert_eq!(basic_login(&header), Some(("guest".into(), "a b&c:d%\u{e4}".into())));
        for bad in
            [&b""[..], b"username=guest", b"password=guest", b"{\"username\": \"guest\"}", b"\xff=\xff"]
        {
            assert!(header_of_form(bad).is_err_and(|problem| problem.status == 401));
        }
    }

    #[test]
    fn a_header_that_makes_no_sense_is_told_from_one_that_lets_nobody_in() {
        for sense in ["Basic Z3Vlc3Q6", "basic  Z3Vlc3Q6Z3Vlc3Q= ", "Basic /zp4", "Bearer x", "Digest a=b"] {
            assert!(is_readable(sense), "{sense}");
        }
        for none in [
            "",
            "x",
            "Basic",
            "Basic ",
            "Basic !",
            "Basic Z3Vlc3Q=",
            "Basic Z3Vlc3Q6x",
            "Bearer",
            "Bearer ",
            " x",
        ] {
            assert!(!is_readable(none), "{none}");
        }
    }

    #[test]
    fn a_password_may_hold_colons_and_any_bytes() {
        let header = format!("Basic {}", STANDARD.encode(b"guest:a:b\xff"));
        assert_eq!(basic_login(&header), Some(("guest".into(), b"a:b\xff".to_vec())));
        assert_eq!(basic_login("basic Z3Vlc3Q6"), Some(("guest".into(), Vec::new())));
        for bad in ["", "Basic", "Basic !", "Bearer Z3Vlc3Q6", "Basic Z3Vlc3Q="] {
            assert_eq!(basic_login(bad), None, "{bad}");
        }
    }
}
