/* names.c - what boxes are called, and the sentences about boxes that are not there. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/path.h"
#include "base/utf8.h"
#include "core/boxes_own.h"

#define NAMES_SHOWN 10
#define BASE_SHOWN  24 /* characters of a folder's name */

/* ---- the default box's name ----------------------------------------------------------- */

static uint32_t hash_of(struct str s)
{
    uint64_t h = 14695981039346656037ull;

    for (size_t i = 0; i < s.len; i++) {
        h = (h ^ (unsigned char)s.p[i]) * 1099511628211ull;
    }
    return (uint32_t)((h ^ (h >> 32)) & 0xffffff);
}

struct str name_default(struct str folder, char to[DEFAULT_NAME_SIZE])
{
    struct str base = str_head(path_base(folder), BASE_SHOWN);
    char safe[BASE_SHOWN + 1] = "";
    int n;

    for (size_t i = 0; i < base.len; i++) {
        char c = base.p[i];
        bool ok = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '.' || c == '_' || c == '-';

        safe[i] = '-';
        if (ok) {
            safe[i] = c;
        }
    }
    if (base.len == 0 || str_eq(base, S("/"))) {
        (void)snprintf(safe, sizeof(safe), "root");
    }
    n = snprintf(to, DEFAULT_NAME_SIZE, "default-%s-%06x", safe, hash_of(folder));
    return (struct str){to, (size_t)n};
}

/* default-<anything>-<6 hex digits> */
bool name_is_default(struct str name)
{
    struct str hex = name.len > 7 ? str_skip(name, name.len - 6) : STR_EMPTY;

    if (!str_starts(name, S("default-")) || name.len < 16 || name.p[name.len - 7] != '-') {
        return false;
    }
    for (size_t i = 0; i < hex.len; i++) {
        if (strchr("0123456789abcdef", hex.p[i]) == NULL) {
            return false;
        }
    }
    return true;
}

/* ---- sentences --------------------------------------------------------------------------- */

struct names {
    struct buf text;
    int64_t n;
};

static int add_name(void *arg, const struct box_row *row, struct err *e)
{
    struct names *names = arg;

    if (names->n == NAMES_SHOWN) {
        return err_set(e, ERR_LIMIT, "enough");
    }
    buf_addf(&names->text, "%s%.*s", names->n > 0 ? ", " : "", STR_ARG(row->name));
    names->n++;
    return 0;
}

static int add_fixed(void *arg, const struct box_row *row, const struct box_info *info,
                     struct err *e)
{
    (void)info;
    return add_name(arg, row, e);
}

static int count_fixed(void *arg, const struct box_row *row, const struct box_info *info,
                       struct err *e)
{
    int64_t *n = arg;

    (void)row;
    (void)info;
    (void)e;
    (*n)++;
    return 0;
}

struct str name_list(struct boxes *bs, const struct ctx *ctx, struct scope *scope)
{
    struct names names = {0};
    struct str text;
    struct err ignored;
    int64_t hosts = 0;
    int64_t made = 0;

    buf_init(&names.text, 1024);
    (void)!fixed_each(bs, ctx, scope, add_fixed, &names, &ignored);
    (void)!fixed_each(bs, ctx, scope, count_fixed, &hosts, &ignored);
    (void)!store_each_box(bs->store, ctx->arena, scope->owner, false, add_name, &names, &ignored);
    if (store_count_boxes(bs->store, scope->owner, &made, &ignored) == 0 &&
        hosts + made > names.n) {
        buf_addf(&names.text, " and %lld more", (long long)(hosts + made - names.n));
    }
    text = arena_str(ctx->arena, buf_str(&names.text));
    buf_fini(&names.text);
    return text;
}

int name_fail_ended(const struct box_row *row, struct err *e)
{
    return err_set(e, ERR_GONE,
                   "sandbox \"%.*s\" has ended: %.*s; call create_sandbox to make a new one",
                   STR_ARG(row->name), STR_ARG(row->ended));
}

int name_fail_unknown(struct boxes *bs, const struct ctx *ctx, struct scope *scope, struct str word,
                      struct err *e)
{
    struct str names = name_list(bs, ctx, scope);

    word = utf8_head(word, NAME_SHOWN);
    if (names.len == 0) {
        return err_set(e, ERR_NOT_FOUND,
                       "no sandbox \"%.*s\"; there is none at all: call create_sandbox to make one",
                       STR_ARG(word));
    }
    return err_set(e, ERR_NOT_FOUND, "no sandbox \"%.*s\"; existing: %.*s", STR_ARG(word),
                   STR_ARG(names));
}

int name_fail_none(struct boxes *bs, const struct ctx *ctx, struct scope *scope, struct err *e)
{
    struct str names = name_list(bs, ctx, scope);

    if (names.len == 0) {
        return err_set(e, ERR_NOT_FOUND,
                       "there is no sandbox yet: call create_sandbox to make one");
    }
    return err_set(e, ERR_NOT_FOUND,
                   "no sandbox is selected: name one by sandbox_id or sandbox_name, or call "
                   "select_sandbox or create_sandbox; existing: %.*s",
                   STR_ARG(names));
}
