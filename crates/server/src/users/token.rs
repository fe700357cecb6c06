//! Personal access tokens. Such a token is a secret with which a user logs in, until the token
//! expires or is deleted.
//!
//! A token consists of 32 random bytes, and is shown only once, when it is created. Only its hash
//! is stored. A fast hash function suffices, because a secret with that much randomness cannot be
//! guessed.

use std::ops::RangeInclusive;
use std::sync::Arc;

use tailwater_log::Log;

use super::{Token, Users, hex, no_random};
use crate::status::Status;

/// Range of the length of a token's name, in bytes: that of names in the protocol.
const NAME_BYTES: RangeInclusive<usize> = 1..=255;
/// Number of random bytes of a token.
const SECRET_BYTES: usize = 32;

impl Users {
    /// Returns a user's tokens, ordered by name, including expired tokens that were not removed
    /// yet.
    pub(crate) fn tokens(&self, user: u32) -> Vec<Arc<Token>> {
        self.directory.load().tokens_of(user).cloned().collect()
    }

    /// Creates a token, and returns its secret, which is not stored. The token expires
    /// `expires_after_us` microseconds after its creation; with `None`, it never expires. Also
    /// removes the user's expired tokens.
    ///
    /// # Errors
    /// Unauthenticated, for a user that was deleted or deactivated; too many tokens; invalid name;
    /// a name that is taken; invalid expiry; errors from the log.
    pub(crate) fn create_token(
        &self,
        log: &Log,
        user: u32,
        name: &str,
        expires_after_us: Option<u64>,
    ) -> Result<String, Status> {
        if !NAME_BYTES.contains(&name.len()) {
            return Err(Status::INVALID_PERSONAL_ACCESS_TOKEN_NAME);
        }
        let now_us = self.clock.wall_us();
        let expires_us =
            expires_after_us.map(|us| now_us.checked_add(us).filter(|us| *us > now_us));
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut secret).map_err(no_random)?;
        let secret = hex::encode(&secret);
        self.edit(log, |edit| {
            if !edit.directory.users.get(&user).is_some_and(|user| user.is_active) {
                return Err(Status::UNAUTHENTICATED);
            }
            let (expired, current): (Vec<_>, Vec<_>) =
                edit.directory.tokens_of(user).cloned().partition(|token| token.is_expired(now_us));
            if current.len() >= self.tokens_per_user_max {
                return Err(Status::PERSONAL_ACCESS_TOKENS_LIMIT_REACHED);
            }
            if current.iter().any(|token| &*token.name == name) {
                return Err(Status::PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS);
            }
            let expires_us =
                expires_us.map(|us| us.ok_or(Status::INVALID_PERSONAL_ACCESS_TOKEN_EXPIRY));
            let expires_us = expires_us.transpose()?;
            expired.iter().for_each(|token| edit.remove_token(token));
            let hash = blake3::hash(secret.as_bytes());
            edit.keep_token(Token { user, name: Arc::from(name), hash, expires_us })
        })?;
        Ok(secret)
    }

    /// Deletes a token. Sessions whose login used the token stay logged in.
    ///
    /// # Errors
    /// Not found; errors from the log.
    pub(crate) fn delete_token(&self, log: &Log, user: u32, name: &str) -> Result<(), Status> {
        self.edit(log, |edit| {
            let token = edit.directory.tokens_of(user).find(|token| &*token.name == name).cloned();
            let token = token.ok_or(Status::RESOURCE_NOT_FOUND)?;
            edit.remove_token(&token);
            Ok(())
        })
    }

    /// Removes all tokens that have expired at `now_us`, in microseconds since 1970, and returns
    /// their number. Called periodically; a login with an expired token is refused even before its
    /// removal.
    ///
    /// # Errors
    /// Errors from the log.
    pub(crate) fn remove_expired(&self, log: &Log, now_us: u64) -> Result<usize, Status> {
        let is_any_expired =
            self.directory.load().tokens.values().any(|token| token.is_expired(now_us));
        if !is_any_expired {
            return Ok(0);
        }
        self.edit(log, |edit| {
            let tokens = edit.directory.tokens.values();
            let expired: Vec<_> =
                tokens.filter(|token| token.is_expired(now_us)).cloned().collect();
            expired.iter().for_each(|token| edit.remove_token(token));
            Ok(expired.len())
        })
    }
}
