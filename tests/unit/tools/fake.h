/*
 * fake.h - a provider whose boxes live in memory, and a session of tool calls on it.
 *
 * Commands do what the test's exec hook does; files are a flat list of paths. Boxes
 * are made, found and ended by the real core on a real database in a folder of its own.
 */
#ifndef TESTS_TOOLS_FAKE_H
#define TESTS_TOOLS_FAKE_H

#include <errno.h>
#include <fcntl.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"
#include "core/boxes_own.h"
#include "json/js.h"
#include "test.h"
#include "tools/tool.h"

#define FAKE_BOXES 8
#define FAKE_FILES 8

struct fake;

struct fake_box {
    struct box box;
    char ref[40];
    bool gone;
    struct limits limits;
    enum network network;
};

struct fake_file {
    char path[64];
    enum file_type type;
    mode_t mode;
    char *bytes;
    size_t len;
};

typedef int fake_exec_fn(struct fake *f, const struct exec_req *req, const struct sink *sink,
                         struct exec_result *out, struct err *e);
typedef int fake_attach_fn(struct fake *f, struct str id, uint64_t from_out, uint64_t from_err,
                           const struct sink *sink, struct exec_result *out, struct err *e);

struct fake {
    struct provider provider;
    struct fake_box *boxes[FAKE_BOXES]; /* the rows hold the refs; freed at the end */
    size_t n_boxes;
    struct fake_file files[FAKE_FILES];
    size_t n_files;
    fake_exec_fn *exec;
    fake_attach_fn *attach;
    int execs, attaches, kills;
    struct usage usage;
    bool no_usage;

    char dir[40];
    struct config config;
    struct store *store;
    struct services services;
    struct scope scope;
    struct cancel *cancel;
    unsigned toolsets;
    bool wants_progress;
    char progress[8][256];
    size_t n_progress;

    unsigned can;            /* what the client can be asked */
    const char *reply;       /* the answer to each question, JSON; NULL: none */
    json_t *answer;          /* the last one given */
    char question[512];      /* the parameters of the last one asked */
    enum err_kind ask_fails; /* asking does */
    bool asks_later, asked_later;
    int asks;
};

static inline struct fake *fake_of(struct provider *p)
{
    return CONTAINER_OF(p, struct fake, provider);
}

/* ---- the provider ------------------------------------------------------------------- */

static inline int fake_check(struct box *b, struct err *e)
{
    struct fake_box *fb = CONTAINER_OF(b, struct fake_box, box);

    return fb->gone ? err_set(e, ERR_GONE, "it has ended: the test said so") : 0;
}

static inline struct box *fake_attach_box(struct provider *p, const struct ctx *ctx, struct str ref,
                                          struct err *e)
{
    struct fake *f = fake_of(p);

    (void)ctx;
    for (size_t i = 0; i < f->n_boxes; i++) {
        if (str_eq(ref, str_from(f->boxes[i]->ref))) {
            return fake_check(&f->boxes[i]->box, e) < 0 ? NULL : box_ref(&f->boxes[i]->box);
        }
    }
    (void)err_set(e, ERR_GONE, "it was never there");
    return NULL;
}

static inline struct box *fake_create(struct provider *p, const struct ctx *ctx,
                                      const struct box_spec *spec, struct err *e)
{
    struct fake *f = fake_of(p);
    struct fake_box *fb = xcalloc(1, sizeof(*fb));

    (void)ctx;
    if (f->n_boxes == FAKE_BOXES) {
        free(fb);
        (void)err_set(e, ERR_LIMIT, "the fake has no more room");
        return NULL;
    }
    (void)snprintf(fb->ref, sizeof(fb->ref), "%.*s", STR_ARG(spec->id));
    fb->box.provider = p;
    fb->box.ref = str_from(fb->ref);
    fb->limits = spec->limits;
    fb->network = spec->network;
    atomic_store(&fb->box.refs, 1);
    f->boxes[f->n_boxes++] = fb;
    return box_ref(&fb->box); /* the fake keeps its own reference until the end */
}

static inline int fake_info(struct box *b, const struct ctx *ctx, struct box_info *out,
                            struct err *e)
{
    struct fake_box *fb = CONTAINER_OF(b, struct fake_box, box);

    (void)ctx;
    (void)e;
    *out = (struct box_info){
        .ref = b->ref,
        .state = fb->gone ? BOX_GONE : BOX_RUNNING,
        .end = fb->gone ? BOX_END_LIFETIME : BOX_END_OTHER,
        .ended = fb->gone ? S("the test said so") : STR_EMPTY,
        .tier = S("memory of a test"),
        .host = S("here"),
        .user = S("user"),
        .work_dir = S("/workspace"),
        .home = S("/home/user"),
        .limits = fb->limits,
        .network = fb->network,
    };
    out->limits.idle_s = fb->limits.idle_s > 0 ? fb->limits.idle_s : 1800;
    return 0;
}

static inline void fake_release(struct box *b)
{
    free(CONTAINER_OF(b, struct fake_box, box));
}

static inline int fake_destroy(struct box *b, const struct ctx *ctx, struct err *e)
{
    (void)ctx;
    (void)e;
    CONTAINER_OF(b, struct fake_box, box)->gone = true;
    return 0;
}

static inline int fake_sweep(struct provider *p, const struct ctx *ctx, struct err *e)
{
    (void)p;
    (void)ctx;
    (void)e;
    return 0;
}

static inline int fake_exec(struct box *b, const struct ctx *ctx, const struct exec_req *req,
                            const struct sink *sink, struct exec_result *out, struct err *e)
{
    struct fake *f = fake_of(b->provider);

    if (fake_check(b, e) < 0 || ctx_check(ctx, e) < 0) {
        return -1;
    }
    f->execs++;
    return f->exec(f, req, sink, out, e);
}

static inline int fake_attach(struct box *b, const struct ctx *ctx, const struct attach_req *req,
                              const struct sink *sink, struct exec_result *out, struct err *e)
{
    struct fake *f = fake_of(b->provider);

    if (fake_check(b, e) < 0 || ctx_check(ctx, e) < 0) {
        return -1;
    }
    f->attaches++;
    return f->attach(f, req->id, req->from_out, req->from_err, sink, out, e);
}

static inline int fake_kill(struct box *b, const struct ctx *ctx, struct str id, int32_t grace_ms,
                            struct err *e)
{
    (void)grace_ms;
    (void)id;
    if (ctx_check(ctx, e) < 0) {
        return -1;
    }
    fake_of(b->provider)->kills++;
    return 0;
}

static inline int fake_usage(struct box *b, const struct ctx *ctx, struct usage *out, struct err *e)
{
    struct fake *f = fake_of(b->provider);

    (void)ctx;
    if (f->no_usage) {
        return err_set(e, ERR_UNREACHABLE, "the meter is broken");
    }
    *out = f->usage;
    return 0;
}

/* ---- its files ---------------------------------------------------------------------- */

static inline struct fake_file *fake_find(struct fake *f, struct str path)
{
    for (size_t i = 0; i < f->n_files; i++) {
        if (str_eq(path, str_from(f->files[i].path))) {
            return &f->files[i];
        }
    }
    return NULL;
}

/* One that is there. */
static inline struct fake_file *fake_get(struct fake *f, struct str path)
{
    struct fake_file *file = fake_find(f, path);

    if (file == NULL) {
        fail_msg("there is no file %.*s", STR_ARG(path));
        abort();
    }
    return file;
}

static inline struct fake_file *fake_add(struct fake *f, const char *path, enum file_type type,
                                         struct str bytes)
{
    struct fake_file *file = fake_find(f, str_from(path));

    file = file ? file : &f->files[f->n_files++];
    free(file->bytes);
    (void)snprintf(file->path, sizeof(file->path), "%s", path);
    file->type = type;
    file->bytes = xmemdup(bytes.p ? bytes.p : "", bytes.len);
    file->len = bytes.len;
    return file;
}

static inline struct file_info fake_file_info(const struct fake_file *file)
{
    return (struct file_info){.path = str_from(file->path),
                              .type = file->type,
                              .mode = file->mode,
                              .size = (int64_t)file->len,
                              .mtime_s = 1000000000};
}

static inline int fake_stat(struct box *b, const struct ctx *ctx, struct str path,
                            struct file_info *out, struct err *e)
{
    struct fake_file *file = fake_find(fake_of(b->provider), path);

    (void)ctx;
    if (file == NULL) {
        return err_set(e, ERR_NOT_FOUND, "%.*s: No such file or directory", STR_ARG(path));
    }
    *out = fake_file_info(file);
    return 0;
}

static inline int fake_list(struct box *b, const struct ctx *ctx, const struct list_req *req,
                            file_info_fn *each, void *arg, bool *more, struct err *e)
{
    struct fake *f = fake_of(b->provider);
    const struct fake_file *file = fake_find(f, req->dir);
    uint32_t n = 0;

    (void)ctx;
    if (fake_check(b, e) < 0) {
        return -1;
    }
    if (file != NULL && file->type != FILE_DIR) {
        return err_sys(e, ENOTDIR, "open %.*s", STR_ARG(req->dir));
    }
    *more = false;
    for (size_t i = 0; i < f->n_files; i++) {
        struct file_info info = fake_file_info(&f->files[i]);
        char path[128];
        int len = snprintf(path, sizeof(path), "%.*s/%s", STR_ARG(req->dir), f->files[i].path);

        if (n++ == req->max) {
            *more = true;
            return 0;
        }
        info.path = (struct str){path, (size_t)len};
        if (each(arg, &info, e) < 0) {
            return -1;
        }
    }
    return 0;
}

static inline int fake_read(struct box *b, const struct ctx *ctx, struct str path, int64_t from,
                            int64_t max, const struct sink *to, struct file_info *out,
                            struct err *e)
{
    struct fake_file *file = fake_find(fake_of(b->provider), path);
    struct str bytes;

    if (fake_check(b, e) < 0 || fake_stat(b, ctx, path, out, e) < 0) {
        return -1;
    }
    if (file->type == FILE_DIR) {
        return err_sys(e, EISDIR, "read %.*s", STR_ARG(path));
    }
    bytes = (struct str){file->bytes, file->len};
    bytes = str_head(str_skip(bytes, from > (int64_t)bytes.len ? bytes.len : (size_t)from),
                     (size_t)max);
    return bytes.len > 0 ? to->write(to->arg, STREAM_OUT, bytes, e) : 0;
}

static inline int fake_write(struct box *b, const struct ctx *ctx, struct str path, mode_t mode,
                             enum write_flags flags, const struct source *from,
                             struct file_info *out, struct err *e)
{
    struct fake *f = fake_of(b->provider);
    struct fake_file *old = fake_find(f, path);
    struct buf bytes own_buf = {0};
    char piece[7]; /* small: sources must go on where they stopped */
    char name[64];
    ssize_t n;

    (void)ctx;
    if (fake_check(b, e) < 0) {
        return -1;
    }
    if (old != NULL && old->type == FILE_DIR) {
        return err_sys(e, EISDIR, "write %.*s", STR_ARG(path));
    }
    buf_init(&bytes, 1 << 20);
    if ((flags & FILE_APPEND) && old != NULL) {
        buf_add(&bytes, (struct str){old->bytes, old->len});
    }
    for (n = from->read(from->arg, piece, sizeof(piece), e); n > 0;
         n = from->read(from->arg, piece, sizeof(piece), e)) {
        buf_add(&bytes, (struct str){piece, (size_t)n});
    }
    if (n < 0) {
        return -1;
    }
    (void)snprintf(name, sizeof(name), "%.*s", STR_ARG(path));
    old = fake_add(f, name, FILE_REGULAR, buf_str(&bytes));
    old->mode = mode;
    *out = fake_file_info(old);
    return 0;
}

static inline void fake_close(struct provider *p)
{
    (void)p;
}

static const struct task_ops fake_tasks = {.attach = fake_attach, .kill = fake_kill};
static const struct file_ops fake_files = {
    .stat = fake_stat, .list = fake_list, .read = fake_read, .write = fake_write};
static const struct meter_ops fake_meter = {.usage = fake_usage};
static const struct factory_ops fake_factory = {
    .create = fake_create, .destroy = fake_destroy, .sweep = fake_sweep};
static const struct provider_ops fake_ops = {
    .type = "local",
    .close = fake_close,
    .attach = fake_attach_box,
    .info = fake_info,
    .release = fake_release,
    .exec = fake_exec,
    .factory = &fake_factory,
    .tasks = &fake_tasks,
    .files = &fake_files,
    .meter = &fake_meter,
};

/* ---- a session ---------------------------------------------------------------------- */

static inline int fake_setup(void **state)
{
    struct fake *f = xcalloc(1, sizeof(*f));
    struct provider *providers[] = {&f->provider};

    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/anybox-tools-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->provider = (struct provider){.ops = &fake_ops, .name = S("local")};
    f->config = (struct config){.exec_timeout_s = 120,
                                .max_output_chars = 20000,
                                .default_provider = S("local"),
                                .state_dir = str_from(f->dir),
                                .folder = S("/src/project")};
    f->store = store_new(str_from(f->dir));
    f->services = (struct services){.config = &f->config, .store = f->store};
    f->services.boxes = boxes_new_with(&f->config, f->store, providers, 1, NULL);
    scope_init(&f->scope, STR_EMPTY, S("/src/project"));
    f->toolsets = TOOLSET_DEFAULT;
    *state = f;
    return 0;
}

static inline int fake_teardown(void **state)
{
    struct fake *f = *state;
    struct err e = {0};
    int failed;

    json_decref(f->answer);
    boxes_free(f->services.boxes);
    store_free(f->store);
    scope_fini(&f->scope);
    for (size_t i = 0; i < f->n_boxes; i++) {
        box_unref(&f->boxes[i]->box);
    }
    for (size_t i = 0; i < f->n_files; i++) {
        free(f->files[i].bytes);
    }
    failed = fd_remove_tree(AT_FDCWD, f->dir, &e);
    free(f);
    return failed;
}

/* A call with its progress going into the fake. */
struct fake_call {
    struct call call;
    struct fake *fake;
};

static inline void fake_progress(struct call *c, struct str message)
{
    struct fake *f = CONTAINER_OF(c, struct fake_call, call)->fake;

    if (f->n_progress < COUNTOF(f->progress)) {
        (void)snprintf(f->progress[f->n_progress++], sizeof(f->progress[0]), "%.*s",
                       STR_ARG(message));
    }
}

static inline int fake_ask(struct call *c, struct question *questions, size_t n, struct err *e)
{
    struct fake *f = CONTAINER_OF(c, struct fake_call, call)->fake;
    struct buf text own_buf = {.max = sizeof(f->question)};

    assert_int_equal(n, 1);
    assert_true((c->can & questions->kind) != 0);
    f->asks++;
    js_dump(questions->params, &text);
    (void)snprintf(f->question, sizeof(f->question), "%s", text.p);
    if (f->ask_fails != ERR_NONE) {
        return err_set(e, f->ask_fails, "ask");
    }
    json_decref(f->answer);
    f->answer = f->reply != NULL ? js_parse(f->reply, strlen(f->reply), e) : NULL;
    questions->answer = f->answer;
    c->asked = f->asks_later;
    return c->asked ? ASK_LATER : ASK_ANSWERED;
}

/* The answer of a call, a new reference. `arguments` is JSON, or NULL. */
static inline json_t *fake_call(struct fake *f, const char *tool, const char *arguments,
                                bool *is_error)
{
    struct arena arena own_arena = {0};
    struct buf text own_buf = {0};
    struct ctx ctx = {.arena = &arena, .cancel = f->cancel};
    struct err e = {0};
    struct fake_call c = {.fake = f,
                          .call = {.ctx = &ctx,
                                   .services = &f->services,
                                   .scope = &f->scope,
                                   .toolsets = f->toolsets,
                                   .transport = "test",
                                   .request_id = S("\"r1\""),
                                   .can = f->can,
                                   .ask = f->can != 0 ? fake_ask : NULL,
                                   .progress = f->wants_progress ? fake_progress : NULL}};
    own_json json_t *given = NULL;
    json_t *answer;

    assert_non_null(tool_find(str_from(tool)));
    arena_init(&arena, 256 << 20);
    buf_init(&text, TOOL_TEXT_MAX);
    if (arguments != NULL) {
        given = js_parse(arguments, strlen(arguments), &e);
        if (given == NULL) {
            fail_msg("the test's own JSON is wrong: %s: %s", e.msg, arguments);
        }
    }
    tool_call(tool_find(str_from(tool)), &c.call, given, &text, is_error);
    f->asked_later = c.call.asked;
    if (f->asked_later) {
        assert_int_equal(text.len, 0);
        return NULL;
    }
    answer = js_parse(text.p, text.len, &e);
    if (answer == NULL) {
        fail_msg("%s answered what is not JSON: %s", tool, e.msg);
    }
    return answer;
}

/* The call succeeds. */
static inline json_t *fake_ok(struct fake *f, const char *tool, const char *arguments)
{
    bool is_error = true;
    json_t *answer = fake_call(f, tool, arguments, &is_error);

    if (is_error) {
        fail_msg("%s failed: %s", tool, json_string_value(js_get(answer, "error")));
    }
    return answer;
}

/* The call fails with this code and a sentence that has `word`. */
static inline json_t *fake_fails(struct fake *f, const char *tool, const char *arguments,
                                 const char *code, const char *word)
{
    bool is_error = false;
    json_t *answer = fake_call(f, tool, arguments, &is_error);
    const char *sentence = json_string_value(js_get(answer, "error"));

    assert_true(is_error);
    assert_string_equal(json_string_value(js_get(answer, "code")), code);
    if (sentence == NULL) {
        fail_msg("%s failed without a sentence", tool);
    } else if (strstr(sentence, word) == NULL) {
        fail_msg("\"%s\" does not mention \"%s\"", sentence, word);
    }
    return answer;
}

/* The call's answer is its question. */
static inline void fake_asks(struct fake *f, const char *tool, const char *arguments)
{
    bool is_error = true;

    assert_null(fake_call(f, tool, arguments, &is_error));
    assert_true(f->asked_later);
    assert_false(is_error);
}

#define FAKE_TEST(name) cmocka_unit_test_setup_teardown(name, fake_setup, fake_teardown)

#define assert_json(o, key, want)                                                                  \
    do {                                                                                           \
        own_json json_t *want_ = (want);                                                           \
        const json_t *got_ = js_get((o), (key));                                                   \
        if (got_ == NULL || !json_equal(got_, want_)) {                                            \
            struct buf shown_ own_buf = {.max = 4096};                                             \
            js_dump((o), &shown_);                                                                 \
            fail_msg("%s is not as wanted in %s", (key), shown_.p);                                \
        }                                                                                          \
    } while (0)

#endif
