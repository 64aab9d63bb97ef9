//! How a broker begins.

use std::path::Path;
use std::sync::Arc;

use platform::{Disk, RealDisk};

use crate::broker::Broker;
use crate::cluster::Cluster;
use crate::driven::Driver;
use crate::foundation::Foundation;
use crate::open_errors::StartError;
use crate::options::BrokerOptions;

impl Broker {
    /// Opens a data directory: locks it, recovers metadata and messages, creates the default objects when it is new.
    pub fn open(data_dir: &Path, options: BrokerOptions) -> Result<Broker, StartError> {
        Self::open_on(Arc::new(RealDisk), data_dir, options)
    }

    /// As [`Broker::open`], on a disk of the caller's choice; for tests with one that fails.
    pub fn open_on(
        disk: Arc<dyn Disk>,
        data_dir: &Path,
        options: BrokerOptions,
    ) -> Result<Broker, StartError> {
        crate::recovery::open(&Foundation::real(disk), data_dir, options, None)
    }

    /// As [`Broker::open`], as a member of a cluster that is ready ([`Cluster::wait_ready`]).
    pub fn open_in_cluster(
        foundation: &Foundation,
        data_dir: &Path,
        options: BrokerOptions,
        cluster: &Cluster,
    ) -> Result<Broker, StartError> {
        crate::recovery::open(foundation, data_dir, options, Some(cluster))
    }

    /// As [`Broker::open`], on a foundation of the caller's choice and without threads: nothing moves that the [`Driver`] does not step, and a call that is not
    /// answered by steps is not answered. For simulation.
    pub fn open_driven(
        foundation: &Foundation,
        data_dir: &Path,
        options: BrokerOptions,
    ) -> Result<(Broker, Driver), StartError> {
        crate::recovery::open_driven(foundation, data_dir, options)
    }
}
