#!/usr/bin/env bash
# Runs random tests with new seeds, one after the other, until the time is up, to find failures that the gate's fixed
# seed does not reveal.
#
# usage: ci/campaign.sh [MINUTES]     default 30
#
# Ends at the first failure; the failing test prints the seed that reproduces the failure. Otherwise
# prints the number of rounds. Runs AddressSanitizer and memcheck (ci/sanitize.sh) first, unless
# TAILWATER_SANITIZE=off, Apache Iggy's command line (ci/cli.sh), which it installs once, programs of others on the
# C interface (ci/capi/all.sh; those whose prerequisites are absent are reported as skipped), and the server under
# unfavourable loads (ci/stress/server.py), each for TAILWATER_LOAD_SECONDS, by default 300. Then
# runs the tests with entries of real length, unless TAILWATER_REAL_SIZE=off: they take a quarter of
# an hour, 20 GiB of memory and 22 GiB of disk space, and report what they skip if there is less.
set -euo pipefail
cd "$(dirname "$0")/.."

minutes=${1:-30}
unset TAILWATER_SEED

cargo test --quiet --locked -p tailwater -p tailwater-log -p tailwater-server -p tailwater-capi --no-run

if [ "${TAILWATER_SANITIZE:-on}" != off ]; then
    ci/sanitize.sh address programs memcheck
fi
ci/cli.sh
ci/capi/all.sh target/capi
ci/stress/server.py --seconds "${TAILWATER_LOAD_SECONDS:-300}"
TAILWATER_REAL_SIZE=${TAILWATER_REAL_SIZE:-on} cargo test --quiet --locked -p tailwater --test limits real_size

began=$SECONDS
for ((round = 1; SECONDS - began < minutes * 60; round++)); do
    echo "== round $round (at ${SECONDS}s)"
    cargo test --quiet --locked -p tailwater \
        --test crash --test directories --test metamorphic --test concurrency --test model --test table_builder \
        --test option_extremes --test damage --test limits
    cargo test --quiet --locked -p tailwater --lib compaction
    # The C interface in lockstep with the real one.
    TAILWATER_ROUNDS=${TAILWATER_ROUNDS:-1} cargo test --quiet --locked -p tailwater-capi --test oracle
    # The tests with power cuts, a hundred cuts by default, which require root.
    TAILWATER_ROUNDS=${TAILWATER_ROUNDS:-12} cargo test --quiet --locked -p tailwater --test power_cuts
    # The tests of the message log, including a server that is killed a hundred times under load
    # from real clients.
    TAILWATER_ROUNDS=${TAILWATER_ROUNDS:-4} cargo test --quiet --locked -p tailwater-log --test log
    TAILWATER_ROUNDS=${TAILWATER_ROUNDS:-10} cargo test --quiet --locked -p tailwater-server --test server killed
done
echo "$((round - 1)) rounds in ${SECONDS}s, all green"
