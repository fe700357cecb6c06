//! Tests of password hashes, and a measurement of the cost of a check.

use std::time::Instant;

use super::{Credential, Fingerprints, PasswordHash, RandomPassword, Workspace};

#[test]
fn only_the_password_matches_its_hash() {
    let mut workspace = Workspace::default();
    let hash = PasswordHash::new("correct horse", &mut workspace).unwrap();
    assert!(hash.verify("correct horse", &mut workspace));
    assert!(!hash.verify("correct hors", &mut workspace));
    assert!(!hash.verify("", &mut workspace));
    let other = PasswordHash::new("correct horse", &mut workspace).unwrap();
    assert_ne!(hash, other, "the salts are the same");
    let nobody = PasswordHash::of_nobody().unwrap();
    assert!(!nobody.verify("correct horse", &mut workspace));
}

#[test]
fn hashes_of_any_cost_are_checked_with_one_workspace() {
    let mut workspace = Workspace::default();
    for (memory_kib, passes, lanes) in [(8, 1, 1), (4096, 3, 1), (64, 1, 2), (19 * 1024, 2, 1)] {
        let hash =
            PasswordHash::with_cost(memory_kib, passes, lanes, "secret", &mut workspace).unwrap();
        let json = serde_json::to_string(&hash).unwrap();
        let hash: PasswordHash = serde_json::from_str(&json).unwrap();
        assert!(hash.defect().is_none());
        assert!(hash.verify("secret", &mut workspace), "{hash:?}");
        assert!(!hash.verify("Secret", &mut workspace), "{hash:?}");
    }
}

/// Compares the hash with the test vector for Argon2id of the reference implementation.
#[test]
fn hashes_are_those_of_the_reference_implementation() {
    let hash = PasswordHash {
        memory_kib: 65536,
        passes: 2,
        lanes: 1,
        salt: b"somesalt".to_vec(),
        hash: super::hex::decode(
            "09316115d5cf24ed5a15a31a3ba326e5cf32edc24702987c02b6566f61913cf7",
        )
        .unwrap(),
    };
    assert!(hash.verify("password", &mut Workspace::default()));
}

#[test]
fn a_malformed_hash_matches_no_password() {
    let sound = PasswordHash::of_nobody().unwrap();
    let defects = [
        PasswordHash { memory_kib: 0, ..sound.clone() },
        PasswordHash { passes: 0, ..sound.clone() },
        PasswordHash { lanes: 0, ..sound.clone() },
        PasswordHash { salt: Vec::new(), ..sound.clone() },
        PasswordHash { hash: Vec::new(), ..sound },
    ];
    for hash in defects {
        assert!(hash.defect().is_some(), "{hash:?}");
        assert!(!hash.verify("", &mut Workspace::default()), "{hash:?}");
    }
}

#[test]
fn a_credential_remembers_a_correct_password() {
    let mut workspace = Workspace::default();
    let fingerprints = Fingerprints::new().unwrap();
    let credential = Credential::new(PasswordHash::new("secret", &mut workspace).unwrap());
    let right = fingerprints.of(&credential, "secret");
    let wrong = fingerprints.of(&credential, "Secret");
    assert!(!credential.verify("Secret", wrong, &mut workspace));
    assert!(!credential.is_known(&right) && !credential.is_known(&wrong));
    assert!(credential.verify("secret", right, &mut workspace));
    assert!(credential.is_known(&right) && !credential.is_known(&wrong));
    let other = Fingerprints::new().unwrap().of(&credential, "secret");
    assert!(!credential.is_known(&other), "the key of another process");
}

#[test]
fn random_passwords_differ() {
    let [a, b] = [(); 2].map(|()| RandomPassword::new().unwrap());
    assert_ne!(a.reveal(), b.reveal());
    for password in [a, b] {
        assert_eq!(password.reveal().len(), 32);
        assert!(password.reveal().bytes().all(|byte| byte.is_ascii_alphanumeric()));
        assert!(!format!("{password:?}").contains(password.reveal()));
    }
}

/// Prints the duration of a check. Run it alone on an idle machine, with `--ignored --nocapture`.
#[test]
#[ignore = "prints a measurement and asserts no time; run it alone, with --ignored --nocapture"]
fn cost_of_a_check() {
    const CHECKS: u32 = 100;
    let costs = [(19456, 2), (12288, 1), (8192, 1), (6144, 1), (4096, 1)];
    for (memory_kib, passes) in costs {
        let check = move || {
            let mut workspace = Workspace::default();
            let hash = PasswordHash::with_cost(memory_kib, passes, 1, "secret", &mut workspace);
            let hash = hash.unwrap();
            let start = Instant::now();
            for _ in 0..CHECKS {
                assert!(hash.verify("secret", &mut workspace));
            }
            (start.elapsed() / CHECKS, hash)
        };
        let threads = [(); 2].map(|()| tailwater_io::thread::spawn("check", check).unwrap());
        for thread in threads {
            let (mean, hash) = thread.join().unwrap();
            println!("{hash:?}: {mean:?}");
        }
    }
}
