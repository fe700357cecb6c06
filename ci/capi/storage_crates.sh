#!/usr/bin/env bash
# Runs the tests of openraft-rocksstore 0.9.21 and kvdb-rocksdb 0.21.0 on Tailwater's librocksdb.so: as published, with
# the older versions of crate rocksdb that they depend on, and with crate rocksdb 0.25. Fails if a test crashes or hangs,
# or if other tests fail than those in ci/capi/storage_crates.txt.
#
# usage: ci/capi/storage_crates.sh DIRECTORY
#
# DIRECTORY receives the crates, their builds and the library, and is reused. Needs libclang, and crates.io once.
set -euo pipefail
cd "$(dirname "$0")/../.."

directory=$(realpath -m "${1:?usage: storage_crates.sh DIRECTORY}")
expected=$PWD/ci/capi/storage_crates.txt crate_tests=$PWD/ci/capi/crate_tests.sh
ci/capi/library.sh "$directory"

# fetch CRATE VERSION: brings a crate and its dependencies into Cargo's registry. Each has a package of its own, because
# they depend on different versions of crate rocksdb.
fetch() {
    local package=$directory/fetch/$1
    mkdir -p "$package/src"
    echo >"$package/src/lib.rs"
    printf '[package]\nname = "fetch"\nedition = "2021"\n[dependencies]\n%s = "=%s"\n[workspace]\n' "$1" "$2" \
        >"$package/Cargo.toml"
    (cd "$package" && cargo fetch --quiet) || { echo "$1 cannot be fetched" >&2; exit 2; }
}
fetch openraft-rocksstore 0.9.21
fetch kvdb-rocksdb 0.21.0
export ROCKSDB_LIB_DIR=$directory/lib CARGO_TARGET_DIR=$directory/target
# Old versions of bindgen may need the caller's, to find libclang.
export LD_LIBRARY_PATH=$directory/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

# try CRATE HEADER: runs the tests of a crate, as published or with crate rocksdb 0.25.
try() {
    local crate=$1 header=$2 copy=$directory/$1-$2
    if [ ! -d "$copy" ]; then
        cp -r "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$crate" "$copy"
        rm -f "$copy/Cargo.lock" "$copy/rust-toolchain" "$copy/rust-toolchain.toml"
        echo '[workspace]' >>"$copy/Cargo.toml"
        # The published package leaves out where these tests come from.
        if [ "${crate%-*}" = kvdb-rocksdb ]; then
            printf '[dev-dependencies.kvdb-shared-tests]\nversion = "0.11.0"\n' >>"$copy/Cargo.toml"
        fi
        if [ "$header" = new ]; then
            # The line after the name of the dependency holds its version.
            sed -i '/^\[dependencies.rocksdb\]/,/^$/s/^version = .*/version = "0.25"/' "$copy/Cargo.toml"
        fi
    fi
    echo "== $crate, $header"
    (cd "$copy" && "$crate_tests" "$expected" "$directory" --lib)
}

failed=0
for header in published new; do
    for crate in openraft-rocksstore-0.9.21 kvdb-rocksdb-0.21.0; do
        try $crate $header || failed=$?
    done
done
exit $failed
