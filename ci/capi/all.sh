#!/usr/bin/env bash
# Runs programs of others on Tailwater's librocksdb.so: the other scripts of this folder, one after the other. A script
# whose prerequisites are absent is reported as skipped.
#
# usage: ci/capi/all.sh DIRECTORY
set -euo pipefail
cd "$(dirname "$0")"

directory=$(realpath -m "${1:?usage: all.sh DIRECTORY}")
for script in rust_rocksdb storage_crates rockstore go exchange; do
    echo "== $script (at ${SECONDS}s)"
    status=0
    ./$script.sh "$directory/$script" || status=$?
    case $status in
        0) ;;
        2) echo "skipped: $script" ;;
        *) exit $status ;;
    esac
done
