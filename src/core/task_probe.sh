# task_probe.sh - how tasks are; see task.h. Arguments: a word that ends each text, seconds to
# wait for the first task's end, a regular expression to wait for in its log; then six for
# each task: folder, name, log, run id, first byte wanted ("": the end), bytes wanted. "scan" as the name of
# the last task: all that this user has.
mark=$1 wait=$2 until=$3
shift 3
LC_ALL=C
export LC_ALL
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
wait_for() {
    size_before=$size
    last=$(($(date +%s) + wait)) step=0.1 turns=0
    while goes_on && ! match && [ "$(date +%s)" -lt "$last" ]; do
        sleep $step 2>/dev/null || sleep 1
        turns=$((turns + 1))
        [ "$turns" -lt 20 ] || step=0.5
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
    [ "$how" != exec ] || (show_errors)
    show_text
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
while [ $# -ge 6 ]; do
    dir=$1 name=$2 log=$3 run=$4 from=$5 want=$6 matched=
    shift 6
    if [ "$name" = / ]; then
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
done
say end ''
