#!/usr/bin/env bash
# Runs Apache Iggy's command line, unmodified, against the server. The output of each command must
# match a pattern (the line of the output that repeats the arguments is ignored), and polls must
# return exactly the expected payloads. `message flush`, `login`, `session` and `context` are not
# tested.
#
# usage: ci/cli.sh [ADDRESS]
#
# Without ADDRESS it builds `tailwater` and serves a temporary directory; with ADDRESS it uses the
# server at that address, whose root user must be iggy / iggy. TAILWATER_SERVER is the path of a
# built `tailwater`, and TAILWATER_IGGY the path of an installed `iggy`. Without TAILWATER_IGGY,
# `iggy-cli` is installed below `target/iggy-cli` (a few minutes, once). The script ends at the
# first difference.
set -euo pipefail
cd "$(dirname "$0")/.."

iggy=${TAILWATER_IGGY:-$PWD/target/iggy-cli/bin/iggy}
[ -x "$iggy" ] || cargo install --quiet --locked iggy-cli --version 0.14.0 --root target/iggy-cli
address=${1:-}
tailwater=${TAILWATER_SERVER:-${CARGO_TARGET_DIR:-target}/debug/tailwater}
[ -n "$address" ] || [ -n "${TAILWATER_SERVER:-}" ] || cargo build --quiet --locked -p tailwater-cli

scratch=$(mktemp -d)
server=
cleanup() {
    [ -z "$server" ] || { kill "$server" && wait "$server" || true; }
    rm -rf "$scratch"
}
trap cleanup EXIT
# `iggy` reads and writes files in the home directory. cargo may need the real one, and has run before.
export HOME=$scratch

if [ -z "$address" ]; then
    "$tailwater" serve --path "$scratch/data" --with-default-root-credentials \
        --address 127.0.0.1:0 --set http.enabled=false 2>"$scratch/log" &
    server=$!
    for ((attempt = 0; attempt < 100; attempt++)); do
        [ ! -e "$scratch/data/runtime/current_config.toml" ] || break
        sleep 0.1
    done
    address=$(grep -o '127\.0\.0\.1:[1-9][0-9]*' "$scratch/data/runtime/current_config.toml" | head -1)
fi

checks=0
anonymous() { "$iggy" --tcp-server-address "$address" "$@" 2>&1; }
root() { anonymous --username iggy --password iggy "$@"; }

fail() {
    printf 'not ok: %s\n%s\n' "$1" "$2" >&2
    exit 1
}

# expect PATTERN COMMAND...: the command succeeds, and its output has a line that matches.
expect() {
    local pattern=$1 output
    shift
    output=$("$@") || fail "$*" "$output"
    grep -v '^Executing' <<<"$output" | grep -Ei -- "$pattern" >/dev/null || fail "$* (no line matches: $pattern)" "$output"
    checks=$((checks + 1))
}

# refuse PATTERN COMMAND...: the command fails, and its output has a line that matches.
refuse() {
    local pattern=$1 output
    shift
    ! output=$("$@") || fail "$* (it succeeded)" "$output"
    grep -v '^Executing' <<<"$output" | grep -Ei -- "$pattern" >/dev/null || fail "$* (no line matches: $pattern)" "$output"
    checks=$((checks + 1))
}

# expect_payloads PAYLOADS OPTION...: a poll with these options returns messages with these payloads, in this order.
expect_payloads() {
    local want=$1 output file=$scratch/polled
    shift
    rm -f "$file"
    output=$(root message poll "$@" --output-file "$file") || fail "message poll $*" "$output"
    [ "$(grep -aoE 'm[0-9]{2}' "$file" | tr '\n' ' ')" = "$want" ] ||
        fail "message poll $* (expected: $want)" "$(strings "$file")"
    checks=$((checks + 1))
}

# The system.
expect 'Ping .*successful|Ping sequence|time:' root ping --count 2
expect 'Transport|TCP' root me
expect 'Message Count' root stats
expect 'segment_size' root options topic
expect 'Node|node|leader|Leader' root cluster metadata
expect 'napshot' root snapshot --out-dir "$scratch"
expect 'TCP' root client list
refuse 'nvalid credentials|rror' anonymous --username iggy --password wrong me

# Streams.
expect 'created' root stream create shop
refuse 'already exists|rror' root stream create shop
expect 'shop' root stream list
expect 'shop' root stream get shop
expect 'updated|shop2' root stream update shop shop2
expect 'shop2' root stream get shop2
expect 'updated' root stream update shop2 shop
expect 'not found' root stream get missing

# Topics and partitions.
expect 'created' root topic create shop orders 3 none unlimited --durability persisted
expect 'created' root topic create shop audit 1 gzip 1day --set segment_size=1MiB
expect 'orders' root topic list shop
expect 'orders' root topic get shop orders
expect 'updated' root topic update shop audit audits none 2days
expect 'audits' root topic get shop audits
expect 'not found' root topic get shop missing
expect 'Created' root partition create shop orders 2
expect '5' root topic get shop orders
expect 'Deleted' root partition delete shop orders 1

# Messages: sends with each kind of partitioning.
expect 'sent' root message send --partition-id 0 shop orders m00 m01 m02 m03
expect 'sent' root message send --partition-id 0 --headers 'color:string:red,size:uint64:7' shop orders m04
expect 'sent' root message send --message-key key shop audits k01
expect 'sent' root message send --message-key key shop audits k02
expect 'sent' root message send shop audits b01 b02
refuse 'artition|rror' root message send --partition-id 99 shop orders m99

# Polls: with each polling strategy.
expect_payloads 'm00 m01 m02 m03 m04 ' --first --message-count 10 shop orders 0
expect_payloads 'm00 m01 ' --first --message-count 2 shop orders 0
expect_payloads 'm03 m04 ' --last --message-count 2 shop orders 0
expect_payloads 'm02 m03 ' --offset 2 --message-count 2 shop orders 0
expect_payloads 'm00 m01 ' --next --auto-commit --message-count 2 --consumer 5 shop orders 0
expect_payloads 'm02 m03 ' --next --auto-commit --message-count 2 --consumer 5 shop orders 0
expect 'color' root message poll --offset 4 --message-count 1 --show-headers shop orders 0
# A file to which polled messages were written can be sent again.
root message poll --first --message-count 5 --output-file "$scratch/messages" shop orders 0 >/dev/null
expect 'sent' root message send --partition-id 1 --input-file "$scratch/messages" shop orders

# Consumer offsets.
expect '3' root consumer-offset get 5 shop orders 0
expect 'set' root consumer-offset set 5 shop orders 0 1
expect_payloads 'm02 ' --next --message-count 1 --consumer 5 shop orders 0
refuse 'rror' root consumer-offset set 5 shop orders 0 1000
expect 'not found|no.*offset|not set' root consumer-offset get 6 shop orders 0

# Consumer groups.
expect 'created' root consumer-group create shop orders billing
refuse 'already exists|rror' root consumer-group create shop orders billing
expect 'billing' root consumer-group list shop orders
expect 'billing' root consumer-group get shop orders billing
refuse 'member.*not found' root consumer-offset set billing shop orders 0 2 --kind consumer-group
expect 'deleted' root consumer-group delete shop orders billing

# Segments, purges.
expect 'deleted' root segment delete shop orders 0 1
expect 'purged' root topic purge shop orders
expect_payloads '' --first --message-count 10 shop orders 0
expect 'sent' root message send --partition-id 0 shop orders m00
expect 'purged' root stream purge shop
expect_payloads '' --first --message-count 10 shop orders 0

# Users, permissions, tokens.
expect 'created' root user create clerk secret
expect 'clerk' root user list
expect 'clerk' root user get clerk
refuse 'nauthorized|rror' anonymous --username clerk --password secret stream list
expect 'pdated|ermissions' root user permissions clerk --global-permissions r_str
expect 'shop' anonymous --username clerk --password secret stream list
refuse 'nauthorized|rror' anonymous --username clerk --password secret stream delete shop
expect 'hanged|pdated|assword' root user password clerk secret secret2
refuse 'rror' anonymous --username clerk --password secret me
expect 'TCP' anonymous --username clerk --password secret2 me
expect 'clerk2' root user name clerk clerk2
expect 'nactive' root user status clerk2 inactive
refuse 'rror' anonymous --username clerk2 --password secret2 me
expect 'deleted' root user delete clerk2
created=$(root pat create robot 1day) || fail 'pat create' "$created"
token=$(grep -oE '[A-Za-z0-9_-]{20,}' <<<"$created" | tail -1)
expect 'robot' root pat list
expect 'TCP' anonymous --token "$token" me
# Without a keyring the command reports a failure after the server has deleted the token, so the
# failure is ignored.
root pat delete robot >/dev/null || true
refuse 'rror' anonymous --token "$token" me

# Removal.
expect 'deleted' root topic delete shop audits
expect 'deleted' root stream delete shop
refuse 'not found|rror' root stream delete shop

echo "$checks checks of $("$iggy" --version), all green"
