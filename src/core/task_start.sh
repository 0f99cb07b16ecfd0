# task_start.sh - starts a job on the machine where it is to run; see task.h. Arguments: how
# (box, host, plain), name, cwd, log, run id, bytes of the command, its head, the run that must
# have been interrupted ("": any state will do; "-": one that nobody of us started). The command is
# the standard input: without all of it nothing starts. What is said is said at the end: the
# connection may be gone, and a write to it would end this shell.
how=$1 name=$2 cwd=$3 log=$4 run=$5 bytes=$6 head=$7 after=$8
mask=$(umask)

fail() {
    [ -z "$locked" ] || rm -rf "$dir/lock"
    say error "$1$tab$2"
    say end ''
    exit 0
}
is_running() {
    { read -r at_run at_rest <"$1/started"; } 2>/dev/null || return 1
    if { read -r ended_run ended_rest <"$1/status"; } 2>/dev/null && [ "$ended_run" = "$at_run" ]; then
        return 1
    fi
    lives_for "$1/pid" "$at_run" || lives_for "$1/job" "$at_run"
}
refuse_running() {
    ! is_running "$dir" || fail running "$at_run"
    if { read -r other <"$home/tasks/$name"; } 2>/dev/null && is_running "$other"; then
        fail running "$at_run"
    fi
    if [ "$how" = tmux ] && has_session "$name"; then
        fail session "$name"
    fi
}
refuse_changed() {
    [ -n "$after" ] || return 0
    at_run=-
    { read -r at_run at_rest <"$dir/started"; } 2>/dev/null
    [ "$at_run" = "$after" ] || fail changed "$at_run"
    if { read -r ended_run kind ended_rest <"$dir/status"; } 2>/dev/null &&
        [ "$ended_run" = "$at_run" ] && [ "$kind" != interrupted ]; then
        fail changed "$at_run"
    fi
    if { read -r ended_run <"$dir/cancelled"; } 2>/dev/null && [ "$ended_run" = "$at_run" ]; then
        fail changed "$at_run"
    fi
}

case $cwd in
'~') cwd=$HOME ;;
'~/'*) cwd=$HOME/${cwd#??} ;;
/* | '') ;;
*) cwd=./$cwd ;;
esac
if [ -n "$cwd" ]; then
    cd -- "$cwd" 2>/dev/null || fail cwd "$cwd"
fi
here=$(pwd) || fail cwd "$cwd"
case $log in
'~/'*) log=$HOME/${log#??} ;;
/*) ;;
*) log=${here%/}/$log ;;
esac
[ ! -d "$log" ] || fail log_is_folder "$log"
folder=${log%/*}
dir=$folder/.anybox/$name
home=${HOME:-/nonexistent}/.anybox
if [ "$how" = host ]; then
    how=plain
    ! command -v tmux >/dev/null 2>&1 || how=tmux
fi
refuse_running

# From here on something is made.
mkdir -p -- "${folder:-/}" 2>/dev/null || fail log_folder "${folder:-/}"
(: >>"$log") 2>/dev/null || fail log "$log"
umask 077
mkdir -p -- "$dir" 2>/dev/null || fail log_folder "$dir"
tries=0
until mkdir "$dir/lock" 2>/dev/null; do
    if [ "$tries" -ge 10 ] && ! lives "$dir/lock/pid"; then
        mv "$dir/lock" "$dir/lock.$$" 2>/dev/null && rm -rf "$dir/lock.$$"
    fi
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || fail locked "$name"
    sleep 0.1 2>/dev/null || sleep 1
done
locked=1
printf '%s %s %s\n' "$run" "$$" "$(born "$$")" >"$dir/lock/pid"
refuse_running
refuse_changed
cat >"$dir/script.new" || fail disk "$dir"
[ "$(wc -c <"$dir/script.new")" -eq "$bytes" ] || fail short "$name"
if [ -s "$log" ] && [ "$(tail -c 1 "$log" | wc -l)" -eq 0 ]; then
    echo >>"$log"
fi
offset=$(($(wc -c <"$log")))
began=$(date +%s)
was=
{ read -r was <"$dir/status"; } 2>/dev/null
# The places of the status and of what tells that the log has gaps are taken now: a full disk must not
# cost the result.
{
    printf '%240s\n' '' >"$dir/status.new" && printf '%48s\n' '' >"$dir/gaps" && : >"$dir/said" &&
        printf '%s %s %s %s\n%s\n%s\n%s\n' "$run" "$offset" "$began" "$how" "$log" "$here" \
            "$head" >"$dir/started.new" &&
        cat >"$dir/run" <<'RUN'
# Waits for the job's own process and tells how it ended. Arguments: folder, run id, log, where
# this run begins in it, working folder, umask, "tty" where somebody may look at the job.
dir=$1 run=$2 log=$3 offset=$4 here=$5 mask=$6 looks=$7
hit=
trap 'hit=1' HUP TERM
trap : INT
ANYBOX_RUN=$run
export ANYBOX_RUN
# Writes down which process it is.
note='
if { read -r stat </proc/$$/stat; } 2>/dev/null; then
    set -- ${stat##*) }
    shift 19
    born=$1
else
    born=$(ps -o lstart= -p $$ 2>/dev/null | tr -s " " _)
fi
printf "%s %s %s\n" "$ANYBOX_RUN" "$$" "$born" >"$dir/$what.new"
mv -f "$dir/$what.new" "$dir/$what"'
what=pid
eval "$note"
echo "$$"
cd -- "$here"
viewer=
if [ "$looks" = tty ]; then
    tail -c +$((offset + 1)) -f "$log" 2>/dev/null &
    viewer=$!
else
    exec </dev/null >/dev/null
fi
shell=sh
! command -v bash >/dev/null 2>&1 || shell=bash
{
    sh -c 'dir=$1 log=$2 mask=$3 shell=$4 what=job
'"$note"'
umask "$mask"
exec "$shell" "$dir/script" >>"$log" 2>&1' task "$dir" "$log" "$mask" "$shell"
    code=$?
} 2>"$dir/said"
# A shell tells of a signal by a number that could be an exit code, too, but says a word then.
kind=exit signal=0
if [ "$code" -gt 128 ] && { [ -s "$dir/said" ] || [ "$code" -eq 130 ] || [ "$code" -eq 141 ]; }; then
    kind=signal signal=$((code - 128))
fi
if { read -r cancelled <"$dir/cancelled"; } 2>/dev/null && [ "$cancelled" = "$run" ]; then
    kind=cancelled
elif [ -n "$hit" ] && [ "$code" -ne 0 ]; then
    kind=interrupted
fi
[ -z "$viewer" ] || kill "$viewer" 2>/dev/null
if [ "$kind" != interrupted ]; then
    if [ "$(tail -c 1 "$log" | wc -l)" -eq 0 ]; then
        echo >>"$log"
    fi
    printf 'EXIT_CODE=%s\n' "$code" >>"$log" || printf 'some \n' 1<>"$dir/gaps"
fi 2>/dev/null
printf '%s %s %s %s %s\n' "$run" "$kind" "$code" "$signal" "$(date +%s)" 1<>"$dir/status.new"
mv -f "$dir/status.new" "$dir/status"
exit "$code"
RUN
} 2>/dev/null || fail disk "$dir"
printf '== session: %s\n== started_at: %s\n== command: %s\n' "$name" \
    "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$head" >>"$log"
mv -f "$dir/script.new" "$dir/script"
mv -f "$dir/started.new" "$dir/started"
rm -f "$dir/status" "$dir/pid" "$dir/job" "$dir/cancelled"
if mkdir -p "$home/tasks" 2>/dev/null; then
    printf '%s\n' "$dir" >"$home/tasks/$name"
fi

set -- "$dir/run" "$dir" "$run" "$log" "$offset" "$here" "$mask"
pid= note=
if [ "$how" = tmux ]; then
    # When a terminal goes only the first process of its session hears of it, and the others
    # when that one ends: it must be one that ends at once, not the supervisor.
    pid=$(tmux new-session -d -P -F '#{pane_pid}' -s "$name" sh -c 'sh "$@"; exit "$?"' task "$@" \
        tty 2>"$dir/said") || pid=
    if [ -z "$pid" ]; then
        ! has_session "$name" || fail session "$name"
        { read -r note <"$dir/said"; } 2>/dev/null
        how=plain
    fi
fi
if [ "$how" = box ]; then
    pid=$$
elif [ -z "$pid" ]; then
    # Not by "&": what is started so cannot be interrupted (SIGINT) any more.
    pid=$(setsid -f sh "$@" </dev/null 2>/dev/null) ||
        pid=$(perl -MPOSIX -e 'fork and exit; POSIX::setsid(); exec @ARGV' sh "$@" \
            </dev/null 2>/dev/null) || pid=
    if [ -z "$pid" ] && command -v setsid >/dev/null 2>&1; then
        pid=$(setsid sh "$@" </dev/null 2>/dev/null &)
    elif [ -z "$pid" ]; then
        pid=$(trap '' HUP; sh "$@" </dev/null 2>/dev/null &)
    fi
    [ -n "$pid" ] || fail start "$name"
fi
# The supervisor writes the same itself, but perhaps not yet.
printf '%s %s %s\n' "$run" "$pid" "$(born "$pid")" >"$dir/pid.$$"
ln "$dir/pid.$$" "$dir/pid" 2>/dev/null
rm -f "$dir/pid.$$"
rm -rf "$dir/lock"
say run "$run"
say log "$log"
say dir "$dir"
say how "$how"
[ -z "$was" ] || say was "$was"
[ -z "$note" ] || say note "$note"
say end ''
[ "$how" != box ] || exec sh "$@" '' 2>/dev/null
