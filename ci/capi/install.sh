#!/usr/bin/env bash
# Installs the C interface into fresh directories, with PREFIX and with DESTDIR, and checks what is there: both libraries
# export `rocksdb_*` and nothing else, the shared one has RocksDB's SONAME, and programs in C, compiled with pkg-config,
# run with each of them.
#
# usage: ci/capi/install.sh DIRECTORY     with PROFILE, default dev, which is built already
#
# DIRECTORY receives the installations and the programs. Needs a C compiler, the binutils and pkg-config.
set -euo pipefail
cd "$(dirname "$0")/../.."

directory=$(realpath -m "${1:?usage: install.sh DIRECTORY}")
for tool in cc nm readelf pkg-config; do
    command -v $tool >/dev/null || { echo "$tool is not installed" >&2; exit 2; }
done
export PROFILE=${PROFILE:-dev}
rm -rf "$directory"/{prefix,package,programs}
mkdir -p "$directory/programs"
PREFIX=$directory/prefix crates/capi/install.sh
DESTDIR=$directory/package PREFIX=/opt/tailwater crates/capi/install.sh

fail() {
    echo "$*" >&2
    exit 1
}

# check ROOT: checks the installation in ROOT, for whose directories pkg-config is set up.
check() {
    local root=$1 library=$1/lib/librocksdb.so.11 found
    found=$(cd "$root" && find . ! -type d | sort | tr '\n' ' ')
    [ "$found" = "./include/rocksdb/c.h ./lib/librocksdb.a ./lib/librocksdb.so ./lib/librocksdb.so.11 \
./lib/pkgconfig/rocksdb.pc " ] || fail "$root has $found"

    readelf -d "$library" | grep -q 'SONAME.*\[librocksdb.so.11\]' || fail "the SONAME is another one"
    nm -D --defined-only "$library" | sed 's/.* //' | sort >"$directory/shared"
    nm -g --defined-only "$root/lib/librocksdb.a" | sed -n 's/^[0-9a-f]* [A-Z] //p' | sort >"$directory/static"
    ! grep -v '^rocksdb_' "$directory/shared" || fail "the shared library exports more"
    diff "$directory/shared" "$directory/static" || fail "the libraries export different symbols"

    local name flags libraries
    # Words: several flags.
    read -ra flags <<<"-std=c11 -g -Icrates/capi/tests/interface/c $(pkg-config --cflags rocksdb)"
    for name in basics callbacks lifetimes; do
        local source=crates/capi/tests/interface/c/$name.c program=$directory/programs/$name
        read -ra libraries <<<"$(pkg-config --libs rocksdb)"
        cc "${flags[@]}" "$source" -o "$program-shared" "${libraries[@]}" -lpthread
        read -ra libraries <<<"$(pkg-config --static --libs-only-l rocksdb | sed 's/-lrocksdb//')"
        cc "${flags[@]}" "$source" -o "$program-static" "$root/lib/librocksdb.a" "${libraries[@]}"
        readelf -d "$program-shared" | grep -q 'NEEDED.*\[librocksdb.so.11\]' || fail "$name needs another library"
        ! readelf -d "$program-static" | grep -q 'NEEDED.*librocksdb' || fail "$name needs a shared library"
        local kind
        for kind in shared static; do
            rm -rf "$directory/run"
            mkdir "$directory/run"
            (cd "$directory/run" && LD_LIBRARY_PATH=$root/lib timeout 300 "$program-$kind") || fail "$name ($kind)"
        done
    done
    rm -rf "$directory/run"
}

export PKG_CONFIG_LIBDIR=$directory/prefix/lib/pkgconfig
check "$directory/prefix"
export PKG_CONFIG_LIBDIR=$directory/package/opt/tailwater/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$directory/package
check "$directory/package/opt/tailwater"
echo "$(wc -l <"$directory/shared") functions; programs run with the shared and the static library"
