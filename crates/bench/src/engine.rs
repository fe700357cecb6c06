//! Engines that are put beside each other: workloads are compiled for each kind of store, and
//! chosen here through one table.

use std::marker::PhantomData;
use std::path::Path;
use std::time::Duration;

use crate::basket::{self, Amount, Measured, Workload};
use crate::durable::{self, Putting};
use crate::hot_key;
use crate::range_deletions::{self, Deleting};
use crate::store::{Failure, Store};
use crate::sustained::{self, Overwriting};

/// A kind of engine.
pub trait Engine {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Makes a database in a directory that is empty.
    ///
    /// # Errors
    /// Those of the engine.
    fn create(&self, directory: &Path, options: &str) -> Result<Box<dyn Subject>, Failure>;
}

/// A database that work is done on.
pub trait Subject {
    /// Does a workload of the basket.
    ///
    /// # Errors
    /// Those of the engine.
    fn run(&self, workload: Workload, amount: &Amount, seed: u64) -> Result<Measured, Failure>;

    /// Lets `threads` threads get one key for some time; answers gets per second.
    ///
    /// # Errors
    /// Those of the engine.
    fn get_hot_key(&self, threads: usize, time: Duration) -> Result<f64, Failure>;

    /// Overwrites for some time.
    ///
    /// # Errors
    /// Those of the engine.
    fn overwrite(&self, work: &Overwriting<'_>) -> Result<sustained::Writes, Failure>;

    /// Deletes ranges, and reads among them.
    ///
    /// # Errors
    /// Those of the engine, and one where it has no range deletions.
    fn delete_ranges(&self, work: &Deleting) -> Result<range_deletions::Figures, Failure>;

    /// Lets writers put, and measures each put.
    ///
    /// # Errors
    /// Those of the engine.
    fn put(&self, putting: &Putting) -> Result<durable::Figures, Failure>;

    /// What the engine tells under a name, if it knows it.
    ///
    /// # Errors
    /// Those of the engine.
    fn property(&self, name: &str) -> Result<Option<String>, Failure>;

    /// Returns when no work is left in the background.
    ///
    /// # Errors
    /// Those of the engine.
    fn settle(&self) -> Result<(), Failure>;
}

/// The kind of engine that `S` is a store of.
#[derive(Debug)]
pub struct Contender<S>(PhantomData<S>);

impl<S: Store> Contender<S> {
    /// That kind.
    #[expect(clippy::new_without_default, reason = "there is nothing to choose a default of")]
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

    fn overwrite(&self, work: &Overwriting<'_>) -> Result<sustained::Writes, Failure> {
        sustained::overwrite(&self.0, work)
    }

    fn delete_ranges(&self, work: &Deleting) -> Result<range_deletions::Figures, Failure> {
        range_deletions::delete(&self.0, work)
    }

    fn put(&self, putting: &Putting) -> Result<durable::Figures, Failure> {
        durable::put(&self.0, putting)
    }

    fn property(&self, name: &str) -> Result<Option<String>, Failure> {
        self.0.property(name)
    }

    fn settle(&self) -> Result<(), Failure> {
        self.0.settle()
    }
}
