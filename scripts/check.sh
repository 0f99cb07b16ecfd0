#!/bin/bash
# check.sh [STEP...] - what `make check` runs beyond `make test`: rules, formatting,
# analyzers, the other compiler, TSan, and the end-to-end tests as ordinary users.
# Every step runs; the last line tells which failed.
set -u
cd "$(dirname "$0")/.." || exit 1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=()

step() { # step NAME COMMAND...
    local name=$1 began=$SECONDS
    shift
    if "$@" >"$log" 2>&1 </dev/null; then
        printf 'ok      %-14s %3d s\n' "$name" $((SECONDS - began))
        return
    fi
    sed 's/^/        /' "$log" | tail -n 200
    printf 'FAILED  %-14s %3d s\n' "$name" $((SECONDS - began))
    failed+=("$name")
}

step_layers() { scripts/check-layers.py -v; }
step_house() { scripts/check-house.sh; }
step_format() { git ls-files '*.c' '*.h' | xargs clang-format-14 --dry-run -Werror; }
step_docs() {
    local fresh rc=0
    fresh=$(mktemp -d)
    scripts/gen-docs.sh "$fresh" || rc=1
    for page in tools config; do
        diff -u "docs/$page.md" "$fresh/$page.md" || { echo "stale: run make docs"; rc=1; }
    done
    rm -rf "$fresh"
    return $rc
}
step_clang() { CC=clang-14 scripts/build.sh build-clang -- all; }
step_nolocal() { scripts/build.sh build-nolocal -Dlocal=disabled -- anybox; }
step_tsan() {
    CC=clang-14 scripts/build.sh build-tsan -Db_sanitize=thread -Db_lundef=false -- all &&
        TSAN_OPTIONS=halt_on_error=1 meson test -C build-tsan --no-rebuild --quiet \
            --print-errorlogs --suite unit
}
# Only our own sources: in tests the analyzer mostly finds cmocka.
step_analyzer() { scripts/build.sh build-analyzer -Dc_args=-fanalyzer -- anybox boxinit; }
step_tidy() {
    local files
    mapfile -t files < <(git ls-files 'src/*.c')
    scripts/build.sh build-clang -- anybox boxinit &&
        printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy-14 -p build-clang --quiet
}
e2e() { /usr/bin/python3 scripts/run-tests.py e2e "--tier=$1"; }
step_e2e_subuid() { e2e subuid; }
step_e2e_plain() { e2e plain; }
# What takes minutes, as every kind of user.
step_e2e_long() {
    /usr/bin/python3 -B -m pytest -q -p no:cacheprovider tests/e2e -m long --long
}

steps=(layers house format docs clang nolocal tsan analyzer tidy e2e_subuid e2e_plain e2e_long)
[ $# -eq 0 ] || steps=("$@")
for s in "${steps[@]}"; do
    step "$s" "step_$s"
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "failed: ${failed[*]}"
    exit 1
fi
echo "all checks passed"
