#!/usr/bin/env bash
# Runs the program in ci/capi/go on grocksdb 1.11.1 and Tailwater's librocksdb.so.
#
# usage: ci/capi/go.sh DIRECTORY
#
# DIRECTORY receives the library. Needs Go and, once, its module proxy.
set -euo pipefail
cd "$(dirname "$0")/../.."

directory=$(realpath -m "${1:?usage: go.sh DIRECTORY}")
command -v go >/dev/null || { echo "Go is not installed" >&2; exit 2; }
cargo build --quiet -p tailwater-capi
mkdir -p "$directory/lib"
cp "${CARGO_TARGET_DIR:-target}/debug/libtailwater_capi.so" "$directory/lib/librocksdb.so.11"
ln -sfn librocksdb.so.11 "$directory/lib/librocksdb.so"
cp -r ci/capi/go "$directory/"
cd "$directory/go"
# The tag leaves out the compression libraries, which only a static RocksDB needs.
export CGO_CFLAGS=-I$OLDPWD/crates/capi/include CGO_LDFLAGS="-L$directory/lib -lrocksdb"
export LD_LIBRARY_PATH=$directory/lib
go mod tidy
go run -tags grocksdb_no_link .
