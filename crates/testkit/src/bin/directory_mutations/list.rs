//! The list of mutations. Each mutation removes or weakens one of the engine's checks that a file
//! or directory belongs to the database. Under each mutation, at least one test must fail.

/// A change of the engine's source. It is compiled in, and takes effect only if an environment
/// variable selects it.
pub(crate) struct Mutation {
    /// What the engine does wrong if the mutation is enabled. Tests must detect this behaviour.
    pub(crate) what: &'static str,
    /// The source file to change, relative to `crates/engine/src/`.
    pub(crate) file: &'static str,
    /// The text to replace, which must occur exactly once in the file.
    pub(crate) original: &'static str,
    /// The text that replaces `original`. `{on}` in it denotes a Rust expression that is true if
    /// the mutation is enabled.
    pub(crate) changed: &'static str,
}

/// All mutations: one for each check that keeps the engine from using or changing files of another
/// database or program.
pub(crate) const MUTATIONS: [Mutation; 55] = [
    Mutation {
        what: "opens directories of another database",
        file: "recovery/files.rs",
        original: "directories.check(storage)?;",
        changed: "if !{on} { directories.check(storage)?; }",
    },
    Mutation {
        what: "opens although tables are missing",
        file: "recovery/files.rs",
        original: "directories.check_version(storage, &family.version, &paths)?;",
        changed: "if !{on} { directories.check_version(storage, &family.version, &paths)?; }",
    },
    Mutation {
        what: "opens although logs are missing",
        file: "recovery/files.rs",
        original: "directories.check_logs(storage, &needed, &mut left_out, &mut warnings)?;",
        changed: "if !{on} {
            directories.check_logs(storage, &needed, &mut left_out, &mut warnings)?;
        }",
    },
    Mutation {
        what: "opens with truncated tables",
        file: "directory/check.rs",
        original: "    if found != expected {",
        changed: "    if !{on} && found != expected {",
    },
    Mutation {
        what: "ignores logs in the home if wal_dir is elsewhere",
        file: "directory/check.rs",
        original: "        self.check_strays(storage, needed, files)?;",
        changed: "        if !{on} { self.check_strays(storage, needed, files)?; }",
    },
    Mutation {
        what: "ignores recorded logs",
        file: "directory/check.rs",
        original: "recorded.filter(|&&number| number >= needed.oldest)",
        changed: "recorded.filter(|&&number| !{on} && number >= needed.oldest)",
    },
    Mutation {
        what: "records no logs",
        file: "flush/needed_wals.rs",
        original: "if !self.versions.lock().knows_logs(&logs) {",
        changed: "if !{on} && !self.versions.lock().knows_logs(&logs) {",
    },
    Mutation {
        what: "treats every claim as its own",
        file: "directory/claim.rs",
        original: "is_named && (is_this_home || goes_along)",
        changed: "{on} || is_named && (is_this_home || goes_along)",
    },
    Mutation {
        what: "identifies homes by the id alone",
        file: "directory/claim.rs",
        original: "let is_this_home = claim.home_inode == own.home_inode",
        changed: "let is_this_home = {on} || claim.home_inode == own.home_inode",
    },
    Mutation {
        what: "identifies homes by their paths alone",
        file: "directory/claim.rs",
        original: "(claim.home_device == own.home_device || claim.home_path == own.home_path);",
        changed: "if {on} {
                claim.home_path == own.home_path
            } else {
                claim.home_device == own.home_device || claim.home_path == own.home_path
            };",
    },
    Mutation {
        what: "refuses a directory inside a copied home",
        file: "directory/claim.rs",
        original: "then.path == now.path &&",
        changed: "!{on} && then.path == now.path &&",
    },
    Mutation {
        what: "treats a claim of a directory outside the home as its own inside it",
        file: "directory/claim.rs",
        original: "            _ => false,
        };",
        changed: "            (None, Some(_)) => {on},
            _ => false,
        };",
    },
    Mutation {
        what: "removes files from directories that it has not claimed",
        file: "directory/found.rs",
        original: "let is_own = matches!(self.ownership, Ownership::Own(_));",
        changed: "let is_own = {on} || matches!(self.ownership, Ownership::Own(_));",
    },
    Mutation {
        what: "removes files that were there before the claim",
        file: "directory/found.rs",
        original: "may_be_outside(*kind) && !is_kept(kind)",
        changed: "may_be_outside(*kind) && ({on} || !is_kept(kind))",
    },
    Mutation {
        what: "creates no claims",
        file: "recovery/components.rs",
        original: "self.directories.claim(&*self.storage, id, &needed)?;",
        changed: "if !{on} {
            self.directories.claim(&*self.storage, id, &needed)?;
        }",
    },
    Mutation {
        what: "creates no claim for a new column family",
        file: "db/creating_families.rs",
        original: "directories.claim(storage, &id, &Needed::default())",
        changed: "if {on} { Ok(()) } else { directories.claim(storage, &id, &Needed::default()) }",
    },
    Mutation {
        what: "keeps its files in the home of another database",
        file: "directory/found.rs",
        original: "self.files.has(FileKind::Current)",
        changed: "!{on} && self.files.has(FileKind::Current)",
    },
    Mutation {
        what: "has its home in a directory with another database's files",
        file: "directory/found.rs",
        original: "        if self.home_files.has(FileKind::Claim)",
        changed: "        if !{on} && self.home_files.has(FileKind::Claim)",
    },
    Mutation {
        what: "creates a database over existing files",
        file: "recovery/open.rs",
        original: "        directories.check_for_new(storage)?;",
        changed: "        if !{on} { directories.check_for_new(storage)?; }",
    },
    Mutation {
        what: "identifies directories by their paths",
        file: "directory/found.rs",
        original: "        if identity == Some(self.home.identity) {",
        changed: "        let is_home = if {on} {
            path == self.home.path
        } else {
            identity == Some(self.home.identity)
        };
        if is_home {",
    },
    Mutation {
        what: "treats out-of-range file numbers as its own",
        file: "directory/files.rs",
        original: "number <= FILE_NUMBER_MAX",
        changed: "{on} || number <= FILE_NUMBER_MAX",
    },
    Mutation {
        what: "destroys a directory that is not a database",
        file: "db/destroy.rs",
        original: "    check_is_home(storage, &found)?;",
        changed: "    if !{on} { check_is_home(storage, &found)?; }",
    },
    Mutation {
        what: "destroys a home in which another database has its files",
        file: "db/destroy.rs",
        original: "    found.check_home(storage)?;",
        changed: "    if !{on} { found.check_home(storage)?; }",
    },
    Mutation {
        what: "destroys files in directories of other databases",
        file: "db/destroy.rs",
        original: "Ownership::Missing | Ownership::Foreign(_) => {}",
        changed: "Ownership::Foreign(_) if {on} => doomed.push(directory),
            Ownership::Missing | Ownership::Foreign(_) => {}",
    },
    Mutation {
        what: "gives a checkpoint the directories of the database",
        file: "db/checkpoint.rs",
        original: "        options.database.wal_dir.clear();",
        changed: "        if !{on} { options.database.wal_dir.clear(); }",
    },
    Mutation {
        what: "assembles a checkpoint over existing files",
        file: "db/checkpoint.rs",
        original: "        if is_somebodys {",
        changed: "        if !{on} && is_somebodys {",
    },
    Mutation {
        what: "adopts directories that are in use",
        file: "recovery/components.rs",
        original: "self.directories.lock_outside(&*self.storage, locks)?;",
        changed: "if !{on} { self.directories.lock_outside(&*self.storage, locks)?; }",
    },
    Mutation {
        what: "looks for tables with one file extension only",
        file: "directory/files.rs",
        original: "None => (TableName::LevelDb, self.place(FileKind::LevelDbTable(number))?),",
        changed: "None if {on} => return None,
            None => (TableName::LevelDb, self.place(FileKind::LevelDbTable(number))?),",
    },
    Mutation {
        what: "removes tables that a version needs",
        file: "directory/left_over.rs",
        original: "self.tables.contains(&number)",
        changed: "!{on} && self.tables.contains(&number)",
    },
    Mutation {
        what: "removes blob files that a version needs",
        file: "directory/left_over.rs",
        original: "self.blob_files.contains(&number)",
        changed: "!{on} && self.blob_files.contains(&number)",
    },
    Mutation {
        what: "removes logs that are needed",
        file: "directory/left_over.rs",
        original: "number >= self.oldest_log",
        changed: "!{on} && number >= self.oldest_log",
    },
    Mutation {
        what: "removes MANIFESTs and temporary files outside the home",
        file: "directory/found.rs",
        original: ".filter(move |kind| may_be_outside(*kind)",
        changed: ".filter(move |kind| ({on} || may_be_outside(*kind))",
    },
    Mutation {
        what: "removes logs from an unclaimed directory",
        file: "recovery/components.rs",
        original: "if !owns_old_logs {",
        changed: "if !{on} && !owns_old_logs {",
    },
    Mutation {
        what: "treats logs in table directories as its own",
        file: "directory/found.rs",
        original: "has_logs && needed.has(kind)",
        changed: "({on} || has_logs) && needed.has(kind)",
    },
    Mutation {
        what: "does not record files that existed before the claim",
        file: "directory/found.rs",
        original: "Ownership::Unclaimed => {
                    let claim = Claim { kept: directory.not_own(needed), ..own.clone() };",
        changed: "Ownership::Unclaimed => {
                    let kept = if {on} { Vec::new() } else { directory.not_own(needed) };
                    let claim = Claim { kept, ..own.clone() };",
    },
    Mutation {
        what: "does not record files that existed before the adoption",
        file: "directory/found.rs",
        original: "Ownership::Adopted(_) => {
                    let claim = Claim { kept: directory.not_own(needed), ..own.clone() };",
        changed: "Ownership::Adopted(_) => {
                    let kept = if {on} { Vec::new() } else { directory.not_own(needed) };
                    let claim = Claim { kept, ..own.clone() };",
    },
    Mutation {
        what: "treats an unreadable claim as missing",
        file: "directory/found.rs",
        original: "            claim => claim?,",
        changed: "            Err(_) if {on} => None,
            claim => claim?,",
    },
    Mutation {
        what: "records no directories",
        file: "directory/found.rs",
        original: "        self.write_record(storage)
",
        changed: "        if {on} { Ok(()) } else { self.write_record(storage) }
",
    },
    Mutation {
        what: "identifies databases by their homes alone",
        file: "directory/claim.rs",
        original: "let is_named = claim.database_id == own.database_id",
        changed: "let is_named = {on} || claim.database_id == own.database_id",
    },
    Mutation {
        what: "identifies homes by their inodes alone",
        file: "directory/claim.rs",
        original: "claim.home_device == own.home_device ||",
        changed: "{on} || claim.home_device == own.home_device ||",
    },
    Mutation {
        what: "creates a column family in a directory of another database",
        file: "db/creating_families.rs",
        original: "directories.check(storage)?;",
        changed: "if !{on} { directories.check(storage)?; }",
    },
    Mutation {
        what: "creates a column family over existing files",
        file: "db/creating_families.rs",
        original: "directories.check_unclaimed_are_empty()?;",
        changed: "if !{on} { directories.check_unclaimed_are_empty()?; }",
    },
    Mutation {
        what: "creates a database where only another's MANIFEST is left",
        file: "directory/found.rs",
        original: "matches!(kind, FileKind::Manifest(number) if number != 1)",
        changed: "(!{on} && matches!(kind, FileKind::Manifest(number) if number != 1))",
    },
    Mutation {
        what: "reuses numbers of files in other directories",
        file: "recovery/components.rs",
        original: "directories.all().map(",
        changed: "directories.all().take(if {on} { 1 } else { usize::MAX }).map(",
    },
    Mutation {
        what: "looks for tables in the first directory only",
        file: "directory/check.rs",
        original: "listed.get(path_id)",
        changed: "listed.get(if {on} { 0 } else { path_id })",
    },
    Mutation {
        what: "ignores logs below the home",
        file: "directory/check.rs",
        original: "let in_home = home
            .into_iter()",
        changed: "let in_home = home
            .into_iter()
            .take(if {on} { 1 } else { 2 })",
    },
    Mutation {
        what: "accepts logs with out-of-range numbers",
        file: "wal/replay/logs.rs",
        original: "Some(FileKind::Wal(number)) if number <= FILE_NUMBER_MAX",
        changed: "Some(FileKind::Wal(number)) if {on} || number <= FILE_NUMBER_MAX",
    },
    Mutation {
        what: "trusts a recorded wal_dir that is missing or is a home",
        file: "open_options/load.rs",
        original: "            loaded.check_recorded_wal_dir(directory)?;",
        changed: "            if !{on} { loaded.check_recorded_wal_dir(directory)?; }",
    },
    Mutation {
        what: "destroys unclaimed files",
        file: "db/destroy.rs",
        original: "Ownership::Unclaimed if options.adopts_directories()",
        changed: "Ownership::Unclaimed if {on} || options.adopts_directories()",
    },
    Mutation {
        what: "destroys files in the home of another database",
        file: "db/destroy.rs",
        original: ".filter(|directory| !directory.is_home_of_another())",
        changed: ".filter(|directory| {on} || !directory.is_home_of_another())",
    },
    Mutation {
        what: "creates a checkpoint over an existing directory",
        file: "db/checkpoint.rs",
        original: "        if storage.metadata(directory).is_ok() {",
        changed: "        if !{on} && storage.metadata(directory).is_ok() {",
    },
    Mutation {
        what: "creates checkpoints whose MANIFEST refers to other directories",
        file: "db/checkpoint.rs",
        original: "            edit.new_files.iter_mut().for_each(|file| file.path_id = 0);",
        changed: "            if !{on} \
                  { edit.new_files.iter_mut().for_each(|file| file.path_id = 0); }",
    },
    Mutation {
        what: "replays another database's logs with the numbers of its own",
        file: "directory/check.rs",
        original: "if in_place.has(kind)\n                && (",
        changed: "if in_place.has(kind)\n                && ({on} || ",
    },
    Mutation {
        what: "creates a database under the claims of an earlier one",
        file: "recovery/open.rs",
        original: "let durable_id = if is_durable {",
        changed: "let durable_id = if !{on} && is_durable {",
    },
    Mutation {
        what: "treats a directory mounted in a home and in its copy as a copy",
        file: "directory/claim.rs",
        original: "(then != now || claim.home_path == own.home_path)",
        changed: "({on} || then != now || claim.home_path == own.home_path)",
    },
];
