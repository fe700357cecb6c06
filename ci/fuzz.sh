#!/usr/bin/env bash
# Fuzzes every decoder: builds the targets of fuzz/, extracts their seeds from the golden databases, runs each target
# for a while and prints a summary.
#
# usage: ci/fuzz.sh [SECONDS] [TARGET...]     default: 60 seconds, every target
#
# At most two targets run concurrently, each on one core (FUZZ_JOBS=1 for one). The exit code is 1
# if a target crashed, used too much memory or timed out; the name of the failing input is printed,
# and the input stays in fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"

seconds=${1:-60}
shift || true
jobs=${FUZZ_JOBS:-2}
host=$(rustc -vV | sed -n 's/^host: //p')

# The flags that cargo-fuzz passes to a nightly compiler, without the flags for the sanitizer, which
# a stable compiler lacks.
coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
coverage+=" -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
coverage+=" -Cllvm-args=-sanitizer-coverage-trace-compares"

if [ $# -gt 0 ]; then targets=("$@"); else
    mapfile -t targets < <(cd fuzz_targets && ls -- *.rs | sed 's/\.rs$//')
fi

# With --target, the flags apply to the fuzz targets and their libraries, but not to build scripts.
# Build scripts could not be linked with these flags, because they are not linked with the fuzzer.
RUSTFLAGS="--cfg fuzzing $coverage" cargo build --quiet --release --target "$host" \
    "${targets[@]/#/--bin=}"
cargo run --quiet --package tailwater-fuzz-seeds -- corpus ../tests/golden/*.tar.zst

binaries=target/$host/release
mkdir -p artifacts target/logs

# Runs one fuzz target and writes its line of the summary.
run() {
    local target=$1 log=target/logs/$1.log status=0
    mkdir -p "corpus/$target"
    "$binaries/$target" "corpus/$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 \
        -len_control=0 -use_value_profile=0 -print_final_stats=1 -artifact_prefix="artifacts/$target-" \
        > "$log" 2>&1 || status=$?
    local files executions rate coverage
    files=$(find "corpus/$target" -type f | wc -l)
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
    coverage=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -1)
    local crash
    crash=$(sed -n 's/.*Test unit written to //p' "$log" | tail -1)
    printf '%-18s %8s %12s %10s %8s   %s\n' "$target" "$files" "${executions:--}" "${rate:--}" "${coverage:--}" \
        "$([ "$status" -eq 0 ] && echo none || echo "fuzz/${crash:-$log}")"
    return "$status"
}
export -f run
export binaries seconds

printf '%-18s %8s %12s %10s %8s   %s\n' target corpus executions per-second edges crashes
printf '%s\n' "${targets[@]}" | xargs -P "$jobs" -I{} bash -c 'run {} || exit 1' \
    || { echo "a target failed: see fuzz/target/logs" >&2; exit 1; }
