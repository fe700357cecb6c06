//! The tailwater program.
use std::io::Write;
use tailwater::{Db, OpenOptions, ReadOptions};
fn hex(out: &mut String, b: &[u8]) {
    for x in b {
        out.push_str(&format!("{x:02x}"));
    }
}
fn main() {
    let dir = std::env::args().nth(1).unwrap_or_default();
    let dir = std::path::Path::new(&dir);
    let options = match OpenOptions::load(dir) {
        Ok(o) => o,
        Err(e) => {
            eprintln!("{e}");
            std::process::exit(1)
        }
    };
    let db = match Db::open_read_only(dir, &options) {
        Ok(o) => o,
        Err(e) => {
            eprintln!("{e}");
            std::process::exit(1)
        }
    };
    for l in db.left_out() {
        eprintln!("{l:?}");
    }
    let mut out = std::io::BufWriter::new(std::io::stdout());
    let back = std::env::args().nth(2).is_some();
    for f in db.column_families() {
        let mut it = match db
            .iterator(f, &ReadOptions { total_order_seek: true, ..ReadOptions::default() })
        {
            Ok(o) => o,
            Err(e) => {
                eprintln!("{e}");
                std::process::exit(1)
            }
        };
        let mut r = if back { it.seek_to_last() } else { it.seek_to_first() };
        loop {
            if let Err(e) = r {
                eprintln!("{e}");
                std::process::exit(1)
            }
            let Some((k, v)) = it.entry() else { break };
            let mut s = String::new();
            s.push_str(f.name());
            s.push('\t');
            hex(&mut s, k);
            s.push('\t');
            hex(&mut s, v);
            s.push('\n');
            let _ = out.write_all(s.as_bytes());
            r = if back { it.previous() } else { it.next() };
        }
    }
}
