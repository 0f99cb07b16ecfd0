#!/bin/bash
# fuzz.sh SECONDS [TARGET...] - runs each fuzz target with libFuzzer, ASan and UBSan. New
# inputs stay in build-fuzz/corpus/; a crash is kept in build-fuzz/crashes/ and fails. Move
# it to tests/fuzz/corpus/<target>/ together with the fix.
set -eu
cd "$(dirname "$0")/.."
seconds=$1
shift
if [ $# -eq 0 ]; then
    for source in tests/fuzz/fuzz_*.c; do
        name=${source##*/fuzz_}
        set -- "$@" "${name%.c}"
    done
fi

# Only these: boxinit is linked statically, without libFuzzer's runtime.
CC=clang-14 scripts/build.sh build-fuzz -Dfuzz=true -Db_sanitize=address,undefined \
    -Db_lundef=false -- "${@/#/tests/fuzz/fuzz_}"

mkdir -p build-fuzz/crashes
failed=0
for name in "$@"; do
    mkdir -p "build-fuzz/corpus/$name"
    echo "fuzzing $name for $seconds s"
    UBSAN_OPTIONS=halt_on_error=1 "build-fuzz/tests/fuzz/fuzz_$name" \
        -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -verbosity=0 \
        -print_final_stats=0 -artifact_prefix="build-fuzz/crashes/$name-" \
        "build-fuzz/corpus/$name" "tests/fuzz/corpus/$name" || failed=1
done
[ $failed -eq 0 ] || { echo "crashes are in build-fuzz/crashes/" && exit 1; }
