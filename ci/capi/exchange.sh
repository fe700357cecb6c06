#!/usr/bin/env bash
# Exchanges databases between the real RocksDB and Tailwater: the program in ci/capi/exchange, on crate rocksdb 0.25,
# opens each database ten times with each library in turn, checks its contents and changes them.
#
# usage: ci/capi/exchange.sh DIRECTORY
#
# DIRECTORY receives the program, the libraries and the databases. Needs libclang, and Java with Maven for the real
# library (ci/oracle/fetch.sh).
set -euo pipefail
cd "$(dirname "$0")/../.."

directory=$(realpath -m "${1:?usage: exchange.sh DIRECTORY}")
ci/oracle/fetch.sh "$directory/oracle" || exit 2
ci/capi/library.sh "$directory"
mkdir -p "$directory/real"
ln -sfn "$directory"/oracle/librocksdbjni-*.so "$directory/real/librocksdb.so.11"
(
    export ROCKSDB_LIB_DIR=$directory/lib CARGO_TARGET_DIR=$directory/target
    cargo build --quiet --manifest-path ci/capi/exchange/Cargo.toml
) || { echo "the program does not build: is libclang installed?" >&2; exit 2; }
rm -rf "$directory/databases"
mkdir -p "$directory/databases"
for round in {0..19}; do
    libraries=$directory/real
    ((round % 2)) && libraries=$directory/lib
    LD_LIBRARY_PATH=$libraries "$directory/target/debug/exchange" "$directory/databases" "$round"
done
echo "20 rounds, all contents as written"
