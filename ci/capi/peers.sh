#!/usr/bin/env bash
# Runs tailwater-peers on both libraries, in alternating runs of one binary: its engine `rocksdb` is crate rocksdb on
# whichever librocksdb.so is found, the real one or Tailwater's.
#
# usage: ci/capi/peers.sh DIRECTORY ARGUMENTS...     for example: basket --engine rocksdb ...
#
# DIRECTORY receives the program and the libraries. Needs libclang, and Java with Maven for the real library.
set -euo pipefail
cd "$(dirname "$0")/../.."

directory=$(realpath -m "${1:?usage: peers.sh DIRECTORY ARGUMENTS...}")
shift
ci/oracle/fetch.sh "$directory/oracle" || exit 2
mkdir -p "$directory/lib" "$directory/real"
cargo build --quiet --locked --release -p tailwater-capi
cp "${CARGO_TARGET_DIR:-target}/release/libtailwater_capi.so" "$directory/lib/librocksdb.so.11"
ln -sfn librocksdb.so.11 "$directory/lib/librocksdb.so"
ln -sfn "$directory"/oracle/librocksdbjni-*.so "$directory/real/librocksdb.so.11"
ROCKSDB_LIB_DIR=$directory/lib CARGO_TARGET_DIR=$directory/target \
    cargo build --quiet --locked --release -p tailwater-peers
for round in {1..3}; do
    for library in real lib; do
        echo "== $library, round $round"
        LD_LIBRARY_PATH=$directory/$library "$directory/target/release/tailwater-peers" "$@"
    done
done
