//! Definitions over HTTP: all of the node or of one vhost, written while they are made; imported as a whole.

use std::hash::{DefaultHasher, Hasher};
use std::io::Write;

use metadata::Definitions;
use serde_json::json;

use super::auth::Access;
use super::call::Call;
use super::multipart;
use super::problem::Problem;
use super::reply::{About, Answer, Reply};
use super::route::{BodySize, Method, Route, route};
use crate::definitions::export::{write_document, write_vhost_document};
use crate::definitions::imports::{Importer, Row, Scope, Unsupported, import};
use crate::resources::json::{is_object, unmarked};

pub(crate) const ROUTES: &[Route] = &[
    route(Method::Get, "/api/definitions", Access::Administrator, "All definitions.", export),
    route(
        Method::Post,
        "/api/definitions",
        Access::Administrator,
        "Adds and changes objects by definitions; nothing is deleted.",
        import_all,
    )
    .with_body(BodySize::Definitions),
    route(
        Method::Get,
        "/api/all-configuration",
        Access::Administrator,
        "All definitions, by an older name.",
        export,
    ),
    route(
        Method::Post,
        "/api/all-configuration",
        Access::Administrator,
        "Merges definitions, by an older name.",
        import_all,
    )
    .with_body(BodySize::Definitions),
    route(
        Method::Get,
        "/api/definitions/{vhost}",
        Access::Administrator,
        "Definitions of one virtual host.",
        export_vhost,
    ),
    route(
        Method::Post,
        "/api/definitions/{vhost}",
        Access::Administrator,
        "Merges definitions into one virtual host, whichever they name. Users and other objects without a virtual host are skipped.",
        import_vhost,
    )
    .with_body(BodySize::Definitions),
];

/// A name for the browser to save it under, if it asked for one.
fn disposition(call: &Call) -> Option<String> {
    let file = call.query("download")?;
    let kept: String =
        file.chars().filter(|letter| letter.is_ascii_alphanumeric() || "._-@".contains(*letter)).collect();
    Some(format!("attachment; filename={kept}"))
}

/// Takes a fingerprint of what is written and keeps nothing.
#[derive(Default)]
struct Fingerprint(DefaultHasher);

impl Write for Fingerprint {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The document, unless the client has it already. It is made twice, and so never held as a whole.
fn tagged(call: &Call, write: impl Fn(&mut dyn Write) -> std::io::Result<()> + 'static) -> Answer {
    let mut fingerprint = Fingerprint::default();
    write(&mut fingerprint).map_err(|error| Problem::unavailable(error.to_string()))?;
    let etag = format!("\"{:016x}\"", fingerprint.0.finish());
    let is_known = |known: &String| known.split(',').any(|it| it.trim().trim_start_matches("W/") == etag);
    if call.known.as_ref().is_some_and(is_known) {
        return Ok(Reply::Known(etag));
    }
    let about = About { disposition: disposition(call), etag: Some(etag), ..About::default() };
    Ok(Reply::Stream(Box::new(write), about))
}

fn export(call: &Call) -> Answer {
    let definitions = call.broker().read_metadata(Definitions::of_state);
    let name = call.broker().cluster_name();
    tagged(call, move |mut out: &mut dyn Write| {
        write_document(&mut out, &definitions, &name).map_err(std::io::Error::other)
    })
}

fn export_vhost(call: &Call) -> Answer {
    let vhost = call.vhost().map_err(|_| Problem::bad("vhost_not_found"))?;
    let found = call.broker().read_metadata(|state| {
        let record = state.vhost(vhost.name().as_bytes())?;
        Some((Definitions::of_vhost(record), record.metadata().clone(), record.limits().clone()))
    });
    let (definitions, metadata, limits) = found.ok_or_else(Problem::missing)?;
    let name = vhost.name().to_owned();
    tagged(call, move |mut out: &mut dyn Write| {
        write_vhost_document(&mut out, &definitions, &name, &metadata, &limits).map_err(std::io::Error::other)
    })
}

/// The posted document.
struct Posted<'a> {
    document: &'a [u8],
    /// The file's name, of a form that has one.
    file_name: Option<String>,
    is_form: bool,
    /// Where a browser goes afterwards.
    redirect: Option<String>,
}

/// The body itself, or of a browser's form the field `file`: the last of them, as in RabbitMQ.
fn posted(call: &Call) -> Result<Posted<'_>, Problem> {
    let content_type = call.content_type.as_deref().filter(|it| multipart::is_form(it));
    let Some(content_type) = content_type else {
        return Ok(Posted { document: &call.body, file_name: None, is_form: false, redirect: None });
    };
    let mut parts = multipart::parts(content_type, &call.body).map_err(Problem::bad)?;
    let mut last = |name| parts.iter().rposition(|part| part.name == name).map(|at| parts.remove(at));
    let redirect = last("redirect").map(|part| String::from_utf8_lossy(part.content).into_owned());
    // Without one there is nothing that could be a document.
    let (document, file_name) = last("file").map_or((&b"-"[..], None), |part| (part.content, part.file_name));
    Ok(Posted { document, file_name, is_form: true, redirect })
}

/// The text of a document; nothing at all is one in which there is nothing.
fn text(document: &[u8]) -> Result<&str, Problem> {
    let bad = || Problem::bad("failed_to_parse_json");
    let text = std::str::from_utf8(document).map_err(|_| bad())?;
    match text {
        "" => Ok("{}"),
        text if is_object(unmarked(text).as_bytes()) => Ok(text),
        _ => Err(bad()),
    }
}

fn unsupported(call: &Call) -> Unsupported {
    if call.flag("skip_unsupported") { Unsupported::Skipped } else { Unsupported::Refused }
}

fn import_all(call: &Call) -> Answer {
    take(call, Scope::Node(None))
}

fn import_vhost(call: &Call) -> Answer {
    let vhost = call.vhost().map_err(|_| Problem::no_vhost())?;
    take(call, Scope::Vhost(vhost.name()))
}

fn take(call: &Call, scope: Scope<'_>) -> Answer {
    let posted = posted(call)?;
    if posted.is_form && call.app.options.json_definitions_only && !is_named_json(posted.file_name.as_deref())
    {
        let mut problem = json!({"error": "bad_request", "reason": "unsupported_file_extension"});
        posted.file_name.into_iter().for_each(|name| problem["filename"] = name.into());
        return Ok(Reply::Status(400, problem));
    }
    let importer = Importer::User(&call.user.name);
    let imported = import(call.broker(), text(posted.document)?, scope, unsupported(call), importer);
    let rows = imported.map_err(Problem::bad)?;
    rows.iter().for_each(|row| tracing::warn!("{}", row.line()));
    if call.flag("report") {
        return Ok(Reply::Json(rows.iter().map(Row::to_json).collect()));
    }
    Ok(posted.redirect.map_or(Reply::NoContent, Reply::SeeOther))
}

fn is_named_json(file_name: Option<&str>) -> bool {
    file_name.is_some_and(|name| name.to_ascii_lowercase().ends_with(".json"))
}
