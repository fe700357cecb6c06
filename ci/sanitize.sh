#!/usr/bin/env bash
# Runs the tests of unsafe code under AddressSanitizer, memcheck and the model checker loom. Each step prints what it
# runs, or why it is skipped.
#
# usage: ci/sanitize.sh [STEP...]     default: all steps: address programs memcheck loom thread
#
#   address    use after free, and out of bounds, also in programs on the C interface. The caches' slabs and the
#              memtables' arenas mark their free memory for the sanitizer (`--cfg asan`, crates/io/src/buffer/poison.rs).
#   programs   the programs in C on the C interface, compiled with AddressSanitizer and LeakSanitizer, with the library
#              as it is: what a program misuses, and what it cannot free.
#   memcheck   decisions that depend on uninitialised memory. Needs valgrind.
#   loom       every interleaving, and every value that a load may return, of the lock-free parts and of the flush jobs.
#   thread     is skipped, with the reason.
#
# TAILWATER_STEP_MINUTES is the maximum duration of the tests of a step, by default 20 minutes, not
# counting their build. The builds are in target/asan and target/loom.
set -euo pipefail
cd "$(dirname "$0")/.."

minutes=${TAILWATER_STEP_MINUTES:-20}
host=$(rustc -vV | sed -n 's/^host: //p')
export TAILWATER_SEED=${TAILWATER_SEED:-20261120}

say() {
    echo
    echo "== $* (at ${SECONDS}s)"
}

# run_tests FILTER... -- ARGUMENT...: builds a crate's tests in the current environment, with the
# arguments after `--` for cargo. Runs the tests whose names contain one of the filters, under the
# command in `under`.
under=()
run_tests() {
    local filters=() built binary
    while [ "$1" != -- ]; do filters+=("$1"); shift; done
    shift
    built=$(cargo test --locked --no-run --message-format=json-render-diagnostics "$@")
    for binary in $(sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' <<< "$built"); do
        timeout "${minutes}m" "${under[@]}" "$binary" --quiet "${filters[@]}"
    done
}

# Filters for the tests of unsafe code in the engine's library.
engine_filters=(epoch:: cache:: memtable::)
# Filters for the tests of the C interface that run programs in C.
program_filters=(programs:: missing:: every_option)

address() {
    say "AddressSanitizer: all tests of tailwater-io, and tests of epochs, caches, memtables and LZ4"
    # RUSTC_BOOTSTRAP is required because a stable compiler includes the sanitizer's runtime but
    # does not allow enabling the sanitizer.
    export RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address --cfg asan"
    # Some memory is leaked deliberately: thread slots, and buffers that the kernel may still write to.
    export ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1
    local options=(--target "$host" --target-dir target/asan)
    run_tests -- "${options[@]}" -p tailwater-io
    run_tests lz4 -- "${options[@]}" -p tailwater-format --lib
    run_tests "${engine_filters[@]}" -- "${options[@]}" -p tailwater --lib

    say "AddressSanitizer: programs in C on the C interface"
    # The programs are linked with the runtime of the compiler that built the library.
    local runtime
    runtime=$(echo "$(rustc --print sysroot)/lib/rustlib/$host"/lib/librustc*_rt.asan.a)
    export TAILWATER_C_FLAGS="-rdynamic -Wl,--whole-archive $runtime -Wl,--no-whole-archive -lm -ldl -lrt"
    run_tests "${program_filters[@]}" -- "${options[@]}" -p tailwater-capi --test interface
}

programs() {
    export TAILWATER_C_FLAGS="-fsanitize=address -fno-omit-frame-pointer"
    if ! echo 'int main(void) { return 0; }' | ${CC:-cc} -xc $TAILWATER_C_FLAGS -o /dev/null - 2>/dev/null; then
        say "programs in C with AddressSanitizer: skipped, the C compiler lacks it"
        return
    fi
    say "AddressSanitizer and LeakSanitizer: programs in C on the C interface, with the library as it is"
    run_tests "${program_filters[@]}" -- -p tailwater-capi --test interface
}

memcheck() {
    if ! command -v valgrind >/dev/null; then
        say "memcheck: skipped, valgrind is not installed"
        return
    fi
    say "memcheck: the tests of epochs, caches, memtables, buffers and LZ4"
    under=(valgrind --quiet --error-exitcode=9 --leak-check=no --fair-sched=yes)
    # memcheck does not support io_uring. With TAILWATER_SLOW_TOOL, tests that repeat their work
    # make fewer rounds.
    export TAILWATER_SLOW_TOOL=1 TAILWATER_IO_URING=off
    run_tests buffer:: -- -p tailwater-io --lib
    run_tests lz4 -- -p tailwater-format --lib
    run_tests "${engine_filters[@]}" -- -p tailwater --lib
}

loom() {
    say "loom: epochs, caches, the skiplist, the write queue and the flush jobs"
    RUSTFLAGS="--cfg loom" timeout "${minutes}m" \
        cargo test --quiet --locked -p tailwater --lib --target-dir target/loom -- loom models
}

thread() {
    say "ThreadSanitizer: skipped"
    echo "ThreadSanitizer sees only synchronisation in code compiled with it, and the standard library of a"
    echo "stable compiler is not: each lock, channel and Arc would be reported, and a list of exceptions long"
    echo "enough would hide real races. loom covers the parts that use atomics."
}

if [ $# -gt 0 ]; then steps=("$@"); else steps=(address programs memcheck loom thread); fi
for step in "${steps[@]}"; do
    case $step in address | programs | memcheck | loom | thread) ;; *) sed -n 's/^# usage: //p' "$0" >&2; exit 2 ;; esac
    # Each step runs in a subshell, so that its environment does not affect other steps.
    ("$step")
done
echo
echo "done in ${SECONDS}s"
