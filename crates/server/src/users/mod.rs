//! Users: passwords, tokens and permissions.
//!
//! Users and their personal access tokens are stored as records in the log's catalog ([`record`]).
//! In memory, all of them form an immutable snapshot, which each change replaces. Permission checks
//! therefore take no lock.
//!
//! # Invariants
//!
//! - Under one lock, a change is first written to the records and then made in memory. A restart
//!   therefore never undoes a change that was visible. A crash between the two steps is safe,
//!   because the change was not acknowledged.
//! - The user with id 0 is the root user. The server creates it at the first start with a new
//!   directory. The root user is never deleted or deactivated, and has all permissions.
//! - The id of a deleted user is not reused while the process runs. A session of the deleted user
//!   therefore never acts as another user.
//! - Passwords and tokens are compared only as hashes, in constant time.
//! - When a stream or topic is deleted, the permissions on it are removed, because its id may be
//!   reused.
//!
//! # Cost of a login
//!
//! Passwords are checked with Argon2id ([`password`]), on a bounded number of threads
//! ([`hashers`]). After a successful check, a fast hash of the password is kept in memory, so that
//! the user's next login needs no Argon2id. All logins that are refused for their user name or
//! password compute one Argon2id hash, whatever the reason, so that the time of a refusal does not
//! reveal the reason. After repeated failures, refusals of logins from the same address are delayed
//! ([`throttle`]); a login with a right password is not.

mod change;
mod hashers;
mod hex;
mod password;
mod permission;
mod record;
mod throttle;
mod token;
mod turns;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use iggy_binary_protocol::WireIdentifier;
use secrecy::{ExposeSecret as _, SecretString};
use tailwater_io::Clock;
use tailwater_io::clock::SystemClock;
use tailwater_io::sync::Mutex;
use tailwater_log::{Error, ErrorKind, Log, Result};

pub(crate) use change::NewUser;
use hashers::{Hashers, Origin};
pub(crate) use password::RandomPassword;
use password::{Credential, Fingerprints, PasswordHash, Workspace};
pub(crate) use permission::{Action, Permissions};
use throttle::Throttle;

use crate::config::{Config, NAME_BYTES, PASSWORD_BYTES, Root};
use crate::host::Host;
use crate::status::Status;

/// Id of the root user.
pub(crate) const ROOT: u32 = 0;

/// Maximum length of a token, in bytes. A login with a longer token is refused without a look-up.
const TOKEN_BYTES_MAX: usize = 100;

const DEFAULT_ROOT_NAME: &str = "iggy";
const DEFAULT_ROOT_PASSWORD: &str = "iggy";

/// A user.
#[derive(Clone)]
pub(crate) struct User {
    pub(crate) id: u32,
    pub(crate) name: Arc<str>,
    /// Whether the user may log in and execute commands.
    pub(crate) is_active: bool,
    /// Creation time, in microseconds since 1970.
    pub(crate) created_us: u64,
    /// The user's permissions; `None` if the user has none.
    pub(crate) permissions: Option<Permissions>,
    credential: Arc<Credential>,
}

/// A personal access token, without its secret.
pub(crate) struct Token {
    user: u32,
    pub(crate) name: Arc<str>,
    /// BLAKE3 hash of the token. Hashes are compared in constant time.
    hash: blake3::Hash,
    /// Expiry time, in microseconds since 1970; `None` if the token never expires.
    pub(crate) expires_us: Option<u64>,
}

impl Token {
    fn is_expired(&self, now_us: u64) -> bool {
        self.expires_us.is_some_and(|expires_us| expires_us <= now_us)
    }
}

/// All users and tokens at a point in time.
#[derive(Clone, Default)]
struct Directory {
    users: BTreeMap<u32, Arc<User>>,
    ids: HashMap<Arc<str>, u32>,
    tokens: HashMap<blake3::Hash, Arc<Token>>,
    /// The same tokens as in `tokens`, by the id of their user and their name.
    tokens_by_name: BTreeMap<(u32, Arc<str>), Arc<Token>>,
}

impl Directory {
    fn insert_user(&mut self, user: User) {
        if let Some(old) = self.users.get(&user.id) {
            self.ids.remove(&old.name);
        }
        self.ids.insert(Arc::clone(&user.name), user.id);
        self.users.insert(user.id, Arc::new(user));
    }

    fn remove_user(&mut self, id: u32) {
        if let Some(user) = self.users.remove(&id) {
            self.ids.remove(&user.name);
        }
    }

    fn insert_token(&mut self, token: Token) {
        let token = Arc::new(token);
        self.tokens_by_name.insert((token.user, Arc::clone(&token.name)), Arc::clone(&token));
        self.tokens.insert(token.hash, token);
    }

    fn remove_token(&mut self, token: &Token) {
        self.tokens_by_name.remove(&(token.user, Arc::clone(&token.name)));
        self.tokens.remove(&token.hash);
    }

    fn named(&self, name: &str) -> Option<&Arc<User>> {
        self.users.get(self.ids.get(name)?)
    }

    fn find(&self, user: &WireIdentifier) -> Option<&Arc<User>> {
        match user {
            WireIdentifier::Numeric(id) => self.users.get(id),
            WireIdentifier::String(name) => self.named(name),
        }
    }

    /// Returns the tokens of a user, ordered by name.
    fn tokens_of(&self, user: u32) -> impl Iterator<Item = &Arc<Token>> {
        let from = self.tokens_by_name.range((user, Arc::from(""))..);
        from.map(|(_, token)| token).take_while(move |token| token.user == user)
    }
}

/// The part of the configuration that concerns users.
struct Settings<'a> {
    root: &'a Root,
    tokens_per_user_max: u32,
    failed_logins_max: u32,
    password_hashers: usize,
}

impl<'a> From<&'a Config> for Settings<'a> {
    fn from(config: &'a Config) -> Self {
        Self {
            root: &config.root,
            tokens_per_user_max: config.tokens_per_user_max,
            failed_logins_max: config.limits.failed_logins_max,
            password_hashers: config.limits.password_hashers,
        }
    }
}

/// The reason why a login is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoginError {
    /// The user is unknown or inactive, or the password is wrong. A client must not be able to
    /// distinguish these cases.
    InvalidCredentials,
    /// Unknown token.
    InvalidToken,
    /// The token has expired.
    ExpiredToken,
    /// The user of the token is not active.
    Inactive,
}

/// All users, their tokens and their permissions. Safe to use from any thread.
pub(crate) struct Users {
    directory: ArcSwap<Directory>,
    /// Ids of users that were deleted since the server started. They must not be reused. The lock
    /// is held while users or tokens are changed.
    retired: Mutex<BTreeSet<u32>>,
    hashers: Hashers,
    fingerprints: Fingerprints,
    /// The credential against which a password is checked if the user name is unknown. The check
    /// always fails, but takes as long as for a known user.
    nobody: Arc<Credential>,
    throttle: Throttle,
    tokens_per_user_max: usize,
    clock: Arc<dyn Clock>,
}

impl Users {
    /// Reads all users and tokens from the records. If there are no users, creates the root user
    /// with the configured credentials, and returns its password if it was generated: the password
    /// is stored nowhere else. If there are users, the configured credentials have no effect.
    ///
    /// # Errors
    /// Corruption of a record; invalid argument, if a configured credential is too short or too
    /// long; I/O errors.
    pub(crate) fn open(log: &Log, config: &Config) -> Result<(Self, Option<RandomPassword>)> {
        Self::open_with(log, &Settings::from(config), Arc::new(SystemClock))
    }

    fn open_with(
        log: &Log,
        settings: &Settings<'_>,
        clock: Arc<dyn Clock>,
    ) -> Result<(Self, Option<RandomPassword>)> {
        let no_thread = |error: std::io::Error| Error::new(ErrorKind::Io, error.to_string());
        let directory = record::read(log)?;
        let is_new = directory.users.is_empty();
        let users = Self {
            directory: ArcSwap::from_pointee(directory),
            retired: Mutex::default(),
            hashers: Hashers::start(settings.password_hashers).map_err(no_thread)?,
            fingerprints: Fingerprints::new().map_err(no_random)?,
            nobody: Arc::new(Credential::new(PasswordHash::of_nobody().map_err(no_random)?)),
            throttle: Throttle::new(settings.failed_logins_max),
            tokens_per_user_max: settings.tokens_per_user_max as usize,
            clock,
        };
        let password = if is_new { users.create_root(log, settings.root)? } else { None };
        Ok((users, password))
    }

    fn create_root(&self, log: &Log, root: &Root) -> Result<Option<RandomPassword>> {
        let made_up = match root {
            Root::Random => Some(RandomPassword::new().map_err(no_random)?),
            Root::Given { .. } | Root::Default => None,
        };
        let (name, password) = match root {
            Root::Given { name, password } => (name.as_str(), password.as_str()),
            Root::Default => (DEFAULT_ROOT_NAME, DEFAULT_ROOT_PASSWORD),
            Root::Random => {
                (DEFAULT_ROOT_NAME, made_up.as_ref().map_or("", RandomPassword::reveal))
            }
        };
        let check = |what: &str, bytes: usize, range: std::ops::RangeInclusive<usize>| {
            let (min, max) = (range.start(), range.end());
            let message =
                format!("the root user's {what} has {bytes} bytes: it must have {min} to {max}");
            let is_right = range.contains(&bytes);
            is_right.then_some(()).ok_or_else(|| Error::new(ErrorKind::InvalidArgument, message))
        };
        check("name", name.len(), NAME_BYTES)?;
        check("password", password.len(), PASSWORD_BYTES)?;
        let hash = PasswordHash::new(password, &mut Workspace::default()).map_err(no_random)?;
        let root = User {
            id: ROOT,
            name: Arc::from(name),
            is_active: true,
            created_us: self.clock.wall_us(),
            permissions: Some(Permissions::root()),
            credential: Arc::new(Credential::new(hash)),
        };
        log.set_records(&[record::keep_user(&root)?])?;
        let mut directory = Directory::default();
        directory.insert_user(root);
        self.directory.store(Arc::new(directory));
        Ok(made_up)
    }

    /// Returns whether the root user has the name and the password `iggy`. Takes milliseconds,
    /// because it computes an Argon2id hash.
    pub(crate) fn has_default_root(&self) -> bool {
        let directory = self.directory.load();
        directory.users.get(&ROOT).is_some_and(|root| {
            let hash = &root.credential.hash;
            &*root.name == DEFAULT_ROOT_NAME
                && hash.verify(DEFAULT_ROOT_PASSWORD, &mut Workspace::default())
        })
    }

    /// Checks that a user exists, is active and has a permission for an action.
    ///
    /// # Errors
    /// Unauthorized.
    pub(crate) fn authorize(&self, user: u32, action: Action) -> std::result::Result<(), Status> {
        let directory = self.directory.load();
        let permissions = directory
            .users
            .get(&user)
            .filter(|user| user.is_active)
            .and_then(|user| user.permissions.as_ref());
        let is_allowed = permissions.is_some_and(|permissions| permissions.allow(action));
        is_allowed.then_some(()).ok_or(Status::UNAUTHORIZED)
    }

    /// Returns the user with this id or name.
    pub(crate) fn find(&self, user: &WireIdentifier) -> Option<Arc<User>> {
        self.directory.load().find(user).cloned()
    }

    /// Returns all users, ordered by id.
    pub(crate) fn all(&self) -> Vec<Arc<User>> {
        self.directory.load().users.values().cloned().collect()
    }

    /// Checks the name and password of a login from `address`, and returns the user's id. Waits
    /// until a thread of the pool is free. The caller must call [`Self::delay_refusal`] before it
    /// refuses a login.
    ///
    /// # Errors
    /// Invalid credentials.
    pub(crate) async fn login(
        &self,
        name: &str,
        password: &str,
        address: IpAddr,
    ) -> std::result::Result<u32, LoginError> {
        let has_valid_length =
            NAME_BYTES.contains(&name.len()) && PASSWORD_BYTES.contains(&password.len());
        let directory = self.directory.load_full();
        let user = directory.named(name).filter(|user| has_valid_length && user.is_active);
        let credential = user.map_or(&self.nobody, |user| &user.credential);
        let is_right = self.check_password(credential, password, name, address).await;
        // The user may have been deleted or deactivated, or got another password, during the check
        // of the password.
        let directory = self.directory.load();
        let is_current = |user: &User| {
            directory.users.get(&user.id).is_some_and(|current| {
                current.is_active && Arc::ptr_eq(&current.credential, &user.credential)
            })
        };
        let accepted = user.filter(|user| is_right && is_current(user));
        accepted.map(|user| user.id).ok_or(LoginError::InvalidCredentials)
    }

    /// Counts a failed login from an address. Waits until the login may be refused, if several
    /// logins from the address have failed recently.
    pub(crate) async fn delay_refusal(&self, address: IpAddr) {
        self.throttle.delay_refusal(address).await;
    }

    /// Returns whether a password matches a credential. Waits until a thread of the pool is free,
    /// unless the fast hash in memory matches. `user` is the user's name.
    async fn check_password(
        &self,
        credential: &Arc<Credential>,
        password: &str,
        user: &str,
        address: IpAddr,
    ) -> bool {
        let fingerprint = self.fingerprints.of(credential, password);
        if credential.is_known(&fingerprint) {
            return true;
        }
        let credential = Arc::clone(credential);
        let password = SecretString::from(password);
        let check = move |workspace: &mut Workspace| {
            credential.verify(password.expose_secret(), fingerprint, workspace)
        };
        let origin = Origin { host: Some(Host::of(address)), user };
        // Without a result, because hashing panicked, the password counts as wrong.
        self.hashers.run(origin, check).await.unwrap_or(false)
    }

    /// Checks the personal access token of a login, and returns the user's id. The caller must call
    /// [`Self::delay_refusal`] before it refuses a login.
    ///
    /// # Errors
    /// Invalid token; expired token; inactive user.
    pub(crate) fn login_with_token(&self, token: &str) -> std::result::Result<u32, LoginError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(LoginError::InvalidToken);
        }
        let directory = self.directory.load();
        let found = directory.tokens.get(&blake3::hash(token.as_bytes()));
        let found = found.ok_or(LoginError::InvalidToken)?;
        let user = directory.users.get(&found.user).ok_or(LoginError::InvalidToken)?;
        if found.is_expired(self.clock.wall_us()) {
            return Err(LoginError::ExpiredToken);
        }
        user.is_active.then_some(user.id).ok_or(LoginError::Inactive)
    }
}

#[cold]
fn no_random(error: getrandom::Error) -> Error {
    tracing::error!(%error, "the system has no random bytes");
    Error::new(ErrorKind::Io, format!("the system has no random bytes: {error}"))
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let directory = self.directory.load();
        write!(f, "Users({} users, {} tokens)", directory.users.len(), directory.tokens.len())
    }
}

#[cfg(test)]
mod tests;
