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
file=
if [ -d "${AT_PATH:-.}" ]; then
    cd "${AT_PATH:-.}" || refuse "the folder $AT_PATH cannot be entered"
elif [ -e "$AT_PATH" ]; then
    file=$AT_PATH
else
    refuse "there is no file or folder $AT_PATH; path is relative to the folder that commands start in ($PWD)"
fi
python=python3
has python3 || python=python
for venv in .venv venv; do
    [ -x "$venv/bin/python" ] && python=$venv/bin/python
done
has_python_tests() {
    find . -maxdepth 3 \( -name 'test_*.py' -o -name '*_test.py' \) -print 2>/dev/null | grep -q .
}
is_pytest_project() {
    [ -f pytest.ini ] || [ -f conftest.py ] || [ -f tests/conftest.py ] ||
        grep -qs '^\[tool\.pytest' pyproject.toml || grep -qs '^\[tool:pytest\]' setup.cfg ||
        grep -qs '^\[pytest\]' tox.ini
}
npm_script() {
    sed -n 's/.*"test"[[:space:]]*:[[:space:]]*"\([^"]*\)".*/\1/p' package.json 2>/dev/null | head -n 1
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
            grep -qs "^$target[[:space:]]*:" "$name" && echo "$target" && return
        done
    done
}
python_kind() {
    if "$python" -c 'import pytest' 2>/dev/null; then echo pytest; else echo unittest; fi
}
detect() {
    case $file in
    *.py) is_pytest_project && echo pytest || python_kind; return ;;
    *_test.go) echo go; return ;;
    *.js | *.mjs | *.cjs | *.ts | *.tsx | *.jsx) npm_kind; return ;;
    esac
    if is_pytest_project; then echo pytest
    elif [ -f package.json ] && [ -n "$(npm_script)" ]; then npm_kind
    elif [ -f go.mod ]; then echo go
    elif [ -f Cargo.toml ]; then echo cargo
    elif [ -f CMakeLists.txt ] || [ -f CTestTestfile.cmake ] || [ -f build/CTestTestfile.cmake ]; then echo ctest
    elif has_python_tests; then python_kind
    elif [ -n "$(make_target)" ]; then echo make
    fi
}
[ -n "$AT_COMMAND" ] && AT_FRAMEWORK=command
if [ "$AT_FRAMEWORK" = auto ]; then
    AT_FRAMEWORK=$(detect)
    [ -n "$AT_FRAMEWORK" ] || refuse "no tests were found in $PWD: there is no pytest project, test_*.py, package.json with a test script, go.mod, Cargo.toml, CMakeLists.txt, or Makefile with check or test; say where by path, which by framework, or how by command"
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
    elif [ -d tests ]; then
        set -- discover -v -s tests "$@"
    elif [ -d test ]; then
        set -- discover -v -s test "$@"
    else
        set -- discover -v "$@"
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
    [ "$covered" = 1 ] && set -- --coverage.enabled --coverage.reporter=json-summary --coverage.reportsDirectory="$AT_OUT" "$@"
    run npm test -- --run --reporter=default --reporter=junit --outputFile.junit="$AT_OUT/junit.xml" "$@" ${file:+"$file"}
    ;;
jest)
    need npm
    [ "$covered" = 1 ] && set -- --coverage --coverageReporters=json-summary --coverageDirectory="$AT_OUT" "$@"
    run npm test -- --json --outputFile="$AT_OUT/jest.json" "$@" ${file:+"$file"}
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
    [ -n "$file" ] && where=./$(dirname "$file")
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
            cmake -S . -B build && cmake --build build || refuse "the project could not be built: see stdout and stderr"
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
