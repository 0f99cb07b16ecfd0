/* exec.c - an exec of the engine's with attached streams, and the frames that it comes in. */
#include "provider/docker/docker.h"

int frames_take(struct frames *f, struct str bytes, frames_fn *take, void *arg, struct err *e)
{
    while (bytes.len > 0) {
        struct str part;

        if (f->left == 0) {
            const unsigned char *h = (const unsigned char *)f->head;

            f->head[f->n_head++] = bytes.p[0];
            bytes = str_skip(bytes, 1);
            if (f->n_head == FRAME_HEAD) {
                f->left = (uint32_t)h[4] << 24 | (uint32_t)h[5] << 16 | (uint32_t)h[6] << 8 | h[7];
                f->n_head = 0;
            }
            continue;
        }
        part = str_head(bytes, f->left);
        f->left -= (uint32_t)part.len;
        bytes = str_skip(bytes, part.len);
        bool is_known = f->head[0] == 1 || f->head[0] == 2;
        if (is_known && take(arg, f->head[0] == 1 ? STREAM_OUT : STREAM_ERR, part, e) < 0) {
            return -1;
        }
    }
    return 0;
}

int exec_make(struct docker *d, const struct ctx *ctx, const struct docker_box *db,
              const struct exec_order *order, struct str *out, bool *again, struct err *e)
{
    struct http_req req = {
        .method = "POST",
        .path = arena_printf(ctx->arena, "/containers/%s/exec", db->cid),
        .type = "application/json",
        .body = arena_printf(ctx->arena,
                             "{\"AttachStdin\":%s,\"AttachStdout\":true,\"AttachStderr\":true,"
                             "\"Tty\":false,\"Privileged\":false,\"Cmd\":%.*s}",
                             order->has_input ? "true" : "false", STR_ARG(order->command)),
    };
    struct http_answer answer;

    if (engine_call(d, ctx, &req, &answer, e) < 0) {
        return -1;
    }
    if (answer.status != 201) {
        int rc = container_usable(d, ctx, str_from(db->id), e);

        *again = rc == 0;
        return rc < 0 ? -1 : engine_fail(&answer, ctx->arena, order->doing, e);
    }
    struct value *v = value_parse(ctx->arena, answer.body, e);
    *out = v != NULL ? value_text(v, "Id") : STR_EMPTY;
    if (v != NULL && out->len != DOCKER_CID_SIZE - 1) {
        return err_set(e, ERR_PROTOCOL, "the engine tells no id of a new exec");
    }
    return v != NULL ? 0 : -1;
}

int exec_start(struct docker *d, const struct ctx *ctx, struct str exec, const char *doing,
               struct wire *wire, struct str *rest, struct err *e)
{
    struct http_req req = {
        .method = "POST",
        .path = arena_printf(ctx->arena, "/exec/%.*s/start", STR_ARG(exec)),
        .type = "application/json",
        .body = S("{\"Detach\":false,\"Tty\":false}"),
    };
    struct http_answer answer;
    struct where where;

    *rest = STR_EMPTY;
    if (engine_where(d, ctx->arena, &where, e) < 0 ||
        http_upgrade(&where, ctx, &req, wire, rest, &answer, e) < 0) {
        return -1;
    }
    return wire->fd >= 0 ? 0 : engine_fail(&answer, ctx->arena, doing, e);
}
