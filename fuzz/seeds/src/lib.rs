//! The initial corpora of the fuzz targets, which consist of parts of databases that RocksDB wrote.
//!
//! The fuzz targets edit the small databases of [`small_database`]. The program
//! `tailwater-fuzz-seeds` cuts parts out of small and large databases, and writes them to corpora.
//! Both need to find the blocks of a table and the fragments of a log, which is the purpose of this
//! library.

mod archive;
mod fragment;
mod input;
mod table;

pub use archive::{SMALL_DATABASES, small_database, unpack};
pub use fragment::{Fragment, fragments, put_fragment, write_crc};
pub use input::{Choices, join};
pub use table::{BlockRole, Table, TableBlock, write_footer_checksum};

/// The contents of a database's files, by file name.
pub type Files = std::collections::BTreeMap<String, Vec<u8>>;
