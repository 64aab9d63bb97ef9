//! Objects that only the other nodes of a cluster have: their connections and channels, and their counts. A node asks the others with the route, the
//! query and the user of its own request, and adds their answers to its own. A node that does not answer is passed over.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::call::Call;
use super::listing::{self, Listing, Wanted};
use super::problem::Problem;
use super::reply::{Answer, Reply};
use super::route::Method;
use super::sums;
use crate::ctl::everywhere::{Question, ask_others};

/// Options of lists that the node which was asked goes by; the others give all they have.
const OF_LISTS: [&str; 8] =
    ["page", "page_size", "pagination", "name", "use_regex", "sort", "sort_reverse", "columns"];

/// A request that another node has got.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(super) route: String,
    pub(super) is_delete: bool,
    pub(super) path: Vec<(String, String)>,
    pub(super) query: Vec<(String, String)>,
    pub(super) user: String,
    pub(super) reason: Option<String>,
}

/// The outcome of the question.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Said {
    pub(super) status: u16,
    pub(super) body: Value,
}

fn ask(call: &Call, method: Method) -> Vec<Said> {
    if call.is_from_node {
        return Vec::new();
    }
    let is_of_lists = |name: &str| OF_LISTS.contains(&name);
    let asked = Asked {
        route: call.route.to_owned(),
        is_delete: method == Method::Delete,
        path: call.path.clone(),
        query: call.query.iter().filter(|(name, _)| !is_of_lists(name)).cloned().collect(),
        user: call.user.name.to_string(),
        reason: call.reason.clone(),
    };
    let answers = ask_others(call.node(), &Question::Http(asked)).into_iter();
    answers.filter_map(|(_, bytes)| serde_json::from_slice(&bytes).ok()).collect()
}

/// The answers of the other nodes to the same request.
pub(crate) fn pages(call: &Call) -> Vec<Value> {
    ask(call, Method::Get).into_iter().filter(|said| said.status == 200).map(|said| said.body).collect()
}

/// Things that the other nodes list at the same path.
pub(crate) fn lists(call: &Call) -> Vec<Value> {
    let of_node = |body: Value| if let Value::Array(values) = body { values } else { Vec::new() };
    pages(call).into_iter().flat_map(of_node).collect()
}

/// Answers with the things of all nodes; `has_pages` as RabbitMQ cuts the list into pages. On a node alone they are made as they are written.
pub(crate) fn list<T: 'static>(call: &Call, own: Listing<T>, has_pages: bool) -> Answer {
    let others = lists(call);
    match (others.is_empty(), has_pages) {
        (true, true) => listing::answer(call, own),
        (true, false) => listing::whole(call, own),
        (false, _) => {
            let mut all = own.values(&Wanted::All);
            all.extend(others);
            if has_pages { listing::pages_of_values(call, all) } else { listing::of_values(call, all) }
        }
    }
}

/// The answer, or that of the node which has what this one lacks.
pub(crate) fn or_there(call: &Call, method: Method, here: Answer) -> Answer {
    match here {
        Err(problem) if problem.status == 404 => {
            let said = ask(call, method).into_iter().find(|said| said.status != 404);
            said.map_or(Err(problem), |said| answer_of(call, said))
        }
        here => here,
    }
}

/// Adds to an object what other nodes have counted of it: `message_stats`, and numbers whose names begin so.
pub(crate) fn add_counters<'a>(
    own: &mut Map<String, Value>,
    others: impl Iterator<Item = &'a Value>,
    prefixes: &[&str],
) {
    let is_counter =
        |name: &str| name == "message_stats" || prefixes.iter().any(|prefix| name.starts_with(prefix));
    for other in others.filter_map(Value::as_object) {
        let counters = other.iter().filter(|(name, _)| is_counter(name));
        sums::add(own, &counters.map(|(name, value)| (name.clone(), value.clone())).collect());
    }
}

/// Does the same on all other nodes.
pub(crate) fn everywhere(call: &Call, method: Method) {
    drop(ask(call, method));
}

fn answer_of(call: &Call, said: Said) -> Answer {
    match said.status {
        200 => listing::one(call, said.body),
        204 => Ok(Reply::NoContent),
        401 => Err(Problem::new(401, "not_authorised", said.body)),
        status => Err(Problem::new(status, "bad_request", said.body)),
    }
}
