//! The API described by its own route table: an OpenAPI document, and a page for people.

use serde_json::{Map, Value, json};
use stdx::markup::escaped;

use super::answers::{self, Told};
use super::auth::Access;
use super::call::Call;
use super::reply::{Answer, Kept, Reply};
use super::route::{BodySize, Method, Route, route};
use super::schemas;
use super::table;

pub(crate) const ROUTES: &[Route] = &[
    route(Method::Get, "/api/openapi.json", Access::Anyone, "This API as an OpenAPI document.", document),
    route(Method::Get, "/api", Access::Anyone, "This API as a page.", page),
    route(Method::Get, "/api/", Access::Anyone, "This API as a page.", page),
    route(Method::Get, "/api/index.html", Access::Anyone, "This API as a page.", page),
];

impl Route {
    /// Whether it is about the API itself.
    pub(crate) fn describes(&self) -> bool {
        ROUTES.iter().any(|route| route.path == self.path)
    }
}

/// Parameters of every list.
const LIST_PARAMETERS: [(&str, &str); 8] = [
    ("page", "Number of the page, from 1; without it all items come in one list"),
    ("pagination", "`true`: pages also of lists that RabbitMQ never cuts into pages"),
    ("page_size", "Items of a page, 1 to 500; 100 by default"),
    ("name", "Only items whose name contains this; with a page only"),
    ("use_regex", "`true`: `name` is a regular expression"),
    ("sort", "Path of the value to sort by, such as `messages`"),
    ("sort_reverse", "`true`: the largest first"),
    ("columns", "Paths of the wanted values, between commas; all others are left out"),
];

/// Names of the parts of a path that vary.
fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn operation(route: &Route) -> Value {
    let of_path = parts(route.path)
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}));
    let of_query = query(route).into_iter().map(|(name, required, about)| {
        let schema = json!({"type": "string"});
        json!({"name": name, "in": "query", "required": required, "description": about, "schema": schema})
    });
    let mut operation = json!({
        "summary": route.about,
        "description": format!("Access: {}.", route.access.words()),
        "parameters": of_path.chain(of_query).collect::<Vec<_>>(),
        "responses": responses(route),
    });
    if matches!(route.access, Access::Anyone | Access::Form) {
        operation["security"] = json!([]);
    }
    if matches!(route.method, Method::Put | Method::Post) {
        let object = json!({"schema": {"type": "object"}});
        let mut content = json!({});
        if route.access == Access::Form {
            content["application/x-www-form-urlencoded"] = object;
        } else {
            content["application/json"] = object.clone();
            if route.body == BodySize::Definitions && route.path != "/api/ctl" {
                content["multipart/form-data"] = object;
            }
        }
        operation["requestBody"] = json!({ "content": content });
    }
    operation
}

/// Parameters of the query: name, whether it must be there, what it says.
fn query(route: &Route) -> Vec<schemas::Parameter> {
    match schemas::parameters(route.method, route.path) {
        Some(own) => own.to_vec(),
        None if route.method == Method::Get => {
            LIST_PARAMETERS.iter().map(|(name, about)| (*name, false, *about)).collect()
        }
        None => Vec::new(),
    }
}

fn responses(route: &Route) -> Value {
    let refused = |about: &str| {
        json!({
            "description": about,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
        })
    };
    let mut responses = Map::new();
    let told = answers::of(route);
    let done = match route.method {
        Method::Get
            if matches!(told, Some(Told::Many(_)))
                && schemas::parameters(route.method, route.path).is_none() =>
        {
            &[("200", "The answer; with `columns` only those members, whatever the schema requires")][..]
        }
        Method::Get => &[("200", "The requested object")][..],
        Method::Put => &[("201", "Made"), ("204", "It was there; changed, or so already")],
        Method::Post if told.is_some() => &[("200", "Done")],
        Method::Post => &[("201", "Made"), ("204", "Done")],
        Method::Delete => &[("204", "Gone")],
    };
    for (status, about) in done {
        responses.insert((*status).into(), json!({"description": about}));
    }
    if let Some(told) = told {
        responses["200"]["content"] = answers::content(told);
    }
    if route.access != Access::Anyone {
        responses.insert("401".into(), refused("No login, or one that may not do this"));
    }
    if parts(route.path).next().is_some() {
        responses.insert("404".into(), refused("There is no such thing"));
    }
    if route.method != Method::Get {
        responses.insert("400".into(), refused("The request makes no sense, or the broker refuses it"));
    }
    Value::Object(responses)
}

/// Made once: clients without a login may ask for it, as often as they like.
fn document(call: &Call) -> Answer {
    Ok(Reply::Kept(call.app.reference.get_or_init(|| Kept::new(&made(call))).clone()))
}

fn made(call: &Call) -> Value {
    let mut paths = Map::new();
    for route in table::all() {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.name().to_ascii_lowercase()] = operation(route);
    }
    let prefix = &call.app.options.path_prefix;
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Warren's management API",
            "summary": "The HTTP API of RabbitMQ's management plugin, as Warren serves it",
            "version": call.node().version,
        },
        "servers": [{"url": if prefix.is_empty() { "/" } else { prefix.as_str() }}],
        "security": [{"basic": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
            "schemas": answers::shapes(),
        },
    })
}

fn page(_: &Call) -> Answer {
    let mut rows = String::new();
    for route in table::all() {
        rows.push_str(&format!(
            "<tr><td>{}</td><td><code>{}</code></td><td>{}</td><td>{}</td></tr>\n",
            route.method.name(),
            escaped(route.path),
            escaped(route.about).replace('`', ""),
            route.access.words(),
        ));
    }
    let queries: String = LIST_PARAMETERS
        .iter()
        .map(|(name, about)| format!("<li><code>{name}</code> {}</li>\n", escaped(about).replace('`', "")))
        .collect();
    Ok(Reply::Text("text/html; charset=utf-8", format!("{HEAD}{queries}{TABLE}{rows}{END}")))
}

const HEAD: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Management API</title>\n\
    <style>body{font:14px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}\
    table{border-collapse:collapse;width:100%}td,th{border-bottom:1px solid #ccc;padding:.3rem .6rem;text-align:left;\
    vertical-align:top}code{white-space:nowrap}</style></head><body>\n<h1>Management API</h1>\n\
    <p>JSON over HTTP with basic authentication, as RabbitMQ's management plugin has it. A virtual host <code>/</code> is \
    written <code>%2F</code> in a path. Refusals are <code>{\"error\", \"reason\"}</code>. The same as a document for \
    programs: <a href=\"openapi.json\">openapi.json</a>.</p>\n<p>Lists take these parameters:</p>\n<ul>\n";

const TABLE: &str =
    "</ul>\n<table><thead><tr><th>Method</th><th>Path</th><th>What</th><th>Who</th></tr></thead><tbody>\n";

const END: &str = "</tbody></table>\n</body></html>\n";
