#!/usr/bin/env bash
# Runs the tests of crate rocksdb 0.25.0, as published, on Tailwater's librocksdb.so.
#
# usage: ci/capi/rust_rocksdb.sh DIRECTORY [ARGUMENTS OF cargo test]
#
# DIRECTORY receives the crate, its build and the library, and is reused. Needs libclang, and the crate
# in Cargo's registry: tailwater-peers depends on it, so `cargo fetch` brings it. Prints the tests that
# failed; each process that crashed is a failure of this script.
set -euo pipefail
cd "$(dirname "$0")/../.."

directory=$(realpath -m "${1:?usage: rust_rocksdb.sh DIRECTORY}")
shift
target=${CARGO_TARGET_DIR:-target}
source=$(echo "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/rocksdb-0.25.0)
[ -d "$source" ] || { echo "rocksdb 0.25.0 was not fetched: run cargo fetch" >&2; exit 2; }

cargo build --quiet -p tailwater-capi
mkdir -p "$directory/lib"
cp "$target/debug/libtailwater_capi.so" "$directory/lib/librocksdb.so.11"
ln -sfn librocksdb.so.11 "$directory/lib/librocksdb.so"
if [ ! -d "$directory/crate" ]; then
    cp -r "$source" "$directory/crate"
    rm "$directory/crate/rust-toolchain.toml"
fi

cd "$directory/crate"
export ROCKSDB_LIB_DIR=$directory/lib LD_LIBRARY_PATH=$directory/lib CARGO_TARGET_DIR=$directory/target
cargo test --no-fail-fast --tests "$@"
