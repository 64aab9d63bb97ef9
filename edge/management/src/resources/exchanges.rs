//! Exchanges, as listings and pages show them.

use std::sync::Arc;

use broker::Vhost;
use broker::policies::AppliedPolicies;
use metadata::ExchangeRecord;
use serde_json::Value;

use super::values::text;

/// An exchange and the policies that apply to it.
pub(crate) struct ExchangeRow {
    pub(crate) record: Arc<ExchangeRecord>,
    policies: AppliedPolicies,
}

impl ExchangeRow {
    /// An exchange of a virtual host; of one that is being deleted, no policies are known.
    pub(crate) fn of(record: &Arc<ExchangeRecord>, vhost: Option<&Vhost>) -> ExchangeRow {
        let policies = vhost.map(|vhost| vhost.policies().of_exchange(&record.name)).unwrap_or_default();
        ExchangeRow { record: record.clone(), policies }
    }

    pub(crate) fn name(&self) -> Value {
        text(&self.record.name)
    }

    pub(crate) fn kind(&self) -> Value {
        (*self.record.kind).into()
    }

    /// The name of its policy.
    pub(crate) fn policy(&self) -> Option<&str> {
        self.policies.policy().map(|policy| &*policy.name)
    }

    /// The name of its operator policy.
    pub(crate) fn operator_policy(&self) -> Option<&str> {
        self.policies.operator_policy().map(|policy| &*policy.name)
    }
}
