//! From a request to its route and back to bytes: paths, methods, logins, headers. Refuses to know resources.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::RawPathParams;
use axum::extract::rejection::RawPathParamsRejection;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method as HttpMethod, Request, Response, Uri, header};
use broker::on_behalf_of;
use platform::{Memory as _, RealMemory};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::accept::{Accepts, accepts};
use super::app::{App, Headers};
use super::auth::{self, Access};
use super::body::{self, Coding, FORM_BYTES_MAX, Unread};
use super::bounds::BODIES_KIB_MAX;
use super::call::Call;
use super::listener::{InSlot, Remote};
use super::places::Place;
use super::problem::Problem;
use super::query::{form, is_well_formed};
use super::reply::Reply;
use super::response::{REALM, empty, refuse, respond, set};
use super::room::Room;
use super::route::{BodySize, Method, Route};
use super::sending::Sending;
use super::table;

/// Bodies up to this size are read before a request waits for its turn; larger ones take memory only when it is theirs.
const BODY_BYTES_EARLY: usize = 64 << 10;

/// Longest name of anything, bytes: the protocol's.
const NAME_BYTES_MAX: usize = 255;

/// All routes of the API, and the files for browsers everywhere else. Other routers may be merged with it.
pub fn router(app: App) -> Router {
    let mut by_path: BTreeMap<&'static str, Vec<&'static Route>> = BTreeMap::new();
    for route in table::all() {
        by_path.entry(route.path).or_default().push(route);
    }
    let mut router = Router::new();
    for (path, routes) in by_path {
        let (app, routes): (App, Arc<[&'static Route]>) = (app.clone(), routes.into());
        let answer = move |parts: Result<RawPathParams, RawPathParamsRejection>, request: Request<Body>| {
            let (app, routes) = (app.clone(), routes.clone());
            async move { serve(&app, &routes, parts, request).await }
        };
        // A slash at the end does not matter to RabbitMQ, and some clients write one.
        if path != "/api" && !path.ends_with('/') {
            router = router.route(&format!("{path}/"), axum::routing::any(answer.clone()));
        }
        router = router.route(path, axum::routing::any(answer));
    }
    let prefix = app.0.options.path_prefix.clone();
    let files = move |request: Request<Body>| {
        let app = app.clone();
        async move {
            let (head, body) = request.into_parts();
            let request = Request::from_parts(head.clone(), Body::empty());
            unread(&head, body, file(&app, &request))
        }
    };
    let router = router.fallback(files.clone());
    if prefix.is_empty() { router } else { below(&prefix, router, files) }
}

/// Everything below a path. Files of a page are named from the page on, so its address ends with a slash.
fn below<F>(
    prefix: &str,
    router: Router,
    files: impl Fn(Request<Body>) -> F + Clone + Send + Sync + 'static,
) -> Router
where
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let home = format!("{prefix}/");
    let to_home = {
        let home = home.clone();
        move || async move {
            let mut response = empty(301);
            set(response.headers_mut(), header::LOCATION, &home);
            response
        }
    };
    let first_page = move |mut request: Request<Body>| {
        *request.uri_mut() = Uri::from_static("/");
        files(request)
    };
    let nested = Router::new().nest(prefix, router);
    Router::new()
        .route(prefix, axum::routing::any(to_home))
        .route(&home, axum::routing::any(first_page))
        .fallback_service(nested)
}

async fn serve(
    app: &App,
    routes: &[&'static Route],
    parts: Result<RawPathParams, RawPathParamsRejection>,
    request: Request<Body>,
) -> Response<Body> {
    let (mut head, body) = request.into_parts();
    let asked = if head.method == HttpMethod::HEAD { HttpMethod::GET } else { head.method.clone() };
    let found = routes.iter().find(|route| route.method.name() == asked.as_str());
    let mut response = match found {
        Some(route) if route.access == Access::Form => match read_login(app, &mut head, body).await {
            Ok(form) => answered(app, route, parts, &head, form).await,
            Err(refused) => refused,
        },
        Some(route) => answered(app, route, parts, &head, body).await,
        None if !is_known(&asked) => unread(&head, body, empty(501)),
        None if asked == HttpMethod::OPTIONS => empty(200),
        None => unread(&head, body, empty(405)),
    };
    if asked == HttpMethod::GET && is_json(&response) && accepts(&head.headers) == Accepts::OtherTypes {
        response = empty(406);
    }
    let is_refused = response.status() == 405;
    let headers = response.headers_mut();
    if is_refused || !app.0.options.headers.hides_allow {
        set(headers, header::ALLOW, &allow(routes));
    }
    decorate(headers, &app.0.options.headers, &head.headers, asked == HttpMethod::OPTIONS);
    response
}

/// Whether RabbitMQ's server knows the method, wherever it is allowed.
fn is_known(method: &HttpMethod) -> bool {
    let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    known.contains(&method.as_str())
}

/// Whether it is what was asked for, or that this is not there; refusals of other kinds are told to everybody.
fn is_json(response: &Response<Body>) -> bool {
    let content_type = response.headers().get(header::CONTENT_TYPE);
    matches!(response.status().as_u16(), 200 | 404) && content_type.is_some_and(|it| it == "application/json")
}

/// The answer of the handler of a route, or why it is not asked.
async fn answered(
    app: &App,
    route: &'static Route,
    parts: Result<RawPathParams, RawPathParamsRejection>,
    head: &Parts,
    body: Body,
) -> Response<Body> {
    match prepare(app, route, parts, head) {
        Ok(call) => run(app, route, call, head, body).await,
        Err(refused) => unread(head, body, refused),
    }
}

/// Takes the login out of a form, into the head. It is read before anybody knows who sends it: few at a time, short and soon.
async fn read_login(app: &App, head: &mut Parts, mut body: Body) -> Result<Body, Response<Body>> {
    let Ok(_place) = app.0.forms.try_acquire() else {
        let reason = "too many logins are on their way; try again";
        return Err(unread(head, body, refuse(&Problem::new(503, "service_unavailable", reason))));
    };
    let form = body::read_form(&mut body).await;
    let form = form.map_err(|problem| unread(head, body, refuse(&problem.problem(FORM_BYTES_MAX))))?;
    let login = auth::header_of_form(&form).map_err(|problem| refuse(&problem))?;
    let login = HeaderValue::from_str(&login).expect("base64 can stand in a header");
    head.headers.insert(header::AUTHORIZATION, login);
    Ok(Body::from(form))
}

/// An answer for which the body does not matter. A client that waits to be asked for it is not asked.
fn unread(head: &Parts, body: Body, response: Response<Body>) -> Response<Body> {
    if !head.headers.contains_key(header::EXPECT) {
        linger(head, body);
    }
    response
}

/// The answer goes out at once; further bytes are read away beside it, in the time of an idle connection.
fn linger(head: &Parts, body: Body) {
    if http_body::Body::is_end_stream(&body) {
        return;
    }
    let lingering = head.extensions.get::<InSlot>().map(|slot| slot.0.linger());
    tokio::spawn(async move {
        let _lingering = lingering;
        body::throw_away(body).await;
    });
}

/// A body, or the answer that there was none.
async fn received(head: &Parts, mut sent: Body, bytes_max: usize) -> Result<Vec<u8>, Response<Body>> {
    let problem = match body::read(&mut sent, bytes_max).await {
        Ok(bytes) => return Ok(bytes),
        Err(problem) => problem,
    };
    let answer = refuse(&problem.problem(bytes_max));
    match problem {
        Unread::Announced => Err(unread(head, sent, answer)),
        Unread::TooLong => {
            linger(head, sent);
            Err(answer)
        }
        Unread::Late | Unread::Broken => Err(answer),
    }
}

/// Logs in, checks tags and the vhost, reads path and query.
fn prepare(
    app: &App,
    route: &Route,
    parts: Result<RawPathParams, RawPathParamsRejection>,
    head: &Parts,
) -> Result<Call, Response<Body>> {
    let parts = parts.map_err(|_| refuse(&Problem::bad("the path is not UTF-8")))?;
    let path: Vec<(String, String)> = parts.iter().map(|(name, value)| (name.into(), value.into())).collect();
    if matches!(route.method, Method::Put | Method::Post)
        && path.iter().any(|(_, name)| name.len() > NAME_BYTES_MAX)
    {
        return Err(refuse(&Problem::bad(format!("a name has at most {NAME_BYTES_MAX} bytes"))));
    }
    let query = head.uri.query().unwrap_or_default();
    if !is_well_formed(query) {
        return Err(refuse(&Problem::bad("the query has a % that begins no code")));
    }
    let query = form(query);
    let from = head.extensions.get::<Remote>().map_or([127, 0, 0, 1].into(), |remote| remote.0.ip());
    let login = head.headers.get(header::AUTHORIZATION);
    let word = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (known, content_type) = (word("if-none-match"), word("content-type"));
    // Reasons are people's words, in any language.
    let reason = head.headers.get("x-reason").map(|it| String::from_utf8_lossy(it.as_bytes()).into_owned());
    let call_of = |user| Call {
        app: app.0.clone(),
        route: route.path,
        user,
        path,
        query,
        body: Vec::new(),
        reason,
        known,
        content_type,
        room: RefCell::default(),
        is_from_node: false,
    };
    let is_open =
        route.access == Access::Anyone && !(route.describes() && app.0.options.reference_needs_login);
    if is_open {
        return Ok(call_of(Arc::new(broker::User::nobody())));
    }
    let Some(login) = login else {
        let mut response = empty(401);
        set(response.headers_mut(), header::WWW_AUTHENTICATE, REALM);
        return Err(response);
    };
    let login = login.to_str().unwrap_or_default();
    let user = auth::login(&app.0.broker, login, from).map_err(|problem| refuse(&problem))?;
    auth::check(route.access, &user).map_err(|problem| refuse(&problem))?;
    let call = call_of(user);
    if matches!(route.access, Access::Vhost | Access::VhostSeen | Access::VhostIfAny | Access::Policymaker) {
        check_vhost(&call, route).map_err(|problem| refuse(&problem))?;
    }
    check_accepted(route, &head.headers)?;
    Ok(call)
}

/// Nothing is done for a client that does not take its answer. Not all that is read is JSON: then the answer decides.
fn check_accepted(route: &Route, headers: &HeaderMap) -> Result<(), Response<Body>> {
    match accepts(headers) {
        Accepts::Nonsense => Err(refuse(&Problem::bad("the Accept header cannot be read"))),
        Accepts::OtherTypes if route.method != Method::Get => Err(empty(406)),
        _ => Ok(()),
    }
}

/// A vhost that does not exist is missing; one that the user may not see is as good as missing. RabbitMQ tells the two apart.
/// Administrators make policies everywhere, others only where they have permissions.
fn check_vhost(call: &Call, route: &Route) -> Result<(), Problem> {
    let Some(name) = call.part_if("vhost") else { return Ok(()) };
    let is_change = route.access == Access::Policymaker && route.method != Method::Get;
    match call.broker().vhost(name) {
        Some(_) if is_change && !auth::is_administrator(&call.user) && !call.user.may_open(name) => {
            Err(Problem::hidden())
        }
        None if matches!(route.method, Method::Put | Method::Post) => Err(Problem::no_vhost()),
        None if route.access == Access::VhostIfAny => Ok(()),
        None => Err(Problem::missing()),
        Some(_) if auth::enters_vhost(&call.user, name) => Ok(()),
        Some(_) if route.access == Access::VhostSeen && auth::is_monitor(&call.user) => Ok(()),
        Some(_) => Err(Problem::hidden()),
    }
}

/// Memory for a large body and for what is made of it, until dropped.
type BodyRoom = (OwnedSemaphorePermit, OwnedSemaphorePermit);

/// Reads the body of a request, a large one when there is room for it.
async fn take_body(
    app: &App,
    route: &Route,
    call: &mut Call,
    head: &Parts,
    sent: Body,
) -> Result<Option<BodyRoom>, Response<Body>> {
    // Nothing that is open to all reads a body: nobody without a login takes up room for one.
    if route.access == Access::Anyone {
        return Ok(None);
    }
    let bytes_max = route.body_bytes_max(app.0.options.body_bytes_max);
    let exact = http_body::Body::size_hint(&sent).exact();
    if exact.is_some_and(|bytes| bytes <= BODY_BYTES_EARLY as u64) {
        call.body = received(head, sent, bytes_max).await?;
        return Ok(None);
    }
    // A client that sends a large body slowly keeps a few others with large bodies waiting, for a while, and nobody else.
    let crowded = || {
        refuse(&Problem::new(503, "service_unavailable", "too many large bodies are on their way; try again"))
    };
    let Ok(_place) = app.0.senders.take(&call.user.name) else { return Err(unread(head, sent, crowded())) };
    let patience = app.0.room_timeout;
    let Some(whole) = room(&app.0.received, announced(&sent, bytes_max), patience).await else {
        return Err(unread(head, sent, crowded()));
    };
    call.body = received(head, sent, bytes_max).await?;
    let more = room(&app.0.worked_on, route.body.copies() * call.body.len() as u64, patience).await;
    Ok(Some((whole, more.ok_or_else(crowded)?)))
}

/// The needs of an answer with messages before one of them is taken: room for the largest, and a place among the long answers.
async fn room_for_messages(app: &App, user: &str) -> Result<(Room, Place), Problem> {
    let place = app.0.places.take(user)?;
    let room = Room::wait(&app.0.answers, app.0.largest_message()).await?;
    Ok((room, place))
}

/// Waits for a turn and lets the handler answer on a thread that may block.
async fn run(app: &App, route: &'static Route, mut call: Call, head: &Parts, sent: Body) -> Response<Body> {
    let coding = Coding::asked(&head.headers);
    let large = match take_body(app, route, &mut call, head, sent).await {
        Ok(large) => large,
        Err(refused) => return refused,
    };
    let mut place = None;
    if route.has_messages {
        match room_for_messages(app, &call.user.name).await {
            Ok((room, taken)) => {
                call.room = RefCell::new(Some(room));
                place = Some(taken);
            }
            Err(problem) => return refuse(&problem),
        }
    }
    let Some(turn) = app.0.turns.take(route.lane).await else { return empty(503) };
    let (answered, answer) = oneshot::channel();
    let handle = tokio::runtime::Handle::current();
    let places = app.0.places.clone();
    let running = tokio::task::spawn_blocking(move || {
        let reply = on_behalf_of(&call.user.name, || (route.handler)(&call));
        let reply = reply.and_then(|reply| reply.written(&call.app.answers));
        let user = call.user.name.to_string();
        drop(call);
        if large.is_some() && route.body == BodySize::Definitions {
            // The next one may be read by another thread, which cannot use what the allocator keeps for this one.
            RealMemory::new().release();
        }
        drop(large);
        Sending { answered, handle, coding, user, places, place, turn }.send(reply);
    });
    match answer.await {
        Ok(response) => response,
        Err(_) => {
            let panicked = running.await.is_err();
            tracing::error!(path = route.path, panicked, "a request of the HTTP API has failed");
            refuse(&Problem::new(
                500,
                "internal_server_error",
                "the request has failed; see the server's log",
            ))
        }
    }
}

/// Bytes that may come of a body; none of one that is too large.
fn announced(body: &Body, bytes_max: usize) -> u64 {
    let hint = http_body::Body::size_hint(body);
    let bytes_max = bytes_max as u64;
    if hint.lower() > bytes_max { 0 } else { hint.upper().unwrap_or(bytes_max).min(bytes_max) }
}

/// Waits for so much room, or all there is; `None` when there was none for so long.
async fn room(rooms: &Arc<Semaphore>, bytes: u64, patience: Duration) -> Option<OwnedSemaphorePermit> {
    let kib = bytes.div_ceil(1024).min(BODIES_KIB_MAX as u64);
    let kib = u32::try_from(kib).expect("all the room there is fits");
    let wanted = rooms.clone().acquire_many_owned(kib);
    tokio::time::timeout(patience, wanted).await.ok()?.ok()
}

/// A path that no route has: a file for browsers, or nothing. To RabbitMQ all such paths are files, which can be read and nothing else,
/// whether they are there or not.
fn file(app: &App, request: &Request<Body>) -> Response<Body> {
    let options = &app.0.options.headers;
    let mut response = match *request.method() {
        HttpMethod::GET | HttpMethod::HEAD => read_file(app, request),
        HttpMethod::OPTIONS => empty(200),
        ref method if is_known(method) => empty(405),
        _ => empty(501),
    };
    if response.status() == 405 || (request.method() == HttpMethod::OPTIONS && !options.hides_allow) {
        set(response.headers_mut(), header::ALLOW, "HEAD, GET, OPTIONS");
    }
    decorate(response.headers_mut(), options, request.headers(), request.method() == HttpMethod::OPTIONS);
    response
}

fn read_file(app: &App, request: &Request<Body>) -> Response<Body> {
    let path = request.uri().path();
    let is_api = path == "/api" || path.starts_with("/api/");
    let asset = app.0.options.assets.filter(|_| !is_api);
    let coding = Coding::asked(request.headers());
    let found = asset.and_then(|find| find(path.trim_start_matches('/')));
    match found.map(|asset| asset.for_coding(coding)) {
        None => refuse(&Problem::missing()),
        Some(asset) if seen(request.headers(), &asset.etag) => {
            respond(Reply::Known(asset.etag.into_owned()), Coding::Plain)
        }
        Some(asset) => {
            let mut response = Response::new(match asset.bytes {
                std::borrow::Cow::Borrowed(bytes) => Body::from(bytes),
                std::borrow::Cow::Owned(bytes) => Body::from(bytes),
            });
            let headers = response.headers_mut();
            set(headers, header::CONTENT_TYPE, asset.content_type);
            asset.content_encoding.iter().for_each(|coding| set(headers, header::CONTENT_ENCODING, coding));
            set(headers, header::ETAG, &asset.etag);
            set(headers, header::CACHE_CONTROL, "no-cache");
            response
        }
    }
}

/// Whether the client has the file already.
fn seen(headers: &HeaderMap, etag: &str) -> bool {
    headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == etag.as_bytes())
}

fn allow(routes: &[&'static Route]) -> String {
    let mut names: Vec<&str> = Vec::new();
    if routes.iter().any(|route| route.method == Method::Get) {
        names.push("HEAD");
    }
    let all = [Method::Get, Method::Put, Method::Post, Method::Delete];
    let there = all.into_iter().filter(|method| routes.iter().any(|route| route.method == *method));
    names.extend(there.map(Method::name));
    names.push("OPTIONS");
    names.join(", ")
}

/// Headers of every answer; those of CORS when the origin is one that may call.
fn decorate(headers: &mut HeaderMap, options: &Headers, asked: &HeaderMap, is_preflight: bool) {
    set(headers, header::VARY, "accept, accept-encoding, origin");
    if !headers.contains_key(header::CONTENT_SECURITY_POLICY) {
        set(headers, header::CONTENT_SECURITY_POLICY, &options.csp);
    }
    set(headers, header::STRICT_TRANSPORT_SECURITY, &options.hsts);
    set(headers, header::X_CONTENT_TYPE_OPTIONS, &options.content_type_options);
    set(headers, header::X_FRAME_OPTIONS, &options.frame_options);
    set(headers, header::X_XSS_PROTECTION, &options.xss_protection);
    set(headers, header::REFERRER_POLICY, &options.referrer_policy);
    let Some(origin) = asked.get(header::ORIGIN).and_then(|origin| origin.to_str().ok()) else { return };
    if !options.cors_origins.iter().any(|allowed| allowed == origin || allowed == "*") {
        return;
    }
    set(headers, header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    set(headers, header::ACCESS_CONTROL_ALLOW_CREDENTIALS, "true");
    set(headers, header::ACCESS_CONTROL_EXPOSE_HEADERS, "location");
    if is_preflight {
        let methods = headers.get(header::ALLOW).cloned();
        methods.map(|methods| headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods));
        set(headers, header::ACCESS_CONTROL_MAX_AGE, &options.cors_max_age_s.to_string());
        let wanted = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
        wanted.map(|wanted| headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_and_method_stands_once_in_the_table() {
        let mut seen = std::collections::BTreeSet::new();
        for route in table::all() {
            assert!(seen.insert((route.path, route.method)), "{} {}", route.method.name(), route.path);
            assert!(route.about.ends_with('.'), "{}", route.path);
        }
    }

    /// A server whose clients wait for room for so long, and what it serves.
    async fn served(room_timeout: Duration) -> (App, std::net::SocketAddr, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let broker = broker::Broker::open(folder.path(), broker::BrokerOptions::default()).unwrap();
        let mut app =
            App::new(broker, crate::resources::node::tests::sample(), super::super::HttpOptions::default());
        Arc::get_mut(&mut app.0).unwrap().room_timeout = room_timeout;
        let listener = super::super::HttpListener::bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let address = listener.local_address().unwrap();
        tokio::spawn(listener.serve(router(app.clone())));
        (app, address, folder)
    }

    /// The answer to a definitions document of 200 kB.
    async fn import(address: std::net::SocketAddr) -> String {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let body = format!("{{\"x\":\"{}\"}}", "x".repeat(200_000));
        let head = "POST /api/definitions HTTP/1.1\r\nhost: x\r\nauthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\nconnection: close";
        let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        client.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn a_large_body_waits_for_memory_and_is_refused_when_there_is_none_for_long() {
        let (app, address, _folder) = served(Duration::ZERO).await;
        assert!(import(address).await.starts_with("HTTP/1.1 204 "));
        for room in [&app.0.received, &app.0.worked_on] {
            let others = room.clone().acquire_many_owned(BODIES_KIB_MAX as u32).await.unwrap();
            let refused = import(address).await;
            assert!(
                refused.starts_with("HTTP/1.1 503 ") && refused.contains("too many large bodies"),
                "{refused}"
            );
            drop(others);
            assert!(import(address).await.starts_with("HTTP/1.1 204 "));
        }
        let (app, address, _folder) = served(Duration::MAX).await;
        let others = app.0.received.clone().acquire_many_owned(BODIES_KIB_MAX as u32).await.unwrap();
        let waits = tokio::spawn(import(address));
        while app.0.senders.is_unused() {
            tokio::task::yield_now().await;
        }
        assert!(!waits.is_finished());
        drop(others);
        assert!(waits.await.unwrap().starts_with("HTTP/1.1 204 "));
        assert!(app.0.senders.is_unused() && app.0.received.available_permits() == BODIES_KIB_MAX);
    }
}
