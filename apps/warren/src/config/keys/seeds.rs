//! Keys of what new virtual hosts start with: users, limits, operator policies.

use broker::policies::keys::policy_key;
use broker::policies::{permission_pattern_problem, policy_pattern_problem};
use broker::{LimitSeed, PolicySeed, UserSeed};
use stdx::Secret;

use crate::config::key::{self, Key, Section, Take};
use crate::config::options::Options;

pub(super) static SECTION: Section = Section {
    title: "New virtual hosts",
    about: "Users, limits and policies of new virtual hosts, the first one and imported ones included. Existing \
            virtual hosts stay as they are. The words for `$name` and `$id` group lines: all lines with the same \
            word describe one user, one set of limits, or one policy.",
    keys: KEYS,
};

/// A key of one thing among several of its kind.
const fn one_of(
    name: &'static str,
    shape: &'static str,
    add: fn(&mut Options, &str, &str) -> Result<(), String>,
    doc: &'static str,
    example: &'static str,
) -> Key {
    Key { name, alias: None, take: Take::List { shape, clear: |_| {}, add }, default: "", doc, example }
}

/// The shape of a time.
const TIME: &str = "milliseconds, or with a unit: `ms`, `s`, `m`, `h`, `d`, `w`";

const KEYS: &[Key] = &[
    one_of(
        "default_users.$name.vhost_pattern",
        "regular expression",
        |options, name, value| pattern(&mut user(options, name).vhost_pattern, value),
        "Virtual hosts that get this user. All users whose pattern matches are made; the default matches every virtual host.",
        "default_users.shop.vhost_pattern = ^shop-",
    ),
    one_of(
        "default_users.$name.password",
        "text",
        |options, name, value| {
            if value.starts_with("encrypted:") {
                return Err(
                    "encrypted values are not supported; use $(NAME) to take it from the environment".into(),
                );
            }
            user(options, name).password = Some(Secret::new(value));
            Ok(())
        },
        "Its password. Without one nobody can log in as that user until it gets one. RabbitMQ's `encrypted:` values are refused.",
        "default_users.shop.password = $(SHOP_PASSWORD)",
    ),
    one_of(
        "default_users.$name.tags",
        "words between commas",
        |options, name, value| {
            let words = value.split(',').map(str::trim).filter(|word| !word.is_empty());
            user(options, name).tags = words.map(str::to_owned).collect();
            Ok(())
        },
        "Its tags. A user of that name that exists already stays as it is, and gets the permissions only.",
        "default_users.shop.tags = monitoring,policymaker",
    ),
    one_of(
        "default_users.$name.configure",
        "regular expression",
        |options, name, value| pattern(&mut user(options, name).permissions[0], value),
        "Names that the user may declare and delete in the new virtual host; the default is `.*`.",
        "default_users.shop.configure = ^shop-",
    ),
    one_of(
        "default_users.$name.write",
        "regular expression",
        |options, name, value| pattern(&mut user(options, name).permissions[1], value),
        "Names that the user may publish to in the new virtual host; the default is `.*`.",
        "default_users.shop.write = .*",
    ),
    one_of(
        "default_users.$name.read",
        "regular expression",
        |options, name, value| pattern(&mut user(options, name).permissions[2], value),
        "Names that the user may consume from in the new virtual host; the default is `.*`.",
        "default_users.shop.read = .*",
    ),
    one_of(
        "default_limits.vhosts.$id.pattern",
        "regular expression",
        |options, id, value| pattern(&mut limits(options, id).vhost_pattern, value),
        "Virtual hosts that start with these limits: of several sets that match, the first by its word. The default matches every \
         virtual host.",
        "default_limits.vhosts.1.pattern = ^shop-",
    ),
    one_of(
        "default_limits.vhosts.$id.max_connections",
        "number, at least 1",
        |options, id, value| limit(options, id, "max-connections", value),
        "Most connections of the new virtual host.",
        "default_limits.vhosts.1.max_connections = 100",
    ),
    one_of(
        "default_limits.vhosts.$id.max_queues",
        "number, at least 1",
        |options, id, value| limit(options, id, "max-queues", value),
        "Most queues of the new virtual host.",
        "default_limits.vhosts.1.max_queues = 50",
    ),
    one_of(
        "default_policies.operator.$id.vhost_pattern",
        "regular expression",
        |options, id, value| policy_pattern(&mut policy(options, id).vhost_pattern, value),
        "Virtual hosts that start with this operator policy. All policies whose pattern matches are made; the default matches \
         every virtual host.",
        "default_policies.operator.short.vhost_pattern = ^shop-",
    ),
    one_of(
        "default_policies.operator.$id.queue_pattern",
        "regular expression",
        |options, id, value| policy_pattern(&mut policy(options, id).pattern, value),
        "Names of the queues that the operator policy applies to; the default matches every name.",
        "default_policies.operator.short.queue_pattern = ^tmp-",
    ),
    one_of(
        "default_policies.operator.$id.apply_to",
        "one of `all`, `queues`, `classic_queues`, `quorum_queues`, `streams`, `exchanges`",
        |options, id, value| {
            let known = ["all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges"];
            if !known.contains(&value) {
                return Err(format!("expected {}", known.join(" or ")));
            }
            value.clone_into(&mut policy(options, id).apply_to);
            Ok(())
        },
        "The kind of object that the operator policy applies to; the default is `all`.",
        "default_policies.operator.short.apply_to = classic_queues",
    ),
    one_of(
        "default_policies.operator.$id.expires",
        TIME,
        |options, id, value| setting(options, id, "expires", time_ms(value)?),
        "Time without use after which queues are deleted.",
        "default_policies.operator.short.expires = 30m",
    ),
    one_of(
        "default_policies.operator.$id.message_ttl",
        TIME,
        |options, id, value| setting(options, id, "message-ttl", time_ms(value)?),
        "Longest time that messages stay in queues.",
        "default_policies.operator.short.message_ttl = 1h",
    ),
    one_of(
        "default_policies.operator.$id.max_length",
        "number, at least 1",
        |options, id, value| setting(options, id, "max-length", positive(value)?),
        "Most ready messages of a queue.",
        "default_policies.operator.short.max_length = 10000",
    ),
    one_of(
        "default_policies.operator.$id.max_length_bytes",
        "bytes (`KB`, `MB`, `GB` allowed), at least 1",
        |options, id, value| setting(options, id, "max-length-bytes", bytes(value)?),
        "Most bytes of bodies of ready messages of a queue.",
        "default_policies.operator.short.max_length_bytes = 100MB",
    ),
    one_of(
        "default_policies.operator.$id.max_in_memory_length",
        "number, at least 1",
        |options, id, value| setting(options, id, "max-in-memory-length", positive(value)?),
        "Kept in the policy. A policy with it does not apply to classic queues.",
        "default_policies.operator.short.max_in_memory_length = 1000",
    ),
    one_of(
        "default_policies.operator.$id.max_in_memory_bytes",
        "bytes (`KB`, `MB`, `GB` allowed), at least 1",
        |options, id, value| setting(options, id, "max-in-memory-bytes", bytes(value)?),
        "Kept in the policy. A policy with it does not apply to classic queues.",
        "default_policies.operator.short.max_in_memory_bytes = 1MB",
    ),
    one_of(
        "default_policies.operator.$id.delivery_limit",
        "number, at least 1",
        |options, id, value| setting(options, id, "delivery-limit", positive(value)?),
        "Kept in the policy. A policy with it does not apply to classic queues.",
        "default_policies.operator.short.delivery_limit = 20",
    ),
    one_of(
        "default_policies.operator.$id.classic_queues.queue_version",
        "number, 1 or 2",
        |options, id, value| setting(options, id, "queue-version", positive(value)?),
        "Kept in the policy, without effect: there is one way to store queues.",
        "default_policies.operator.short.classic_queues.queue_version = 2",
    ),
];

/// The entry of that word, made when there is none.
fn entry<T>(all: &mut Vec<T>, is_it: impl Fn(&T) -> bool, new: impl FnOnce() -> T) -> &mut T {
    let at = all.iter().position(is_it).unwrap_or(all.len());
    if at == all.len() {
        all.push(new());
    }
    &mut all[at]
}

fn user<'a>(options: &'a mut Options, name: &str) -> &'a mut UserSeed {
    entry(&mut options.seeds.users, |it| it.name == name, || UserSeed::new(name))
}

fn limits<'a>(options: &'a mut Options, id: &str) -> &'a mut LimitSeed {
    entry(&mut options.seeds.limits, |it| it.id == id, || LimitSeed::new(id))
}

fn policy<'a>(options: &'a mut Options, id: &str) -> &'a mut PolicySeed {
    entry(&mut options.seeds.operator_policies, |it| it.name == id, || PolicySeed::new(id))
}

fn limit(options: &mut Options, id: &str, name: &'static str, value: &str) -> Result<(), String> {
    let number = positive(value)?;
    limits(options, id).limits.push((name, number));
    Ok(())
}

fn setting(options: &mut Options, id: &str, name: &'static str, number: i64) -> Result<(), String> {
    if !policy_key(name).is_some_and(|key| key.takes(number)) {
        return Err(format!("{number} is not a valid {name}"));
    }
    policy(options, id).definition.push((name, number));
    Ok(())
}

fn pattern(field: &mut String, value: &str) -> Result<(), String> {
    checked(field, value, permission_pattern_problem(value).map(|problem| problem.text))
}

fn policy_pattern(field: &mut String, value: &str) -> Result<(), String> {
    checked(field, value, policy_pattern_problem(value).map(|problem| problem.text))
}

fn checked(field: &mut String, value: &str, problem: Option<String>) -> Result<(), String> {
    if let Some(problem) = problem {
        return Err(format!("not a regular expression: {problem}"));
    }
    value.clone_into(field);
    Ok(())
}

fn positive(value: &str) -> Result<i64, String> {
    value.parse().ok().filter(|number| *number > 0).ok_or_else(|| "expected a number, at least 1".into())
}

fn bytes(value: &str) -> Result<i64, String> {
    let number = key::bytes(value).and_then(|bytes| i64::try_from(bytes).ok());
    number.filter(|bytes| *bytes > 0).ok_or_else(|| "expected bytes, as in 50000 or 50MB, at least 1".into())
}

/// `1h`, `90s`, `1500ms`, `1500`.
fn time_ms(value: &str) -> Result<i64, String> {
    let end = value.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(value.len());
    let (digits, unit) = value.split_at(end);
    let unit_ms = match unit {
        "" | "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 604_800_000,
        _ => 0,
    };
    let number = digits.parse::<i64>().ok().and_then(|number| number.checked_mul(unit_ms));
    number.filter(|ms| *ms > 0).ok_or_else(|| "expected a time, as in 1500ms, 90s, 30m, 1h, 2d or 1w".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let times = ["1500", "1500ms", "90s", "30m", "1h", "2d", "1w"].map(|text| time_ms(text).ok());
        let expected = [1_500, 1_500, 90_000, 1_800_000, 3_600_000, 172_800_000, 604_800_000];
        assert_eq!(times, expected.map(Some));
        for text in ["", "s", "0", "1y", "-1s", "1.5h", "99999999999999999999", "9223372036854775807w"] {
            assert!(time_ms(text).is_err(), "{text}");
        }
    }
}
