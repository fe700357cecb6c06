//! `put`, `merge`, `delete`, `single-delete`, `delete-range`: change a key or a range of keys.

use serde_json::json;

use super::{key_bytes, value_bytes};
use crate::arguments::{
    Change, DeleteArguments, DeleteRangeArguments, MergeArguments, PutArguments,
};
use crate::outcome::{Outcome, Result};
use crate::output::Output;
use crate::writing::{Absent, change_and_close};

pub(crate) fn put(arguments: &PutArguments, output: &mut Output) -> Result<Outcome> {
    let PutArguments { place, key, value, creation, change } = arguments;
    let key = key_bytes(key, &change.keys, &place.common)?;
    let value = value_bytes(value, &place.common)?;
    let outcome = change_and_close(place, change, creation.into(), |db, family, options| {
        db.put_cf_opt(family, &key, &value, options)
    })?;
    report("put", change, &[("key", &key), ("value", &value)], output)?;
    Ok(outcome)
}

pub(crate) fn merge(arguments: &MergeArguments, output: &mut Output) -> Result<Outcome> {
    let MergeArguments { place, key, operand, creation, change } = arguments;
    let key = key_bytes(key, &change.keys, &place.common)?;
    let operand = value_bytes(operand, &place.common)?;
    let outcome = change_and_close(place, change, creation.into(), |db, family, options| {
        db.merge_cf_opt(family, &key, &operand, options)
    })?;
    report("merge", change, &[("key", &key), ("value", &operand)], output)?;
    Ok(outcome)
}

pub(crate) fn delete(arguments: &DeleteArguments, output: &mut Output) -> Result<Outcome> {
    let DeleteArguments { place, key, change } = arguments;
    let key = key_bytes(key, &change.keys, &place.common)?;
    let outcome = change_and_close(place, change, Absent::Refuse, |db, family, options| {
        db.delete_cf_opt(family, &key, options)
    })?;
    report("delete", change, &[("key", &key)], output)?;
    Ok(outcome)
}

pub(crate) fn single_delete(arguments: &DeleteArguments, output: &mut Output) -> Result<Outcome> {
    let DeleteArguments { place, key, change } = arguments;
    let key = key_bytes(key, &change.keys, &place.common)?;
    let outcome = change_and_close(place, change, Absent::Refuse, |db, family, options| {
        db.single_delete_cf_opt(family, &key, options)
    })?;
    report("single-delete", change, &[("key", &key)], output)?;
    Ok(outcome)
}

pub(crate) fn delete_range(
    arguments: &DeleteRangeArguments,
    output: &mut Output,
) -> Result<Outcome> {
    let DeleteRangeArguments { place, from, to, change } = arguments;
    let from = key_bytes(from, &change.keys, &place.common)?;
    let to = key_bytes(to, &change.keys, &place.common)?;
    let outcome = change_and_close(place, change, Absent::Refuse, |db, family, options| {
        db.delete_range_cf_opt(family, &from, &to, options)
    })?;
    report("delete-range", change, &[("from", &from), ("to", &to)], output)?;
    Ok(outcome)
}

/// Reports what was changed. `fields` are the names and bytes of the keys and the value.
fn report(
    verb: &str,
    change: &Change,
    fields: &[(&str, &Vec<u8>)],
    output: &mut Output,
) -> Result<()> {
    let mut document = json!({ "verb": verb, "column_family": change.column_family });
    for (name, bytes) in fields {
        document[*name] = json!(output.bytes(bytes));
    }
    output.report(&document)
}
