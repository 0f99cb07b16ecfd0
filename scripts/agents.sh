#!/bin/sh
# agents.sh - boxinit for hosts with another processor than this machine's: the agent that is
# put on SSH hosts. build/boxinit-<processor>, where anybox looks for it (make install puts it
# beside boxinit). Optional: without it such hosts are served over plain channels.
#
# Needs Debian's cross compiler; tried with qemu-user where that is there.
set -eu
cd "$(dirname "$0")/.."

[ "$(uname -m)" = x86_64 ] || {
    echo "agents.sh: agents for other processors are built on x86_64 only; this is $(uname -m)" >&2
    exit 1
}
command -v aarch64-linux-gnu-gcc >/dev/null || scripts/setup.sh agents || :
command -v aarch64-linux-gnu-gcc >/dev/null || {
    echo "agents.sh: there is no compiler for aarch64; install Debian's packages gcc-aarch64-linux-gnu and" >&2
    echo "libc6-dev-arm64-cross, and try again. anybox works without: ARM hosts are served over plain channels." >&2
    exit 1
}
scripts/build.sh build-aarch64 -Dagent_only=true -Dlocal=enabled --buildtype=release \
    --cross-file=packaging/aarch64.cross -- boxinit
mkdir -p build
aarch64-linux-gnu-strip -o build/boxinit-aarch64 build-aarch64/boxinit
qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64 || :)
if [ -z "$qemu" ]; then
    echo "build/boxinit-aarch64 is built; qemu-user is not here to try it"
    exit 0
fi
echo "build/boxinit-aarch64: $("$qemu" build/boxinit-aarch64 --version)"
