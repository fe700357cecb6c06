//! Claims on directories outside a database's home. A claim is a file that names the database that
//! owns the directory. Here, claims name another home or device, or cannot be read.

use std::path::{Path, PathBuf};

use tailwater::options::{ColumnFamilyOptions, DbPath};
use tailwater::{Db, ErrorKind, OpenOptions, WriteOptions};
use tailwater_format::claim::Claim;
use tailwater_io::Storage;

use crate::database::{DEFAULT, Layout, Place, state_of};
use crate::world::{CLAIM, World};

/// Returns a world with one database, and the options with which it is opened. The home of the
/// database is `/a`, its logs are in `/w`, and it has one key.
fn database() -> (World, OpenOptions) {
    let mut world = World::new(fastrand::Rng::with_seed(1));
    let mut layout = Layout::at(PathBuf::from("/a"));
    layout.logs = Some(PathBuf::from("/w"));
    let options = world.options(&layout, "create_if_missing=true", &[]);
    let db = Db::open(Path::new("/a"), &options).expect("a new database");
    let family = db.cf_handle(DEFAULT).expect("a column family");
    let synced = WriteOptions::new().with_sync(true);
    db.put_cf_opt(&family, b"key", b"value", &synced).expect("a put");
    (world, options)
}

/// Reads the claim on `/w`, applies `change` to it, and writes it back.
fn change(world: &World, change: impl FnOnce(&mut Claim)) {
    let path = Path::new("/w").join(CLAIM);
    let mut claim = Claim::parse(&world.read(&path).expect("a claim")).expect("a claim");
    change(&mut claim);
    world.write(&path, claim.to_text().as_bytes());
}

/// Opens the database read-only and then for writing. Checks that both openings fail, or that both
/// find `value` under `key`. Returns the error, if any.
fn opens(home: &str, options: &OpenOptions) -> tailwater::Result<()> {
    let home = Path::new(home);
    let read = Db::open_read_only(home, options).and_then(|db| state_of(&db));
    let written = Db::open(home, options).and_then(|db| state_of(&db));
    assert_eq!(read.is_ok(), written.is_ok(), "{read:?}, {written:?}");
    assert_eq!(written?[DEFAULT].get("key").map(String::as_str), Some("value"));
    Ok(())
}

/// Checks that opening the database fails with an error of kind `kind` that names `/w`, and that it
/// changes no file in `/w`.
fn is_refused(world: &World, home: &str, options: &OpenOptions, kind: ErrorKind) {
    let files = |world: &World| {
        let names = world.names(Path::new("/w")).into_iter().filter(|it| it != "TAILWATER-LOCK");
        names.map(|name| (world.read(&Path::new("/w").join(&name)), name)).collect::<Vec<_>>()
    };
    let before = files(world);
    let error = opens(home, options).expect_err("another database's claim");
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains("/w"), "{error}");
    assert_eq!(files(world), before, "{error}");
}

/// Tests a claim that matches the home in inode number and path, but not in device number. It must
/// be accepted: some filesystems get another device number each time they are mounted.
#[test]
fn a_home_with_a_new_device_number_is_the_same_home() {
    let (world, options) = database();
    change(&world, |claim| claim.home_device += 1);
    opens("/a", &options).expect("the same inode and path");
    let claim = world.read(Path::new("/w/TAILWATER-CLAIM")).expect("a claim");
    let claim = Claim::parse(&claim).expect("a claim");
    let device = world.disk.identity(Path::new("/a")).expect("a home").device;
    assert_eq!(claim.home_device, device, "the claim names the device by its new number");
}

/// Tests a claim that matches the database's home (its main directory) in inode number, but neither
/// in path nor in device number. The claim must be refused: directories on two filesystems may have
/// the same inode number.
#[test]
fn an_inode_of_another_device_is_not_the_home() {
    let (mut world, options) = database();
    change(&world, |claim| claim.home_device += 1);
    world.rename(Path::new("/a"), Path::new("/b"));
    is_refused(&world, "/b", &options, ErrorKind::InvalidArgument);
}

/// Tests a claim that names the path of the database's home, but another inode number. The opening
/// must be refused: a restored copy of a home has the path of the original, too.
#[test]
fn another_inode_with_the_path_of_the_home_is_not_the_home() {
    let (world, mut options) = database();
    change(&world, |claim| claim.home_inode += 1);
    is_refused(&world, "/a", &options, ErrorKind::InvalidArgument);
    options.set_adopt_directories(true);
    Db::open(Path::new("/a"), &options).expect("an adopted directory");
    options.set_adopt_directories(false);
    opens("/a", &options).expect("its own directory");
}

/// Tests a claim that matches the home in path, device and inode number, but has another database
/// ID. It must be refused: after a database is deleted, a new database may get the same home.
#[test]
fn a_claim_of_another_database_in_the_same_home_is_refused() {
    let (world, options) = database();
    change(&world, |claim| claim.database_id.push('x'));
    is_refused(&world, "/a", &options, ErrorKind::InvalidArgument);
}

#[test]
fn a_claim_that_is_empty_cut_short_or_of_a_later_version_is_refused() {
    let (world, options) = database();
    let path = Path::new("/w/TAILWATER-CLAIM");
    let whole = world.read(path).expect("a claim");
    for length in 0..whole.len() {
        world.write(path, &whole[..length]);
        is_refused(&world, "/a", &options, ErrorKind::Corruption);
    }
    world.write(path, b"TAILWATER-CLAIM 2\nend\n");
    is_refused(&world, "/a", &options, ErrorKind::NotSupported);
    world.write(path, &whole);
    opens("/a", &options).expect("its own directory");
}

/// Regression test: the creation of a column family accepted directories that it must refuse: one
/// that contained tables but no claim, and one that another database had claimed.
#[test]
fn a_new_column_family_takes_no_directory_that_holds_files() {
    let (world, options) = database();
    world.make_directory(Path::new("/nobodys"));
    world.write(Path::new("/nobodys/000007.sst"), b"a table");
    let mut layout = Layout::at(PathBuf::from("/b"));
    layout.logs = Some(PathBuf::from("/b-logs"));
    let mut world = world;
    let other = world.options(&layout, "create_if_missing=true", &[]);
    drop(Db::open(Path::new("/b"), &other).expect("another database"));
    let db = Db::open(Path::new("/a"), &options).expect("a database");
    for (directory, cause) in
        [("/nobodys", "000007.sst"), ("/b-logs", "claimed"), ("/b", "CURRENT")]
    {
        let path = DbPath { path: PathBuf::from(directory), target_size: u64::MAX };
        let mut own = ColumnFamilyOptions::default();
        own.cf_paths = vec![path];
        let error = db.create_cf("family", &own).expect_err("files of somebody else");
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}");
        assert!(text.contains(directory) && text.contains(cause), "{text}");
    }
    assert!(world.read(Path::new("/nobodys/000007.sst")).is_some());
    assert!(world.read(&Path::new("/nobodys").join(CLAIM)).is_none());
}

/// Regression test: a database stopped using a directory and removed its claim there, but a power
/// cut could restore the claim. A database that was created in that directory after the removal
/// could then no longer be opened.
#[test]
fn a_released_claim_does_not_return_after_a_power_cut() {
    let mut world = World::new(fastrand::Rng::with_seed(1));
    let place = |path: &str| Place { directory: PathBuf::from(path), target_size: u64::MAX };
    let mut layout = Layout::at(PathBuf::from("/a"));
    layout.tables = vec![place("/a"), place("/f")];
    let options = world.options(&layout, "create_if_missing=true", &[]);
    drop(Db::open(Path::new("/a"), &options).expect("a new database"));
    let claim = Path::new("/f").join(CLAIM);
    world.disk.metadata(&claim).expect("a claim");
    layout.tables.pop();
    let options = world.options(&layout, "", &[]);
    drop(Db::open(Path::new("/a"), &options).expect("the database"));
    for seed in 0..20 {
        assert!(world.disk.crash_image(seed).metadata(&claim).is_err(), "with seed {seed}");
    }
}

/// Regression test: the directory of a new column family was not claimed until the database was
/// next opened.
#[test]
fn a_directory_of_a_new_column_family_is_claimed_at_once() {
    let (mut world, options) = database();
    let db = Db::open(Path::new("/a"), &options).expect("a database");
    let cf_paths = vec![DbPath { path: PathBuf::from("/f"), target_size: u64::MAX }];
    let mut own = ColumnFamilyOptions::default();
    own.cf_paths = cf_paths;
    db.create_cf("family", &own).expect("a column family");
    let mut layout = Layout::at(PathBuf::from("/b"));
    layout.logs = Some(PathBuf::from("/f"));
    let other = world.options(&layout, "create_if_missing=true", &[]);
    let error = Db::open(Path::new("/b"), &other).map(drop).expect_err("a claimed directory");
    assert!(error.to_string().contains("claimed"), "{error}");
}

/// Regression test: a crash interrupted the destruction of a database, after the claim in a
/// directory other than the home was removed. If that directory held a file of another owner, a
/// second destruction refused to continue.
#[test]
fn an_interrupted_destruction_continues_despite_files_of_others() {
    let mut world = World::new(fastrand::Rng::with_seed(1));
    let place = |path: &str| Place { directory: PathBuf::from(path), target_size: u64::MAX };
    let mut layout = Layout::at(PathBuf::from("/a"));
    let options = world.options(&layout, "create_if_missing=true", &[]);
    drop(Db::open(Path::new("/a"), &options).expect("a new database"));
    world.make_directory(Path::new("/f"));
    let stray = Path::new("/f/000099.sst");
    world.write(stray, b"a table");
    layout.tables = vec![place("/a"), place("/f")];
    let options = world.options(&layout, "", &[]);
    drop(Db::open(Path::new("/a"), &options).expect("the database"));
    let disk = world.disk.clone();
    disk.start_recording();
    let start = disk.call_count();
    Db::destroy(Path::new("/a"), &options).expect("a destroyed database");
    for call in start..=disk.call_count() {
        for seed in 0..8 {
            world.replace_disk(disk.crash_image_at(call, seed));
            let options = world.options(&layout, "", &[]);
            let again = Db::destroy(Path::new("/a"), &options);
            again.unwrap_or_else(|error| panic!("call {call}, seed {seed}: {error}"));
            assert!(world.read(stray).is_some(), "call {call}, seed {seed}");
        }
    }
}

/// Tests a directory that is mounted both in a home and in a copy of that home. It must belong to
/// only one of the two databases.
#[test]
fn a_directory_mounted_in_two_homes_belongs_to_one() {
    let mut world = World::new(fastrand::Rng::with_seed(1));
    let mut layout = Layout::at(PathBuf::from("/a"));
    layout.logs = Some(PathBuf::from("/a/w"));
    let options = world.options(&layout, "create_if_missing=true", &[]);
    drop(Db::open(Path::new("/a"), &options).expect("a new database"));
    let path = Path::new("/a/w").join(CLAIM);
    let mut claim = Claim::parse(&world.read(&path).expect("a claim")).expect("a claim");
    claim.home_inode += 1;
    claim.home_path = "/b".to_owned();
    world.write(&path, claim.to_text().as_bytes());
    let error = Db::open(Path::new("/a"), &options).map(drop).expect_err("the other's directory");
    assert!(error.to_string().contains("claimed") && error.to_string().contains("/b"), "{error}");
}
