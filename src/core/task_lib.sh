# task_lib.sh - what the scripts of task.h share. POSIX sh: dash, busybox and bash run it.
unset CDPATH
tab='	'
say() {
    printf '%s%s%s\n' "$1" "$tab" "$2"
}
# When a process began: a pid that was used again has another time. Fails when it is gone.
find_birth() {
    if read -r stat 2>/dev/null <"/proc/$1/stat"; then
        set -- ${stat##*) }
        case $1 in Z | X) return 1 ;; esac
        shift 19
        birth=$1
    elif [ -r /proc/self/stat ]; then
        return 1
    else
        birth=$(ps -o lstart= -p "$1" 2>/dev/null | tr -s ' ' _ | grep .)
    fi
}
born() {
    find_birth "$1" && printf '%s\n' "$birth"
}
# Does the process that a file names live? It holds: run, pid, when that began.
lives() {
    { read -r of_run of_pid of_born <"$1"; } 2>/dev/null || return 1
    [ -n "$of_born" ] && find_birth "$of_pid" && [ "$birth" = "$of_born" ]
}
# The same, and of this run.
lives_for() {
    lives "$1" && [ "$of_run" = "$2" ]
}
has_session() {
    tmux list-sessions -F '#{session_name}' 2>/dev/null | grep -Fqx -e "$1"
}
# pid, parent, group, session of all processes; a session is not known everywhere.
processes() {
    if [ -r /proc/self/stat ]; then
        for at in /proc/[0-9]*; do
            { read -r stat <"$at/stat"; } 2>/dev/null || continue
            set -- ${stat##*) }
            case $1 in Z | X) continue ;; esac
            printf '%s %s %s %s\n' "${at#/proc/}" "$2" "$3" "$4"
        done
    else
        ps -A -o pid= -o ppid= -o pgid= | awk '{ print $1, $2, $3, 0 }'
    fi
}
