#include "provider/kept.h"

#include "agent/proto.h"
#include "base/utf8.h"

struct str kept_head(struct str command)
{
    size_t n = 0;

    command = str_head(str_trim(command), 120);
    while (n < command.len && (unsigned char)command.p[n] >= 32 && command.p[n] != 127) {
        n++;
    }
    return utf8_head(command, n);
}

bool kept_is_id(struct str id)
{
    for (size_t i = 0; i < id.len; i++) {
        if (!(id.p[i] >= '0' && id.p[i] <= '9') && !(id.p[i] >= 'a' && id.p[i] <= 'f')) {
            return false;
        }
    }
    return id.len > 0;
}

/*
 * The command is a child of this shell, which stays to tell how it ended. What it prints goes
 * through "tee" into files, and to us as long as we are there; see exec_req.keep. A disk that takes no
 * more (tee names the file then) costs output and never the command or its end, whose place is
 * taken at the start. The folder goes when
 * the command took no time and our end of the connection still stands, else we remove it once we
 * have the result. Where no folder can be made, the command runs as any other.
 *
 * A first call waits for this, so a command that takes no time costs few processes: what the
 * files say is written beside it, and where nobody will read its status there is none. To fork
 * takes about as long as the two tees need for their last bytes; only then it sleeps. All but
 * bash wait for the files first: the end of a child would interrupt busybox's shell as it waits
 * for a tee to open its pipe, and it gives up then (status 1, and nothing has run).
 */
void kept_add(struct buf *script, const struct exec_req *req)
{
    int n = (int)req->id.len;
    const char *id = req->id.p;

    buf_add(script, S("x="));
    buf_add_quoted(script, req->command);
    buf_addf(script,
             ";h=$HOME/" KEPT_HOME ";k=$h/%.*s;if (umask 077;command -v tee&&"
             "{ mkdir -p \"$k\"||mkdir -p \"$k\";}&&"
             "{ mkfifo \"$k/o\" \"$k/e\"&&printf %%160s '' >\"$k/status.new\"&&"
             "printf %%48s '' >\"$k/gaps\"||{ rm -rf \"$k\";false;};}) >/dev/null 2>&1;then "
             "v() { trap '' PIPE;{ m=$(tee \"$k/$1\" 2>&1 >&3)||cat >/dev/null;} <\"$k/$2\" 3>&1;"
             "case $m in *\"$k/$1\"*) echo some 1<>\"$k/gaps\";;esac;: >\"$k/$2.done\";};"
             "(umask 077;v stdout o 2>/dev/null) & (umask 077;v stderr e >&2 2>/dev/null) & ",
             n, id);
    /* Of a line of /proc/PID/stat: the parent and the time of birth. */
    buf_addf(script,
             "q() { { read -r b </proc/$$/stat;} 2>/dev/null&&{ set -- $1 ${b##*) };shift $1;"
             "r=$1;}||r=$(ps -o $2= -p $$|tr -s \" \" _);};p=$PPID;"
             "(umask 077;q 20 lstart;echo \"%.*s $$ $r\" >\"$k/job\";"
             "printf \"%%s\\n\" \"%.*s 0 $(date +%%s) exec\" \"$k/stdout\" \"$PWD\" ",
             n, id, n, id);
    buf_add_quoted(script, kept_head(req->command));
    buf_addf(script,
             " >\"$k/s\";mv \"$k/s\" \"$k/started\") >/dev/null 2>&1 & w=$!;"
             "s=${BASH_VERSION:+" KEPT_BASH "};[ -n \"$s\" ]||wait $w;"
             "{ ${s:-sh} -c \"$x\" >\"$k/o\" 2>\"$k/e\";} 2>\"$k/said\";c=$?;i=0;wait $w;"
             "while [ $i -lt 40 ]&&{ [ ! -f \"$k/o.done\" ]||[ ! -f \"$k/e.done\" ];};do "
             "if [ $i -lt 10 ];then (:);else sleep 0.01 2>/dev/null||sleep 1;fi;i=$((i+1));done;"
             "g=0;w=exit;[ $c -gt 128 ]&&[ -s \"$k/said\" ]&&{ g=$((c-128));w=signal;};q 2 ppid;"
             "if [ ${SECONDS:-9} -lt 2 ]&&[ ! -f \"$k/left\" ]&&[ \"$r\" = \"$p\" ];then "
             "rm -rf \"$k\" 2>/dev/null;rmdir \"$h\" \"${h%%/*}\" >/dev/null 2>&1 & else ");
    buf_addf(script,
             "n=$(date +%%s);read -r b b t b <\"$k/started\";"
             "echo \"%.*s $w $c $g $n\" 1<>\"$k/status.new\";mv -f \"$k/status.new\" \"$k/status\";"
             "rm -f \"$k/o\" \"$k/e\" \"$k/o.done\" \"$k/e.done\" \"$k/said\";"
             "q 2 ppid;[ $((n-t)) -lt 2 ]&&[ ! -f \"$k/left\" ]&&[ \"$r\" = \"$p\" ]&&"
             "{ rm -rf \"$k\";rmdir \"$h\" \"${h%%/*}\";} 2>/dev/null;fi;"
             "[ $g -gt 0 ]&&{ ulimit -c 0;kill -$g $$;};exit $c;fi;eval \"$x\"",
             n, id);
}
