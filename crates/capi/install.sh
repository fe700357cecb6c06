#!/usr/bin/env bash
# Builds the C interface and installs it: librocksdb.so.11, librocksdb.a, rocksdb/c.h, rocksdb.pc.
#
# usage: crates/capi/install.sh, with PREFIX (default /usr/local), DESTDIR, and PROFILE (default shipped)
#
# Needs the binutils.
set -euo pipefail
cd "$(dirname "$0")/../.."

prefix=${PREFIX:-/usr/local}
destination=${DESTDIR:-}$prefix
profile=${PROFILE:-shipped}
# The development profile has a directory with another name.
target=${CARGO_TARGET_DIR:-target}/${profile/#dev/debug}

cargo rustc --locked -p tailwater-capi --lib --profile "$profile" --crate-type cdylib
cargo rustc --locked -p tailwater-capi --lib --profile "$profile" --crate-type staticlib

install -d "$destination"/{lib/pkgconfig,include/rocksdb}
install -m 755 "$target/libtailwater_capi.so" "$destination/lib/librocksdb.so.11"
ln -sfn librocksdb.so.11 "$destination/lib/librocksdb.so"
install -m 644 crates/capi/include/rocksdb/c.h "$destination/include/rocksdb/c.h"

# The archive is one object whose symbols are local, except those of the interface: so nothing of it
# can collide with the program's own zstd or with another Rust library.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ld -r --force-group-allocation --whole-archive "$target/libtailwater_capi.a" -o "$work/whole.o"
# The standard library's bitcode is of no use, and of a version that ar's plugins may not read.
objcopy --wildcard --keep-global-symbol='rocksdb_*' --remove-section=.llvmbc --remove-section=.llvmcmd \
    "$work/whole.o" "$work/rocksdb.o"
rm -f "$destination/lib/librocksdb.a"
ar crs "$destination/lib/librocksdb.a" "$work/rocksdb.o"

cat > "$destination/lib/pkgconfig/rocksdb.pc" <<PC
prefix=$prefix
libdir=\${prefix}/lib
includedir=\${prefix}/include

Name: rocksdb
Description: RocksDB's C interface over Tailwater
Version: 11.8.1
Libs: -L\${libdir} -lrocksdb
Libs.private: -lpthread -ldl -lm
Cflags: -I\${includedir}
PC
