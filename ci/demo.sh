#!/usr/bin/env bash
# Shows on this disk what direct I/O does to the tail of reads while compactions go on: the experiment of
# `tailwater tail`, small. docs/tail.md says what it does and how to read what it prints.
#
#   ci/demo.sh [ARGUMENTS]   ARGUMENTS go to `tailwater tail --quick`
#
# Needs Rust and a C compiler, 4 GiB of disk, and root for the memory limit. The first build takes some minutes, the
# rest two.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "== building (release)"
cargo build --release --locked -p tailwater-cli

echo
echo "== tailwater tail --quick"
exec target/release/tailwater tail --quick --directory target/tail "$@"
