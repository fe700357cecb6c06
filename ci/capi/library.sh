#!/usr/bin/env bash
# Builds librocksdb.so in the development profile, with its checks, and copies it to DIRECTORY/lib.
#
# usage: ci/capi/library.sh DIRECTORY
set -euo pipefail
cd "$(dirname "$0")/../.."

directory=${1:?usage: library.sh DIRECTORY}
cargo build --quiet --locked -p tailwater-capi
mkdir -p "$directory/lib"
cp "${CARGO_TARGET_DIR:-target}/debug/libtailwater_capi.so" "$directory/lib/librocksdb.so.11"
ln -sfn librocksdb.so.11 "$directory/lib/librocksdb.so"
