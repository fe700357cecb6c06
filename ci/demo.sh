#!/usr/bin/env bash
# Shows the effect of direct I/O on the tail latency of reads during compactions, on this machine's
# disk. It runs a small version of the experiment of `tailwater tail` and ends with the path of its
# report, an HTML file; docs/tail.md describes the experiment and its output.
#
#   ci/demo.sh [ARGUMENTS]   ARGUMENTS are passed to `tailwater tail --quick`
#
# Needs Rust and a C compiler, 4 GiB of disk, and root for the memory limit. The first build takes some minutes, the
# experiment three.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "== building (release)"
cargo build --release --locked -p tailwater-cli

echo
echo "== tailwater tail --quick"
exec target/release/tailwater tail --quick --directory target/tail "$@"
