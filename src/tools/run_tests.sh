# Finds the runner of a project, runs it, and leaves its report in $AT_OUT.
# AT_PATH, AT_FRAMEWORK, AT_COMMAND, AT_ARGS (one a line), AT_MARKERS, AT_COVERAGE come as
# variables. A problem that is told in a sentence is in $AT_OUT/problem, with status 125.
umask 077
mkdir -p "$AT_OUT" || exit 125
refuse() {
    printf '%s' "$1" >"$AT_OUT/problem"
    exit 125
}
has() {
    command -v "$1" >/dev/null 2>&1
}
case $AT_PATH in
"~" | "~/"*) AT_PATH=$HOME${AT_PATH#\~} ;;
esac
PATH=$PATH:/usr/local/go/bin:$HOME/.cargo/bin:$HOME/.local/bin
# project_of FOLDER NAME...: the nearest folder, from this one up, that has one of these.
project_of() {
    at=$1
    shift
    while :; do
        for name in "$@"; do
            [ -e "$at/$name" ] && printf '%s' "$at" && return
        done
        [ "$at" = / ] && return 1
        at=$(dirname "$at")
    done
}
# Python's rule: above the outermost package, and tests are part of what they test.
python_root() {
    at=$1
    while [ -e "$at/__init__.py" ]; do
        at=$(dirname "$at")
    done
    case $at in
    */tests | */test) dirname "$at" ;;
    *) printf '%s' "$at" ;;
    esac
}
root_of() {
    case $file in
    *.py) project_of "$1" pytest.ini pyproject.toml setup.cfg setup.py tox.ini || python_root "$1" ;;
    *.go) project_of "$1" go.mod ;;
    *.rs) project_of "$1" Cargo.toml ;;
    *.js | *.mjs | *.cjs | *.ts | *.mts | *.cts | *.tsx | *.jsx) project_of "$1" package.json ;;
    *) printf '%s' "$PWD" ;;
    esac
}
file=
if [ -d "${AT_PATH:-.}" ]; then
    cd "${AT_PATH:-.}" || refuse "the folder $AT_PATH cannot be entered"
elif [ -e "$AT_PATH" ]; then
    folder=$(cd "$(dirname "$AT_PATH")" && pwd)
    file=$folder/$(basename "$AT_PATH")
    cd "$(root_of "$folder" || printf '%s' "$folder")" || refuse "the folder of $AT_PATH cannot be entered"
    file=${file#"$PWD"/}
else
    refuse "there is no file or folder $AT_PATH; path is relative to the folder that commands start in ($PWD)"
fi
python=python3
has python3 || python=python
for venv in .venv venv; do
    [ -x "$venv/bin/python" ] && python=$venv/bin/python
done
# look DEPTH NAME...: files of these names, but for what was installed or built.
look() {
    depth=$1
    first=$2
    shift 2
    for name in "$@"; do
        set -- "$@" -o -name "$name"
        shift
    done
    find . -maxdepth "$depth" \( -name node_modules -o -name .git -o -name .venv -o -name venv -o -name .tox \
        -o -name site-packages -o -name target -o -name vendor -o -name build \) -prune -o \
        -type f \( -name "$first" "$@" \) -print 2>/dev/null
}
has_python_tests() {
    look 4 'test_*.py' '*_test.py' | grep -q .
}
is_pytest_project() {
    [ -f pytest.ini ] || [ -f conftest.py ] || [ -f tests/conftest.py ] ||
        grep -qs '^\[tool\.pytest' pyproject.toml || grep -qs '^\[tool:pytest\]' setup.cfg ||
        grep -qs '^\[pytest\]' tox.ini
}
# The script "test" of package.json, unless it is what npm init leaves there.
npm_script() {
    grep -qs '"test".*no test specified' "${1:-package.json}" ||
        sed -n 's/.*"test"[[:space:]]*:[[:space:]]*"\([^"]*\)".*/\1/p' "${1:-package.json}" 2>/dev/null | head -n 1
}
npm_kind() {
    case $(npm_script) in
    *vitest*) echo vitest ;;
    *jest*) echo jest ;;
    *node*--test*) echo node ;;
    *) echo npm ;;
    esac
}
make_target() {
    for name in Makefile makefile GNUmakefile; do
        for target in check test; do
            grep -qs "^$target[[:space:]]*:\([^=]\|\$\)" "$name" && echo "$target" && return
        done
    done
}
python_kind() {
    if "$python" -c 'import pytest' 2>/dev/null; then echo pytest; else echo unittest; fi
}
# All that this folder has, the best first.
detect() {
    case $file in
    *.py) is_pytest_project && echo pytest || python_kind; return ;;
    *_test.go) echo go; return ;;
    *.js | *.mjs | *.cjs | *.ts | *.mts | *.cts | *.tsx | *.jsx) npm_kind; return ;;
    esac
    is_pytest_project && echo pytest
    [ -f package.json ] && [ -n "$(npm_script)" ] && npm_kind
    [ -f go.mod ] && echo go
    [ -f Cargo.toml ] && echo cargo
    if [ -f CMakeLists.txt ] || [ -f CTestTestfile.cmake ] || [ -f build/CTestTestfile.cmake ]; then echo ctest; fi
    is_pytest_project || { has_python_tests && python_kind; }
    [ -n "$(make_target)" ] && echo make
}
# Projects in folders below this one: a folder and its mark on each line.
below() {
    look 4 package.json go.mod Cargo.toml | while IFS= read -r mark; do
        case $mark in
        ./package.json | ./go.mod | ./Cargo.toml) continue ;;
        */package.json) [ -n "$(npm_script "$mark")" ] || continue ;;
        esac
        printf '%s\n' "${mark#./}"
    done | head -n 8
}
# What else there is: of other kinds than the one that is run. A Makefile often only calls it.
others() {
    printf '%s\n' "$found" | sed 1d | grep -v '^make$'
    case $AT_FRAMEWORK in
    vitest | jest | node | npm) below | grep -v 'package\.json$' ;;
    go) below | grep -v 'go\.mod$' ;;
    cargo) below | grep -v 'Cargo\.toml$' ;;
    *) below ;;
    esac
}
nothing="no tests were found in $PWD: there is no pytest project, test_*.py, package.json with a test script, go.mod, Cargo.toml, CMakeLists.txt, or Makefile with check or test; say where by path, which by framework, or how by command"
[ -n "$AT_COMMAND" ] && AT_FRAMEWORK=command
if [ "$AT_FRAMEWORK" = auto ]; then
    found=$(detect)
    if [ -z "$found" ] && root=$(project_of "$PWD" go.mod Cargo.toml package.json); then
        file=${PWD#"$root"/}
        cd "$root" && found=$(detect)
    fi
    if [ -z "$found" ]; then
        inner=$(below)
        case $inner in
        "") refuse "$nothing" ;;
        *"
"*) refuse "there are several projects in $PWD: $(printf %s "$inner" | tr '\n' ' '); give the folder of one as path" ;;
        esac
        cd "$(dirname "$inner")" && found=$(detect)
    fi
    AT_FRAMEWORK=$(printf '%s\n' "$found" | head -n 1)
    [ -n "$AT_FRAMEWORK" ] || refuse "$nothing"
    [ -n "$file" ] || others >"$AT_OUT/others"
fi
[ "$AT_FRAMEWORK" = npm ] && AT_FRAMEWORK=$(npm_kind)
printf '%s' "$AT_FRAMEWORK" >"$AT_OUT/framework"
need() {
    has "$1" || refuse "$1 is not installed in this sandbox, and $AT_FRAMEWORK needs it: install it there, or use a sandbox with an image that has it"
}
set --
while IFS= read -r arg; do
    [ -n "$arg" ] && set -- "$@" "$arg"
done <<EOF
$AT_ARGS
EOF
run() {
    printf '%s\n' "$*" >"$AT_OUT/command"
    "$@"
}
unittest_folder() {
    for folder in tests test; do
        ls "$folder"/test*.py >/dev/null 2>&1 && echo "$folder" && return
    done
}
# js RUNNER ARGUMENT...: by the script of the project where that ends with it, as it may set more.
js() {
    runner=$1
    shift
    installed "$runner" || refuse "$runner is not installed in $PWD: run npm install there first; for that the sandbox needs a network (create_sandbox with network internet)"
    case $(npm_script) in
    *"$runner"*[\&\;\|]*) run npx --no-install "$runner" "$@" ;;
    *"$runner"*) run npm test -- "$@" ;;
    *) run npx --no-install "$runner" "$@" ;;
    esac
}
# As npm finds it: in this folder, in one above it, or by what fetches it.
installed() {
    project_of "$PWD" "node_modules/.bin/$1" >/dev/null || has "$1" || [ -e .pnp.cjs ] ||
        npm_script | grep -Eq 'npx|bunx|yarn|pnpm'
}
covered=$AT_COVERAGE
CI=1
export CI
case $AT_FRAMEWORK in
command)
    run sh -c "$AT_COMMAND"
    ;;
pytest)
    need "$python"
    "$python" -c 'import pytest' 2>/dev/null || refuse "pytest is not installed in this sandbox: install it there (pip install pytest), or choose framework unittest"
    [ -n "$AT_MARKERS" ] && set -- -m "$AT_MARKERS" "$@"
    if [ "$covered" = 1 ]; then
        if "$python" -c 'import pytest_cov' 2>/dev/null; then
            set -- --cov=. --cov-report=json:"$AT_OUT/coverage.json" "$@"
        else
            echo "pytest-cov is not installed" >"$AT_OUT/uncovered"
        fi
    fi
    run "$python" -m pytest --junitxml="$AT_OUT/junit.xml" -o junit_family=xunit1 "$@" ${file:+"$file"}
    ;;
unittest)
    need "$python"
    if [ -n "$file" ]; then
        set -- -v "$@" "$file"
    elif ls test*.py >/dev/null 2>&1; then
        set -- discover -v "$@"
    elif [ -n "$(unittest_folder)" ]; then
        set -- discover -v -s "$(unittest_folder)" "$@"
        # What is a package there imports as one.
        [ -e "$(unittest_folder)/__init__.py" ] && set -- "$@" -t .
    else
        # discover looks into packages only, and tests may lie in plain folders.
        set -- -v "$@"
        while IFS= read -r test; do
            [ -n "$test" ] && set -- "$@" "${test#./}"
        done <<EOF
$(look 6 'test*.py' | sort | head -n 500)
EOF
    fi
    if [ "$covered" = 1 ] && "$python" -c 'import coverage' 2>/dev/null; then
        COVERAGE_FILE=$AT_OUT/coverage.data
        export COVERAGE_FILE
        run "$python" -m coverage run -m unittest "$@"
        rc=$?
        "$python" -m coverage json -q -o "$AT_OUT/coverage.json" >/dev/null 2>&1
        exit $rc
    fi
    [ "$covered" = 1 ] && echo "coverage is not installed" >"$AT_OUT/uncovered"
    run "$python" -m unittest "$@"
    ;;
vitest)
    need npm
    # vitest empties the folder of its coverage first.
    [ "$covered" = 1 ] && set -- --coverage.enabled --coverage.reportOnFailure --coverage.reporter=json-summary --coverage.reportsDirectory="$AT_OUT/coverage" "$@"
    js vitest --run --reporter=default --reporter=junit --outputFile.junit="$AT_OUT/junit.xml" "$@" ${file:+"$file"}
    ;;
jest)
    need npm
    [ "$covered" = 1 ] && set -- --coverage --coverageReporters=json-summary --coverageDirectory="$AT_OUT/coverage" "$@"
    js jest --json --outputFile="$AT_OUT/jest.json" "$@" ${file:+"$file"}
    ;;
node)
    need node
    [ "$covered" = 1 ] && NODE_OPTIONS="$NODE_OPTIONS --experimental-test-coverage"
    NODE_OPTIONS="$NODE_OPTIONS --test-reporter=tap"
    if NODE_OPTIONS=$NODE_OPTIONS node -e 0 2>/dev/null; then export NODE_OPTIONS; else unset NODE_OPTIONS; fi
    if [ -n "$file" ]; then
        run node --test "$@" "$file"
    elif has npm; then
        if [ $# -gt 0 ]; then run npm test -- "$@"; else run npm test; fi
    else
        run node --test "$@"
    fi
    ;;
npm)
    need npm
    if [ $# -gt 0 ]; then run npm test -- "$@"; else run npm test; fi
    ;;
go)
    need go
    [ "$covered" = 1 ] && set -- -coverprofile="$AT_OUT/cover.out" "$@"
    where=./...
    if [ -d "$file" ]; then
        where=./$file/...
    elif [ -n "$file" ]; then
        where=./$(dirname "$file")
    fi
    run go test -json "$@" "$where" >"$AT_OUT/go.json"
    rc=$?
    [ -f "$AT_OUT/cover.out" ] && go tool cover -func="$AT_OUT/cover.out" 2>/dev/null | tail -n 1 >"$AT_OUT/go.cover"
    exit $rc
    ;;
cargo)
    need cargo
    [ "$covered" = 1 ] && echo "cargo test has no coverage of its own" >"$AT_OUT/uncovered"
    RUST_BACKTRACE=${RUST_BACKTRACE:-0}
    CARGO_TERM_COLOR=never
    export RUST_BACKTRACE CARGO_TERM_COLOR
    case $file in
    tests/*/*) ;;
    tests/*.rs) set -- --test "$(basename "$file" .rs)" "$@" ;;
    esac
    run cargo test "$@"
    ;;
ctest)
    need ctest
    [ "$covered" = 1 ] && echo "ctest has no coverage of its own" >"$AT_OUT/uncovered"
    build=.
    if [ ! -f CTestTestfile.cmake ]; then
        build=build
        if [ ! -f build/CTestTestfile.cmake ]; then
            need cmake
            if ! run cmake -S . -B build || ! run cmake --build build; then
                echo "the project could not be built: see stdout and stderr" >"$AT_OUT/note"
                exit 1
            fi
        fi
    fi
    run ctest --test-dir "$build" --output-on-failure --output-junit "$AT_OUT/junit.xml" "$@"
    ;;
make)
    need make
    [ "$covered" = 1 ] && echo "make has no coverage of its own" >"$AT_OUT/uncovered"
    target=$(make_target)
    run make "${target:-check}" "$@"
    ;;
esac
