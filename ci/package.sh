#!/usr/bin/env bash
# Packages every crate that a user needs, in the order of publication, and builds each from its package alone. Publishes
# nothing.
#
#   ci/package.sh          packages and builds
#   ci/package.sh --list   lists the files of each package
set -euo pipefail
cd "$(dirname "$0")/.."

crates=(tailwater-io tailwater-format tailwater tailwater-log tailwater-server tailwater-latency tailwater-cli)

case ${1:-} in
"") cargo publish --dry-run --locked "${crates[@]/#/--package=}" ;;
--list)
    for crate in "${crates[@]}"; do
        echo "== $crate"
        cargo package --locked --list --package "$crate"
    done
    ;;
*) echo "usage: ci/package.sh [--list]" >&2; exit 2 ;;
esac
