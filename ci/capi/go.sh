#!/usr/bin/env bash
# Runs the program in ci/capi/go on grocksdb 1.11.1 and Tailwater's librocksdb.so.
#
# usage: ci/capi/go.sh DIRECTORY
#
# DIRECTORY receives the program and the library. Needs Go and, once, its module proxy.
set -euo pipefail
cd "$(dirname "$0")/../.."

directory=$(realpath -m "${1:?usage: go.sh DIRECTORY}")
command -v go >/dev/null || { echo "Go is not installed" >&2; exit 2; }
ci/capi/library.sh "$directory"
cp -r ci/capi/go "$directory/"
# The tag leaves out the compression libraries, which only a static RocksDB needs.
export CGO_CFLAGS=-I$PWD/crates/capi/include CGO_LDFLAGS="-L$directory/lib -lrocksdb"
export LD_LIBRARY_PATH=$directory/lib
cd "$directory/go"
go mod tidy
go run -tags grocksdb_no_link .
