//! The component that ingests external files.

use std::collections::BTreeSet;
use std::sync::Arc;

use tailwater_io::FileIdentity;
use tailwater_io::sync::Mutex;

use crate::compaction::CompactionScheduler;
use crate::context::Context;
use crate::flush::FlushScheduler;
use crate::version::Versions;
use crate::write::WritePath;

/// Ingests external files.
pub(crate) struct Ingester {
    pub(super) context: Arc<Context>,
    pub(super) versions: Arc<Versions>,
    pub(super) compactions: Arc<CompactionScheduler>,
    pub(super) flushes: Arc<FlushScheduler>,
    pub(super) writes: Arc<WritePath>,
    /// External files whose sync has failed.
    pub(super) unsynced_files: Mutex<BTreeSet<FileIdentity>>,
}

impl Ingester {
    /// Creates the ingester from the components that it uses.
    pub(crate) fn new(
        context: Arc<Context>,
        versions: Arc<Versions>,
        compactions: Arc<CompactionScheduler>,
        flushes: Arc<FlushScheduler>,
        writes: Arc<WritePath>,
    ) -> Self {
        Self { context, versions, compactions, flushes, writes, unsynced_files: Mutex::default() }
    }
}
