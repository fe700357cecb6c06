//! Users and tokens as the log's records, in JSON.
//!
//! | key | value |
//! |---|---|
//! | `user/ID` | name, whether active, creation time, password hash, permissions |
//! | `token/USER/NAME` | hash of the token, expiry time |

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tailwater_log::{Error, ErrorKind, Log, Result};

use super::password::{Credential, PasswordHash};
use super::permission::Permissions;
use super::{Directory, Token, User};

const USERS: &str = "user/";
const TOKENS: &str = "token/";

/// A change of a record: its key, and its new value; `None` removes the record.
pub(super) type Change = (String, Option<String>);

#[derive(Serialize, Deserialize)]
struct UserRecord {
    name: String,
    is_active: bool,
    /// Creation time, in microseconds since 1970.
    created_us: u64,
    password: PasswordHash,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    permissions: Option<Permissions>,
}

#[derive(Serialize, Deserialize)]
struct TokenRecord {
    /// BLAKE3 hash of the token, in hexadecimal.
    hash: String,
    /// Expiry time, in microseconds since 1970; absent if the token never expires.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    expires_us: Option<u64>,
}

/// Returns the change that writes the record of a user.
pub(super) fn keep_user(user: &User) -> Result<Change> {
    let record = UserRecord {
        name: user.name.to_string(),
        is_active: user.is_active,
        created_us: user.created_us,
        password: user.credential.hash.clone(),
        permissions: user.permissions.clone(),
    };
    keep(user_key(user.id), &record)
}

/// Returns the change that removes the record of a user.
pub(super) fn remove_user(id: u32) -> Change {
    (user_key(id), None)
}

/// Returns the change that writes the record of a token.
pub(super) fn keep_token(token: &Token) -> Result<Change> {
    let record =
        TokenRecord { hash: token.hash.to_hex().to_string(), expires_us: token.expires_us };
    keep(token_key(token), &record)
}

/// Returns the change that removes the record of a token.
pub(super) fn remove_token(token: &Token) -> Change {
    (token_key(token), None)
}

fn user_key(id: u32) -> String {
    format!("{USERS}{id}")
}

fn token_key(token: &Token) -> String {
    format!("{TOKENS}{}/{}", token.user, token.name)
}

fn keep(key: String, record: &impl Serialize) -> Result<Change> {
    match serde_json::to_string(record) {
        Ok(value) => Ok((key, Some(value))),
        Err(error) => Err(Error::new(ErrorKind::Internal, format!("record {key}: {error}"))),
    }
}

/// Reads the records of all users and tokens.
///
/// # Errors
/// Corruption; the error names the key of the record.
pub(super) fn read(log: &Log) -> Result<Directory> {
    let mut directory = Directory::default();
    for (key, value) in log.records(USERS) {
        directory.insert_user(decode_user(&key, &value)?);
    }
    for (key, value) in log.records(TOKENS) {
        let token = decode_token(&key, &value)?;
        if !directory.users.contains_key(&token.user) {
            return Err(corrupt(&key, format!("there is no user {}", token.user)));
        }
        directory.insert_token(token);
    }
    Ok(directory)
}

fn decode_user(key: &str, value: &str) -> Result<User> {
    let id = key.strip_prefix(USERS).and_then(|id| id.parse().ok());
    let id = id.ok_or_else(|| corrupt(key, "its key has no id"))?;
    let record: UserRecord = decode(key, value)?;
    if let Some(defect) = record.password.defect() {
        return Err(corrupt(key, format!("its password hash cannot be used: {defect}")));
    }
    Ok(User {
        id,
        name: record.name.into(),
        is_active: record.is_active,
        created_us: record.created_us,
        permissions: record.permissions,
        credential: Arc::new(Credential::new(record.password)),
    })
}

fn decode_token(key: &str, value: &str) -> Result<Token> {
    // The key is split at the first slash after the prefix, because the name of a token may contain
    // slashes.
    let named = key.strip_prefix(TOKENS).and_then(|rest| rest.split_once('/'));
    let named = named.and_then(|(user, name)| Some((user.parse().ok()?, name)));
    let (user, name) = named.ok_or_else(|| corrupt(key, "its key has no user and name"))?;
    let record: TokenRecord = decode(key, value)?;
    let hash = blake3::Hash::from_hex(&record.hash).map_err(|error| corrupt(key, error))?;
    Ok(Token { user, name: Arc::from(name), hash, expires_us: record.expires_us })
}

fn decode<T: DeserializeOwned>(key: &str, value: &str) -> Result<T> {
    serde_json::from_str(value).map_err(|error| corrupt(key, error))
}

#[cold]
fn corrupt(key: &str, what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Corruption, format!("record '{key}': {what}"))
}
