//! Statistics of databases that are opened with the same options.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use tailwater::{HistogramData, Statistics};

use crate::boundary::{copy_text, entry, give};
use crate::options::rocksdb_options_t;
use crate::ticker_names::{HISTOGRAMS, TICKERS};

/// RocksDB's default level of statistics, and its highest one.
const DEFAULT_LEVEL: c_int = 3;
const HIGHEST_LEVEL: c_int = 5;

/// The figures of a histogram.
#[derive(Default)]
pub(crate) struct rocksdb_statistics_histogram_data_t {
    data: HistogramData,
}

/// Returns the name with this number, if there is one.
fn name(names: &[&'static str], number: u32) -> Option<&'static str> {
    names.get(usize::try_from(number).ok()?).copied()
}

entry! {
    fn rocksdb_options_enable_statistics(opt: &mut rocksdb_options_t) {
        opt.statistics = Some(Arc::new(Statistics::new()));
        opt.statistics_level = DEFAULT_LEVEL;
        Ok(())
    }
}

entry! {
    /// The level has no effect: the figures of the default level are kept.
    fn rocksdb_options_set_statistics_level(opt: &mut rocksdb_options_t, level: c_int) {
        if opt.statistics.is_some() {
            opt.statistics_level = level.clamp(0, HIGHEST_LEVEL);
        }
        Ok(())
    }
}

entry! {
    fn rocksdb_options_get_statistics_level(opt: shared rocksdb_options_t) -> c_int {
        Ok(opt.statistics_level)
    }
}

entry! {
    fn rocksdb_options_statistics_get_string(opt: shared rocksdb_options_t) -> *mut c_char {
        let text = opt.statistics.as_ref().map(|statistics| copy_text(&statistics.text()));
        Ok(text.unwrap_or(std::ptr::null_mut()))
    }
}

entry! {
    fn rocksdb_options_statistics_get_ticker_count(
        opt: shared rocksdb_options_t,
        ticker_type: u32,
    ) -> u64 {
        let statistics = opt.statistics.as_ref();
        let count = statistics.and_then(|it| it.ticker(name(&TICKERS, ticker_type)?));
        Ok(count.unwrap_or(0))
    }
}

entry! {
    fn rocksdb_options_statistics_get_histogram_data(
        opt: shared rocksdb_options_t,
        histogram_type: u32,
        data: &mut rocksdb_statistics_histogram_data_t,
    ) {
        let statistics = opt.statistics.as_ref();
        let found = statistics.and_then(|it| it.histogram(name(&HISTOGRAMS, histogram_type)?));
        data.data = found.unwrap_or_default();
        Ok(())
    }
}

entry! {
    fn rocksdb_statistics_histogram_data_create() -> *mut rocksdb_statistics_histogram_data_t {
        Ok(give(rocksdb_statistics_histogram_data_t::default()))
    }
}

entry! {
    fn rocksdb_statistics_histogram_data_destroy(
        data: own rocksdb_statistics_histogram_data_t,
    ) {
        drop(data);
        Ok(())
    }
}

entry! {
    fn rocksdb_statistics_histogram_data_get_median(
        data: shared rocksdb_statistics_histogram_data_t,
    ) -> f64 {
        Ok(data.data.median)
    }
}

entry! {
    fn rocksdb_statistics_histogram_data_get_p95(
        data: shared rocksdb_statistics_histogram_data_t,
    ) -> f64 {
        Ok(data.data.percentile_95)
    }
}

entry! {
    fn rocksdb_statistics_histogram_data_get_p99(
        data: shared rocksdb_statistics_histogram_data_t,
    ) -> f64 {
        Ok(data.data.percentile_99)
    }
}

entry! {
    fn rocksdb_statistics_histogram_data_get_average(
        data: shared rocksdb_statistics_histogram_data_t,
    ) -> f64 {
        Ok(data.data.average)
    }
}

entry! {
    /// Not kept.
    fn rocksdb_statistics_histogram_data_get_std_dev(
        data: shared rocksdb_statistics_histogram_data_t,
    ) -> f64 {
        let _ = data;
        Ok(0.0)
    }
}

entry! {
    fn rocksdb_statistics_histogram_data_get_max(
        data: shared rocksdb_statistics_histogram_data_t,
    ) -> f64 {
        Ok(data.data.max as f64)
    }
}

entry! {
    fn rocksdb_statistics_histogram_data_get_min(
        data: shared rocksdb_statistics_histogram_data_t,
    ) -> f64 {
        Ok(data.data.min as f64)
    }
}

entry! {
    fn rocksdb_statistics_histogram_data_get_count(
        data: shared rocksdb_statistics_histogram_data_t,
    ) -> u64 {
        Ok(data.data.count)
    }
}

entry! {
    fn rocksdb_statistics_histogram_data_get_sum(
        data: shared rocksdb_statistics_histogram_data_t,
    ) -> u64 {
        Ok(data.data.sum)
    }
}
