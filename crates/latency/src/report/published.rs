//! The tables of the documents whose experiments are repeated here, as they were published there.

use crate::experiment::table::Table;

/// A published table.
#[derive(Debug)]
pub struct Published {
    caption: &'static str,
    columns: &'static str,
    rows: &'static [&'static [&'static str]],
}

impl Published {
    /// Returns the caption and the table.
    pub fn table(&self) -> (String, Table) {
        let mut table = Table::new(self.columns);
        for row in self.rows {
            table.row(row.iter().map(|cell| (*cell).to_owned()));
        }
        (self.caption.to_owned(), table)
    }
}

const READS: &str = "configuration<|reads/s>|p50 us>|p99 us>|p99.9 us>|p99.99 us>";

/// RocksDB's pull request 14743, with a hot set of 3 % of the memory.
pub(crate) const ROCKSDB_14743_SMALL: Published = Published {
    caption: "RocksDB's pull request 14743: 7,500 hot keys, 4 readers, 14 vCPUs, means of 5 runs",
    columns: READS,
    rows: &[
        &["buffered", "233,477", "16.09", "82.24", "721.0", "2,102.5"],
        &["direct_compaction_writes_only", "287,405", "13.00", "66.77", "553.9", "1,787.6"],
        &["direct_compaction_read_only", "250,669", "14.16", "102.99", "689.8", "1,801.3"],
        &["direct_compaction_read_write", "277,920", "12.99", "84.23", "613.4", "1,738.2"],
        &["direct_all", "249,014", "15.95", "68.78", "450.8", "1,814.5"],
    ],
};

/// RocksDB's pull request 14743, with a hot set of 40 % of the memory.
pub(crate) const ROCKSDB_14743_LARGE: Published = Published {
    caption: "RocksDB's pull request 14743: 100,000 hot keys, 4 readers, 14 vCPUs, means of 5 runs",
    columns: READS,
    rows: &[
        &["buffered", "68,959", "44.81", "541.22", "2,225.2", "11,334.5"],
        &["direct_compaction_writes_only", "73,973", "42.22", "456.27", "2,016.9", "9,190.0"],
        &["direct_compaction_read_only", "84,337", "38.66", "386.97", "1,644.8", "4,837.9"],
        &["direct_compaction_read_write", "104,923", "34.26", "290.97", "1,143.4", "3,080.3"],
        &["direct_all", "71,598", "51.33", "297.91", "1,663.6", "6,530.0"],
    ],
};

/// RocksDB's pull request 14743, the experiment of its commit message.
pub(crate) const ROCKSDB_14743_COMMIT: Published = Published {
    caption: "RocksDB's pull request 14743, commit message: 2,000 hot keys, 4 readers, one run of 180 s",
    columns: READS,
    rows: &[
        &["buffered", "406,000", "7.34", "79.11", "533.14", "1,647.79"],
        &["direct_compaction_read_only", "421,000", "6.99", "88.95", "504.32", "1,456.75"],
        &["direct_compaction_read_write", "464,000", "6.37", "71.64", "468.28", "1,363.91"],
        &["direct_all", "442,000", "7.37", "50.82", "472.23", "1,626.77"],
    ],
};

/// Cassandra's ticket 21134: one compaction, unlimited and with 128 MiB/s.
pub(crate) const CASSANDRA_21134: Published = Published {
    caption: "Cassandra's ticket 21134: 12 GB of memory, 128 GB compacted, 10,000 reads/s",
    columns: "configuration<|p50 ms>|p90 ms>|p99 ms>|p99.9 ms>|mean ms>|stddev ms>|dirtied pages/s>|\
              memory us/s>|cache hits>|w_await ms>|queue depth>|compacted MiB/s>",
    rows: &[
        &[
            "buffered", "0.48", "-", "16.2", "100.6", "1.29", "-", "42,862", "31,599", "16.1 %",
            "9.14", "11.90", "246",
        ],
        &[
            "buffered 128M",
            "0.49",
            "0.90",
            "9.63",
            "51.64",
            "0.93",
            "3.26",
            "25,211",
            "32,645",
            "27.2 %",
            "5.14",
            "5.81",
            "128",
        ],
        &[
            "direct_compaction_writes_only",
            "0.48",
            "-",
            "1.9",
            "7.9",
            "0.61",
            "-",
            "1,038",
            "21,534",
            "17.6 %",
            "1.04",
            "1.52",
            "286",
        ],
        &[
            "direct_compaction_writes_only 128M",
            "0.50",
            "0.90",
            "1.84",
            "4.92",
            "0.59",
            "0.41",
            "544",
            "24,790",
            "29.8 %",
            "0.46",
            "0.91",
            "128",
        ],
        &[
            "direct_compaction_read_write",
            "0.49",
            "-",
            "1.90",
            "8.47",
            "0.61",
            "-",
            "874",
            "14,170",
            "34.5 %",
            "1.08",
            "3.00",
            "283",
        ],
        &[
            "direct_compaction_read_write 128M",
            "0.46",
            "0.84",
            "1.78",
            "5.01",
            "0.55",
            "0.40",
            "556",
            "13,775",
            "36.0 %",
            "0.45",
            "0.97",
            "128",
        ],
    ],
};

/// Apache Iggy's pull request 3068: producers, and consumers.
pub(crate) const IGGY_3068: [Published; 2] = [
    Published {
        caption: "Apache Iggy's pull request 3068: producers",
        columns: "mode<|MB/s>|p50 ms>|p90 ms>|p99 ms>|p99.9 ms>|p99.99 ms>|max ms>|stddev ms>",
        rows: &[
            &["buffered", "250", "1.39", "2.28", "3.40", "64.67", "457.92", "282.37", "1.96"],
            &[
                "direct_inline_unsynced",
                "238",
                "2.27",
                "13.13",
                "96.92",
                "128.99",
                "149.40",
                "159.16",
                "19.55",
            ],
            &[
                "direct_inline",
                "210",
                "9.12",
                "30.57",
                "116.13",
                "178.05",
                "199.76",
                "203.71",
                "12.30",
            ],
            &["direct_deferred", "250", "1.39", "-", "5.41", "-", "25.79", "24.59", "0.39"],
        ],
    },
    Published {
        caption: "Apache Iggy's pull request 3068: consumers",
        columns: "mode<|MB/s>|p50 ms>|p90 ms>|p99 ms>|p99.9 ms>|p99.99 ms>|max ms>|stddev ms>",
        rows: &[
            &["buffered", "250", "2.09", "3.17", "7.67", "65.89", "459.78", "563.25", "2.85"],
            &[
                "direct_inline_unsynced",
                "237",
                "7.77",
                "170.06",
                "514.43",
                "669.90",
                "694.87",
                "1,009.93",
                "107.55",
            ],
            &[
                "direct_inline",
                "205",
                "65.41",
                "864.81",
                "1,668.90",
                "1,813.84",
                "1,849.49",
                "2,631.40",
                "420.02",
            ],
            &["direct_deferred", "250", "2.25", "-", "7.83", "-", "31.92", "34.00", "1.04"],
        ],
    },
];

/// RocksDB's pull request 14116: synced puts in order of their keys, on a hard disk.
pub const ROCKSDB_14116: Published = Published {
    caption: "RocksDB's pull request 14116: fillseq with synced writes, on a hard disk",
    columns: "log<|writes/s>|mean us>",
    rows: &[&["buffered", "39", "25,556"], &["direct", "6,795", "147"]],
};
