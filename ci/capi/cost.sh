#!/usr/bin/env bash
# Compares calls through the C interface with the same calls through the Rust interface: instructions per operation,
# and rates of alternating runs. Fails if the C interface needs more than 5 % more instructions.
#
# usage: ci/capi/cost.sh DIRECTORY [RUNS [OPERATIONS]]     default: 5 runs of each, of 400000 operations
#
# DIRECTORY receives the databases. Needs valgrind.
set -euo pipefail
cd "$(dirname "$0")/../.."

directory=$(realpath -m "${1:?usage: cost.sh DIRECTORY [RUNS [OPERATIONS]]}")
runs=${2:-5}
rate_operations=${3:-400000}
# The operations whose instructions are counted.
operations=10000
command -v valgrind >/dev/null || { echo "valgrind is not installed" >&2; exit 2; }
cargo build --quiet --locked --release -p tailwater-capi --lib --example boundary_cost
mkdir -p "$directory"
target=${CARGO_TARGET_DIR:-target}/release
cp "$target/examples/boundary_cost" "$directory/"
cp "$target/libtailwater_capi.so" "$directory/librocksdb.so.11"
program=$directory/boundary_cost
library=$directory/librocksdb.so.11
"$program" rust "$directory" prepare 0

# per_operation INTERFACE WORKLOAD: instructions of the thread that makes the calls.
per_operation() {
    local total
    total=$(valgrind --tool=callgrind --toggle-collect='*boundary_cost::measured*' \
        --callgrind-out-file=/dev/null "$program" "$1" "$directory" "$2" "$operations" 2>&1 >/dev/null |
        sed -n 's/.*Collected : \([0-9]*\).*/\1/p')
    echo $((total / operations))
}

median() {
    sort -n | sed -n "$(((runs + 1) / 2))p"
}

failed=0
printf '%-12s %12s %12s %8s %12s %12s %8s\n' workload "Ir (Rust)" "Ir (C)" "" "1/s (Rust)" "1/s (C)" ""
for workload in fill get get_pinned seek multi_get; do
    rust=$(per_operation rust "$workload")
    c=$(per_operation "$library" "$workload")
    rates_rust= rates_c=
    for ((run = 0; run < runs; run++)); do
        rates_rust+=$("$program" rust "$directory" "$workload" "$rate_operations" | cut -d' ' -f1)$'\n'
        rates_c+=$("$program" "$library" "$directory" "$workload" "$rate_operations" | cut -d' ' -f1)$'\n'
    done
    rate_rust=$(median <<<"${rates_rust%$'\n'}")
    rate_c=$(median <<<"${rates_c%$'\n'}")
    printf '%-12s %12d %12d %7.1f%% %12d %12d %7.1f%%\n' "$workload" "$rust" "$c" \
        "$(bc -l <<<"($c - $rust) * 100 / $rust")" "$rate_rust" "$rate_c" \
        "$(bc -l <<<"($rate_c - $rate_rust) * 100 / $rate_rust")"
    ((c * 100 <= rust * 105)) || failed=1
done
exit $failed
