#!/usr/bin/env bash
# Runs programs of others on Tailwater's librocksdb.so: the other scripts of this folder, one after the other. A script
# whose prerequisites are absent is reported as skipped.
#
# usage: ci/capi/all.sh DIRECTORY
#
# TAILWATER_STEP_MINUTES is the maximum duration of a script, with its builds, by default 30 minutes.
set -euo pipefail
cd "$(dirname "$0")"

directory=$(realpath -m "${1:?usage: all.sh DIRECTORY}")
minutes=${TAILWATER_STEP_MINUTES:-30}
for script in install rust_rocksdb storage_crates rockstore go exchange; do
    echo "== $script (at ${SECONDS}s)"
    status=0
    timeout "${minutes}m" ./$script.sh "$directory/$script" || status=$?
    case $status in
        0) ;;
        2) echo "skipped: $script" ;;
        124) echo "$script took more than $minutes minutes" >&2; exit 1 ;;
        *) exit $status ;;
    esac
done
