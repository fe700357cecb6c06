//! `dump`: prints all entries of column families.

use serde_json::json;
use tailwater::{ColumnFamily, SkippedDamage};

use crate::arguments::DumpArguments;
use crate::database::{Database, read_once, report_skipped};
use crate::outcome::{Failure, Outcome, Result};
use crate::output::{Output, complain};
use crate::progress::Progress;
use crate::text::{escape, push_escaped, push_hex};

/// Number of entries between two updates of the progress.
const PROGRESS_STEP: u64 = 4096;

pub(crate) fn run(arguments: &DumpArguments, output: &mut Output) -> Result<Outcome> {
    let database = Database::open(&arguments.place)?;
    let families = if arguments.all {
        database.db.column_families()
    } else {
        vec![database.column_family(&arguments.column_family)?]
    };
    let progress = Progress::counting("entries");
    let mut outcome = database.outcome;
    for family in &families {
        progress.at(format!("column family {}", escape(family.name().as_bytes())));
        let skipped = SkippedDamage::default();
        let dumped = dump(&database, family, &skipped, output, &progress);
        outcome = outcome.and(report_skipped(family, skipped.take(), output));
        match dumped {
            Ok(()) => {}
            // The remaining column families are still printed, because they may be intact.
            Err(Failure::Engine(error)) => {
                complain(&format!("column family '{}' ends here: {error}", family.name()));
                outcome = Outcome::Damage;
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(outcome)
}

fn dump(
    database: &Database,
    family: &ColumnFamily,
    skipped: &SkippedDamage,
    output: &mut Output,
    progress: &Progress,
) -> Result<()> {
    let options = read_once(&database.db).with_skipped_damage(skipped.clone());
    let mut iterator = database.db.raw_iterator_cf_opt(family, &options)?;
    iterator.seek_to_first()?;
    let name = escape(family.name().as_bytes());
    let push = if output.is_hex() { push_hex } else { push_escaped };
    let mut line = String::new();
    let mut count = 0;
    while let Some((key, value)) = iterator.item() {
        if output.is_json() {
            output.json_line(&json!({
                "column_family": family.name(),
                "key": output.bytes(key),
                "value": output.bytes(value),
            }))?;
        } else {
            line.clear();
            line.push_str(&name);
            line.push('\t');
            push(&mut line, key);
            line.push('\t');
            push(&mut line, value);
            line.push('\n');
            output.write(line.as_bytes())?;
        }
        count += 1;
        if count % PROGRESS_STEP == 0 {
            progress.add(PROGRESS_STEP);
        }
        iterator.next()?;
    }
    progress.add(count % PROGRESS_STEP);
    Ok(())
}
