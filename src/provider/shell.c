#include "provider/shell.h"

#include <string.h>

#include "base/path.h"
#include "base/plain.h"

#define ERRORS_MAX (16u << 10)

void shell_init(struct shell *s, const struct shell_way *way, struct box *b, const struct ctx *ctx,
                struct str root)
{
    *s = (struct shell){.way = way, .box = b, .ctx = ctx, .root = root};
    buf_init(&s->errors, ERRORS_MAX);
}

void shell_fini(struct shell *s)
{
    buf_fini(&s->errors);
}

int shell_check_env(const struct exec_req *req, struct err *e)
{
    for (size_t i = 0; i < req->n_env; i++) {
        struct str value;
        struct str name = str_cut(req->env[i], '=', &value);

        for (size_t k = 0; k < name.len; k++) {
            char c = name.p[k];
            bool good = c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (k > 0 && c >= '0' && c <= '9');

            if (!good) {
                return err_set(e, ERR_INVALID,
                               "\"%.*s\" is not the name of a variable: letters, digits and _, "
                               "not beginning with a digit",
                               STR_ARG(str_head(name, 64)));
            }
        }
        if (name.len == 0 || value.p == NULL) {
            return err_set(e, ERR_INVALID, "a variable is NAME=value");
        }
    }
    return 0;
}

void shell_add_path(struct buf *script, struct str path)
{
    bool at_home = path.len > 0 && path.p[0] == '~' && (path.len == 1 || path.p[1] == '/');
    if (at_home) {
        buf_add(script, S("\"$HOME\""));
        path = str_skip(path, 1);
    } else if (!path_is_absolute(path)) {
        buf_add(script, S("\"$HOME\"/"));
    }
    if (path.len > 0) {
        buf_add_quoted(script, path);
    }
}

static int take(void *arg, enum stream from, struct str bytes, struct err *e)
{
    struct shell *s = arg;
    if (from == STREAM_OUT) {
        return s->out != NULL ? s->out(s->arg, bytes, e) : 0;
    }
    for (size_t i = 0; i < bytes.len; i++) {
        s->n_errors += bytes.p[i] == '\n';
    }
    buf_add(&s->errors, bytes);
    return 0;
}

int shell_run(struct shell *s, struct str script, const struct source *input, struct err *e)
{
    struct sink sink = {.write = take, .arg = s};
    buf_clear(&s->errors);
    s->n_errors = 0;
    return s->way->run(s->box, s->ctx, script, input, &sink, &s->code, e);
}

int shell_find_tools(const struct shell_way *way, struct box *b, const struct ctx *ctx,
                     struct err *e)
{
    struct shell s;
    shell_init(&s, way, b, ctx, STR_EMPTY);
    int rc = shell_run(&s,
                       S("for c in find tar mv rm xargs touch;do $c --version 2>/dev/null|"
                         "grep -q GNU||exit 97;done;"
                         "find / -maxdepth 0 -printf '' >/dev/null 2>&1||exit 97"),
                       NULL, e);
    bool has_them = s.code == 0;
    shell_fini(&s);
    return rc < 0 ? -1 : has_them ? 1 : 0;
}

int shell_no_tools(struct err *e)
{
    return err_set(e, ERR_UNSUPPORTED,
                   "whole folders need GNU's find, tar and coreutils in the sandbox: install "
                   "them (findutils, tar, coreutils), or move single files");
}

struct str shell_first_error(const struct shell *s)
{
    struct str rest;
    struct str line = str_head(str_cut(buf_str(&s->errors), '\n', &rest), 300);
    struct buf text own_buf = {0};
    buf_init(&text, 600);
    plain_text(line, &text);
    return arena_str(s->ctx->arena, buf_str(&text));
}

static bool says(const struct shell *s, const char *words)
{
    return s->errors.len > 0 && memmem(s->errors.p, s->errors.len, words, strlen(words)) != NULL;
}

int shell_fail(const struct shell *s, const char *doing, struct err *e)
{
    struct str why = shell_first_error(s);
    struct str root = str_head(s->root, 300);
    /* tar tells of a write that was cut short, and not why: there is one reason. */
    if (says(s, "No space left") || says(s, "quota exceeded") || says(s, ": Wrote only ")) {
        return err_set(e, ERR_LIMIT, "%s \"%.*s\": no space left on the host; remove something",
                       doing, STR_ARG(root));
    }
    if (says(s, "Not a directory") || says(s, "File exists")) {
        return err_set(e, ERR_INVALID, "\"%.*s\": a file is there, where a folder is meant",
                       STR_ARG(root));
    }
    if (says(s, "No such file") && s->code == SHELL_NO_ENTER) {
        return err_set(e, ERR_NOT_FOUND, "\"%.*s\" does not exist on the host", STR_ARG(root));
    }
    if (says(s, "ermission denied") || says(s, "Read-only file system") ||
        says(s, "not permitted")) {
        return err_set(e, ERR_DENIED, "%s \"%.*s\": the user on the host may not: %.*s", doing,
                       STR_ARG(root), STR_ARG(why));
    }
    return err_set(e, ERR_SYSTEM, "%s \"%.*s\" on the host failed with status %d%s%.*s", doing,
                   STR_ARG(root), s->code, why.len > 0 ? ": " : "", STR_ARG(why));
}
