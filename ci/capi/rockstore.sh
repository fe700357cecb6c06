#!/usr/bin/env bash
# Runs the tests of Python's rockstore 0.2.0, which loads the library by its name, on Tailwater's librocksdb.so.
#
# usage: ci/capi/rockstore.sh DIRECTORY
#
# DIRECTORY receives a virtual environment and the library, and is reused. Needs Python 3 with venv, and PyPI once.
set -euo pipefail
cd "$(dirname "$0")/../.."

directory=$(realpath -m "${1:?usage: rockstore.sh DIRECTORY}")
ci/capi/library.sh "$directory"
if [ ! -d "$directory/rockstore" ]; then
    python3 -m venv "$directory/venv" || { echo "Python has no venv" >&2; exit 2; }
    "$directory/venv/bin/pip" install --quiet cffi pytest || { echo "PyPI cannot be reached" >&2; exit 2; }
    "$directory/venv/bin/pip" download --quiet --no-deps --no-binary :all: --dest "$directory" rockstore==0.2.0
    tar xf "$directory/rockstore-0.2.0.tar.gz" -C "$directory"
    mv "$directory/rockstore-0.2.0" "$directory/rockstore"
fi
cd "$directory/rockstore"
LD_LIBRARY_PATH=$directory/lib PYTHONPATH=src:. "$directory/venv/bin/python" -m pytest -q
