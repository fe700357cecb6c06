#!/usr/bin/env bash
# Runs the tests of the crate in the current folder. Fails if a test crashes or hangs, or if other tests fail than those
# that EXPECTED lists: lines with the name of a test program, `::`, the name of the test, a tab and the reason. If the
# reason begins with `maybe: `, the test may pass, too.
#
# usage: crate_tests.sh EXPECTED DIRECTORY ARGUMENTS...     arguments of cargo test, for example --lib
#
# DIRECTORY receives the output. Exits with 2 if the crate does not build.
set -euo pipefail
# The order of sort and comm.
export LC_ALL=C

expected=$1 directory=$2
shift 2
cargo test --quiet "$@" --no-run || { echo "the crate does not build: is libclang installed?" >&2; exit 2; }
programs=$(cargo test --quiet "$@" --no-run --message-format=json | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')
: >"$directory/results"
: >"$directory/expected"
for program in $programs; do
    status=0
    timeout 600 "$program" >"$directory/output" 2>&1 || status=$?
    # 101 is the status of a test program whose tests failed.
    case $status in 0 | 101) ;; *) cat "$directory/output"; echo "$program: status $status"; exit 1 ;; esac
    name=$(basename "$program" | sed 's/-[0-9a-f]*$//')
    sed -n "s/^test \(.*\) \.\.\. \(ok\|FAILED\)$/$name::\1 \2/p" "$directory/output" >>"$directory/results"
    grep "^$name::" "$expected" >>"$directory/expected" || true
done
sed -n 's/ FAILED$//p' "$directory/results" | sort -u >"$directory/failed"
echo "$(grep -c ' ok$' "$directory/results") tests passed, $(wc -l <"$directory/failed") failed"
sed -n 's/\tmaybe: .*//p' "$directory/expected" | sort -u >"$directory/maybe"
sed -n 's/\t.*//p' "$directory/expected" | sort -u | comm -23 - "$directory/maybe" >"$directory/certain"
comm -23 "$directory/failed" "$directory/maybe" | diff "$directory/certain" - || {
    echo "< was expected to fail and passed, > failed" >&2
    exit 1
}
