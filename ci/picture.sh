#!/usr/bin/env bash
# Makes the README's picture, docs/pictures/tail.svg: the picture of the report of a run of `tailwater tail`. Prints the
# date and the command, which the README states below the picture.
#
#   ci/picture.sh [ARGUMENTS]   ARGUMENTS of `tailwater tail` [default: --quick]
#
# With RocksDB among the engines (--engine both) it runs the same command of tailwater-peers, whose build needs libclang.
# Needs root for the memory limit. With --resume, an interrupted experiment goes on.
set -euo pipefail
cd "$(dirname "$0")/.."

arguments=("$@")
[ ${#arguments[@]} -gt 0 ] || arguments=(--quick)
package=tailwater-cli program=tailwater
case " ${arguments[*]} " in *" both "* | *" rocksdb "*) package=tailwater-peers program=tailwater-peers ;; esac

cargo build --release --locked -p "$package"
"target/release/$program" tail "${arguments[@]}" --directory target/tail-picture

picture=docs/pictures/tail.svg
mkdir -p "$(dirname "$picture")"
cp target/tail-picture/report/report.svg "$picture"
bytes=$(stat -c %s "$picture")
[ "$bytes" -le 200000 ] || { echo "$picture has $bytes bytes" >&2; exit 1; }
echo
echo "$picture, $(date -u +%F), $program tail ${arguments[*]}"
