//! Reads of data that is in no cache: neither in the block cache nor in the page cache.
//!
//! | part | operations |
//! |---|---|
//! | `get` | random keys, one at a time |
//! | `multi-get` | batches of random keys |
//! | `scan` | everything forward, with direct reads; also from the page cache |
//! | `seek` | a new iterator, a random seek and one step, in a database with six levels |
//!
//! Each part also reads the table files of the first engine without an engine (`raw`): the most
//! that an engine could reach on this device in the same run.
//!
//! A measurement opens the database, reads a few keys so that indexes and filters are in memory,
//! evicts the database from the page cache, and then reads. The block cache holds only a small part
//! of the data. Keys are random, but no two of a measurement are in the same or in neighbouring
//! blocks, nor in those that were read before the eviction. So each read of a block goes to the
//! device. The memory of a host, in which a virtual device may have its data, is not evicted; so
//! rows take turns, and ratios are computed within a round.

mod arguments;
mod database;
mod figures;
mod keys;
mod levels;
mod points;
mod raw;
mod results;
mod rows;
mod scans;
mod seeks;
mod subject;

pub(crate) use self::arguments::ColdArguments;
pub use self::subject::{ColdEngine, Opened, Reading};

use serde_json::json;
use tailwater_latency::experiment::Finished;

use self::arguments::Part;
use self::database::{Content, Databases};
use self::results::Results;
use crate::store::Failure;

impl ColdArguments {
    /// Runs the command; its tables are in Markdown.
    pub(crate) fn run(&self, known: &[ColdEngine]) -> Result<Finished, Failure> {
        let engines = self.chosen(known)?;
        for part in &self.parts {
            let (content, count) = match part {
                Part::Get => (Content::Basket, self.reads),
                Part::MultiGet => (Content::Basket, self.reads * self.batch_size),
                Part::Scan => continue,
                Part::Seek => (Content::Levels, self.reads),
            };
            keys::check(content.keys(self.gigabytes), count)?;
        }
        let mut results: Vec<Results> = Vec::new();
        let wants = |part| self.parts.contains(&part);
        let fill = |content| Databases::fill(self, &engines, content);
        if wants(Part::Get) || wants(Part::MultiGet) || wants(Part::Scan) {
            let databases = fill(Content::Basket)?;
            for part in [Part::Get, Part::MultiGet].into_iter().filter(|part| wants(*part)) {
                for &mode in &self.modes {
                    results.push(points::measure(self, &databases, part, mode)?);
                }
            }
            if wants(Part::Scan) {
                results.push(scans::measure(self, &databases)?);
            }
        }
        if wants(Part::Scan) {
            results.push(scans::measure(self, &fill(Content::LargeValues)?)?);
        }
        if wants(Part::Seek) {
            let databases = fill(Content::Levels)?;
            for &mode in &self.modes {
                results.push(seeks::measure(self, &databases, mode)?);
            }
        }
        let mut text = format!("Medians of {} rounds; ratios within a round.\n", self.rounds);
        for results in &results {
            text += &results.text()?;
        }
        Finished::new(text, &json!({"parts": results}))
    }
}
