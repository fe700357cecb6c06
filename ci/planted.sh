#!/usr/bin/env bash
# Verifies that the tools of ci/sanitize.sh detect defects. Plants one defect at a time in a copy of
# the working tree, and fails if the tool for this kind of defect does not find it.
#
# usage: ci/planted.sh [NAME...]     default: all of ci/planted/*.patch
#
# The copy is in target/planted; it is built in the build directories of ci/sanitize.sh. Prints the
# tool's message for each defect.
set -euo pipefail
cd "$(dirname "$0")/.."

copy=target/planted/source
host=$(rustc -vV | sed -n 's/^host: //p')
target=$PWD/target

# For each defect: the tool that must find it, the tests to run, and the expected message.
# AddressSanitizer's name for a read out of bounds depends on where the read begins and ends.
declare -A tool=(
    [epoch-use-after-free]="address epoch:: heap-use-after-free"
    [skiplist-out-of-bounds]="address memtable:: ERROR: AddressSanitizer"
    [slab-out-of-bounds]="address cache::slab ERROR: AddressSanitizer"
    [arena-uninitialised]="memcheck memtable:: uninitialised"
    [epoch-missing-fence]="loom epoch::loom Causality"
)

run() {
    case $1 in
    address)
        RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address --cfg asan" ASAN_OPTIONS=detect_leaks=0 \
            cargo test --quiet --locked -p tailwater --lib --target "$host" --target-dir "$target/asan" -- "$2"
        ;;
    memcheck)
        local runner=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<< "$host")_RUNNER
        env "$runner=valgrind --quiet --error-exitcode=9 --leak-check=no" TAILWATER_SLOW_TOOL=1 \
            cargo test --quiet --locked -p tailwater --lib --target "$host" --target-dir "$target/memcheck" -- "$2"
        ;;
    loom)
        RUSTFLAGS="--cfg loom" \
            cargo test --quiet --locked -p tailwater --lib --target-dir "$target/loom" -- "$2"
        ;;
    esac
}

if [ $# -gt 0 ]; then names=("$@"); else names=("${!tool[@]}"); fi
missed=0
for name in "${names[@]}"; do
    read -r by tests words <<< "${tool[$name]}"
    if [ "$by" = memcheck ] && ! command -v valgrind >/dev/null; then
        echo "$name: skipped, valgrind is not installed"
        continue
    fi
    rm -rf "$copy" && mkdir -p "$copy"
    git ls-files -z --cached --others --exclude-standard | tar --null -T - -c --ignore-failed-read | tar -x -C "$copy"
    patch --quiet -d "$copy" -p1 < "ci/planted/$name.patch"
    log=$target/planted/$name.log
    if (cd "$copy" && run "$by" "$tests") > "$log" 2>&1; then
        echo "$name: NOT FOUND by $by" && missed=1
    elif found=$(grep -m1 -E "$words" "$log"); then
        echo "$name: found by $by: ${found#"${found%%[![:space:]]*}"}"
    else
        echo "$name: the run failed for an unknown reason, see $log" && missed=1
    fi
done
rm -rf "$copy"
exit "$missed"
