#!/bin/sh
# build.sh DIR [MESON OPTION...] [-- TARGET...] - configures DIR once and builds the
# targets (anybox and boxinit unless named) without a word unless something is wrong.
set -eu
cd "$(dirname "$0")/.."
dir=$1
shift
options=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    options="$options $1"
    shift
done
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- anybox boxinit

log=$(mktemp)
trap 'rm -f "$log"' EXIT
quietly() {
    "$@" >"$log" 2>&1 </dev/null || {
        cat "$log" >&2
        exit 1
    }
}
# shellcheck disable=SC2086 # options are words
[ -f "$dir/build.ninja" ] || quietly meson setup "$dir" . $options
if ! ninja -C "$dir" -n "$@" 2>/dev/null | grep -q 'no work to do'; then
    echo "building in $dir"
fi
quietly ninja -C "$dir" "$@"
