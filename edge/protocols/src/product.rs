//! The words in which the server describes itself to clients.

/// The server in the words of the properties that clients get.
#[derive(Clone, Debug)]
pub struct Product {
    /// `product`; clients compare it to `RabbitMQ` (B9), which is the default.
    pub name: String,
    /// `version`: which RabbitMQ clients should take this for (B9). Default 4.3.6.
    pub version: String,
    /// `warren_version`.
    pub warren_version: String,
    /// `platform`.
    pub platform: String,
}

impl Default for Product {
    fn default() -> Self {
        Product {
            name: "RabbitMQ".into(),
            version: "4.3.6".into(),
            warren_version: env!("CARGO_PKG_VERSION").into(),
            platform: "Rust".into(),
        }
    }
}

impl Product {
    /// Its copyright.
    pub(crate) const COPYRIGHT: &str = "Copyright (c) 2026 the Warren authors";

    /// Names and texts of the properties.
    pub(crate) fn properties(&self) -> [(&str, &str); 6] {
        [
            ("copyright", Product::COPYRIGHT),
            ("information", "Licensed under the Apache License 2.0"),
            ("platform", &self.platform),
            ("product", &self.name),
            ("version", &self.version),
            ("warren_version", &self.warren_version),
        ]
    }
}
