#!/bin/sh
# setup.sh WHAT... - installs the Debian packages that building, testing or checking
# needs and that are not there yet. Silent, and without apt, when nothing is missing.
#
#   build  compile and run      check  analyzers, other compiler, fuzzers
#   test   make test            sdk    the official SDKs' clients
#   bench  make bench           browser  chromium, for /docs
#                               agents   boxinit for other processors
#
# As an ordinary user it asks sudo; without sudo it says what root has to run.
# Where there is no dpkg it leaves everything to the build, which names what it lacks.
set -eu

build='gcc libc6-dev meson ninja-build pkg-config libjansson-dev libsqlite3-dev libseccomp-dev libmicrohttpd-dev libssh-dev libcurl4-openssl-dev
       bash python3 uidmap'
test="$build libcmocka-dev python3-pytest python3-pytest-timeout
      python3-jsonschema python3-yaml util-linux procps iproute2 slirp4netns git gdb debootstrap openssl openssh-server tcsh tmux docker.io busybox-static mksh
      python3-matplotlib python3-pandas"
check="$test clang-14 clang-format-14 clang-tidy-14 libclang-rt-14-dev llvm-14"
sdk="$build nodejs npm"
browser="$test chromium"
agents="$build gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
bench="$test rsync"

usage() {
    echo "usage: setup.sh build|test|check|sdk|browser|agents|bench" >&2
    exit 2
}

installed() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ] && return 0
    # Node often comes from elsewhere than Debian; any is fine.
    case $1 in
    nodejs) command -v node >/dev/null ;;
    npm) command -v npm >/dev/null ;;
    *) return 1 ;;
    esac
}

[ $# -gt 0 ] || usage
wanted=
for what in "$@"; do
    case $what in
    build) wanted="$wanted $build" ;;
    test) wanted="$wanted $test" ;;
    check) wanted="$wanted $check" ;;
    sdk) wanted="$wanted $sdk" ;;
    browser) wanted="$wanted $browser" ;;
    agents) wanted="$wanted $agents" ;;
    bench) wanted="$wanted $bench" ;;
    *) usage ;;
    esac
done

command -v dpkg-query >/dev/null || exit 0
missing=
for package in $wanted; do
    installed "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" != 0 ]; then
    as_root='sudo env'
    # Once and openly, so that it can ask for a password.
    if ! command -v sudo >/dev/null || ! sudo env true; then
        echo "These Debian packages are missing:$missing" >&2
        echo "Run as root: apt-get update && apt-get install --no-install-recommends$missing" >&2
        exit 1
    fi
fi

echo "installing:$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
run() {
    # $as_root is two words on purpose.
    if ! $as_root ${as_root:+DEBIAN_FRONTEND=noninteractive} "$@" >"$log" 2>&1 </dev/null; then
        cat "$log" >&2
        echo "setup.sh: this failed: $*" >&2
        return 1
    fi
}
export DEBIAN_FRONTEND=noninteractive
run apt-get update -q || echo "setup.sh: trying with the package lists that are here" >&2
# shellcheck disable=SC2086 # the packages are words
run apt-get install -y -q --no-install-recommends $missing
