//! Lists, unpacks and prints golden databases, which are databases that RocksDB wrote for tests.
//!
//! `golden` lists their names. `golden NAME DIRECTORY` unpacks a golden database into a new
//! directory. `golden NAME` prints the entries that RocksDB read from the database, in the format
//! of `tailwater db dump --all --hex`.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use tailwater_testkit::golden;

fn main() -> std::io::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut out = BufWriter::new(std::io::stdout().lock());
    match arguments.as_slice() {
        [] => {
            for name in golden::names() {
                writeln!(out, "{name}")?;
            }
        }
        [name, rest @ ..] if golden::names().contains(&name.as_str()) && rest.len() < 2 => {
            match rest.first() {
                Some(directory) => unpack(name, Path::new(directory))?,
                None => {
                    for entry in golden::dump(name) {
                        writeln!(out, "{}", entry.hex_line())?;
                    }
                }
            }
        }
        _ => {
            eprintln!("usage: golden [NAME [DIRECTORY]]; without arguments it lists the names");
            return Ok(ExitCode::from(2));
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

#[expect(clippy::disallowed_methods, reason = "copies test data, outside any storage")]
fn unpack(name: &str, directory: &Path) -> std::io::Result<()> {
    std::fs::create_dir(directory)?;
    golden::unpack_into(name, directory);
    Ok(())
}
