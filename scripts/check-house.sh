#!/bin/sh
# check-house.sh - the rules of HACKING.md that no compiler knows: who may sleep, no
# goto, nothing of one developer's machine, no trailing blanks, commit-ready files.
# Prints each offence as file:line: text and fails when there is one.
set -u
cd "$(dirname "$0")/.." || exit 1
bad=0

# forbid MESSAGE PATTERN BUT_NOT PATH... (paths are git pathspecs)
none='^$'
forbid() {
    message=$1 pattern=$2 but=$3
    shift 3
    found=$(git grep -nE --untracked "$pattern" -- "$@" | grep -vE "$but") || return 0
    echo "$found" | sed "s|\$|    <- $message|"
    bad=1
}

# Below tools/ only ctx_wait() sleeps (to look without waiting is no sleep), so that cancel
# and deadline always work. boxinit has
# one poll loop, which is its whole life.
forbid 'only base/ and serve/ may wait; use ctx_wait()' \
    '(^|[^[:alnum:]_])(poll|ppoll|select|sleep|usleep|nanosleep|pthread_cond_wait|epoll_wait) *\(' \
    '(poll|epoll_wait)\(.*, 0\)|:[[:space:]]*(\*|/\*)' 'src/*.c' ':!src/base/' ':!src/serve/' ':!src/boxinit/'
forbid 'no goto: use the cleanup attributes of base/own.h' \
    '(^|[;{} \t])goto +[a-z_]+;' "$none" 'src/*.c' 'src/*.h' 'tests/*.c'
forbid 'no fork in the server: base/proc.h starts processes' \
    '(^|[^[:alnum:]_])(fork|vfork|clone|daemon) *\(' "$none" 'src/*.c' ':!src/boxinit/' ':!src/base/banned.h'
forbid 'unfinished' '(^|[^[:alnum:]\\_-])(TODO|FIXME|XXX)([^[:alnum:]]|$)' "$none" 'src/' 'tests/' 'scripts/' 'Makefile' \
    ':!scripts/check-house.sh' ':!tests/fuzz/corpus/'
forbid 'C comments are /* */' '^[[:space:]]*//' "$none" 'src/*.c' 'src/*.h' 'tests/*.c' 'tests/*.h'
forbid 'trailing blanks' '[[:blank:]]+$' "$none" '*.c' '*.h' '*.py' '*.sh' '*.md' 'Makefile' '*.build'
forbid 'a path of one machine' '(^|[^[:alnum:]._/-])/(work|root)/[a-z]' "$none" 'src/' 'tests/*.py' 'scripts/' \
    'Makefile' '*.md' ':!scripts/check-house.sh'

exit $bad
