//! Tests of users: logins, changes, tokens, restarts.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use iggy_binary_protocol::WireIdentifier;
use tailwater_io::clock::ManualClock;
use tailwater_log::{ErrorKind, Log, LogOptions, TopicId};
use tempfile::TempDir;

use super::change::Updated;
use super::permission::{GlobalFlags, StreamFlags, StreamPermissions, TopicFlags};
use super::*;

const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const START_US: u64 = 1_000_000_000;

/// A log in a temporary directory, and the users that are stored in it.
struct Fixture {
    directory: TempDir,
    clock: Arc<ManualClock>,
    log: Log,
    users: Users,
    password: Option<RandomPassword>,
}

impl Fixture {
    fn new() -> Self {
        Self::with_root(&Root::Default)
    }

    fn with_root(root: &Root) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(START_US));
        let (log, users, password) = open(&directory, &clock, root).unwrap();
        Self { directory, clock, log, users, password }
    }

    fn reopen(self, root: &Root) -> Self {
        let Self { directory, clock, log, users, .. } = self;
        drop(users);
        log.close().unwrap();
        let (log, users, password) = open(&directory, &clock, root).unwrap();
        Self { directory, clock, log, users, password }
    }

    fn login(&self, name: &str, password: &str) -> std::result::Result<u32, LoginError> {
        block_on(self.users.login(name, password, ADDRESS))
    }

    fn login_with(&self, token: &str) -> std::result::Result<u32, LoginError> {
        self.users.login_with_token(token)
    }

    fn create(&self, name: &str, password: &str) -> std::result::Result<u32, Status> {
        let permissions = Some(Permissions::default());
        let new = NewUser { name, password, is_active: true, permissions };
        self.users.create(&self.log, new).map(|user| user.id)
    }

    fn change_password(
        &self,
        user: &str,
        current: &str,
        new: &str,
    ) -> std::result::Result<u32, Status> {
        let user = named(user);
        let prepared = self.users.prepare_password(&user, current, new, ADDRESS);
        self.users.set_password(&self.log, block_on(prepared)?)
    }

    fn advance_us(&self, us: u64) {
        self.clock.advance(us * 1000);
    }
}

fn open(
    directory: &TempDir,
    clock: &Arc<ManualClock>,
    root: &Root,
) -> Result<(Log, Users, Option<RandomPassword>)> {
    let log = Log::open(directory.path(), &LogOptions::default())?;
    let settings =
        Settings { root, tokens_per_user_max: 3, failed_logins_max: 1000, password_hashers: 2 };
    let (users, password) = Users::open_with(&log, &settings, Arc::<ManualClock>::clone(clock))?;
    Ok((log, users, password))
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}

fn named(name: &str) -> WireIdentifier {
    WireIdentifier::named(name).unwrap()
}

fn given(name: &str, password: &str) -> Root {
    Root::Given { name: name.to_owned(), password: password.to_owned() }
}

#[test]
fn a_new_directory_gets_the_root_user_and_an_old_one_keeps_it() {
    let fixture = Fixture::with_root(&given("admin", "secret"));
    assert!(fixture.password.is_none());
    assert_eq!(fixture.login("admin", "secret"), Ok(ROOT));
    let fixture = fixture.reopen(&Root::Default);
    assert_eq!(fixture.login("admin", "secret"), Ok(ROOT));
    assert_eq!(fixture.login("iggy", "iggy"), Err(LoginError::InvalidCredentials));
    let fixture = fixture.reopen(&Root::Random);
    assert!(fixture.password.is_none());
    assert_eq!(fixture.users.all().len(), 1);

    assert_eq!(Fixture::new().login("iggy", "iggy"), Ok(ROOT));

    let fixture = Fixture::with_root(&Root::Random);
    let password = fixture.password.as_ref().unwrap().reveal().to_owned();
    assert_eq!(fixture.login("iggy", &password), Ok(ROOT));
    let fixture = fixture.reopen(&Root::Random);
    assert!(fixture.password.is_none());
    assert_eq!(fixture.login("iggy", &password), Ok(ROOT));
    for (key, value) in fixture.log.records("") {
        assert!(!value.contains(&password), "{key}");
    }
}

#[test]
fn unusable_credentials_of_the_root_user_are_refused() {
    let long = "x".repeat(101);
    for (root, what) in [
        (given("ab", "secret"), "name has 2 bytes"),
        (given(&"x".repeat(51), "secret"), "name has 51 bytes"),
        (given("admin", "ab"), "password has 2 bytes"),
        (given("admin", &long), "password has 101 bytes"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let error = open(&directory, &Arc::new(ManualClock::new(START_US)), &root).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(what), "{error}");
        assert!(!error.to_string().contains(&long), "{error}");
    }
}

#[test]
fn only_active_users_with_the_right_password_log_in() {
    let fixture = Fixture::new();
    let alice = fixture.create("alice", "secret").unwrap();
    let refused = Err(LoginError::InvalidCredentials);
    // The first round checks alice's password with Argon2id, the second one with the fast hash in
    // memory.
    for _ in 0..2 {
        assert_eq!(fixture.login("alice", "secret"), Ok(alice));
        assert_eq!(fixture.login("alice", "Secret"), refused);
        assert_eq!(fixture.login("nobody", "secret"), refused);
        assert_eq!(fixture.login("Alice", "secret"), refused);
    }
    for (name, password) in [("al", "secret"), ("alice", "se"), ("", ""), ("iggy", "")] {
        assert_eq!(fixture.login(name, password), refused, "{name} {password}");
    }
    assert_eq!(fixture.login(&"a".repeat(51), "secret"), refused);
    assert_eq!(fixture.login("alice", &"a".repeat(101)), refused);

    let is_updated = fixture.users.update(&fixture.log, &named("alice"), None, Some(false));
    assert_eq!(is_updated, Ok(Updated { user: alice, was_deactivated: true }));
    assert_eq!(fixture.login("alice", "secret"), refused);
    let is_updated = fixture.users.update(&fixture.log, &named("alice"), None, Some(true));
    assert_eq!(is_updated, Ok(Updated { user: alice, was_deactivated: false }));
    assert_eq!(fixture.login("alice", "secret"), Ok(alice));
}

#[test]
fn a_correct_password_is_hashed_once() {
    let fixture = Fixture::new();
    let root = fixture.users.find(&WireIdentifier::Numeric(ROOT)).unwrap();
    let is_known = |password: &str| {
        let fingerprint = fixture.users.fingerprints.of(&root.credential, password);
        root.credential.is_known(&fingerprint)
    };
    assert!(!is_known("iggy"));
    fixture.login("iggy", "wrong").unwrap_err();
    assert!(!is_known("iggy"));
    fixture.login("iggy", "iggy").unwrap();
    assert!(is_known("iggy"));
    assert!(!is_known("wrong"));
    let nobody = format!("{:?}", fixture.users.nobody.hash);
    assert_eq!(format!("{:?}", root.credential.hash), nobody, "a missing user costs as much");
}

#[test]
fn clients_that_reconnect_at_once_all_log_in() {
    let fixture = Fixture::new();
    block_on(async {
        let users = Arc::new(fixture.users);
        let logins: Vec<_> = (0..10_000)
            .map(|number| {
                let users = Arc::clone(&users);
                let address = IpAddr::V4(Ipv4Addr::from_bits(number % 100));
                tokio::spawn(async move { users.login("iggy", "iggy", address).await })
            })
            .collect();
        for login in logins {
            assert_eq!(login.await.unwrap(), Ok(ROOT));
        }
    });
}

/// Prints how long clients wait to log in if all of them reconnect at the same time to a server
/// that has just started, each as a different user. Run it alone, with `--ignored --nocapture`.
#[test]
#[ignore = "prints a measurement and asserts no time; run it alone, with --ignored --nocapture"]
fn users_that_reconnect_at_once_all_log_in() {
    let fixture = Fixture::new();
    let users = Arc::new(fixture.users);
    let hash = PasswordHash::new("secret", &mut Workspace::default()).unwrap();
    let mut directory = Directory::default();
    for id in 0..10_000 {
        directory.insert_user(User {
            id,
            name: Arc::from(format!("user{id}")),
            is_active: true,
            created_us: START_US,
            permissions: None,
            credential: Arc::new(Credential::new(hash.clone())),
        });
    }
    users.directory.store(Arc::new(directory));
    let start = std::time::Instant::now();
    let log_in = |id: u32| {
        let users = Arc::clone(&users);
        let address = IpAddr::V4(Ipv4Addr::from_bits(id));
        async move { users.login(&format!("user{id}"), "secret", address).await }
    };
    block_on(async {
        let logins: Vec<_> = (0..10_000).map(|id| tokio::spawn(log_in(id))).collect();
        for (id, login) in logins.into_iter().enumerate() {
            assert_eq!(login.await.unwrap(), Ok(u32::try_from(id).unwrap()));
        }
    });
    println!("{hash:?}: {:?}", start.elapsed());
}

#[test]
fn users_and_tokens_survive_a_restart() {
    let fixture = Fixture::new();
    let (log, users) = (&fixture.log, &fixture.users);
    let alice = fixture.create("alice", "secret").unwrap();
    let bob = fixture.create("bob", "hidden").unwrap();
    assert_eq!((alice, bob), (1, 2));
    let global = GlobalFlags { poll_messages: true, ..GlobalFlags::default() };
    let permissions = Permissions { global, ..Permissions::default() };
    users.set_permissions(log, &named("alice"), Some(permissions.clone())).unwrap();
    users.update(log, &named("bob"), Some("bobby"), Some(false)).unwrap();
    fixture.change_password("alice", "secret", "another").unwrap();
    let token = users.create_token(log, alice, "a/b/c", None).unwrap();
    let doomed = users.create_token(log, alice, "doomed", Some(5)).unwrap();
    users.delete_token(log, alice, "doomed").unwrap();

    let fixture = fixture.reopen(&Root::Default);
    let found = fixture.users.find(&named("alice")).unwrap();
    assert_eq!((found.id, found.created_us, found.is_active), (alice, START_US, true));
    assert_eq!(found.permissions, Some(permissions));
    assert_eq!(fixture.login("alice", "another"), Ok(alice));
    assert_eq!(fixture.login("alice", "secret"), Err(LoginError::InvalidCredentials));
    assert!(fixture.users.find(&named("bob")).is_none());
    assert!(!fixture.users.find(&named("bobby")).unwrap().is_active);
    assert_eq!(fixture.login_with(&token), Ok(alice));
    assert_eq!(fixture.login_with(&doomed), Err(LoginError::InvalidToken));
    let tokens = fixture.users.tokens(alice);
    let tokens: Vec<_> = tokens.iter().map(|token| (&*token.name, token.expires_us)).collect();
    assert_eq!(tokens, [("a/b/c", None)]);
}

#[test]
fn names_and_passwords_have_length_limits() {
    let fixture = Fixture::new();
    let long = |bytes: usize| "x".repeat(bytes);
    for name in ["xx".to_owned(), long(51)] {
        assert_eq!(fixture.create(&name, "secret"), Err(Status::INVALID_USERNAME));
        let renamed = fixture.users.update(&fixture.log, &named("iggy"), Some(&name), None);
        assert_eq!(renamed, Err(Status::INVALID_USERNAME));
    }
    for password in [String::new(), "xx".to_owned(), long(101)] {
        assert_eq!(fixture.create("alice", &password), Err(Status::INVALID_PASSWORD));
        let changed = fixture.change_password("iggy", "iggy", &password);
        assert_eq!(changed, Err(Status::INVALID_PASSWORD));
    }
    for name in [String::new(), long(256)] {
        let created = fixture.users.create_token(&fixture.log, ROOT, &name, None);
        assert_eq!(created, Err(Status::INVALID_PERSONAL_ACCESS_TOKEN_NAME));
    }
    assert_eq!(fixture.create("xxx", "xxx"), Ok(1));
    assert_eq!(fixture.create(&long(50), &long(100)), Ok(2));
    assert_eq!(fixture.login(&long(50), &long(100)), Ok(2));
    for name in [long(1), long(255)] {
        fixture.users.create_token(&fixture.log, ROOT, &name, None).unwrap();
    }
}

#[test]
fn names_are_unique() {
    let fixture = Fixture::new();
    let alice = fixture.create("alice", "secret").unwrap();
    let bob = fixture.create("bob", "secret").unwrap();
    assert_eq!(fixture.create("alice", "secret"), Err(Status::USER_ALREADY_EXISTS));
    let update = |user: &str, name: &str| {
        fixture.users.update(&fixture.log, &named(user), Some(name), None).map(|done| done.user)
    };
    assert_eq!(update("bob", "alice"), Err(Status::USER_ALREADY_EXISTS));
    assert_eq!(update("bob", "bob"), Ok(bob));
    assert_eq!(update("alice", "carol"), Ok(alice));
    assert_eq!(update("bob", "alice"), Ok(bob));
    assert_eq!(update("bob", "x-y-z"), Err(Status::RESOURCE_NOT_FOUND));
    assert_eq!(fixture.login("alice", "secret"), Ok(bob));
    assert_eq!(fixture.login("carol", "secret"), Ok(alice));
}

#[test]
fn deleting_a_user_deletes_its_tokens_and_logins() {
    let fixture = Fixture::new();
    let (log, users) = (&fixture.log, &fixture.users);
    let alice = fixture.create("alice", "secret").unwrap();
    let bob = fixture.create("bob", "secret").unwrap();
    let token = users.create_token(log, alice, "token", None).unwrap();
    let kept = users.create_token(log, bob, "token", None).unwrap();
    assert_eq!(users.delete(log, &named("alice")), Ok(alice));
    assert_eq!(users.delete(log, &named("alice")), Err(Status::RESOURCE_NOT_FOUND));
    assert_eq!(fixture.login("alice", "secret"), Err(LoginError::InvalidCredentials));
    assert_eq!(fixture.login_with(&token), Err(LoginError::InvalidToken));
    assert_eq!(fixture.login_with(&kept), Ok(bob));
    let created = users.create_token(log, alice, "token", None);
    assert_eq!(created, Err(Status::UNAUTHENTICATED));
    let keys: Vec<String> = log.records("").into_keys().collect();
    assert_eq!(keys, ["token/2/token", "user/0", "user/2"]);

    // Sessions of the deleted user may still exist, so a new user must not get its id before the
    // restart.
    assert_eq!(fixture.create("carol", "secret"), Ok(3));
    let fixture = fixture.reopen(&Root::Default);
    assert_eq!(fixture.create("dave", "secret"), Ok(alice));
}

#[test]
fn the_root_user_is_protected() {
    let fixture = Fixture::new();
    for root in [named("iggy"), WireIdentifier::Numeric(ROOT)] {
        let deleted = fixture.users.delete(&fixture.log, &root);
        assert_eq!(deleted, Err(Status::CANNOT_DELETE_USER));
        let changed = fixture.users.set_permissions(&fixture.log, &root, None);
        assert_eq!(changed, Err(Status::CANNOT_CHANGE_PERMISSIONS));
        // The root user must not be deactivated, because nobody could reactivate it.
        let deactivated = fixture.users.update(&fixture.log, &root, None, Some(false));
        assert_eq!(deactivated, Err(Status::INVALID_USER_STATUS));
        let updated = fixture.users.update(&fixture.log, &root, None, Some(true));
        assert_eq!(updated.map(|updated| updated.was_deactivated), Ok(false));
    }
    assert_eq!(fixture.login("iggy", "iggy"), Ok(ROOT));
    assert_eq!(fixture.users.authorize(ROOT, Action::DeleteUser), Ok(()));
}

#[test]
fn a_changed_password_counts_at_once() {
    let fixture = Fixture::new();
    let alice = fixture.create("alice", "secret").unwrap();
    let token = fixture.users.create_token(&fixture.log, alice, "token", None).unwrap();
    assert_eq!(fixture.login("alice", "secret"), Ok(alice));
    let change = |current: &str, new: &str| fixture.change_password("alice", current, new);
    assert_eq!(change("wrong", "another"), Err(Status::INVALID_CREDENTIALS));
    assert_eq!(change("", "another"), Err(Status::INVALID_CREDENTIALS));
    assert_eq!(change("secret", "another"), Ok(alice));
    assert_eq!(change("secret", "another"), Err(Status::INVALID_CREDENTIALS));
    assert_eq!(fixture.login("alice", "secret"), Err(LoginError::InvalidCredentials));
    assert_eq!(fixture.login("alice", "another"), Ok(alice));
    assert_eq!(fixture.login_with(&token), Ok(alice));
    let missing = fixture.change_password("nobody", "secret", "another");
    assert_eq!(missing, Err(Status::RESOURCE_NOT_FOUND));
}

/// Returns a runtime whose time advances by itself while all tasks wait, and that does not wait for
/// real time.
fn block_on_paused<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap().block_on(future)
}

/// Opens users with a limit of one failed login.
fn strict_users(log: &Log) -> Users {
    let settings = Settings {
        root: &Root::Default,
        tokens_per_user_max: 3,
        failed_logins_max: 1,
        password_hashers: 2,
    };
    Users::open_with(log, &settings, Arc::new(ManualClock::new(START_US))).unwrap().0
}

/// Regression test: failed logins from an address are delayed, but wrong passwords in the command
/// that changes a password were not. A client could use that command to guess the current password.
#[test]
fn wrong_passwords_are_delayed_as_failed_logins_are() {
    let directory = tempfile::tempdir().unwrap();
    let log = Log::open(directory.path(), &LogOptions::default()).unwrap();
    let users = strict_users(&log);
    block_on_paused(async {
        let change = async |current| {
            let start = tokio::time::Instant::now();
            let user = named("iggy");
            let prepared = users.prepare_password(&user, current, "another", ADDRESS).await;
            (prepared.map(drop), start.elapsed().as_secs())
        };
        assert_eq!(change("wrong").await, (Err(Status::INVALID_CREDENTIALS), 0));
        assert_eq!(change("wrong").await, (Err(Status::INVALID_CREDENTIALS), 1));
        assert_eq!(change("iggy").await, (Ok(()), 0));
    });
}

/// Regression test: failed logins from an address delayed all later logins from it, one after the
/// other. A client with the right password waited for all clients with wrong ones.
#[test]
fn a_right_password_is_not_delayed_by_wrong_ones() {
    let directory = tempfile::tempdir().unwrap();
    let log = Log::open(directory.path(), &LogOptions::default()).unwrap();
    let users = Arc::new(strict_users(&log));
    block_on_paused(async {
        let log_in = |password: &'static str| {
            let users = Arc::clone(&users);
            tokio::spawn(async move {
                let start = tokio::time::Instant::now();
                let outcome = users.login("iggy", password, ADDRESS).await;
                if outcome.is_err() {
                    users.delay_refusal(ADDRESS).await;
                }
                (outcome, start.elapsed().as_secs())
            })
        };
        // The time does not advance while this task runs, so no delay ends before the right login.
        let (resume, resumed) = std::sync::mpsc::channel::<()>();
        let stopped = tokio::task::spawn_blocking(move || resumed.recv().is_err());
        let wrong: Vec<_> = (0..50).map(|_| log_in("wrong")).collect();
        assert_eq!(log_in("iggy").await.unwrap(), (Ok(ROOT), 0));
        drop(resume);
        assert!(stopped.await.unwrap());
        let mut delayed = 0;
        for login in wrong {
            let (outcome, seconds) = login.await.unwrap();
            assert_eq!(outcome, Err(LoginError::InvalidCredentials));
            delayed += usize::from(seconds > 0);
        }
        assert_eq!(delayed, 49);
    });
}

/// Regression test: a deactivated user's right password was refused without hashing it, and so was
/// a user name or password of an impossible length. The time of the refusal revealed the reason.
#[test]
fn every_refused_login_hashes_a_password() {
    let fixture = Fixture::new();
    fixture.create("alice", "secret").unwrap();
    fixture.login("alice", "secret").unwrap();
    fixture.users.update(&fixture.log, &named("alice"), None, Some(false)).unwrap();
    let long = "x".repeat(200);
    let refused = [
        ("iggy", "wrong"),
        ("nobody", "secret"),
        ("alice", "secret"),
        ("alice", "wrong"),
        ("a", "secret"),
        ("iggy", long.as_str()),
        (long.as_str(), "iggy"),
    ];
    for (name, password) in refused {
        let before = fixture.users.hashers.begun();
        assert_eq!(fixture.login(name, password), Err(LoginError::InvalidCredentials));
        assert_eq!(fixture.users.hashers.begun(), before + 1, "{name} {password}");
    }
}

#[test]
fn permissions_are_deleted_with_their_stream_or_topic() {
    let fixture = Fixture::new();
    let (log, users) = (&fixture.log, &fixture.users);
    let topic = TopicId { stream: 1, topic: 2 };
    let of_topic = TopicFlags { poll_messages: true, ..TopicFlags::default() };
    let of_stream = StreamPermissions {
        flags: StreamFlags { send_messages: true, ..StreamFlags::default() },
        topics: BTreeMap::from([(1, of_topic), (2, of_topic)]),
    };
    let streams = BTreeMap::from([(1, of_stream.clone()), (2, of_stream)]);
    let permissions = Permissions { streams, ..Permissions::default() };
    let ids = ["alice", "carol"].map(|name| fixture.create(name, "secret").unwrap());
    for name in ["alice", "carol"] {
        users.set_permissions(log, &named(name), Some(permissions.clone())).unwrap();
    }
    let may = |users: &Users, action| ids.map(|id| users.authorize(id, action).is_ok());
    assert_eq!(may(users, Action::PollMessages(topic)), [true; 2]);
    users.forget_topic(log, topic).unwrap();
    assert_eq!(may(users, Action::PollMessages(topic)), [false; 2]);
    let sibling = TopicId { topic: 1, ..topic };
    let elsewhere = TopicId { stream: 2, ..topic };
    for kept in [Action::PollMessages(sibling), Action::AppendMessages(topic)] {
        assert_eq!(may(users, kept), [true; 2], "{kept:?}");
    }
    users.forget_stream(log, 1).unwrap();
    for ended in [Action::PollMessages(sibling), Action::AppendMessages(topic)] {
        assert_eq!(may(users, ended), [false; 2], "{ended:?}");
    }
    let fixture = fixture.reopen(&Root::Default);
    assert_eq!(may(&fixture.users, Action::AppendMessages(topic)), [false; 2]);
    for kept in [Action::PollMessages(elsewhere), Action::AppendMessages(elsewhere)] {
        assert_eq!(may(&fixture.users, kept), [true; 2], "{kept:?}");
    }
}

#[test]
fn default_root_credentials_are_recognised() {
    assert!(Fixture::new().users.has_default_root());
    let fixture = Fixture::new().reopen(&Root::Random);
    assert!(fixture.users.has_default_root(), "the directory decides");
    fixture.change_password("iggy", "iggy", "another").unwrap();
    assert!(!fixture.users.has_default_root());
    assert!(!Fixture::with_root(&given("admin", "iggy")).users.has_default_root());
    assert!(!Fixture::with_root(&Root::Random).users.has_default_root());
}

#[test]
fn permissions_apply_only_while_the_user_exists_and_is_active() {
    let fixture = Fixture::new();
    let (log, users) = (&fixture.log, &fixture.users);
    let alice = fixture.create("alice", "secret").unwrap();
    let poll = Action::PollMessages(TopicId { stream: 1, topic: 1 });
    assert_eq!(users.authorize(alice, poll), Err(Status::UNAUTHORIZED));
    let permissions = Permissions::root();
    users.set_permissions(log, &named("alice"), Some(permissions)).unwrap();
    assert_eq!(users.authorize(alice, poll), Ok(()));
    users.update(log, &named("alice"), None, Some(false)).unwrap();
    assert_eq!(users.authorize(alice, poll), Err(Status::UNAUTHORIZED));
    users.update(log, &named("alice"), None, Some(true)).unwrap();
    assert_eq!(users.authorize(alice, poll), Ok(()));
    users.set_permissions(log, &named("alice"), None).unwrap();
    assert_eq!(users.authorize(alice, poll), Err(Status::UNAUTHORIZED));
    users.delete(log, &named("alice")).unwrap();
    assert_eq!(users.authorize(alice, poll), Err(Status::UNAUTHORIZED));
}

#[test]
fn tokens_expire() {
    let fixture = Fixture::new();
    let (log, users) = (&fixture.log, &fixture.users);
    let create = |name: &str, expiry| users.create_token(log, ROOT, name, expiry);
    let short = create("short", Some(100)).unwrap();
    let long = create("long", Some(1_000_000)).unwrap();
    let never = create("never", None).unwrap();
    for expiry in [Some(0), Some(u64::MAX - 1)] {
        users.delete_token(log, ROOT, "long").unwrap();
        let refused = create("long", expiry);
        assert_eq!(refused, Err(Status::INVALID_PERSONAL_ACCESS_TOKEN_EXPIRY));
        create("long", Some(1_000_000)).unwrap();
    }
    assert_eq!(fixture.login_with(&long), Err(LoginError::InvalidToken), "it was replaced");
    fixture.advance_us(99);
    assert_eq!(fixture.login_with(&short), Ok(ROOT));
    assert_eq!(users.remove_expired(log, fixture.clock.wall_us()), Ok(0));
    fixture.advance_us(1);
    assert_eq!(fixture.login_with(&short), Err(LoginError::ExpiredToken));
    assert_eq!(users.remove_expired(log, fixture.clock.wall_us()), Ok(1));
    assert_eq!(fixture.login_with(&short), Err(LoginError::InvalidToken));
    assert_eq!(fixture.login_with(&never), Ok(ROOT));
    assert!(!log.records("token/").contains_key("token/0/short"));
    let names: Vec<_> = users.tokens(ROOT).iter().map(|token| token.name.to_string()).collect();
    assert_eq!(names, ["long", "never"]);

    fixture.advance_us(2_000_000);
    let fixture = fixture.reopen(&Root::Default);
    assert_eq!(fixture.users.tokens(ROOT).len(), 2);
    let now_us = fixture.clock.wall_us();
    assert_eq!(fixture.users.remove_expired(&fixture.log, now_us), Ok(1));
    assert_eq!(fixture.users.remove_expired(&fixture.log, u64::MAX), Ok(0));
    assert_eq!(fixture.login_with(&never), Ok(ROOT));
}

#[test]
fn tokens_of_a_user_are_limited_and_have_unique_names() {
    let fixture = Fixture::new();
    let (log, users) = (&fixture.log, &fixture.users);
    let alice = fixture.create("alice", "secret").unwrap();
    let create = |user, name: &str, expiry| users.create_token(log, user, name, expiry);
    create(alice, "one", None).unwrap();
    let again = create(alice, "one", None);
    assert_eq!(again, Err(Status::PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS));
    create(alice, "two", Some(10)).unwrap();
    create(alice, "three", None).unwrap();
    for name in ["one", "four"] {
        let beyond = create(alice, name, None);
        assert_eq!(beyond, Err(Status::PERSONAL_ACCESS_TOKENS_LIMIT_REACHED));
    }
    create(ROOT, "one", None).unwrap();
    // An expired token no longer counts towards the limit, and its name can be used again.
    fixture.advance_us(10);
    let secret = create(alice, "two", Some(10)).unwrap();
    assert_eq!(fixture.login_with(&secret), Ok(alice));
    let missing = users.delete_token(log, ROOT, "two");
    assert_eq!(missing, Err(Status::RESOURCE_NOT_FOUND));
    users.delete_token(log, alice, "two").unwrap();
    assert_eq!(fixture.login_with(&secret), Err(LoginError::InvalidToken));

    let fixture = fixture.reopen(&Root::Default);
    assert_eq!(fixture.users.tokens(alice).len(), 2);
}

#[test]
fn tokens_are_not_kept_and_need_an_active_user() {
    let fixture = Fixture::new();
    let alice = fixture.create("alice", "secret").unwrap();
    let token = fixture.users.create_token(&fixture.log, alice, "token", None).unwrap();
    for (key, value) in fixture.log.records("") {
        assert!(!value.contains(&token), "{key}");
    }
    fixture.users.update(&fixture.log, &named("alice"), None, Some(false)).unwrap();
    assert_eq!(fixture.login_with(&token), Err(LoginError::Inactive));
    let another = fixture.users.create_token(&fixture.log, alice, "another", None);
    assert_eq!(another, Err(Status::UNAUTHENTICATED));
    for wrong in [String::new(), "x".repeat(64), "x".repeat(1000)] {
        assert_eq!(fixture.login_with(&wrong), Err(LoginError::InvalidToken));
    }
}

#[test]
fn a_damaged_record_is_named() {
    let user = |password: &str| {
        format!(r#"{{"name":"bob","is_active":true,"created_us":1,"password":{password}}}"#)
    };
    let no_passes =
        r#"{"memory_kib":64,"passes":0,"lanes":1,"salt":"0011223344556677","hash":"00112233"}"#;
    for (key, value) in [
        ("user/5", "{".to_owned()),
        ("user/x", user(no_passes)),
        ("user/5", user(no_passes)),
        ("user/5", user("{}")),
        ("token/0/abc", r#"{"hash":"zz"}"#.to_owned()),
        ("token/0", r#"{"hash":"zz"}"#.to_owned()),
        ("token/7/abc", format!(r#"{{"hash":"{}"}}"#, "ab".repeat(32))),
    ] {
        let Fixture { directory, clock, log, users, .. } = Fixture::new();
        log.set_records(&[(key.to_owned(), Some(value.clone()))]).unwrap();
        drop(users);
        log.close().unwrap();
        let error = open(&directory, &clock, &Root::Default).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{value}");
        assert!(error.to_string().contains(&format!("'{key}'")), "{error}");
    }
}
