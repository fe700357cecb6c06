//! Statistics of a database, for its operator.
//!
//! - [`Statistics`]: tickers and histograms, which are kept only if the user sets a statistics
//!   object.
//! - `activity`, `families`, `levels`: figures that every database keeps about its writes, stalls,
//!   flushes and compactions. `report` formats these figures.
//! - `memory`: memory that iterators use outside the block cache.
//! - [`ProcessMemory`]: the memory of all databases of the process.
//! - `slow_reads`: where the time of slow reads went.
//! - `info_log`: the `LOG` file.

mod activity;
mod families;
mod histograms;
mod info_log;
mod levels;
mod memory;
mod process_memory;
mod rate_limiter;
pub(crate) mod report;
pub(crate) mod slow_reads;
mod statistics;
mod thread_slot;
mod tickers;

pub(crate) use activity::Activity;
pub(crate) use families::FamilyStatistics;
pub(crate) use histograms::Histogram;
pub use histograms::HistogramData;
pub(crate) use info_log::InfoLog;
pub(crate) use levels::{Ingestion, LevelFigures, Work};
pub(crate) use memory::{IteratorCharge, ReadAheadCharge, ReaderMemory};
pub use process_memory::ProcessMemory;
pub use slow_reads::{SlowReadCause, SlowReadTotals};
pub use statistics::Statistics;
pub(crate) use statistics::{Recorder, Started};
pub(crate) use tickers::Ticker;
