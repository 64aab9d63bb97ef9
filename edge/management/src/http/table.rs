//! The route table: every route of the API. Refuses to know how requests arrive.

use super::route::Route;
use super::{
    attempts, bindings, channels, connections, consumers, ctl, definitions, exchanges, explain, features,
    health, insight, limits, nodes, openapi, overview, parameters, permissions, policies, profile, queues,
    replicas, shovels, streams, users, vhosts,
};

/// All rows, family by family: in this order they stand in the reference.
const FAMILIES: &[&[Route]] = &[
    overview::ROUTES,
    nodes::ROUTES,
    connections::ROUTES,
    channels::ROUTES,
    consumers::ROUTES,
    exchanges::ROUTES,
    queues::ROUTES,
    replicas::ROUTES,
    streams::ROUTES,
    bindings::ROUTES,
    vhosts::ROUTES,
    users::ROUTES,
    attempts::ROUTES,
    permissions::ROUTES,
    parameters::ROUTES,
    policies::ROUTES,
    shovels::ROUTES,
    limits::ROUTES,
    definitions::ROUTES,
    features::ROUTES,
    health::ROUTES,
    explain::ROUTES,
    insight::ROUTES,
    profile::ROUTES,
    ctl::ROUTES,
    openapi::ROUTES,
];

/// All routes.
pub(crate) fn all() -> impl Iterator<Item = &'static Route> {
    FAMILIES.iter().flat_map(|family| family.iter())
}
