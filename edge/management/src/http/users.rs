//! Users: listed, made, changed, deleted. Refuses to know how passwords are hashed.

use broker::Broker;
use metadata::{Command, Credentials, Hashing, Limits, PutUser, SALT_BYTES, User};
use platform::{Random, RealRandom};
use serde_json::{Map, Value, json};

use super::auth::Access;
use super::call::{Call, nested, text, text_or_null};
use super::listing;
use super::problem::Problem;
use super::problem::durable;
use super::reply::{Answer, Reply, put};
use super::route::{Method, Route, route};
use super::vhosts::words;
use crate::resources::limits::{USER_LIMITS, limits_of, shown};
use crate::resources::passwords::hash_password;
use crate::resources::users::UserRow;

pub(crate) const ROUTES: &[Route] = &[
    route(Method::Get, "/api/users", Access::Administrator, "All users.", list),
    route(Method::Get, "/api/users/{user}", Access::Administrator, "One user.", show),
    route(
        Method::Put,
        "/api/users/{user}",
        Access::Administrator,
        "Makes or changes a user: `{\"tags\"}` and one of `password`, `password_hash`; neither leaves no password.",
        put_user,
    ),
    route(Method::Delete, "/api/users/{user}", Access::Administrator, "Deletes a user.", delete),
    route(
        Method::Get,
        "/api/users/without-permissions",
        Access::Administrator,
        "Users without any permission.",
        without_permissions,
    ),
    route(
        Method::Post,
        "/api/users/bulk-delete",
        Access::Administrator,
        "Deletes users: `{\"users\": [...]}`.",
        bulk_delete,
    ),
    route(
        Method::Get,
        "/api/auth/hash_password/{password}",
        Access::Administrator,
        "A password's hash as `password_hash` takes it.",
        hash,
    ),
];

fn user_object(row: &UserRow<'_>) -> Value {
    json!({
        "name": row.name,
        "password_hash": row.user.credentials.to_base64(),
        "hashing_algorithm": row.user.credentials.hashing.name(),
        "tags": row.tags(),
        "limits": shown(&row.user.limits),
    })
}

fn listed(call: &Call, keep: impl Fn(&User) -> bool) -> Answer {
    let users = call.broker().read_metadata(|state| {
        UserRow::all(state).filter(|row| keep(row.user)).map(|row| user_object(&row)).collect()
    });
    listing::pages_of_values(call, users)
}

fn list(call: &Call) -> Answer {
    listed(call, |_| true)
}

fn without_permissions(call: &Call) -> Answer {
    listed(call, |user| user.permissions.is_empty())
}

fn read(broker: &Broker, name: &str) -> Option<User> {
    broker.read_metadata(|state| state.user(name.as_bytes()).cloned())
}

fn show(call: &Call) -> Answer {
    let name = call.part("user");
    let user = read(call.broker(), name).ok_or_else(Problem::missing)?;
    listing::one(call, user_object(&UserRow::of(name.as_bytes(), &user)))
}

/// B170: a password in clear, a hash, or neither.
fn credentials(broker: &Broker, object: &Map<String, Value>) -> Result<Credentials, Problem> {
    let hashing = match text_or_null(object, "hashing_algorithm")? {
        None => Hashing::default(),
        Some(name) => Hashing::from_name(name)
            .ok_or_else(|| Problem::bad(format!("unknown hashing algorithm '{name}'")))?,
    };
    let not_base64 = |hash: &Value| Problem::bad(json!(["not_base64", hash]));
    if object.contains_key("password") && object.contains_key("password_hash") {
        return Err(Problem::bad("both_password_and_password_hash_are_provided"));
    }
    let hash = object.get("password_hash").map(|hash| hash.as_str().ok_or_else(|| not_base64(hash)));
    let (hash, password) = (hash.transpose()?, text(object, "password")?);
    if let (None, Some(password)) = (hash, password) {
        let refused = |_| Problem::bad("credential_validation_failed");
        broker.options().password_rule.check(password).map_err(refused)?;
    }
    match (hash, password) {
        (Some(hash), _) => Credentials::from_base64(hashing, hash).map_err(|error| match error {
            metadata::HashError::NotBase64 => not_base64(&hash.into()),
            other => Problem::bad(other.to_string()),
        }),
        (None, Some(password)) if !password.is_empty() => {
            let mut salt = [0; SALT_BYTES];
            RealRandom.fill(&mut salt);
            Credentials::of_password(hashing, salt, password.as_bytes())
                .ok_or_else(|| Problem::bad("passwords are not hashed with that algorithm any more"))
        }
        (None, _) => Ok(Credentials::none()),
    }
}

fn put_user(call: &Call) -> Answer {
    let name = call.part("user");
    let object = call.object()?;
    let tags = words(&object, "tags")?.ok_or_else(|| Problem::bad("tags_not_present"))?;
    let credentials = credentials(call.broker(), &object)?;
    let known = read(call.broker(), name);
    let limits = match object.contains_key("limits") {
        true => {
            let limits = Value::Object(nested(&object, "limits")?);
            limits_of(&limits, &USER_LIMITS, "user-limits").map_err(Problem::bad)?
        }
        false => known.as_ref().map_or_else(Limits::default, |user| user.limits.clone()),
    };
    let put_user = PutUser { name: name.as_bytes().into(), credentials, tags, limits };
    durable(call.broker().apply(Command::PutUser(put_user)))?;
    Ok(put(known.is_none()))
}

fn delete(call: &Call) -> Answer {
    durable(call.broker().delete_user(call.part("user")))?;
    Ok(Reply::NoContent)
}

/// Users that do not exist are passed over.
fn bulk_delete(call: &Call) -> Answer {
    let object = call.object_with(&["users"])?;
    if !object["users"].is_array() {
        return Err(Problem::bad(json!(["not_list", object["users"]])));
    }
    let names = words(&object, "users")?.unwrap_or_default();
    for name in names {
        match durable(call.broker().delete_user(&name)) {
            Err(problem) if problem.status != 404 => return Err(problem),
            _ => {}
        }
    }
    Ok(Reply::NoContent)
}

fn hash(call: &Call) -> Answer {
    let hashed = hash_password(call.part("password"), None);
    let hashed = hashed.ok_or_else(|| Problem::bad("the password cannot be hashed"))?;
    Ok(Reply::Json(json!({"ok": hashed})))
}
