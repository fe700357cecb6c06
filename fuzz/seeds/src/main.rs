//! Writes parts of databases that RocksDB wrote to corpora, one folder for each fuzz target.
//!
//! usage: tailwater-fuzz-seeds CORPUS_DIRECTORY [ARCHIVE.tar.zst]...
//!
//! The program always uses the small databases, which it contains, and also the databases in the
//! given archives. The file name of a seed is a hash of its contents, so that running the program
//! again adds nothing.

mod cut;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use tailwater_fuzz_seeds::{SMALL_DATABASES, unpack};

/// The directory that contains the corpora of all targets.
struct Corpora {
    directory: PathBuf,
}

impl Corpora {
    /// Adds an input to the corpus of a target.
    fn add(&self, target: &str, input: &[u8]) -> io::Result<()> {
        let folder = self.directory.join(target);
        fs::create_dir_all(&folder)?;
        let mut hasher = DefaultHasher::new();
        input.hash(&mut hasher);
        fs::write(folder.join(format!("seed-{:016x}", hasher.finish())), input)
    }
}

fn main() -> io::Result<()> {
    let mut arguments = env::args().skip(1);
    let Some(directory) = arguments.next() else {
        let usage = "usage: tailwater-fuzz-seeds CORPUS_DIRECTORY [ARCHIVE.tar.zst]...";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, usage));
    };
    let corpora = Corpora { directory: PathBuf::from(directory) };
    cut::without_database(&corpora)?;
    for (_, archive) in SMALL_DATABASES {
        cut::database(&corpora, &unpack(archive)?)?;
    }
    for path in arguments.filter(|path| Path::new(path).is_file()) {
        cut::database(&corpora, &unpack(&fs::read(path)?)?)?;
    }
    Ok(())
}
