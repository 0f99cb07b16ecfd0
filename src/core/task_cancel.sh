# task_cancel.sh - ends a job with all that it started; see task.h. Arguments: folder, name, log,
# run id, seconds from TERM to KILL.
dir=$1 name=$2 log=$3 run=$4 grace=$5
LC_ALL=C
export LC_ALL
home=${HOME:-/nonexistent}/.anybox

# Those of the job: descendants of its processes, of their sessions and groups, and whoever has the run's
# id in the environment, wherever it went. The supervisor stays out: it tells the end.
victims() {
    marked=
    if [ -n "$run" ]; then
        marked=$(grep -lsF -e "ANYBOX_RUN=$run" /proc/[0-9]*/environ | tr -dc '0-9\n' | tr '\n' ' ')
    fi
    processes | awk -v roots="$roots" -v marked="$marked" -v keep="$runner" -v me="$$" '
        { parent[$1] = $2; group[$1] = $3; session[$1] = $4 }
        END {
            n = split(roots " " marked, list, " ")
            for (i = 1; i <= n; i++) {
                if (list[i] in parent) {
                    hit[list[i]] = 1
                }
                own[list[i]] = 1
            }
            for (p in parent) {
                if ((group[p] in own) || (session[p] in own)) {
                    hit[p] = 1
                }
            }
            for (more = 1; more;) {
                more = 0
                for (p in parent) {
                    if (!(p in hit) && (parent[p] in hit)) {
                        hit[p] = 1
                        more = 1
                    }
                }
            }
            for (p in hit) {
                if (p != keep && p != me && p != 1) {
                    print p
                }
            }
        }'
}
nap() {
    sleep 0.1 2>/dev/null || sleep 1
}
# Is the end written down?
is_told() {
    { read -r of_run of_rest <"$dir/status"; } 2>/dev/null && [ "$of_run" = "$run" ]
}
done_with() {
    say result "$1"
    say end ''
    exit 0
}

runner= roots=
case $log in
'~/'*) log=$HOME/${log#??} ;;
'' | /*) ;;
*) log=$(pwd)/$log ;;
esac
if [ -z "$dir" ] && [ -n "$log" ]; then
    dir=${log%/*}/.anybox/$name
elif [ -z "$dir" ]; then
    { read -r dir <"$home/tasks/$name"; } 2>/dev/null || dir=$(pwd)/.codex_logs/.anybox/$name
fi
if { read -r its_run offset began how <"$dir/started"; } 2>/dev/null; then
    if [ -n "$run" ] && [ "$run" != "$its_run" ]; then
        done_with replaced
    fi
    run=$its_run
    ! is_told || done_with ended
    if lives_for "$dir/pid" "$run"; then
        runner=$of_pid
    fi
    if lives_for "$dir/job" "$run"; then
        roots=$of_pid
    fi
    if [ -z "$runner$roots" ] && [ -z "$(victims)" ]; then
        done_with ended
    fi
    roots="$runner $roots"
    printf '%s\n' "$run" >"$dir/cancelled"
else
    run= how=tmux
    has_session "$name" || done_with unknown
    roots=$(tmux list-panes -s -t "=$name" -F '#{pane_pid}' 2>/dev/null | tr '\n' ' ')
fi

last=$(($(date +%s) + grace)) left=$(victims)
if [ "$grace" -gt 0 ] && [ -n "$left" ]; then
    kill -s TERM $left 2>/dev/null
    kill -s CONT $left 2>/dev/null
    turns=0
    while [ -n "$left" ] && [ "$(date +%s)" -lt "$last" ] && [ "$turns" -lt $((10 * grace)) ]; do
        nap
        turns=$((turns + 1)) left=$(victims)
    done
fi
turns=0
while [ -n "$left" ] && [ "$turns" -lt 50 ]; do
    kill -s KILL $left 2>/dev/null
    nap
    turns=$((turns + 1)) left=$(victims)
done
turns=0
while [ -n "$runner" ] && ! is_told && [ "$turns" -lt 20 ] && lives "$dir/pid"; do
    nap
    turns=$((turns + 1))
done
if [ -n "$runner" ] && ! is_told && lives "$dir/pid"; then
    kill -s KILL "$runner" 2>/dev/null
fi
if [ "$how" = tmux ] && command -v tmux >/dev/null 2>&1 && has_session "$name"; then
    tmux kill-session -t "=$name" 2>/dev/null
fi
[ -z "$left" ] || done_with left
done_with cancelled
