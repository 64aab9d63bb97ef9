//! Configurations of queues, each once.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use queues::QueueConfig;

/// Configurations kept before those that no queue has any more are looked for.
const CONFIGS_KEPT_MIN: usize = 64;

/// Configurations of queues, each once.
#[derive(Default)]
pub(crate) struct Configs(Mutex<Known>);

#[derive(Default)]
struct Known {
    configs: HashSet<Arc<QueueConfig>, foldhash::fast::RandomState>,
    /// As many as there may be until the next look for what is not used any more.
    count_max: usize,
}

impl Configs {
    /// The one that is equal to this.
    pub(crate) fn share(&self, config: QueueConfig) -> Arc<QueueConfig> {
        let mut known = self.0.lock();
        if let Some(shared) = known.configs.get(&config) {
            return shared.clone();
        }
        if known.configs.len() >= known.count_max {
            known.configs.retain(|config| Arc::strong_count(config) > 1);
            known.count_max = CONFIGS_KEPT_MIN.max(2 * known.configs.len());
        }
        let shared = Arc::new(config);
        known.configs.insert(shared.clone());
        shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use queues::QueueConfig;

    #[test]
    fn equal_configurations_are_one_and_unused_ones_go() {
        let configs = Configs::default();
        let config = |ttl_ms| QueueConfig { message_ttl_ms: Some(ttl_ms), ..QueueConfig::default() };
        let kept = configs.share(config(0));
        assert!(Arc::ptr_eq(&kept, &configs.share(config(0))));
        for ttl_ms in 1..1000 {
            configs.share(config(ttl_ms));
        }
        assert!(configs.0.lock().configs.len() <= CONFIGS_KEPT_MIN);
        assert!(Arc::ptr_eq(&kept, &configs.share(config(0))));
    }
}
