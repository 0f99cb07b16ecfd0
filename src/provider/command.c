#include "provider/command.h"

#include <string.h>

#include "agent/proto.h"
#include "provider/kept.h"
#include "provider/shell.h"

#define KEEPER_SLACK_S 3 /* the host's clock runs out after ours, which knows better what to do */
#define GRACE_S        2

/* Below sshd bash reads ~/.bashrc, which the login shell has done already. */
#define BASH KEPT_BASH

/* One word for sh, fish and csh alike. They differ in what a backslash, a newline and an
 * exclamation mark mean inside quotes: those become what printf's %b reads. */
static void encode(struct buf *out, struct str word)
{
    buf_addc(out, '\'');
    for (size_t i = 0; i < word.len; i++) {
        unsigned char c = (unsigned char)word.p[i];

        if (c == '\'' || c == '\\' || c == '!' || c < 32) {
            buf_addf(out, "'\\\\'0%03o", c);
        } else {
            buf_addc(out, (char)c);
        }
    }
    buf_addc(out, '\'');
}

/* ---- the script that bash runs ------------------------------------------------------------ */

static void add_cwd(struct buf *script, struct str cwd, const char *mark)
{
    if (cwd.len == 0) {
        return;
    }
    buf_add(script, S("cd -- "));
    if (cwd.p[0] == '~' && (cwd.len == 1 || cwd.p[1] == '/')) {
        buf_add(script, S("\"$HOME\""));
        cwd = str_skip(cwd, 1);
    }
    if (cwd.len > 0) {
        buf_add_quoted(script, cwd);
    }
    buf_addf(script, " 2>/dev/null||{ printf %%s\\\\n %scd >&2;exit 125;};", mark);
}

static int add_env(struct buf *script, const struct exec_req *req, struct err *e)
{
    if (shell_check_env(req, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < req->n_env; i++) {
        struct str value;
        struct str name = str_cut(req->env[i], '=', &value);

        buf_addf(script, "export %.*s=", STR_ARG(name));
        buf_add_quoted(script, value);
        buf_addc(script, ';');
    }
    return 0;
}

/* Without "timeout" a process of the script's own keeps the time, if there is "sleep". */
static void add_keeper(struct buf *script, long long seconds)
{
    buf_addf(script,
             "(sleep %lld&&{ kill -9 -$$||kill -9 $$;}) </dev/null >/dev/null 2>&1 & "
             "trap \"kill $! 2>/dev/null\" EXIT;",
             seconds);
}

static int add_script(struct buf *script, const struct shell_facts *facts,
                      const struct exec_req *req, const char *mark, struct err *e)
{
    /* timeout makes itself the leader of the command's group; else the shell is that. */
    buf_addf(script, "printf %%s\\\\n \"%s $%s\";", mark,
             facts->has_timeout && req->timeout_ms > 0 ? "PPID" : "$");
    add_cwd(script, req->cwd, mark);
    buf_addf(script, "printf %%s\\\\n %s >&2;", mark);
    if (add_env(script, req, e) < 0) {
        return -1;
    }
    if (!facts->has_timeout && req->timeout_ms > 0) {
        add_keeper(script, req->timeout_ms / 1000 + KEEPER_SLACK_S);
    }
    if (req->shell == SHELL_NONE) {
        buf_add(script, S("exec"));
        for (size_t i = 0; i < req->n_argv; i++) {
            buf_addc(script, ' ');
            buf_add_quoted(script, req->argv[i]);
        }
        return 0;
    }
    if (req->keep && kept_is_id(req->id)) {
        kept_add(script, req);
        return 0;
    }
    buf_add(script, S("eval "));
    buf_add_quoted(script, req->command);
    return 0;
}

/* ---- the whole ---------------------------------------------------------------------------- */

static bool has_nul(const struct exec_req *req)
{
    bool found = str_has(req->command, '\0') || str_has(req->cwd, '\0');

    for (size_t i = 0; i < req->n_argv; i++) {
        found = found || str_has(req->argv[i], '\0');
    }
    for (size_t i = 0; i < req->n_env; i++) {
        found = found || str_has(req->env[i], '\0');
    }
    return found;
}

int command_check(const struct exec_req *req, struct err *e)
{
    return has_nul(req)
               ? err_set(e, ERR_INVALID, "a command, folder or variable cannot hold a NUL byte")
               : 0;
}

/* "shell -c script", as the login shell reads it. */
static void add_words(const struct shell_facts *facts, const char *shell, struct str script,
                      struct buf *out)
{
    if (facts->is_plain_shell) {
        buf_addf(out, "%s -c ", shell);
        buf_add_quoted(out, script);
    } else {
        buf_addf(out, "%s -c 'eval \"$(printf %%b \"$0\")\"' ", shell);
        encode(out, script);
    }
}

void command_wrap(const struct shell_facts *facts, struct str script, struct buf *out)
{
    buf_add(out, S("exec "));
    add_words(facts, "sh", script, out);
}

#define TIMEOUT "timeout -k %d %lld "

static long long keeper_s(const struct exec_req *req)
{
    return (req->timeout_ms + 999) / 1000 + KEEPER_SLACK_S;
}

/* For a host that nobody asked yet what it has: the script finds out by itself. */
static int build_blind(const struct exec_req *req, const char *mark, struct buf *out, struct err *e)
{
    const struct shell_facts with = {.has_timeout = true}, without = {0};
    struct buf script own_buf = {0}, part own_buf = {0};

    buf_init(&script, COMMAND_LINE_MAX);
    buf_init(&part, COMMAND_LINE_MAX);
    buf_addf(&script, "s=sh;%s",
             req->shell == SHELL_SH ? "" : "command -v bash >/dev/null 2>&1&&s='" BASH "';");
    if (req->timeout_ms > 0) {
        if (add_script(&part, &with, req, mark, e) < 0) {
            return -1;
        }
        buf_addf(&script, "timeout -k 1 9 true >/dev/null 2>&1&&exec " TIMEOUT "$s -c ", GRACE_S,
                 keeper_s(req));
        buf_add_quoted(&script, buf_str(&part));
        buf_addc(&script, ';');
        buf_clear(&part);
    }
    if (add_script(&part, &without, req, mark, e) < 0) {
        return -1;
    }
    buf_add(&script, S("exec $s -c "));
    buf_add_quoted(&script, buf_str(&part));
    command_wrap(&without, buf_str(&script), out);
    return script.cut || part.cut || out->cut
               ? err_set(e, ERR_LIMIT, "the command is too long for a host that is not known yet")
               : 0;
}

int command_build(const struct shell_facts *facts, const struct exec_req *req, const char *mark,
                  struct buf *out, struct err *e)
{
    struct buf script own_buf = {0};
    const char *shell = req->shell != SHELL_SH && facts->has_bash ? BASH : "sh";

    if (command_check(req, e) < 0) {
        return -1;
    }
    if (!facts->known) {
        return build_blind(req, mark, out, e);
    }
    buf_init(&script, COMMAND_LINE_MAX);
    if (add_script(&script, facts, req, mark, e) < 0) {
        return -1;
    }
    buf_add(out, S("exec "));
    if (facts->has_timeout && req->timeout_ms > 0) {
        buf_addf(out, TIMEOUT, GRACE_S, keeper_s(req));
    }
    add_words(facts, shell, buf_str(&script), out);
    if (script.cut || out->cut) {
        return err_set(e, ERR_LIMIT,
                       "the command with its environment is too long without an agent: at most %u "
                       "bytes once quoted. Write it to a file with write_remote_file and run that",
                       COMMAND_LINE_MAX);
    }
    return 0;
}

void command_build_kept(struct str id, bool left, struct buf *out)
{
    buf_addf(out,
             left ? "exec sh -c 'k=$HOME/" KEPT_HOME "/%.*s;[ -s \"$k/started\" ]&&"
                    ": >\"$k/left\"' >/dev/null"
                  : "exec sh -c 'h=$HOME/" KEPT_HOME ";rm -rf \"$h/%.*s\";"
                    "rmdir \"$h\" \"${h%%/*}\"' >/dev/null",
             STR_ARG(id));
}

void command_build_kill(long group, int grace_ms, struct buf *out)
{
    buf_addf(out,
             "exec sh -c 'kill -s TERM -- -%ld;kill -s TERM %ld;i=0;"
             "while [ $i -lt %d ]&&kill -s 0 -- -%ld;do sleep 0.1;i=$((i+1));done;"
             "kill -s KILL -- -%ld;kill -s KILL %ld;pkill -KILL -s %ld' >/dev/null",
             group, group, grace_ms / 100, group, group, group, group);
}
