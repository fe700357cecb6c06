#!/bin/sh
# Prepares the oracle in DIRECTORY: the real RocksDB, reached through its Java binding.
#
# usage: ci/oracle/fetch.sh DIRECTORY
#
# Fetches the binding with Maven, into Maven's local repository, unless it is already there;
# compiles the program next to this script; and extracts the native library from the binding, so
# that starting the program does not unpack it every time. Files that are up to date are not created
# again. Exits with 2, and a message on standard error, if a prerequisite is missing.
set -eu

version=11.8.1
sources=$(cd "$(dirname "$0")" && pwd)
directory=${1:?usage: fetch.sh DIRECTORY}
jar=${HOME:?}/.m2/repository/org/rocksdb/rocksdbjni/$version/rocksdbjni-$version.jar

missing() {
    echo "$1" >&2
    exit 2
}

for program in java javac jar; do
    command -v "$program" >/dev/null || missing "Java is not installed: '$program' is missing"
done
mkdir -p "$directory"
# The lock lets only one of several test programs that start at the same time prepare the oracle.
exec 9>"$directory/lock"
if command -v flock >/dev/null; then
    flock 9
fi

if [ ! -f "$jar" ]; then
    command -v mvn >/dev/null || missing "Maven, which fetches rocksdbjni $version, is not installed"
    mvn -q dependency:get "-Dartifact=org.rocksdb:rocksdbjni:$version" >"$directory/maven.log" 2>&1 ||
        missing "Maven could not fetch rocksdbjni $version, see $directory/maven.log"
fi

case $(uname -m) in
    x86_64) library=librocksdbjni-linux64.so ;;
    aarch64) library=librocksdbjni-linux-aarch64.so ;;
    *) missing "no native library of rocksdbjni is known for $(uname -m)" ;;
esac
ln -sf "$jar" "$directory/rocksdbjni.jar"
if [ ! -f "$directory/$library" ]; then
    (cd "$directory" && jar xf "$jar" "$library")
fi
for source in "$sources"/*.java; do
    class=$directory/$(basename "$source" .java).class
    if [ ! -f "$class" ] || [ "$source" -nt "$class" ]; then
        javac -cp "$jar" -d "$directory" "$sources"/*.java || missing "the oracle does not compile"
        break
    fi
done
