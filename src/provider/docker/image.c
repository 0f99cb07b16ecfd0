/* image.c - images of the engine: looking for one, pulling it, and the list. */
#include <string.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/percent.h"
#include "base/plain.h"
#include "provider/docker/docker.h"

#define REF_MAX        255
#define LIST_MAX       (64u << 20)
#define LINE_MAX_BYTES (64u << 10)
#define PULL_SILENT_MS 300000
#define SHOWN_MAX      200
#define TELL_EVERY_MS  1000

int image_check(struct str ref, struct err *e)
{
    static const char more[] = "./:@_-";
    bool ok = ref.len > 0 && ref.len <= REF_MAX && strchr(more, ref.p[0]) == NULL;

    for (size_t i = 0; ok && i < ref.len; i++) {
        char c = ref.p[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        ok = word || (c != '\0' && strchr(more, c) != NULL &&
                      (c == '-' || c == '_' || i == 0 || ref.p[i - 1] != c));
    }
    return ok ? 0
              : err_set(e, ERR_INVALID,
                        "\"%.*s\" is not the name of an image: names look like python:3.12-slim, "
                        "ghcr.io/owner/name:tag or name@sha256:digest",
                        STR_ARG(str_head(ref, 100)));
}

/* ---- looking ---------------------------------------------------------------------------- */

static int look(struct docker *d, const struct ctx *ctx, struct str ref, struct image *out,
                struct err *e)
{
    struct http_req req = {.method = "GET",
                           .path = arena_printf(ctx->arena, "/images/%.*s/json", STR_ARG(ref))};
    struct http_answer answer;
    struct value *v;

    if (engine_call(d, ctx, &req, &answer, e) < 0) {
        return -1;
    }
    if (answer.status == 404) {
        return err_set(e, ERR_NOT_FOUND, "the engine has no image \"%.*s\"", STR_ARG(ref));
    }
    if (answer.status != 200) {
        return engine_fail(&answer, ctx->arena, "cannot look at the image", e);
    }
    v = value_parse(ctx->arena, answer.body, e);
    if (v == NULL) {
        return -1;
    }
    *out = (struct image){
        .ref = ref,
        .id = value_text(v, "Id"),
        .user = value_text(v, "Config.User"),
        .machine = value_text(v, "Architecture"),
    };
    if (!str_eq(value_text(v, "Os"), S("linux")) && value_text(v, "Os").len > 0) {
        return err_set(e, ERR_UNSUPPORTED, "the image \"%.*s\" is for %.*s: sandboxes are Linux",
                       STR_ARG(ref), STR_ARG(str_head(value_text(v, "Os"), 40)));
    }
    return out->id.len > 0 ? 0
                           : err_set(e, ERR_PROTOCOL,
                                     "the engine tells no id of the image \"%.*s\"", STR_ARG(ref));
}

int image_find(struct docker *d, const struct ctx *ctx, struct str ref, bool pull,
               struct image *out, struct err *e)
{
    if (image_check(ref, e) < 0) {
        return -1;
    }
    int rc = look(d, ctx, ref, out, e);
    if (rc == 0 || e->kind != ERR_NOT_FOUND) {
        return rc;
    }
    if (!pull) {
        return err_set(e, ERR_NOT_FOUND,
                       "the engine has no image \"%.*s\": anybox image pull %.*s gets it from its "
                       "registry, anybox image make --docker makes one here without a registry, or "
                       "name another one",
                       STR_ARG(ref), STR_ARG(ref));
    }
    if (image_pull(d, ctx, ref, NULL, NULL, e) < 0) {
        return -1;
    }
    return look(d, ctx, ref, out, e);
}

/* ---- pulling ------------------------------------------------------------------------------ */

struct pulling {
    struct arena *arena;
    struct buf line;
    image_phase_fn *phase;
    void *arg;
    int64_t told_ms;
    struct str failed; /* what the engine said, at last */
};

static struct str harmless(struct arena *a, struct str s)
{
    struct buf text own_buf = {0};

    buf_init(&text, SHOWN_MAX);
    plain_text(str_head(s, SHOWN_MAX), &text);
    return arena_str(a, str_trim(buf_str(&text)));
}

/* Bars of layers come many times a second: one line of them in a while is enough. */
static void tell(struct pulling *p, const struct value *v)
{
    struct str id = harmless(p->arena, value_text(v, "id"));
    struct str status = harmless(p->arena, value_text(v, "status"));
    struct str bar = harmless(p->arena, value_text(v, "progress"));
    int64_t now = clock_mono_ms();

    if (p->phase == NULL || status.len == 0 || (bar.len > 0 && now - p->told_ms < TELL_EVERY_MS)) {
        return;
    }
    p->told_ms = now;
    p->phase(p->arg, arena_printf(p->arena, "%.*s%s%.*s%s%.*s", STR_ARG(id), id.len > 0 ? ": " : "",
                                  STR_ARG(status), bar.len > 0 ? " " : "", STR_ARG(bar)));
}

static int take_line(struct pulling *p, struct err *e)
{
    struct arena scratch own_arena = {0};
    struct pulling here = *p;
    struct err ignored;

    (void)e;
    arena_init(&scratch, 4u << 20);
    struct value *v = value_parse(&scratch, buf_str(&p->line), &ignored);
    struct str failed = value_text(v, "error");
    if (failed.len > 0) {
        p->failed = harmless(p->arena, failed);
    }
    here.arena = &scratch;
    tell(&here, v);
    p->told_ms = here.told_ms;
    buf_clear(&p->line);
    return 0;
}

static int take_piece(void *arg, struct str piece, struct err *e)
{
    struct pulling *p = arg;

    while (piece.len > 0) {
        const char *end = memchr(piece.p, '\n', piece.len);
        struct str part = end != NULL ? str_head(piece, (size_t)(end - piece.p)) : piece;

        buf_add(&p->line, part);
        piece = str_skip(piece, part.len + (end != NULL ? 1 : 0));
        if (end != NULL && p->line.len > 0 && take_line(p, e) < 0) {
            return -1;
        }
    }
    return 0;
}

static int pull_failed(struct str ref, struct str said, struct err *e)
{
    return err_set(
        e, ERR_UNREACHABLE,
        "the image \"%.*s\" is not there and could not be pulled: %.*s. Check its name and "
        "that the engine reaches its registry (docker pull %.*s), or use an image that "
        "is there (anybox image list)",
        STR_ARG(ref), STR_ARG(said), STR_ARG(ref));
}

int image_pull(struct docker *d, const struct ctx *ctx, struct str ref, image_phase_fn *phase,
               void *arg, struct err *e)
{
    struct pulling p = {.arena = ctx->arena, .phase = phase, .arg = arg};
    struct buf path own_buf = {0};
    struct http_answer answer;
    int rc;

    if (image_check(ref, e) < 0) {
        return -1;
    }
    /* Without a tag the engine would pull all of them. */
    const char *slash = memrchr(ref.p, '/', ref.len);
    struct str last = slash != NULL ? str_skip(ref, (size_t)(slash + 1 - ref.p)) : ref;
    buf_init(&path, 4096);
    buf_add(&path, S("/images/create?fromImage="));
    percent_add(&path, ref, false);
    if (!str_has(last, ':') && !str_has(last, '@')) {
        buf_add(&path, S("&tag=latest"));
    }
    struct http_req req = {.method = "POST",
                           .path = buf_str(&path),
                           .auth = auth_for(d, ctx, ref),
                           .piece = take_piece,
                           .arg = &p,
                           .silent_ms = PULL_SILENT_MS};
    buf_init(&p.line, LINE_MAX_BYTES);
    rc = engine_call(d, ctx, &req, &answer, e);
    if (rc == 0 && p.line.len > 0) {
        rc = take_line(&p, e);
    }
    buf_fini(&p.line);
    if (rc < 0) {
        return -1;
    }
    if (answer.status != 200) {
        return pull_failed(ref, engine_said(&answer, ctx->arena), e);
    }
    return p.failed.len > 0 ? pull_failed(ref, p.failed, e) : 0;
}

/* ---- the list -------------------------------------------------------------------------------- */

static int tell_image(const struct value *image, struct arena *a, image_info_fn *each, void *arg,
                      struct err *e)
{
    const struct value *tags = value_at(image, "RepoTags");

    for (const struct value *t = tags != NULL ? tags->first : NULL; t != NULL; t = t->next) {
        bool is_ours = prepared_is(t->text);
        struct str of = value_member(value_at(image, "Labels"), S(LABEL_IMAGE));
        struct image_info info = {
            .name = t->text,
            .system = is_ours ? arena_printf(a, "prepared of %.*s", STR_ARG(of)) : STR_EMPTY,
            .bytes = value_int(image, "Size"),
            .made_at = value_int(image, "Created"),
        };

        if (t->text.len > 0 && t->text.p[0] != '<' && each(arg, &info, e) < 0) {
            return -1;
        }
    }
    return 0;
}

static int images_list(struct provider *p, const struct ctx *ctx, image_info_fn *each, void *arg,
                       struct err *e)
{
    struct http_req req = {.method = "GET", .path = S("/images/json"), .max = LIST_MAX};
    struct value *v = NULL;

    if (engine_ask(docker_of(p), ctx, &req, &v, e) < 0) {
        return -1;
    }
    for (const struct value *image = v->first; image != NULL; image = image->next) {
        if (tell_image(image, ctx->arena, each, arg, e) < 0) {
            return -1;
        }
    }
    return 0;
}

static int images_remove(struct provider *p, const struct ctx *ctx, struct str name, struct err *e)
{
    struct http_answer answer;

    if (image_check(name, e) < 0) {
        return -1;
    }
    struct http_req req = {.method = "DELETE",
                           .path = arena_printf(ctx->arena, "/images/%.*s", STR_ARG(name))};
    if (engine_call(docker_of(p), ctx, &req, &answer, e) < 0) {
        return -1;
    }
    return answer.status == 200 ? 0
                                : engine_fail(&answer, ctx->arena, "cannot remove the image", e);
}

static int images_pull(struct provider *p, const struct ctx *ctx, struct str name,
                       image_phase_fn *phase, void *arg, struct err *e)
{
    return image_pull(docker_of(p), ctx, name, phase, arg, e);
}

static int images_ready(struct provider *p, const struct ctx *ctx, struct str name, struct err *e)
{
    struct docker *d = docker_of(p);
    struct image image;
    struct image ignored_image;
    struct prepared prepared = {0};

    if (image_find(d, ctx, name, true, &image, e) < 0 ||
        prepared_choose(d, ctx, &image, &prepared, e) < 0) {
        return -1;
    }
    if (look(d, ctx, prepared.name, &ignored_image, e) == 0) {
        return 0;
    }
    return e->kind == ERR_NOT_FOUND ? image_prepare(d, ctx, &image, &prepared, e) : -1;
}

const struct image_ops docker_images = {
    .list = images_list,
    .make = docker_image_make,
    .remove = images_remove,
    .pull = images_pull,
    .ready = images_ready,
};
