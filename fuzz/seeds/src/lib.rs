//! The initial corpus of the fuzz targets: databases that RocksDB wrote, cut into parts.
//!
//! The fuzz targets mutate the small databases of [`small_database`]; the `tailwater-fuzz-seeds`
//! program cuts the parts of databases, small and large, into corpora. Both need the locations of a
//! table's blocks and a log's fragments.

mod archive;
mod fragment;
mod input;
mod table;

pub use archive::{SMALL_DATABASES, small_database, unpack};
pub use fragment::{Fragment, fragments, put_fragment, write_crc};
pub use input::{Choices, join};
pub use table::{BlockRole, Table, TableBlock, write_footer_checksum};

/// The files of a database by their names, in order.
pub type Files = std::collections::BTreeMap<String, Vec<u8>>;
