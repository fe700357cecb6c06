//! The small databases that the fuzz targets edit. They are compressed archives in
//! `fuzz/databases`.

use std::io::Read;

use crate::Files;

/// The names and archives of the small databases. See `fuzz/README.md`.
pub const SMALL_DATABASES: [(&str, &[u8]); 4] = [
    ("small", include_bytes!("../../databases/small.tar.zst")),
    ("wal", include_bytes!("../../databases/wal.tar.zst")),
    ("wal-recycled", include_bytes!("../../databases/wal-recycled.tar.zst")),
    ("wal-zstd", include_bytes!("../../databases/wal-zstd.tar.zst")),
];

/// Returns the files of the small database with this name.
///
/// # Panics
/// If there is no such database.
pub fn small_database(name: &str) -> Files {
    let (_, archive) = SMALL_DATABASES
        .into_iter()
        .find(|(known, _)| *known == name)
        .unwrap_or_else(|| panic!("there is no small database '{name}'"));
    unpack(archive).expect("the archive is part of the program")
}

/// Returns the files in a `.tar.zst` archive, by their names without directories.
///
/// # Errors
/// Errors from reading a damaged archive.
pub fn unpack(archive: &[u8]) -> std::io::Result<Files> {
    let mut decoder = zstd::Decoder::new(archive)?;
    decoder.window_log_max(31)?;
    let mut files = Files::new();
    for entry in tar::Archive::new(decoder).entries()? {
        let mut entry = entry?;
        let name = entry.path()?.file_name().map(|name| name.to_string_lossy().into_owned());
        if let (Some(name), true) = (name, entry.header().entry_type().is_file()) {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            files.insert(name, bytes);
        }
    }
    Ok(files)
}
