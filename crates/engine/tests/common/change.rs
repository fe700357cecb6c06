//! Changes to one key or range of a column family, which are applied to a database and to its
//! model.

use std::collections::BTreeMap;
use std::fmt;

use tailwater::{ColumnFamily, Db, WriteBatch, WriteOptions};
use tailwater_format::Comparator;

/// The keys and values of one column family.
pub(crate) type Table = BTreeMap<Vec<u8>, Vec<u8>>;

/// One operation of a batch.
#[derive(Clone)]
pub(crate) enum Change {
    Put {
        key: Vec<u8>,
        value: Vec<u8>,
    },
    /// A put with an explicit write time, in seconds since 1970.
    TimedPut {
        key: Vec<u8>,
        value: Vec<u8>,
        time_s: u64,
    },
    Delete {
        key: Vec<u8>,
    },
    SingleDelete {
        key: Vec<u8>,
    },
    DeleteRange {
        begin: Vec<u8>,
        end: Vec<u8>,
    },
    Merge {
        key: Vec<u8>,
        operand: Vec<u8>,
    },
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put { key, value } => write!(f, "+{}={}", key.escape_ascii(), value.len()),
            Self::TimedPut { key, value, time_s } => {
                write!(f, "+{}={}@{time_s}", key.escape_ascii(), value.len())
            }
            Self::Delete { key } => write!(f, "-{}", key.escape_ascii()),
            Self::SingleDelete { key } => write!(f, "-1 {}", key.escape_ascii()),
            Self::DeleteRange { begin, end } => {
                write!(f, "-{}..{}", begin.escape_ascii(), end.escape_ascii())
            }
            Self::Merge { key, operand } => {
                write!(f, "&{}={}", key.escape_ascii(), operand.len())
            }
        }
    }
}

impl Change {
    /// Applies the change to a table of the model whose keys are in this order. A merge appends the
    /// operand to the value, after a comma.
    pub(crate) fn apply(&self, table: &mut Table, order: &Comparator) {
        match self {
            Self::Put { key, value } | Self::TimedPut { key, value, .. } => {
                table.insert(key.clone(), value.clone());
            }
            Self::Delete { key } | Self::SingleDelete { key } => {
                table.remove(key);
            }
            Self::DeleteRange { begin, end } => {
                table.retain(|key, _| {
                    order.compare(key, begin).is_lt() || order.compare(key, end).is_ge()
                });
            }
            Self::Merge { key, operand } => match table.get_mut(key) {
                Some(value) => {
                    value.push(b',');
                    value.extend_from_slice(operand);
                }
                None => _ = table.insert(key.clone(), operand.clone()),
            },
        }
    }

    /// Adds the change to a batch, for the column family with this ID.
    pub(crate) fn add_to(&self, batch: &mut WriteBatch, family: u32) {
        match self {
            Self::Put { key, value } => batch.put_cf(family, key, value),
            Self::TimedPut { key, value, time_s } => {
                batch.timed_put_cf(family, key, value, *time_s)
            }
            Self::Delete { key } => batch.delete_cf(family, key),
            Self::SingleDelete { key } => batch.single_delete_cf(family, key),
            Self::DeleteRange { begin, end } => batch.delete_range_cf(family, begin, end),
            Self::Merge { key, operand } => batch.merge_cf(family, key, operand),
        }
        .expect("it is short enough");
    }

    /// Applies the change to a database by the method for such changes or, if there is none, in a
    /// batch.
    pub(crate) fn write(
        &self,
        db: &Db,
        family: &ColumnFamily,
        options: &WriteOptions,
    ) -> tailwater::Result<()> {
        match self {
            Self::Put { key, value } => db.put_cf_opt(family, key, value, options),
            Self::TimedPut { .. } => {
                let mut batch = WriteBatch::new();
                self.add_to(&mut batch, family.id());
                db.write_opt(&mut batch, options)
            }
            Self::Delete { key } => db.delete_cf_opt(family, key, options),
            Self::SingleDelete { key } => db.single_delete_cf_opt(family, key, options),
            Self::DeleteRange { begin, end } => db.delete_range_cf_opt(family, begin, end, options),
            Self::Merge { key, operand } => db.merge_cf_opt(family, key, operand, options),
        }
    }
}
