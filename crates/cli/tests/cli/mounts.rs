//! Databases that use directories outside their home directory, on other mounts: the directories
//! are mounted twice, read-only, inaccessible, or copied to another filesystem and back.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tailwater_testkit::directory::snapshot;
use tailwater_testkit::filesystem::{Bound, Mounted, say};

use crate::support::{Answer, db, program, read, run, write};

/// User and group id of `nobody`.
const NOBODY: u32 = 65534;

#[expect(clippy::disallowed_methods, reason = "around databases")]
fn make_directory(path: PathBuf) -> PathBuf {
    std::fs::create_dir(&path).expect("a new directory");
    path
}

fn option(name: &str, directory: &Path) -> String {
    format!("{name}={}", directory.display())
}

/// Puts `key` into the database in `home`, which is created if necessary.
fn put(home: &Path, key: &str, options: &str) -> Answer {
    db("put", home, [key, "1", "--create", "--options", options])
}

/// Copies a directory with `cp -a`, as an administrator would.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.expect("cp runs").success());
}

/// Regression test: a database had its logs in a directory outside its home directory. A copy of
/// the home treated the log directory as its own, if the log directory was also mounted at the same
/// path relative to the copy.
#[test]
fn a_directory_mounted_in_a_home_and_in_its_copy_belongs_to_the_original() {
    let scratch = tempfile::tempdir().expect("a directory");
    let logs = make_directory(scratch.path().join("logs"));
    let home = make_directory(scratch.path().join("home"));
    let copy = make_directory(scratch.path().join("copy"));
    let skipped = "a directory mounted in two homes";
    let mount = |at: &Path| Bound::new(&logs, &make_directory(at.join("wal")), false, skipped);
    let Some(_in_home) = mount(&home) else { return };
    let in_home = option("wal_dir", &home.join("wal"));
    put(&home, "a", &in_home);
    let Some(_in_copy) = mount(&copy) else { return };
    let in_copy = option("wal_dir", &copy.join("wal"));
    for path in snapshot(&home).into_keys() {
        if path.parent() == Some(&home) {
            write(&copy.join(path.file_name().expect("a name")), &read(&path));
        }
    }
    let before = snapshot(&logs);
    for (verb, arguments) in [("put", &["b", "1"][..]), ("flush", &[]), ("scan", &[])] {
        let arguments = arguments.iter().copied().chain(["--options", &in_copy]);
        db(verb, &copy, arguments).ended(1, &format!("in {}", home.display()));
        assert_eq!(snapshot(&logs), before, "{verb}");
    }
    db("destroy", &copy, ["--yes", "--options", &in_copy]).well();
    assert_eq!(snapshot(&logs), before, "destroy");
    put(&home, "c", &in_home).well();
    assert_eq!(db("scan", &home, ["--options", &in_home]).well().output, "a\t1\nc\t1\n");
}

#[test]
fn a_read_only_outside_directory_fails_every_write_and_allows_reads() {
    for name in ["wal_dir", "db_paths"] {
        let scratch = tempfile::tempdir().expect("a directory");
        let (home, outside) = (scratch.path().join("db"), scratch.path().join("outside"));
        let outside = make_directory(outside);
        let options = option(name, &outside);
        put(&home, "a", &options);
        db("flush", &home, ["--options", &options]).well();
        put(&home, "b", &options).well();
        let before = snapshot(scratch.path());
        let skipped = "a read-only outside directory";
        let Some(mount) = Bound::new(&outside, &outside, true, skipped) else { return };
        // With `db_paths`, only a flush writes to the directory outside the home. Opening the
        // database to put `c` flushes `b`, which is still in the log.
        put(&home, "c", &options).ended(1, "Read-only file system");
        db("destroy", &home, ["--yes", "--options", &options]).ended(1, "Read-only file system");
        let kept = db("scan", &home, ["--options", &options]).well().output;
        assert_eq!(kept, "a\t1\nb\t1\n", "{name}");
        drop(mount);
        let lost: Vec<_> = {
            let after = snapshot(scratch.path());
            let counts = |path: &Path| !path.to_string_lossy().contains("LOG");
            before.into_keys().filter(|path| counts(path) && !after.contains_key(path)).collect()
        };
        assert!(lost.is_empty(), "{name}: {lost:?}");
        put(&home, "c", &options).well();
        let kept = db("scan", &home, ["--options", &options]).well().output;
        assert_eq!(kept, "a\t1\nb\t1\nc\t1\n", "{name}");
    }
}

#[test]
fn a_directory_without_permission_is_named_and_keeps_its_files() {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    let scratch = tempfile::tempdir().expect("a directory");
    let mode = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode));
    mode(scratch.path(), 0o777).expect("new permissions");
    let binary = scratch.path().join("tailwater");
    std::fs::copy(program().get_program(), &binary).expect("a copy of the program");
    let as_nobody = |verb: &str, home: &Path, arguments: &[&str]| {
        let mut command = Command::new(&binary);
        command.args(["db", verb]).arg(home).args(arguments).uid(NOBODY).gid(NOBODY);
        command.current_dir(scratch.path());
        run(command)
    };
    // Without root, a command cannot be started as another user.
    if Command::new("true").uid(NOBODY).gid(NOBODY).status().is_err() {
        say("LEFT OUT: directories without permission: cannot start a process as nobody");
        return;
    }
    for name in ["wal_dir", "db_paths", "home"] {
        let (home, outside) = (scratch.path().join(name), scratch.path().join(format!("{name}-o")));
        let options = if name == "home" { String::new() } else { option(name, &outside) };
        as_nobody("put", &home, &["a", "1", "--create", "--options", &options]);
        as_nobody("flush", &home, &["--options", &options]).well();
        as_nobody("put", &home, &["b", "1", "--options", &options]).well();
        let closed = if name == "home" { &home } else { &outside };
        let before = snapshot(closed);
        let refused = |verb: &str, permissions: u32| {
            mode(closed, permissions).expect("new permissions");
            let arguments: &[&str] = if verb == "put" { &["c", "1"] } else { &["--yes"] };
            let answer = as_nobody(verb, &home, &[arguments, &["--options", &options]].concat());
            answer.ended(1, "Permission denied").ended(1, &closed.to_string_lossy());
            mode(closed, 0o700).expect("new permissions");
        };
        for permissions in [0o000, 0o400, 0o300, 0o500] {
            refused("put", permissions);
            // A directory that is readable but not writable stops a destruction halfway. This case
            // is therefore tested last, below.
            if permissions != 0o500 {
                refused("destroy", permissions);
            }
            let after = snapshot(closed);
            let lost = before.keys().filter(|path| !path.to_string_lossy().contains("LOG"));
            let lost: Vec<_> = lost.filter(|path| !after.contains_key(*path)).collect();
            assert!(lost.is_empty(), "{name} with permissions {permissions:o}: {lost:?}");
        }
        as_nobody("put", &home, &["c", "1", "--options", &options]).well();
        let kept = as_nobody("scan", &home, &["--options", &options]).well().output;
        assert_eq!(kept, "a\t1\nb\t1\nc\t1\n", "{name}");
        refused("destroy", 0o500);
        as_nobody("destroy", &home, &["--yes", "--options", &options]).well();
        assert!(!closed.exists(), "{name}");
    }
}

/// Copies a database's home directory to another filesystem and back. The database's log directory
/// is outside the home and stays in place. Checks that the home copied back no longer owns the log
/// directory.
#[test]
fn a_home_copied_to_another_filesystem_and_back_must_adopt_its_directories() {
    let Some(disk) = Mounted::new("ext4", 64 << 20, "a copy to another filesystem") else { return };
    let scratch = tempfile::tempdir().expect("a directory");
    let (home, logs) = (scratch.path().join("db"), scratch.path().join("logs"));
    let options = option("wal_dir", &logs);
    put(&home, "a", &options);
    let away = disk.path().join("db");
    copy(&home, &away);
    put(&away, "b", &options).ended(1, &home.display().to_string());
    std::fs::remove_dir_all(&home).expect("the home removed");
    put(&away, "b", &options).ended(1, "--adopt-directories");
    copy(&away, &home);
    let answer = put(&home, "b", &options);
    // The opening may succeed, because the new home directory may have the inode number of the
    // removed one.
    if answer.code != 0 {
        answer.ended(1, "--adopt-directories");
        put(&away, "x", &options).ended(1, "--adopt-directories");
        db("put", &home, ["b", "1", "--options", &options, "--adopt-directories"]).well();
    }
    put(&away, "x", &options).ended(1, &home.display().to_string());
    let kept = db("scan", &home, ["--options", &options]).well().output;
    assert_eq!(kept, "a\t1\nb\t1\n");
}
