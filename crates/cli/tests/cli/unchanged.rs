//! Checks that verbs that only read a database leave every file unchanged.

use tailwater_testkit::{directory, golden};

use crate::support::{VERBS, db};

#[test]
fn no_verb_writes_a_byte_or_makes_a_file() {
    for name in ["records", "blobs", "wal-recycled"] {
        let database = golden::unpack(name);
        let before = directory::snapshot(database.path());
        for (verb, arguments) in VERBS {
            db(verb, database.path(), arguments.iter().copied());
            db(verb, database.path(), arguments.iter().chain(&["--json", "--hex"]).copied());
            directory::assert_unchanged(database.path(), &before);
        }
    }
}

#[test]
fn a_database_is_read_that_may_not_be_written() {
    use std::os::unix::fs::PermissionsExt;
    let database = golden::unpack("records");
    let permit = |mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(database.path(), permissions).expect("permissions can be set");
    };
    permit(0o555);
    let answer = db("dump", database.path(), ["--all"]);
    permit(0o755);
    answer.well();
}
