//! The verbs of `tailwater db`, and one module each for `log`, `serve` and `tail`.

pub(crate) mod blob;
pub(crate) mod change;
pub(crate) mod checkpoint;
pub(crate) mod column_families;
pub(crate) mod compact;
mod describe;
pub(crate) mod destroy;
pub(crate) mod dump;
pub(crate) mod flush;
pub(crate) mod get;
pub(crate) mod ingest;
pub(crate) mod load;
pub(crate) mod log;
pub(crate) mod manifest;
pub(crate) mod options;
pub(crate) mod properties;
pub(crate) mod scan;
pub(crate) mod serve;
pub(crate) mod set_options;
pub(crate) mod stats;
pub(crate) mod table;
pub(crate) mod tail;
pub(crate) mod verify;
pub(crate) mod wal;

use crate::arguments::{Common, Keys};
use crate::outcome::{Failure, Result};
use crate::text::{unescape, unhex};

/// Returns the bytes of a key argument.
fn key_bytes(key: &str, keys: &Keys, common: &Common) -> Result<Vec<u8>> {
    typed_bytes("key", key, keys.key_hex || common.hex)
}

/// Returns the bytes of a value argument.
fn value_bytes(value: &str, common: &Common) -> Result<Vec<u8>> {
    typed_bytes("value", value, common.hex)
}

fn typed_bytes(what: &str, text: &str, is_hex: bool) -> Result<Vec<u8>> {
    let bytes = if is_hex { unhex(text.as_bytes()) } else { unescape(text.as_bytes()) };
    bytes.map_err(|reason| Failure::Usage(format!("{what} '{text}' {reason}")))
}
