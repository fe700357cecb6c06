//! One module for each verb of `tailwater db`.

pub(crate) mod blob;
mod describe;
pub(crate) mod dump;
pub(crate) mod get;
pub(crate) mod manifest;
pub(crate) mod options;
pub(crate) mod properties;
pub(crate) mod scan;
pub(crate) mod table;
pub(crate) mod verify;
pub(crate) mod wal;

use crate::arguments::{Common, Keys};
use crate::outcome::{Failure, Result};
use crate::text::{unescape, unhex};

/// The bytes of a key that was typed.
fn key_bytes(key: &str, keys: &Keys, common: &Common) -> Result<Vec<u8>> {
    let bytes = if keys.key_hex || common.hex { unhex(key) } else { unescape(key) };
    bytes.map_err(|reason| Failure::Usage(format!("key {reason}")))
}
