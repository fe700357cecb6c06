#!/usr/bin/env bash
# The gate: format, lints, documentation, tests, and a short interoperation run with the real RocksDB.
#
#   ci/gate.sh         everything, as CI runs it (under 35 minutes on 2 cores from a cold cache)
#   ci/gate.sh fast    the checks of a commit: format, lints, documentation, quick tests (a few minutes, warm)
#
# Needs Rust and a C compiler. With Java and Maven it also tests against the real RocksDB; without them it reports that
# these tests are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

# Random tests use a fixed seed, so that a failure of the gate is caused by the change under test.
# ci/campaign.sh uses new seeds.
export TAILWATER_SEED=${TAILWATER_SEED:-20261120}

mode=${1:-full}
case $mode in full | fast) ;; *) echo "usage: ci/gate.sh [fast]" >&2; exit 2 ;; esac

step() {
    echo
    echo "== $* (at ${SECONDS}s)"
}

if command -v rustup >/dev/null && ! rustup component list --installed 2>/dev/null | grep -q '^clippy'; then
    step "installing rustfmt and clippy"
    rustup component add rustfmt clippy
fi

step "format"
cargo fmt --all --check

step "tidiness"
cargo test --quiet --locked -p tailwater-tidy

step "lints"
cargo clippy --all-targets --locked -- -D warnings
# Without the features for tests, which the line above enables everywhere.
cargo clippy --locked -p tailwater-cli -- -D warnings

step "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --locked --all-features

if [ "$mode" = fast ]; then
    step "tests of the libraries"
    cargo test --locked --lib --bins
    cargo test --locked -p tailwater-io -p tailwater-format
    cargo test --locked -p tailwater --test golden --test writing
    cargo test --locked -p tailwater-log --test log
    exit 0
fi

step "Apache Iggy's Python client"
# If the installation fails, the test that needs the Python client reports that it was skipped.
python=target/python/bin/python
if ! "$python" -c "import apache_iggy" 2>/dev/null; then
    { python3 -m venv target/python && "$python" -m pip install --quiet apache-iggy==0.9.0; } ||
        echo "not installed: Python 3 with venv is missing, or has no wheel"
fi

step "tests"
cargo test --locked

step "examples"
for example in first_program column_families migrating_from_rocksdb direct_io bulk_load_and_follow quota; do
    cargo run --quiet --locked -p tailwater --example "$example"
done

step "models of the lock-free parts"
# The model checker has its own build directory, because its flags would invalidate the builds of
# the tests.
RUSTFLAGS="--cfg loom" cargo test --quiet --locked -p tailwater --lib --target-dir target/loom -- loom models

step "models of the message log"
RUSTFLAGS="--cfg shuttle" cargo test --quiet --locked -p tailwater-log --test log --target-dir target/shuttle
