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
expected=$PWD/ci/capi/rust_rocksdb.txt
source=$(echo "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/rocksdb-0.25.0)
[ -d "$source" ] || { echo "rocksdb 0.25.0 was not fetched: run cargo fetch" >&2; exit 2; }

ci/capi/library.sh "$directory"
if [ ! -d "$directory/crate" ]; then
    cp -r "$source" "$directory/crate"
    rm "$directory/crate/rust-toolchain.toml"
fi

cd "$directory/crate"
export ROCKSDB_LIB_DIR=$directory/lib LD_LIBRARY_PATH=$directory/lib CARGO_TARGET_DIR=$directory/target
cargo test --quiet --tests --no-run || { echo "the crate does not build: is libclang installed?" >&2; exit 2; }
binaries=$(cargo test --quiet --tests --no-run --message-format=json | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')
: >"$directory/results"
for binary in $binaries; do
    status=0
    timeout 600 "$binary" >"$directory/output" 2>&1 || status=$?
    # 101 is the status of a test program whose tests failed.
    case $status in 0 | 101) ;; *) cat "$directory/output"; echo "$binary: status $status"; exit 1 ;; esac
    name=$(basename "$binary" | sed 's/-[0-9a-f]*$//')
    sed -n "s/^test \(.*\) \.\.\. \(ok\|FAILED\)$/$name::\1 \2/p" "$directory/output" >>"$directory/results"
done
echo "$(grep -c ' ok$' "$directory/results") tests passed, $(grep -c ' FAILED$' "$directory/results") failed"
sed -n 's/ FAILED$//p' "$directory/results" | sort -u >"$directory/failed"
cut -f1 "$expected" | grep -v '^#' | sort -u >"$directory/expected"
diff "$directory/expected" "$directory/failed" || {
    echo "< was expected to fail and passed, > failed" >&2
    exit 1
}
