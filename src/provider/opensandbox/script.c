#include "provider/opensandbox/script.h"

#include <string.h>

#include "agent/proto.h"
#include "base/base64url.h"
#include "provider/command.h"
#include "provider/kept.h"

/* Where the script keeps the streams: beyond what anybody's own script uses. */
#define OUT_FD "198"
#define ERR_FD "199"
#define KEPT_S "2" /* what takes less is over before anybody could miss it */

/* The mark at the end of a stream (stream.h), which a file that nothing was printed to does not need. */
#define MARKS "_ab_m(){ { [ -f /dev/fd/$1 ]&&[ ! -s /dev/fd/$1 ];}||printf '\\036%%s\\n' %s >&$1;};"

/* ---- bytes in a script ------------------------------------------------------------------------ */

void script_add_base64(struct buf *out, struct str bytes)
{
    size_t from = out->len;

    base64url_add(out, bytes);
    for (size_t i = from; i < out->len; i++) {
        out->p[i] = (char)(out->p[i] == '-' ? '+' : out->p[i] == '_' ? '/' : out->p[i]);
    }
    while ((out->len - from) % 4 != 0 && !out->cut) {
        buf_addc(out, '=');
    }
}

void script_add_bytes(struct buf *out, struct str bytes)
{
    buf_add(out, S("printf %s '"));
    script_add_base64(out, bytes);
    buf_add(out, S("'|base64 -d"));
}

/* ---- a command ---------------------------------------------------------------------------------- */

static bool has_word(struct str text, const char *word)
{
    return text.len > 0 && memmem(text.p, text.len, word, strlen(word)) != NULL;
}

/* The shell that the script runs in would not come to its end. */
static bool needs_child(const struct script_req *s)
{
    return !s->has_bash || has_word(s->req->command, "exec") || has_word(s->req->command, "trap");
}

/* Keeps what was printed and how it ended. Few commands come to this: it is a text that the shell
 * reads when it does. */
static void add_keep(struct buf *out, const struct exec_req *req)
{
    struct buf text own_buf = {0};
    int n = (int)req->id.len;
    const char *id = req->id.p;

    buf_init(&text, 4096);
    buf_addf(&text,
             "(umask 077;mkdir -p \"$_ab_k\";n=$(date +%%s);"
             "c(){ cp /proc/$$/fd/$2 \"$_ab_k/s\"&&mv -f \"$_ab_k/s\" \"$_ab_k/$1\";};"
             "[ ! -L \"$_ab_k/stdout\" ]||c stdout " OUT_FD ";"
             "[ ! -L \"$_ab_k/stderr\" ]||c stderr " ERR_FD ";"
             "[ -f \"$_ab_k/started\" ]||{ c stdout " OUT_FD ";c stderr " ERR_FD ";"
             "echo \"%.*s $$ 0\" >\"$_ab_k/job\";"
             "printf '%%s\\n' \"%.*s 0 $((n-SECONDS)) exec\" \"$_ab_k/stdout\" \"$_ab_d\" ",
             n, id, n, id);
    buf_add_quoted(&text, kept_head(req->command));
    buf_addf(&text,
             " >\"$_ab_k/started\";};echo \"%.*s exit $_ab_c 0 $n\" >\"$_ab_k/s\";"
             "mv \"$_ab_k/s\" \"$_ab_k/status\") >/dev/null 2>&1",
             n, id);
    buf_addf(out, "_ab_k=$HOME/" KEPT_HOME "/%.*s;_ab_d=$PWD;_ab_keep=", n, id);
    buf_add_quoted(out, buf_str(&text));
    buf_addc(out, ';');
}

/* What is done when the shell ends: what is kept is written, the marks are printed. */
static void add_end(struct buf *out, const struct script_req *s, bool keeps)
{
    if (keeps) {
        add_keep(out, s->req);
    }
    buf_add(out, S("_ab_end(){ _ab_c=$?;"));
    if (keeps) {
        buf_add(out, S("{ [ $SECONDS -lt " KEPT_S " ]&&[ ! -d \"$_ab_k\" ];}||eval \"$_ab_keep\";"
                       "[ ! -e \"$_ab_k/left\" ]||return;"));
    }
    buf_addf(out, "_ab_m " OUT_FD ";_ab_m " ERR_FD ";};" MARKS "trap _ab_end EXIT;", s->mark);
}

/* For a command that has a shell of its own: the marks of the shell around it. */
static void add_plain_end(struct buf *out, const struct script_req *s)
{
    buf_addf(out,
             "_ab_end(){ [ ! -e \"$k/left\" ]||return;_ab_m 1;_ab_m 2;};" MARKS
             "trap _ab_end EXIT;",
             s->mark);
}

static void add_cwd(struct buf *out, const struct script_req *s)
{
    if (s->cwd.len == 0) {
        return;
    }
    buf_add(out, S("cd -- "));
    buf_add_quoted(out, s->cwd);
    buf_addf(out, " 2>/dev/null||{ printf '%%scd\\n' %s >&2;exit 125;};", s->mark);
}

static void add_input(struct buf *out, const struct script_req *s)
{
    if (s->has_small && s->small.len > 0) {
        buf_addf(out, "_ab_i=/tmp/.anybox-%s;(umask 077;", s->mark);
        script_add_bytes(out, s->small);
        buf_add(out, S(" >$_ab_i);exec <$_ab_i;rm -f $_ab_i;"));
    } else if (s->input.len > 0) {
        buf_add(out, S("_ab_i="));
        buf_add_quoted(out, s->input);
        buf_add(out, S(";exec <\"$_ab_i\";rm -f -- \"$_ab_i\";"));
    }
}

static void add_argv(struct buf *out, const struct exec_req *req)
{
    for (size_t i = 0; i < req->n_argv; i++) {
        buf_addc(out, ' ');
        buf_add_quoted(out, req->argv[i]);
    }
}

int script_build(const struct script_req *s, struct buf *out, struct err *e)
{
    const struct exec_req *req = s->req;
    bool keeps = req->keep && req->shell != SHELL_NONE && kept_is_id(req->id);

    if (command_check(req, e) < 0) {
        return -1;
    }
    if (req->shell == SHELL_BASH && !needs_child(s)) {
        buf_add(out, S("exec " OUT_FD ">&1 " ERR_FD ">&2;"));
        add_cwd(out, s);
        add_end(out, s, keeps);
        add_input(out, s);
        buf_add(out, S("eval "));
        buf_add_quoted(out, req->command);
    } else {
        add_cwd(out, s);
        add_plain_end(out, s);
        add_input(out, s);
        if (keeps) {
            kept_add(out, req);
        } else if (req->shell == SHELL_NONE) {
            add_argv(out, req);
        } else {
            buf_add(out, req->shell == SHELL_SH || !s->has_bash ? S("sh -c ") : S("bash -c "));
            buf_add_quoted(out, req->command);
        }
    }
    if (out->cut) {
        return err_set(e, ERR_LIMIT,
                       "the command is too long for this sandbox: at most %u bytes once quoted. "
                       "Write it to a file with write_remote_file and run that",
                       SCRIPT_MAX);
    }
    return 0;
}

/* ---- what is done to a command that runs --------------------------------------------------------- */

/* The first of the processes that carry this mark which leads its group, as $p. */
static void add_find(struct buf *out, const char *mark)
{
    buf_addf(out,
             "p=;for f in $(grep -l " SCRIPT_RUN "=%s /proc/[0-9]*/environ 2>/dev/null);do "
             "f=${f#/proc/};f=${f%%/*};{ read -r b </proc/$f/stat;} 2>/dev/null||continue;"
             "set -- ${b##*) };[ -n \"$p\" ]||[ \"$3\" != $f ]||p=$f;done;",
             mark);
}

void script_leave(const struct exec_req *req, const char *mark, struct str cwd, struct buf *out)
{
    int n = (int)req->id.len;
    const char *id = req->id.p;

    buf_addf(out,
             "k=$HOME/" KEPT_HOME "/%.*s;umask 077;if [ -d \"$k\" ];then : >\"$k/left\";exit;"
             "fi;",
             n, id);
    add_find(out, mark);
    buf_add(out, S("[ -n \"$p\" ]||exit 1;o=$(readlink /proc/$p/fd/" OUT_FD ");"
                   "e=$(readlink /proc/$p/fd/" ERR_FD ");[ -f \"$o\" ]&&[ -f \"$e\" ]||exit 1;"
                   "mkdir -p \"$k\"||exit 1;ln \"$o\" \"$k/stdout\"||ln -s \"$o\" \"$k/stdout\";"
                   "ln \"$e\" \"$k/stderr\"||ln -s \"$e\" \"$k/stderr\";read -r b </proc/$p/stat;"
                   "set -- ${b##*) };shift 19;"));
    buf_addf(out, "echo \"%.*s $p $1\" >\"$k/job\";", n, id);
    buf_addf(out, "printf '%%s\\n' \"%.*s 0 $(stat -c %%Y /proc/$p) exec\" \"$k/stdout\" ", n, id);
    buf_add_quoted(out, cwd);
    buf_addc(out, ' ');
    buf_add_quoted(out, kept_head(req->command));
    buf_add(out, S(" >\"$k/s\";mv \"$k/s\" \"$k/started\";: >\"$k/left\";"
                   "kill -0 $p||[ -f \"$k/status\" ]||{ rm -rf \"$k\";exit 1;}"));
}

void script_hold(const char *mark, struct buf *out)
{
    add_find(out, mark);
    buf_addf(out,
             "[ -n \"$p\" ]||exit 1;h(){ f=$(readlink /proc/$p/fd/$1||readlink /proc/$p/fd/$2)&&"
             "ln -- \"$f\" \"$f.%s\"&&printf '%%s\\n' \"$f.%s\";};"
             "h " OUT_FD " 1&&h " ERR_FD " 2",
             mark, mark);
}

void script_tidy(struct str id, struct buf *out)
{
    buf_addf(out,
             "h=$HOME/" KEPT_HOME ";rm -rf \"$h/%.*s\";rmdir \"$h\" \"${h%%/*}\" 2>/dev/null;:",
             STR_ARG(id));
}

void script_kill(const char *mark, struct buf *out)
{
    buf_addf(out,
             "for f in $(grep -l " SCRIPT_RUN "=%s /proc/[0-9]*/environ 2>/dev/null);do "
             "f=${f#/proc/};kill -s KILL ${f%%/*};done 2>/dev/null;:",
             mark);
}
