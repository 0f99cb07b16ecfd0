# task_lib.sh - what the scripts of task.h share. POSIX sh: dash, busybox and bash run it.
unset CDPATH
tab='	'
say() {
    printf '%s%s%s\n' "$1" "$tab" "$2"
}
# When a process began: a pid that was used again has another time. Fails when it is gone.
born() {
    if read -r stat 2>/dev/null <"/proc/$1/stat"; then
        set -- ${stat##*) }
        case $1 in Z | X) return 1 ;; esac
        shift 19
        printf '%s\n' "$1"
    elif [ -r /proc/self/stat ]; then
        return 1
    else
        ps -o lstart= -p "$1" 2>/dev/null | tr -s ' ' _ | grep .
    fi
}
# Does the process that a file names live? It holds: run, pid, when that began.
lives() {
    { read -r of_run of_pid of_born <"$1"; } 2>/dev/null || return 1
    [ -n "$of_born" ] && [ "$(born "$of_pid")" = "$of_born" ]
}
# The same, and of this run.
lives_for() {
    lives "$1" && [ "$of_run" = "$2" ]
}
has_session() {
    tmux list-sessions -F '#{session_name}' 2>/dev/null | grep -Fqx -e "$1"
}
