/*
 * auth.c - who we are to a registry, as docker login keeps it in config.json: in the file itself, or
 * with a program docker-credential-<name> that is asked for it. Nothing is kept here, and nobody but the
 * engine is told. What cannot be had is left out: most images are for everybody, and the registry refuses the
 * others with a reason.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base64url.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "base/proc.h"
#include "provider/docker/docker.h"

#define CONFIG_MAX (1u << 20)
#define SECRET_MAX (64u << 10)
#define HELPER_MS  20000
#define DOCKER_HUB "index.docker.io"

struct login {
    struct str name, password, token;
};

/* The host of an image's name; of one without, Docker's own. */
static struct str registry_of(struct str ref)
{
    struct str rest;
    struct str first = str_cut(ref, '/', &rest);
    bool is_host = rest.p != NULL &&
                   (str_has(first, '.') || str_has(first, ':') || str_eq(first, S("localhost")));

    if (!is_host || str_eq(first, S("docker.io"))) {
        return S(DOCKER_HUB);
    }
    return first;
}

/* The file's keys are hosts, or addresses with more around them. */
static struct str host_of_key(struct str key)
{
    static const char *const schemes[] = {"https://", "http://"};
    struct str rest;

    for (size_t i = 0; i < COUNTOF(schemes); i++) {
        struct str scheme = str_from(schemes[i]);

        key = str_starts(key, scheme) ? str_skip(key, scheme.len) : key;
    }
    return str_cut(key, '/', &rest);
}

static bool is_name(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.p[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        if (!is_letter && strchr("._-", c) == NULL) {
            return false;
        }
    }
    return s.len > 0 && s.len < 64;
}

/* ---- by a program ---------------------------------------------------------------------- */

static bool ask_helper(const struct ctx *ctx, struct str helper, struct str server,
                       struct login *out)
{
    static const char script[] = "printf %s \"$1\" | \"docker-credential-$2\" get";
    const char *const argv[] = {
        "sh", "-c", script, "sh", arena_cstr(ctx->arena, server), arena_cstr(ctx->arena, helper),
        NULL};
    struct ctx shorter = *ctx;
    int64_t until_ms = clock_mono_ms() + HELPER_MS;
    struct buf said own_buf = {0};
    struct err ignored;
    int status = 0;

    if (ctx->deadline_ms == 0 || ctx->deadline_ms > until_ms) {
        shorter.deadline_ms = until_ms;
    }
    buf_init(&said, SECRET_MAX);
    if (!is_name(helper) ||
        proc_output(&shorter, argv, (const char *const *)environ, &said, &status, &ignored) < 0 ||
        !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return false;
    }
    struct value *v = value_parse(ctx->arena, arena_str(ctx->arena, buf_str(&said)), &ignored);
    out->name = value_text(v, "Username");
    out->password = value_text(v, "Secret");
    if (str_eq(out->name, S("<token>"))) {
        out->token = out->password;
    }
    return out->password.len > 0;
}

static bool find_by_helper(const struct ctx *ctx, const struct value *file, struct str registry,
                           struct login *out)
{
    struct str own = value_member(value_at(file, "credHelpers"), registry);
    struct str helper = own.len > 0 ? own : value_text(file, "credsStore");
    struct str server =
        str_eq(registry, S(DOCKER_HUB)) ? S("https://" DOCKER_HUB "/v1/") : registry;

    return helper.len > 0 && ask_helper(ctx, helper, server, out);
}

/* ---- in the file ------------------------------------------------------------------------ */

static bool read_entry(struct arena *a, const struct value *entry, struct login *out)
{
    struct buf text own_buf = {0};
    struct err ignored;

    out->token = value_text(entry, "identitytoken");
    buf_init(&text, SECRET_MAX);
    if (base64_read_strict(value_text(entry, "auth"), &text, &ignored) == 0) {
        out->name = str_cut(arena_str(a, buf_str(&text)), ':', &out->password);
    }
    return out->token.len > 0 || out->password.len > 0;
}

static bool find_in_file(struct arena *a, const struct value *file, struct str registry,
                         struct login *out)
{
    const struct value *all = value_at(file, "auths");

    for (const struct value *v = all != NULL ? all->first : NULL; v != NULL; v = v->next) {
        if (str_eq(host_of_key(v->key), registry) && read_entry(a, v, out)) {
            return true;
        }
    }
    return false;
}

/* ---- the header ------------------------------------------------------------------------- */

static struct str header_of(struct arena *a, const struct login *who, struct str registry)
{
    struct buf json own_buf = {0};
    struct buf text own_buf = {0};

    buf_init(&json, (size_t)4 * SECRET_MAX);
    buf_init(&text, (size_t)8 * SECRET_MAX);
    buf_addc(&json, '{');
    if (who->token.len > 0) {
        buf_add(&json, S("\"identitytoken\":"));
        value_quote(&json, who->token);
    } else {
        buf_add(&json, S("\"username\":"));
        value_quote(&json, who->name);
        buf_add(&json, S(",\"password\":"));
        value_quote(&json, who->password);
    }
    buf_add(&json, S(",\"serveraddress\":"));
    value_quote(&json, registry);
    buf_addc(&json, '}');
    base64url_add(&text, buf_str(&json));
    while (text.len % 4 != 0) {
        buf_addc(&text, '='); /* engines want it whole */
    }
    return json.cut || text.cut ? STR_EMPTY : arena_str(a, buf_str(&text));
}

struct str auth_for(const struct docker *d, const struct ctx *ctx, struct str ref)
{
    struct arena *a = ctx->arena;
    struct str registry = registry_of(ref);
    struct str text = STR_EMPTY;
    struct login who = {0};
    struct err ignored;

    struct str folder = d->conf.config_dir;

    if (folder.len == 0 && d->conf.home.len > 0) {
        folder = path_join(a, d->conf.home, S(".docker"));
    }
    if (folder.len == 0) {
        return STR_EMPTY;
    }
    const char *path = arena_cstr(a, path_join(a, folder, S("config.json")));
    if (fd_read_file(AT_FDCWD, path, CONFIG_MAX, a, &text, &ignored) < 0) {
        return STR_EMPTY;
    }
    const struct value *file = value_parse(a, text, &ignored);
    if (file == NULL ||
        (!find_by_helper(ctx, file, registry, &who) && !find_in_file(a, file, registry, &who))) {
        return STR_EMPTY;
    }
    return header_of(a, &who, registry);
}
