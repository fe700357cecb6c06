//! Hashing, checking and generating passwords.
//!
//! A password is stored as its Argon2id hash. The cost parameters are stored with the hash, so that
//! hashes of any cost can be checked.
//!
//! After a successful check, the user's credential also remembers a fast keyed hash of the
//! password, so that a client that reconnects needs no Argon2id. The fast hash exists only in
//! memory, and its random key is lost when the process ends. Hashes that are cheap to attack are
//! therefore never written to disk, and are useless after the process has ended.

use std::fmt;
use std::sync::OnceLock;

use argon2::{Algorithm, Argon2, Block, Params, Version};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

use super::hex;

// The cost of a new hash is chosen for the following case. 10,000 clients, each with a different
// user, must be able to log in within their timeout of 30 s to a server that has just started, on
// two processors. A check takes 2.6 ms of one processor (AMD EPYC), and all 10,000 checks take 17
// s. With Apache Iggy's cost (19 MiB, two passes), a check takes 25 ms, which makes an attack on a
// leaked hash ten times as expensive. The figures are printed by `cargo test -p tailwater-server
// --lib -- --ignored --nocapture --test-threads 1 cost_of_a_check users_that_reconnect`.

/// Memory that the computation of a new hash uses, in KiB.
const MEMORY_KIB: u32 = 6 * 1024;
/// Number of times that the computation of a new hash passes over all of its memory (the time cost
/// of Argon2).
const PASSES: u32 = 1;
/// Number of lanes (the degree of parallelism) of the computation.
const LANES: u32 = 1;
/// Length of a new hash's salt, in bytes.
const SALT_BYTES: usize = 16;
/// Length of a new hash, in bytes.
const HASH_BYTES: usize = 32;

/// Length of a generated password, in characters.
const RANDOM_PASSWORD_CHARACTERS: usize = 32;

/// Memory for computing hashes. It is reused for the next hash.
#[derive(Default)]
pub(super) struct Workspace(Vec<Block>);

/// An Argon2id hash (version 0x13) with its salt and cost parameters.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PasswordHash {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
    #[serde(with = "hex")]
    salt: Vec<u8>,
    #[serde(with = "hex")]
    hash: Vec<u8>,
}

impl PasswordHash {
    /// Hashes a password with a new salt.
    ///
    /// # Errors
    /// The system cannot provide random bytes.
    pub(super) fn new(password: &str, workspace: &mut Workspace) -> Result<Self, getrandom::Error> {
        Self::with_cost(MEMORY_KIB, PASSES, LANES, password, workspace)
    }

    fn with_cost(
        memory_kib: u32,
        passes: u32,
        lanes: u32,
        password: &str,
        workspace: &mut Workspace,
    ) -> Result<Self, getrandom::Error> {
        let mut made = Self { memory_kib, passes, lanes, ..Self::of_nobody()? };
        made.hash = made.derive(password, workspace).unwrap_or_default();
        Ok(made)
    }

    /// Returns a hash that no password has. Checking a password against this hash takes as long as
    /// checking it against a new hash.
    ///
    /// # Errors
    /// The system cannot provide random bytes.
    pub(super) fn of_nobody() -> Result<Self, getrandom::Error> {
        let mut salt = vec![0; SALT_BYTES];
        let mut hash = vec![0; HASH_BYTES];
        getrandom::fill(&mut salt)?;
        getrandom::fill(&mut hash)?;
        Ok(Self { memory_kib: MEMORY_KIB, passes: PASSES, lanes: LANES, salt, hash })
    }

    /// Returns whether `password` has this hash. The duration of the call does not depend on the
    /// result.
    pub(super) fn verify(&self, password: &str, workspace: &mut Workspace) -> bool {
        let derived = self.derive(password, workspace);
        derived.is_ok_and(|derived| derived.ct_eq(&self.hash).into())
    }

    /// Returns the reason why no password can be checked against this hash, which may come from a
    /// damaged record; `None` if the hash is usable.
    pub(super) fn defect(&self) -> Option<argon2::Error> {
        let salt_is_short = self.salt.len() < argon2::MIN_SALT_LEN;
        self.params().err().or_else(|| salt_is_short.then_some(argon2::Error::SaltTooShort))
    }

    fn params(&self) -> argon2::Result<Params> {
        Params::new(self.memory_kib, self.passes, self.lanes, Some(self.hash.len()))
    }

    fn derive(&self, password: &str, workspace: &mut Workspace) -> argon2::Result<Vec<u8>> {
        let params = self.params()?;
        let blocks = &mut workspace.0;
        blocks.resize(params.block_count(), Block::default());
        let mut derived = vec![0; self.hash.len()];
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        let password = password.as_bytes();
        argon2.hash_password_into_with_memory(password, &self.salt, &mut derived, blocks)?;
        Ok(derived)
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PasswordHash(m={}, t={}, p={})", self.memory_kib, self.passes, self.lanes)
    }
}

/// Computes fast keyed hashes of passwords. The key is random and never leaves the process.
pub(super) struct Fingerprints {
    key: [u8; blake3::KEY_LEN],
}

impl Fingerprints {
    /// Creates a new random key.
    ///
    /// # Errors
    /// The system cannot provide random bytes.
    pub(super) fn new() -> Result<Self, getrandom::Error> {
        let mut key = [0; blake3::KEY_LEN];
        getrandom::fill(&mut key)?;
        Ok(Self { key })
    }

    /// Returns the fast hash of a password, to be compared with the fast hash in `credential`. Its
    /// type compares in constant time.
    pub(super) fn of(&self, credential: &Credential, password: &str) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&credential.hash.salt).update(password.as_bytes());
        hasher.finalize()
    }
}

/// The Argon2id hash of a user's password and, after a successful check, also the fast hash.
pub(super) struct Credential {
    pub(super) hash: PasswordHash,
    verified: OnceLock<blake3::Hash>,
}

impl Credential {
    pub(super) fn new(hash: PasswordHash) -> Self {
        Self { hash, verified: OnceLock::new() }
    }

    /// Returns whether a password with this fast hash has already passed a check. If not, the
    /// password may nevertheless be correct.
    pub(super) fn is_known(&self, fingerprint: &blake3::Hash) -> bool {
        self.verified.get().is_some_and(|known| known == fingerprint)
    }

    /// Checks a password against the Argon2id hash. If it is correct, remembers `fingerprint`,
    /// which is its fast hash.
    pub(super) fn verify(
        &self,
        password: &str,
        fingerprint: blake3::Hash,
        workspace: &mut Workspace,
    ) -> bool {
        // If another check of the same password has succeeded while this job was queued, the
        // Argon2id hash need not be computed again.
        if self.is_known(&fingerprint) {
            return true;
        }
        let is_right = self.hash.verify(password, workspace);
        if is_right {
            // Setting the value fails if a concurrent check of the same password has set it.
            let _ = self.verified.set(fingerprint);
        }
        is_right
    }
}

/// A generated password, which is shown to the user only once.
#[derive(PartialEq, Eq)]
pub(crate) struct RandomPassword(String);

impl RandomPassword {
    /// Generates a password.
    ///
    /// # Errors
    /// The system cannot provide random bytes.
    pub(super) fn new() -> Result<Self, getrandom::Error> {
        const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        let mut password = String::with_capacity(RANDOM_PASSWORD_CHARACTERS);
        while password.len() < RANDOM_PASSWORD_CHARACTERS {
            let mut bytes = [0; RANDOM_PASSWORD_CHARACTERS];
            getrandom::fill(&mut bytes)?;
            // The lower six bits of a byte select one of 62 characters. The two remaining values
            // select none, so that all characters are equally likely.
            let characters = bytes.iter().filter_map(|byte| ALPHABET.get(usize::from(byte & 63)));
            let wanted = RANDOM_PASSWORD_CHARACTERS - password.len();
            password.extend(characters.take(wanted).map(|character| char::from(*character)));
        }
        Ok(Self(password))
    }

    /// Returns the password as text.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for RandomPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RandomPassword")
    }
}

#[cfg(test)]
mod tests;
