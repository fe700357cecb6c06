//! Clients that get batches of random keys of the whole database, beside the readers of the hot
//! set. They show whether one client's reads in flight slow down the reads of others.

use clap::ValueEnum;
use fastrand::Rng;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::arguments::TailArguments;
use super::workload::Phase;
use crate::entries::{KEY_BYTES, key};
use crate::experiment::timeline::{Collector, Recorder};
use crate::failure::Failure;
use crate::latencies::Latencies;
use crate::parsing;

/// Number of keys in a batch, unless `--batch-size` is given.
const BATCH_KEYS: usize = 32;

/// How a client gets the keys of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchForm {
    /// All keys of a batch with one call
    MultiGet,
    /// The same keys one by one, for comparison
    SingleGets,
}

impl BatchForm {
    /// Returns the form's name.
    pub(super) fn name(self) -> String {
        parsing::name(&self)
    }
}

/// The clients, and their batches.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct BatchLoad {
    /// Number of clients, each with a thread.
    pub(super) clients: usize,
    /// Number of keys in a batch.
    pub(super) batch_keys: usize,
    pub(super) form: BatchForm,
    /// Batches per second of all clients together, in an open loop; `None` for a closed loop, in
    /// which a client starts a batch when its previous one has returned.
    pub(super) batches_per_second: Option<f64>,
}

/// What the clients measured: rates of all clients together, and the latency of a batch.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct BatchFigures {
    pub(super) batch_keys_per_second: f64,
    /// Number of batches.
    pub(super) count: f64,
    #[serde(flatten)]
    pub(super) latencies: Latencies,
}

impl BatchLoad {
    /// Returns the clients that the arguments request; `None` if they request none.
    pub(super) fn of(arguments: &TailArguments) -> Option<Self> {
        let clients = arguments.batch_readers.filter(|clients| *clients > 0)?;
        Some(Self {
            clients,
            batch_keys: arguments.batch_size.unwrap_or(BATCH_KEYS),
            form: arguments.batch_form.unwrap_or(BatchForm::MultiGet),
            batches_per_second: arguments.batch_rate,
        })
    }

    /// Returns the figures of the clients, given how many batches have returned in a number of
    /// seconds, and their latencies.
    pub(super) fn figures(
        self,
        count: u64,
        latencies: &Histogram<u64>,
        seconds: f64,
    ) -> BatchFigures {
        BatchFigures {
            batch_keys_per_second: (count * self.batch_keys as u64) as f64 / seconds,
            count: count as f64,
            latencies: Latencies::of(latencies),
        }
    }

    /// Describes the clients for the head of a table.
    pub(super) fn describe(self) -> String {
        let Self { clients, batch_keys, form, batches_per_second } = self;
        let clients =
            if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") };
        let loop_kind = match batches_per_second {
            Some(rate) => format!("open loop: {rate} batches/s"),
            None => "closed loop".to_owned(),
        };
        format!(
            "{clients} getting batches of {batch_keys} keys of the whole database by {}, {loop_kind}",
            form.name()
        )
    }
}

/// A client that gets batches.
pub(super) struct Client {
    load: BatchLoad,
    recorder: Recorder,
}

impl Client {
    /// Creates the clients of a run that starts at `start_ns`, and the collector of what they
    /// record; `None` if there are no clients.
    pub(super) fn all(
        load: Option<BatchLoad>,
        start_ns: u64,
    ) -> Result<(Vec<Self>, Option<Collector>), Failure> {
        let Some(load) = load else { return Ok((Vec::new(), None)) };
        let (recorders, collector) = Collector::new(load.clients, start_ns)?;
        let clients = recorders.into_iter().map(|recorder| Self { load, recorder });
        Ok((clients.collect(), Some(collector)))
    }

    /// Runs client number `number`: gets batches of random keys of the database until the phase
    /// ends, and records their latencies as [`Phase::read`] does. The keys do not depend on the
    /// form. Returns the number of batches that have returned.
    pub(super) fn get_batches(self, phase: &Phase<'_>, number: usize) -> Result<u64, Failure> {
        let Self { load, mut recorder } = self;
        let BatchLoad { clients, batch_keys, form, batches_per_second } = load;
        // Another sequence than that of any reader.
        let mut rng = Rng::with_seed((!phase.seed).wrapping_mul(1000).wrapping_add(number as u64));
        let mut value = Vec::new();
        let mut get = |_: u64| {
            let keys: Vec<[u8; KEY_BYTES]> =
                (0..batch_keys).map(|_| key(rng.u64(..phase.load.keys))).collect();
            let found = match form {
                BatchForm::MultiGet => {
                    let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_slice()).collect();
                    phase.database.multi_get(&keys)?
                }
                BatchForm::SingleGets => {
                    let mut found = 0;
                    for key in &keys {
                        found += usize::from(phase.database.get(key, &mut value)?);
                    }
                    found
                }
            };
            match found {
                found if found == batch_keys => Ok::<_, Failure>(()),
                found => Err(format!("{found} of {batch_keys} keys have a value").into()),
            }
        };
        let count = phase.repeat(batches_per_second, (number, clients), &mut recorder, &mut get)?;
        recorder.finish();
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_optional() {
        let load = |batch_readers| {
            BatchLoad::of(&TailArguments { batch_readers, ..TailArguments::default() })
        };
        assert_eq!((load(None), load(Some(0))), (None, None));
        let expected = BatchLoad {
            clients: 2,
            batch_keys: 32,
            form: BatchForm::MultiGet,
            batches_per_second: None,
        };
        assert_eq!(load(Some(2)), Some(expected));
        let arguments = TailArguments {
            batch_readers: Some(2),
            batch_size: Some(8),
            batch_form: Some(BatchForm::SingleGets),
            batch_rate: Some(10.0),
            ..TailArguments::default()
        };
        let (form, batches_per_second) = (BatchForm::SingleGets, Some(10.0));
        let expected = BatchLoad { batch_keys: 8, form, batches_per_second, ..expected };
        assert_eq!(BatchLoad::of(&arguments), Some(expected));
    }
}
