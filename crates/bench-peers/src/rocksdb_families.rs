//! RocksDB, with many column families.

use rocksdb::{ColumnFamilyDescriptor, DB, Options};
use tailwater_bench::family_bursts::{FamilyEngine, FamilySubject};
use tailwater_bench::store::Failure;

pub(crate) const ENGINE: FamilyEngine = FamilyEngine {
    name: crate::rocksdb::ENGINE.name,
    open: |directory, count, options, of_families| {
        let mut options = Options::default().get_options_from_string(options)?;
        options.create_missing_column_families(true);
        let names: Vec<String> = (1..=count).map(|number| number.to_string()).collect();
        let mut families = vec![ColumnFamilyDescriptor::new("default", options.clone())];
        for name in &names {
            let of_family = Options::default().get_options_from_string(of_families)?;
            families.push(ColumnFamilyDescriptor::new(name, of_family));
        }
        let db = DB::open_cf_descriptors(&options, directory, families)?;
        Ok(Box::new(Families { db, names: [vec!["default".to_owned()], names].concat() }))
    },
};

/// A database with many column families, by number.
struct Families {
    db: DB,
    names: Vec<String>,
}

impl FamilySubject for Families {
    fn put(&self, family: usize, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let family = self.db.cf_handle(&self.names[family]).ok_or("no such column family")?;
        Ok(self.db.put_cf(family, key, value)?)
    }
}
