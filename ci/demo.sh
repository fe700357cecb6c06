#!/usr/bin/env bash
# Shows what Tailwater does with a database that RocksDB wrote: verifies it, says what it consists of, and reads all of
# it. Nothing in it is changed.
#
#   ci/demo.sh         with a database out of this repository, which RocksDB 11.9 wrote; what is read is compared with
#                      what RocksDB itself read
#   ci/demo.sh DIR     with your own
#
# Needs Rust and a C compiler. The first build takes some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "== building (release)"
cargo build --release --locked -p tailwater-cli -p tailwater-testkit
tailwater=target/release/tailwater

if [ $# -gt 0 ]; then
    directory=$1
else
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    directory=$scratch/packages
    echo
    echo "== unpacking 'packages': 6,000 entries of Debian's package index, written by RocksDB 11.9"
    target/release/golden packages "$directory"
fi

echo
echo "== tailwater db verify: every checksum, order, count, filter and reference"
"$tailwater" db verify "$directory"

echo
echo "== tailwater db properties: what it consists of"
"$tailwater" db properties "$directory"

echo
echo "== tailwater db dump --all: each live entry of each column family, first five"
"$tailwater" db dump "$directory" --all | head -5 | cut -c1-120

if [ $# -eq 0 ]; then
    echo
    echo "== the whole dump, beside what RocksDB read back before it closed the database"
    "$tailwater" db dump "$directory" --all --hex >"$scratch/ours"
    target/release/golden packages >"$scratch/theirs"
    cmp "$scratch/ours" "$scratch/theirs"
    echo "equal: $(wc -l <"$scratch/ours") entries"
fi
