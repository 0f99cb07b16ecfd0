#include "tools/local_path.h"

#include <string.h>

#include "base/path.h"
#include "json/js.h"
#include "sync/roots.h"

#define ROOTS_MAX 256

static bool over_http(const struct call *c)
{
    return c->transport != NULL && strcmp(c->transport, "http") == 0;
}

/* ---- which folders ----------------------------------------------------------------------- */

struct found {
    struct str paths[ROOTS_MAX];
    size_t n;
};

static void add(struct found *f, struct str path)
{
    if (path_is_absolute(path) && f->n < ROOTS_MAX) {
        f->paths[f->n++] = path;
    }
}

static void add_configured(struct call *c, struct found *f)
{
    const struct config *config = c->services->config;
    struct str rest = config->sync_roots;

    while (rest.len > 0) {
        struct str one = str_trim(str_cut(rest, ',', &rest));

        add(f, path_tilde(c->ctx->arena, one, config->home));
    }
}

/* Not / and not what a home lies in: who starts a server there means no folder at all. */
static void add_folder(struct call *c, struct found *f)
{
    const struct config *config = c->services->config;
    struct str folder = config->folder;

    if (!str_eq(folder, S("/")) && (config->home.len == 0 || !path_inside(config->home, folder))) {
        add(f, folder);
    }
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

bool local_path_of_uri(struct arena *a, struct str uri, struct str *out)
{
    struct str path = str_skip(uri, 7);
    char *to;
    size_t n = 0;

    if (!str_eq_nocase(str_head(uri, 7), S("file://"))) {
        return false;
    }
    if (str_starts(path, S("localhost/"))) {
        path = str_skip(path, 9);
    }
    if (!str_starts(path, S("/"))) {
        return false; /* another machine's */
    }
    to = arena_alloc(a, path.len + 1, 1);
    for (size_t i = 0; i < path.len; i++) {
        char c = path.p[i];

        if (c == '%' && i + 2 < path.len && hex(path.p[i + 1]) >= 0 && hex(path.p[i + 2]) >= 0) {
            c = (char)(hex(path.p[i + 1]) * 16 + hex(path.p[i + 2]));
            i += 2;
        }
        if (c == '\0') {
            return false;
        }
        to[n++] = c;
    }
    *out = (struct str){to, n};
    return true;
}

static int add_clients(struct call *c, struct found *f, bool *later, struct err *e)
{
    json_t *params own_json = json_object();
    struct question question = {.key = "roots", .kind = CAN_ROOTS, .params = params};
    const json_t *list;
    int end;

    if ((c->can & CAN_ROOTS) == 0) {
        return 0;
    }
    end = c->ask(c, &question, 1, e);
    if (end < 0) {
        return -1;
    }
    *later = end == ASK_LATER;
    list = js_get(question.answer, "roots");
    for (size_t i = 0; !*later && i < json_array_size(list); i++) {
        struct str uri = js_str(js_get(json_array_get(list, i), "uri"));
        struct str path;

        if (local_path_of_uri(c->ctx->arena, uri, &path)) {
            add(f, path);
        }
    }
    return 0;
}

/* ---- a path ---------------------------------------------------------------------------------- */

static int resolve(struct call *c, const struct found *f, struct str path, struct str *out,
                   struct err *e)
{
    const struct config *config = c->services->config;
    struct roots roots = {
        .paths = f->paths,
        .n = f->n,
        .state_dir = config->state_dir,
        .config_file = config->file,
        .over_http = over_http(c),
    };

    return roots_resolve(&roots, c->ctx->arena, config->folder, config->home, path, out, e);
}

int local_path(struct call *c, struct str typed, struct str *out, bool *later, struct err *e)
{
    struct found *f = arena_new(c->ctx->arena, struct found);
    struct str path = str_trim(typed);
    bool folder = str_ends(path, S("/")) || str_ends(path, S("/."));

    *later = false;
    add_configured(c, f);
    if (!over_http(c)) {
        add_folder(c, f);
    }
    if (resolve(c, f, path, out, e) < 0) {
        if (e->kind != ERR_DENIED || over_http(c)) {
            return -1;
        }
        if (add_clients(c, f, later, e) < 0 || *later) {
            return *later ? 0 : -1;
        }
        if (resolve(c, f, path, out, e) < 0) {
            return -1;
        }
    }
    if (folder && !str_ends(*out, S("/"))) {
        *out = arena_printf(c->ctx->arena, "%.*s/", STR_ARG(*out));
    }
    return 0;
}
