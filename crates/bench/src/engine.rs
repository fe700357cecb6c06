//! Engines to compare. Workloads are generic over the store and compiled for each kind of store;
//! commands call them through the trait [`Subject`].

use std::marker::PhantomData;
use std::path::Path;
use std::time::Duration;

use crate::store::{Failure, Store};
use crate::workloads::basket::{self, Amount, Measured, Workload};
use crate::workloads::hot_key;
use crate::workloads::overwriting::{self, Overwriting};
use crate::workloads::puts::{self, Putting};
use crate::workloads::range_deletions::{self, Deleting};

/// A kind of engine.
pub trait Engine {
    /// Returns the engine's name.
    fn name(&self) -> &'static str;

    /// Creates a database in an empty directory.
    ///
    /// # Errors
    /// Errors from the engine.
    fn create(&self, directory: &Path, options: &str) -> Result<Box<dyn Subject>, Failure>;
}

/// A database that workloads run on.
pub trait Subject {
    /// Runs one workload of `db_bench`.
    ///
    /// # Errors
    /// Errors from the engine.
    fn run(&self, workload: Workload, amount: &Amount, seed: u64) -> Result<Measured, Failure>;

    /// Gets one key repeatedly in `threads` threads for the duration `time`; returns gets per
    /// second of all threads together.
    ///
    /// # Errors
    /// Errors from the engine.
    fn get_hot_key(&self, threads: usize, time: Duration) -> Result<f64, Failure>;

    /// Overwrites random keys for the duration that `work` states.
    ///
    /// # Errors
    /// Errors from the engine.
    fn overwrite(&self, work: &Overwriting<'_>) -> Result<overwriting::Writes, Failure>;

    /// Deletes ranges, and reads keys in and around them.
    ///
    /// # Errors
    /// Errors from the engine, and an error if the engine does not support range deletions.
    fn delete_ranges(&self, work: &Deleting) -> Result<range_deletions::Figures, Failure>;

    /// Runs concurrent writers and measures each put.
    ///
    /// # Errors
    /// Errors from the engine.
    fn put(&self, putting: &Putting) -> Result<puts::Figures, Failure>;

    /// Returns a property of the engine, if it knows the name.
    ///
    /// # Errors
    /// Errors from the engine.
    fn property(&self, name: &str) -> Result<Option<String>, Failure>;

    /// Waits until no background work is left.
    ///
    /// # Errors
    /// Errors from the engine.
    fn settle(&self) -> Result<(), Failure>;
}

/// The engine whose databases have the type `S`.
#[derive(Debug)]
pub struct Contender<S>(PhantomData<S>);

impl<S: Store> Contender<S> {
    /// Creates the engine.
    #[expect(
        clippy::new_without_default,
        reason = "an engine has no state that a default would set"
    )]
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

impl<S: Store + 'static> Engine for Contender<S> {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn create(&self, directory: &Path, options: &str) -> Result<Box<dyn Subject>, Failure> {
        Ok(Box::new(Opened(S::create(directory, options)?)))
    }
}

/// An open store.
struct Opened<S>(S);

impl<S: Store> Subject for Opened<S> {
    fn run(&self, workload: Workload, amount: &Amount, seed: u64) -> Result<Measured, Failure> {
        basket::run(&self.0, workload, amount, seed)
    }

    fn get_hot_key(&self, threads: usize, time: Duration) -> Result<f64, Failure> {
        hot_key::get(&self.0, threads, time)
    }

    fn overwrite(&self, work: &Overwriting<'_>) -> Result<overwriting::Writes, Failure> {
        overwriting::overwrite(&self.0, work)
    }

    fn delete_ranges(&self, work: &Deleting) -> Result<range_deletions::Figures, Failure> {
        range_deletions::delete(&self.0, work)
    }

    fn put(&self, putting: &Putting) -> Result<puts::Figures, Failure> {
        puts::put(&self.0, putting)
    }

    fn property(&self, name: &str) -> Result<Option<String>, Failure> {
        self.0.property(name)
    }

    fn settle(&self) -> Result<(), Failure> {
        self.0.settle()
    }
}
