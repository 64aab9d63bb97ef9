//! Definitions that are recorded and imported before clients come. Refuses to know files and configuration.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use broker::{Broker, Refused};
use platform::{Random, RealRandom};
use protocols::reply_of;

use crate::definitions::imports::{Importer, Row, Scope, Unsupported, import};
use crate::resources::parameters::{
    CLUSTER_ID, CLUSTER_NAME, IMPORTED, follow_cluster_name, global_text, record,
};

/// A definitions document with the name that problems are told by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Where it comes from.
    pub name: String,
    /// JSON.
    pub text: String,
}

/// Documents to import when the server starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartImport {
    /// In order.
    pub documents: Vec<Document>,
    /// The treatment of things that Warren does not have.
    pub unsupported: Unsupported,
    /// Nothing is imported when these documents were the last ones imported at a start.
    pub when: When,
}

/// When documents are imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At every start.
    Always,
    /// When they are not those of the last time (`definitions.skip_if_unchanged`).
    Changed,
}

/// Imports documents. Returns a line for each thing that was skipped.
///
/// # Errors
/// The document's name and what is wrong with it; documents before it are imported.
pub fn import_at_start(broker: &Broker, start: &StartImport) -> Result<Vec<String>, String> {
    let fingerprint = metadata::fingerprint(start.documents.iter().map(|it| it.text.as_bytes()));
    if start.when == When::Changed && global_text(broker, IMPORTED).as_deref() == Some(&*fingerprint) {
        tracing::info!("the definitions have not changed since the last import; nothing is imported");
        return Ok(Vec::new());
    }
    let mut skipped = Vec::new();
    for document in &start.documents {
        let lines = import(broker, &document.text, Scope::Node(None), start.unsupported, Importer::Node);
        let rows = lines.map_err(|problem| format!("{}: {problem}", document.name))?;
        skipped.extend(rows.iter().map(Row::line));
        tracing::info!(from = document.name, "definitions imported");
    }
    record(broker, IMPORTED, &fingerprint.into()).map_err(told)?;
    Ok(skipped)
}

fn told(refused: Refused) -> String {
    match refused {
        Refused::Storage(why) => why.into(),
        other => reply_of(other).text,
    }
}

/// Draws the cluster's identity if it has none, and records a name that the configuration gives. From then on clients are shown the name that
/// is recorded.
///
/// # Errors
/// The metadata log has failed.
pub fn name_cluster(broker: &Broker, configured: Option<&str>) -> Result<(), String> {
    if global_text(broker, CLUSTER_ID).is_none() {
        let mut random = [0; 16];
        RealRandom.fill(&mut random);
        let id = format!("rabbitmq-cluster-id-{}", URL_SAFE_NO_PAD.encode(random));
        record(broker, CLUSTER_ID, &id.into()).map_err(told)?;
    }
    if let Some(name) = configured {
        record(broker, CLUSTER_NAME, &name.into()).map_err(told)?;
    }
    follow_cluster_name(broker);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use broker::BrokerOptions;

    fn start(text: &str, when: When) -> StartImport {
        let document = Document { name: "there.json".into(), text: text.into() };
        StartImport { documents: vec![document], unsupported: Unsupported::Refused, when }
    }

    #[test]
    fn documents_are_imported_and_mistakes_name_them() {
        let folder = tempfile::tempdir().unwrap();
        let options = BrokerOptions { defaults: None, ..BrokerOptions::default() };
        let broker = Broker::open(folder.path(), options).unwrap();
        let vhosts = r#"{"vhosts":[{"name":"v"}]}"#;
        assert_eq!(import_at_start(&broker, &start(vhosts, When::Changed)), Ok(vec![]));
        assert!(broker.vhost("v").is_some() && broker.vhost("/").is_none());
        broker.delete_vhost("v").unwrap().wait().unwrap();
        assert_eq!(import_at_start(&broker, &start(vhosts, When::Changed)), Ok(vec![]));
        assert!(broker.vhost("v").is_none(), "nothing is imported twice");
        assert_eq!(import_at_start(&broker, &start(vhosts, When::Always)), Ok(vec![]));
        assert!(broker.vhost("v").is_some());
        let problem = import_at_start(&broker, &start("[]", When::Always)).unwrap_err();
        assert!(problem.starts_with("there.json: not a definitions document"), "{problem}");
        broker.shutdown();
    }

    #[test]
    fn a_cluster_keeps_its_identity_and_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let broker = Broker::open(folder.path(), BrokerOptions::default()).unwrap();
        name_cluster(&broker, None).unwrap();
        let id = global_text(&broker, CLUSTER_ID).unwrap();
        assert_eq!(&*broker.cluster_name(), "warren@localhost");
        name_cluster(&broker, Some("shop")).unwrap();
        name_cluster(&broker, None).unwrap();
        assert_eq!((&*broker.cluster_name(), global_text(&broker, CLUSTER_ID)), ("shop", Some(id)));
        broker.shutdown();
    }
}
