//! Keys of the first user and vhost, and of who may log in and how.

use broker::PasswordRule;
use broker::policies::permission_pattern_problem;

use crate::config::key::{Key, Section, Take, Unit, boolean, narrow};
use crate::config::options::{Mechanism, PasswordHashing, PasswordRuleKind};
use stdx::Secret;

pub(super) static SECTION: Section = Section {
    title: "Users and access",
    about: "The first user and virtual host, and who may log in and how. The `default_*` keys take effect once, \
            when the data folder is empty; later changes are made with `warren ctl`.",
    keys: KEYS,
};

/// Where users are looked for: there is one place.
const fn backend(name: &'static str, example: &'static str) -> Key {
    let take = Take::List {
        shape: "`internal`",
        clear: |_| {},
        add: |_, _, value| match value {
            "internal" | "rabbit_auth_backend_internal" => Ok(()),
            other => Err(format!("Warren does not support {other} yet; expected internal")),
        },
    };
    let doc = "Where users are looked up. `internal`, also written `rabbit_auth_backend_internal`, means \
         the users of the node.";
    Key { name, alias: None, take, default: "internal", doc, example }
}

const KEYS: &[Key] = &[
    Key {
        name: "default_vhost",
        alias: None,
        take: Take::Text {
            shape: "name",
            set: |options, value| name(&mut options.access.default_vhost, value),
        },
        default: "/",
        doc: "Virtual host created on the first start.",
        example: "default_vhost = shop",
    },
    Key {
        name: "default_user",
        alias: None,
        take: Take::Text {
            shape: "name",
            set: |options, value| name(&mut options.access.default_user, value),
        },
        default: "guest",
        doc: "User created on the first start.",
        example: "default_user = shop",
    },
    Key {
        name: "default_pass",
        alias: None,
        take: Take::Text {
            shape: "text",
            set: |options, value| secret(&mut options.access.default_pass, value),
        },
        default: "guest",
        doc: "Password of the first user. Quote it if it holds a `#`. RabbitMQ's `encrypted:` values are refused.",
        example: "default_pass = $(SEED_PASSWORD)",
    },
    Key {
        name: "default_user_tags.$tag",
        alias: None,
        take: Take::List {
            shape: "`true` or `false`",
            clear: |options| options.access.default_user_tags.clear(),
            add: |options, tag, value| {
                if boolean(value)? {
                    options.access.default_user_tags.push(tag.to_owned());
                }
                Ok(())
            },
        },
        default: "administrator",
        doc: "Gives the first user this tag. The first such line replaces the default tags.",
        example: "default_user_tags.monitoring = true",
    },
    Key {
        name: "default_permissions.configure",
        alias: None,
        take: Take::Text {
            shape: "regular expression",
            set: |options, value| pattern(&mut options.access.default_permissions.configure, value),
        },
        default: ".*",
        doc: "Names the first user may declare and delete in the first virtual host.",
        example: "default_permissions.configure = ^shop-",
    },
    Key {
        name: "default_permissions.write",
        alias: None,
        take: Take::Text {
            shape: "regular expression",
            set: |options, value| pattern(&mut options.access.default_permissions.write, value),
        },
        default: ".*",
        doc: "Names the first user may publish to in the first virtual host.",
        example: "default_permissions.write = .*",
    },
    Key {
        name: "default_permissions.read",
        alias: None,
        take: Take::Text {
            shape: "regular expression",
            set: |options, value| pattern(&mut options.access.default_permissions.read, value),
        },
        default: ".*",
        doc: "Names the first user may consume from in the first virtual host.",
        example: "default_permissions.read = .*",
    },
    Key {
        name: "loopback_users.$user",
        alias: None,
        take: Take::List {
            shape: "`true` or `false`",
            clear: |options| options.access.loopback_users.clear(),
            add: |options, user, value| {
                if boolean(value)? {
                    options.access.loopback_users.push(user.to_owned());
                }
                Ok(())
            },
        },
        default: "guest",
        doc: "Lets this user connect from the same machine only. The first such line replaces the default list, so \
              `loopback_users.guest = false` opens guest to the network.",
        example: "loopback_users.guest = true",
    },
    Key {
        name: "loopback_users",
        alias: None,
        take: Take::Choice {
            of: &["none"],
            not_yet: &[],
            set: |options, _| options.access.loopback_users.clear(),
        },
        default: "",
        doc: "Lets every user connect from anywhere, whatever else is configured.",
        example: "loopback_users = none",
    },
    Key {
        name: "auth_mechanisms.$n",
        alias: None,
        take: Take::List {
            shape: "`PLAIN`, `AMQPLAIN`, `ANONYMOUS` or `EXTERNAL`",
            clear: |options| options.access.mechanisms.clear(),
            add: |options, _, value| {
                options.access.mechanisms.push(mechanism(value)?);
                Ok(())
            },
        },
        default: "PLAIN, AMQPLAIN, ANONYMOUS",
        doc: "SASL mechanisms offered to clients, in order of the last words. The first such line replaces the \
              default list; leave ANONYMOUS out in production. EXTERNAL is the name in a client's certificate, over TLS only.",
        example: "auth_mechanisms.1 = PLAIN",
    },
    backend("auth_backends.$n", "auth_backends.1 = internal"),
    backend("auth_backends.$n.authn", "auth_backends.1.authn = internal"),
    backend("auth_backends.$n.authz", "auth_backends.1.authz = internal"),
    Key {
        name: "anonymous_login_user",
        alias: None,
        take: Take::Text {
            shape: "name, or `none`",
            set: |options, value| {
                options.access.anonymous_login_user = (value != "none").then(|| value.to_owned());
                Ok(())
            },
        },
        default: "guest",
        doc: "The user that a client without credentials (ANONYMOUS) acts as; `none` refuses such clients.",
        example: "anonymous_login_user = none",
    },
    Key {
        name: "anonymous_login_pass",
        alias: None,
        take: Take::Text {
            shape: "text",
            set: |options, value| secret(&mut options.access.anonymous_login_pass, value),
        },
        default: "guest",
        doc: "Password of `anonymous_login_user`.",
        example: "anonymous_login_pass = guest",
    },
    Key {
        name: "password_hashing_module",
        alias: None,
        take: Take::Choice {
            of: &["rabbit_password_hashing_sha256", "rabbit_password_hashing_sha512"],
            not_yet: &["rabbit_password_hashing_md5"],
            set: |options, value| {
                options.access.password_hashing =
                    if value.ends_with("sha512") { PasswordHashing::Sha512 } else { PasswordHashing::Sha256 };
            },
        },
        default: "rabbit_password_hashing_sha256",
        doc: "Hash of new passwords. Stored hashes of every kind keep working.",
        example: "password_hashing_module = rabbit_password_hashing_sha512",
    },
    Key {
        name: "credential_validator.validation_backend",
        alias: None,
        take: Take::Choice {
            of: &[
                "rabbit_credential_validator_accept_everything",
                "rabbit_credential_validator_min_password_length",
                "rabbit_credential_validator_password_regexp",
            ],
            not_yet: &[],
            set: |options, value| {
                options.access.password_rule.kind = match value {
                    "rabbit_credential_validator_min_password_length" => PasswordRuleKind::Length,
                    "rabbit_credential_validator_password_regexp" => PasswordRuleKind::Pattern,
                    _ => PasswordRuleKind::Any,
                };
            },
        },
        default: "rabbit_credential_validator_accept_everything",
        doc: "Checks new passwords: with `warren ctl`, over HTTP, in definitions with passwords in clear, and in \
              this configuration when the data folder is empty. Hashes are not checked.",
        example: "credential_validator.validation_backend = rabbit_credential_validator_min_password_length",
    },
    Key {
        name: "credential_validator.min_length",
        alias: None,
        take: Take::Integer {
            min: 0,
            max: 255,
            unit: Unit::Count,
            set: |options, least| options.access.password_rule.length_min = narrow(least),
        },
        default: "8",
        doc: "Least number of characters of a password, for `rabbit_credential_validator_min_password_length`.",
        example: "credential_validator.min_length = 12",
    },
    Key {
        name: "credential_validator.regexp",
        alias: None,
        take: Take::Text {
            shape: "regular expression",
            set: |options, value| match PasswordRule::matching(value) {
                Some(_) => text(&mut options.access.password_rule.pattern, value),
                None => Err("not a regular expression".to_owned()),
            },
        },
        default: ".*",
        doc: "Regular expression that passwords must match, for `rabbit_credential_validator_password_regexp`. It \
              is not anchored.",
        example: "credential_validator.regexp = ^[a-zA-Z0-9]{12,}$",
    },
];

fn text(field: &mut String, value: &str) -> Result<(), String> {
    value.clone_into(field);
    Ok(())
}

fn pattern(field: &mut String, value: &str) -> Result<(), String> {
    match permission_pattern_problem(value) {
        Some(problem) => Err(format!("not a regular expression: {}", problem.text)),
        None => text(field, value),
    }
}

/// Names of vhosts and users are AMQP short strings.
fn name(field: &mut String, value: &str) -> Result<(), String> {
    if value.is_empty() || value.len() > 255 {
        return Err("expected a name of 1 to 255 bytes".to_owned());
    }
    text(field, value)
}

pub(super) fn secret(field: &mut Secret, value: &str) -> Result<(), String> {
    if value.starts_with("encrypted:") {
        return Err(
            "encrypted values are not supported; use $(NAME) to take it from the environment".to_owned()
        );
    }
    *field = Secret::new(value);
    Ok(())
}

fn mechanism(value: &str) -> Result<Mechanism, String> {
    match value {
        "PLAIN" => Ok(Mechanism::Plain),
        "AMQPLAIN" => Ok(Mechanism::AmqPlain),
        "ANONYMOUS" => Ok(Mechanism::Anonymous),
        "EXTERNAL" => Ok(Mechanism::External),
        _ => Err("expected PLAIN, AMQPLAIN, ANONYMOUS or EXTERNAL".to_owned()),
    }
}
