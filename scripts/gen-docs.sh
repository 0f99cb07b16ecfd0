#!/bin/sh
# gen-docs.sh DIR - writes DIR/tools.md and DIR/config.md from the tables in the program.
set -eu
cd "$(dirname "$0")/.."
mkdir -p "$1"
for page in tools config; do
    build/anybox $page --markdown >"$1/$page.md.new"
    mv "$1/$page.md.new" "$1/$page.md"
done
