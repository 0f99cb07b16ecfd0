# task_probe.sh - how tasks are; see task.h. Arguments: a word that ends each text, seconds to
# wait for the first task's end, a regular expression to wait for in its log, seconds that a checkpoint's command
# may take, bytes of a checkpoint; then nine for each task: folder, name, log, run id, first byte wanted
# ("": the end), bytes wanted, and of its checkpoint the working folder, the file, the command. "/" as the name
# of the last task: all that this user has.
mark=$1 wait=$2 until=$3 limit=$4 most=$5
shift 5
alone=
[ $# -ne 9 ] || alone=1
home=${HOME:-/nonexistent}/.anybox

# What a job whose supervisor left no word printed last of its own accord.
last_code() {
    if [ $((size - offset)) -gt 65536 ]; then
        tail -c 65536 "$log" | sed 1d
    else
        tail -c +$((offset + 1)) "$log"
    fi 2>/dev/null | { cat && echo .; } | awk '
        /^== session: / { code = "" }
        /^EXIT_CODE=[0-9]+\r?$/ { code = substr($0, 11) + 0 }
        END { print code }'
}
measure() {
    size=0 touched=0
    set -- $(stat -c '%s %Y' -- "$log" 2>/dev/null || stat -f '%z %m' -- "$log" 2>/dev/null)
    if [ $# -eq 2 ]; then
        size=$1 touched=$2
    elif [ -f "$log" ]; then
        size=$(($(wc -c <"$log")))
    fi
}
by_log() {
    for found in "${log%/*}"/.anybox/*/started; do
        { read -r first && read -r its_log; } 2>/dev/null <"$found" || continue
        if [ "$its_log" = "$log" ]; then
            dir=${found%/started}
        fi
    done
}
find() {
    case $log in
    '~/'*) log=$HOME/${log#??} ;;
    '' | /*) ;;
    *) log=$(pwd)/$log ;;
    esac
    if [ -z "$dir$name$log" ] && [ -n "$run" ]; then
        dir=$home/exec/$run
        [ -f "$dir/started" ] || dir=/var/anybox/$run
    elif [ -z "$dir" ] && [ -z "$name" ]; then
        by_log
    elif [ -z "$dir" ] && [ -n "$log" ]; then
        dir=${log%/*}/.anybox/$name
    elif [ -z "$dir" ]; then
        { read -r dir <"$home/tasks/$name"; } 2>/dev/null || dir=$(pwd)/.codex_logs/.anybox/$name
        [ -f "$dir/started" ] || log=$(pwd)/.codex_logs/$name.log
    fi
    if [ -z "$name" ]; then
        name=${dir##*/}
    fi
}
by_status() {
    { read -r of_run state code signal ended rest <"$dir/status"; } 2>/dev/null &&
        [ "$of_run" = "$its_run" ]
}
is_cancelled() {
    { read -r of_run <"$dir/cancelled"; } 2>/dev/null && [ "$of_run" = "$its_run" ]
}
by_log_end() {
    code=$(last_code)
    if [ -n "$code" ]; then
        state=exit
    else
        state=interrupted
    fi
}
look() {
    state=unknown its_run= offset=0 began=0 how= cwd= head= code= signal=0 ended=0
    if { read -r its_run offset began how && read -r log && read -r cwd && read -r head; } \
        2>/dev/null <"$dir/started"; then
        case $offset in
        '' | *[!0-9]*) offset=0 ;; # a shell may run what stands there as it counts with it
        esac
        measure
        if [ -n "$run" ] && [ "$run" != "$its_run" ]; then
            state=replaced
        elif by_status; then
            :
        elif lives_for "$dir/pid" "$its_run" || lives_for "$dir/lock/pid" "$its_run"; then
            state=running
        elif lives_for "$dir/job" "$its_run"; then
            state=orphan
            [ "$how" != exec ] || state=running
        elif ! is_cancelled && lives_for "$dir/keeper" "$its_run"; then
            by_status || state=running # the word on its end is on its way
        elif ! by_status; then
            by_log_end
            if [ "$state" = interrupted ] && is_cancelled; then
                state=cancelled
            fi
        fi
    else
        measure
        how=unknown
        if [ -n "$name" ] && has_session "$name"; then
            state=running how=tmux
        elif [ -f "$log" ]; then
            by_log_end
        fi
    fi
}
goes_on() {
    [ "$state" = running ] || [ "$state" = orphan ]
}
# The first line of what is new that matches.
match() {
    [ -n "$until" ] || return 1
    matched=$(tail -c +$((${from:-$size_before} + 1)) "$log" 2>/dev/null | tr -d '\000' |
        sed '/^== command: /d' | grep -E -e "$until" | { IFS= read -r line && printf '%s\n' "$line"; })
    [ -n "$matched" ]
}
# By what it slept, in tenths of a second: a clock that is set back must not make it longer, and its seconds are
# too long to measure one. Where all else is slow the clock ends it.
wait_for() {
    size_before=$size
    last=$(($(date +%s) + wait)) step=0.1 tenths=1 waited=0
    while goes_on && ! match && [ "$waited" -lt $((wait * 10)) ] && [ "$(date +%s)" -le "$last" ]; do
        sleep $step 2>/dev/null || sleep 1
        waited=$((waited + tenths))
        if [ "$waited" -ge 20 ]; then
            step=0.5 tenths=5
        fi
        look
    done
    goes_on || match
}
show_text() {
    first=$offset
    if [ -n "$from" ]; then
        first=$from
    elif [ $((size - want)) -gt "$first" ]; then
        first=$((size - want))
    fi
    if [ "$first" -gt "$size" ]; then
        first=$size
    fi
    last=$size
    if [ $((last - first)) -gt "$want" ]; then
        last=$((first + want))
    fi
    say first "$first"
    say last "$last"
    say text "$((first - first % 4096))"
    if [ "$last" -gt "$first" ]; then
        dd if="$log" bs=4096 skip=$((first / 4096)) \
            count=$(((last + 4095) / 4096 - first / 4096)) 2>/dev/null
    fi
    printf '\n%s\n' "$mark"
}
# The end of the other stream, of a command that was handed over by its call.
show_errors() {
    log=${log%/*}/stderr
    measure
    say errors_log "$log"
    say errors_size "$size"
    say errors 0
    tail -c "$want" -- "$log" 2>/dev/null
    printf '\n%s\n' "$mark"
}
show() {
    say task "$its_run"
    say wanted "$run"
    say name "$name"
    say state "$state"
    say code "$code"
    say signal "$signal"
    say ended "$ended"
    say began "$began"
    say how "$how"
    say log "$log"
    say dir "$dir"
    say cwd "$cwd"
    say command "$head"
    say size "$size"
    say touched "$touched"
    [ -z "$matched" ] || say match "$matched"
    show_gaps
    [ "$how" != exec ] || (show_errors)
    [ -z "$number" ] || show_check "$number" "$check_cwd" "$check_file" "$check_command"
    show_text
}
# Is the log whole? While the job runs only the disk can tell, and that is asked for one task only.
show_gaps() {
    gaps= is_full=
    { read -r gaps rest <"$dir/gaps"; } 2>/dev/null
    [ -z "$gaps" ] || say gaps "$gaps"
    if [ -n "$alone" ] && goes_on; then
        is_full=$(df -P -k -- "${log%/*}/" 2>/dev/null | awk 'NR == 2 && $4 == "0" { print 1 }')
    fi
    [ -z "$is_full" ] || say full 1
}
# ---- checkpoints: the commands of all tasks run side by side, before anything is looked at ----

enter() {
    case $1 in
    '') ;;
    '~') cd -- "$HOME" ;;
    '~/'*) cd -- "$HOME/${1#??}" ;;
    /*) cd -- "$1" ;;
    *) cd -- "./$1" ;;
    esac 2>/dev/null
}
# Number, working folder, command. What it says goes to a file of that number, which it cannot fill the disk
# with.
begin_check() {
    (
        if ! enter "$2"; then
            echo cwd >"$place/$1.problem"
            exit
        fi
        ulimit -f 32768
        exec $shell -c "$3"
    ) </dev/null >"$place/$1" 2>/dev/null &
    begun="$begun $1:$!"
}
begin_checks() {
    at=0
    while [ $# -ge 9 ]; do
        if [ -n "$9" ]; then
            if [ -z "$place" ]; then
                place=${TMPDIR:-/tmp}/anybox-$mark
                (umask 077 && mkdir "$place") 2>/dev/null || place=${HOME:-/}/.anybox-$mark
                [ -d "$place" ] || (umask 077 && mkdir "$place") 2>/dev/null || return
                ! command -v bash >/dev/null 2>&1 || shell='bash --norc'
            fi
            begin_check "$at" "$7" "$9"
        fi
        at=$((at + 1))
        shift 9
    done
}
# Until all have ended. Those that take too long are killed with all that they started, by one that sleeps.
wait_for_checks() {
    (
        sleep "$limit" &
        trap 'kill "$!"; exit' TERM
        wait "$!"
        kill -s KILL $(children_of_ours)
    ) </dev/null >/dev/null &
    killer=$!
    for one in $begun; do
        wait "${one#*:}"
        [ "$?" -ne 137 ] || echo slow >"$place/${one%:*}.problem"
    done
    kill "$killer"
}
# What is left of the commands, and below it, each behind its parent: a shell that outlives what it waits for
# would go on, and end as if nothing had been. A pid that has gone to somebody else has another parent.
children_of_ours() {
    processes | awk -v begun="$begun" -v ours="$$" '
        { parent[$1] = $2 }
        END {
            n = split(begun, list, " ")
            for (i = 1; i <= n; i++) {
                sub(/.*:/, "", list[i])
                if (parent[list[i]] == ours) {
                    hit[list[i]] = 1
                    print list[i]
                }
            }
            for (more = 1; more;) {
                more = 0
                for (p in parent) {
                    if (!(p in hit) && (parent[p] in hit)) {
                        hit[p] = 1
                        print p
                        more = 1
                    }
                }
            }
        }'
}
# Number, working folder, file, command.
show_check() {
    [ -n "$3$4" ] || return 0
    if [ -n "$4" ]; then
        problem=
        [ -n "$place" ] || problem=room
        { read -r problem <"$place/$1.problem"; } 2>/dev/null
        say check "${problem:-read}"
        [ -n "$problem" ] || [ ! -s "$place/$1" ] || dd if="$place/$1" bs="$most" count=1 2>/dev/null
    else
        (
            case $3 in
            '~/'*) file=$HOME/${3#??} ;;
            /*) file=$3 ;;
            *) enter "$2" && file=./$3 || file= ;;
            esac
            if [ -f "$file" ] && [ -r "$file" ]; then
                say check read
                dd if="$file" bs="$most" count=1 2>/dev/null
            else
                say check missing
            fi
        )
    fi
    printf '\n%s\n' "$mark"
}
scan() {
    for found in "$home"/tasks/* "$home"/exec/*/started /var/anybox/*/started; do
        case $found in
        */started) dir=${found%/started} ;;
        *) { read -r dir <"$found"; } 2>/dev/null || continue ;;
        esac
        name=${dir##*/} run= log= from= want=0 matched=
        if [ -f "$dir/started" ]; then
            look
            show
        fi
    done
}

say now "$(date +%s)"
place= shell=sh begun= number=0
begin_checks "$@"
LC_ALL=C
export LC_ALL
if [ -n "$begun" ]; then
    exec 2>/dev/null # a shell tells of children that were killed
    wait_for_checks
fi
while [ $# -ge 9 ]; do
    dir=$1 name=$2 log=$3 run=$4 from=$5 want=$6 matched=
    check_cwd=$7 check_file=$8 check_command=$9
    shift 9
    if [ "$name" = / ]; then
        number=
        scan
        continue
    fi
    find
    look
    if [ "$wait" -gt 0 ]; then
        wait_for
        wait=0
        measure
    fi
    show
    number=$((number + 1))
done
[ -z "$place" ] || rm -rf "$place"
say end ''
