#!/usr/bin/env bash
# Runs the tests of crate rocksdb 0.25.0, as published, on Tailwater's librocksdb.so. Fails if a test crashes or hangs,
# or if other tests fail than those in ci/capi/rust_rocksdb.txt, which names the missing group of each.
#
# usage: ci/capi/rust_rocksdb.sh DIRECTORY
#
# DIRECTORY receives the crate, its build and the library, and is reused. Needs libclang, and the crate in Cargo's
# registry: tailwater-peers depends on it, so `cargo fetch` brings it.
set -euo pipefail
cd "$(dirname "$0")/../.."

directory=$(realpath -m "${1:?usage: rust_rocksdb.sh DIRECTORY}")
expected=$PWD/ci/capi/rust_rocksdb.txt crate_tests=$PWD/ci/capi/crate_tests.sh
source=$(echo "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/rocksdb-0.25.0)
[ -d "$source" ] || { echo "rocksdb 0.25.0 was not fetched: run cargo fetch" >&2; exit 2; }

ci/capi/library.sh "$directory"
if [ ! -d "$directory/crate" ]; then
    cp -r "$source" "$directory/crate"
    rm "$directory/crate/rust-toolchain.toml"
fi

cd "$directory/crate"
export ROCKSDB_LIB_DIR=$directory/lib CARGO_TARGET_DIR=$directory/target
# Old versions of bindgen may need the caller's, to find libclang.
export LD_LIBRARY_PATH=$directory/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
exec "$crate_tests" "$expected" "$directory" --tests
