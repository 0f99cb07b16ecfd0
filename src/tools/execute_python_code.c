/*
 * execute_python_code.c - code for a box's interpreter, whose state stays between calls.
 *
 * As exec.c: code that fails, is killed or runs out of time is an answer, not an error. A
 * time-out that the caller gave is waited for in full; without one the call waits for
 * defaults.exec_window and leaves the code running, and a call with empty code waits on.
 */
#include <inttypes.h>

#include "base/clock.h"
#include "base/mime.h"
#include "base/path.h"
#include "base/plain.h"
#include "core/output.h"
#include "core/python.h"
#include "tools/base64.h"
#include "tools/exec.h"
#include "tools/resource.h"
#include "tools/rows.h"
#include "tools/task_answer.h"

#define PROGRESS_GAP_MS 1000
#define IMAGE_BYTES     (420 << 10)  /* of all images, before base64 */
#define CONTENT_MAX     (860u << 10) /* of all blocks, below TOOL_TEXT_MAX */
#define WHOSE_DIGITS    16
#define LINKS_MAX       20 /* blocks that are links */

struct args {
    struct box_args box;
    struct str code;
    int64_t timeout_s, max_output_chars;
    bool reset;
};

struct job {
    struct call *call;
    const struct args *args;
    struct python_order order;
    struct output *output;
    struct sink keep;
    int64_t started_ms, told_ms;
    struct python_result result;
    struct str box_id; /* in the call's arena */
    bool lost;
    struct err why;
};

/* ---- while it runs ------------------------------------------------------------------- */

static void tell(void *arg)
{
    struct job *j = arg;
    struct buf text own_buf = {0};
    int64_t now = clock_mono_ms();

    if (j->call->progress == NULL || now - j->told_ms < PROGRESS_GAP_MS) {
        return;
    }
    buf_init(&text, 512);
    buf_addf(&text, "%" PRId64 " s: ", (now - j->started_ms) / 1000);
    output_last_line(j->output, &text);
    j->told_ms = now;
    j->call->progress(j->call, str_trim(buf_str(&text)));
}

static int keep_output(void *arg, enum stream from, struct str bytes, struct err *e)
{
    struct job *j = arg;

    if (j->keep.write(j->keep.arg, from, bytes, e) < 0) {
        return -1;
    }
    tell(j);
    return 0;
}

static void lose_output(void *arg, enum stream from, uint64_t n)
{
    struct job *j = arg;

    j->keep.lost(j->keep.arg, from, n);
}

static int run_job(void *arg, struct call *c, struct box *b, struct str id, struct err *e)
{
    struct job *j = arg;
    struct str own = boxes_output_id(c->scope, id, c->ctx->arena);
    struct python_ear ear = {
        .output = {.write = keep_output, .lost = lose_output, .arg = j}, .alive = tell, .arg = j};

    output_free(j->output); /* of an attempt in a box that was gone */
    j->output = output_new(c->services->config->state_dir, own, j->order.max_chars);
    /* A host is everybody's, its interpreters are not. */
    j->order.whose =
        c->scope->owner.len > 0 && !str_eq(own, id) ? str_head(own, WHOSE_DIGITS) : STR_EMPTY;
    j->keep = output_sink(j->output);
    j->box_id = arena_str(c->ctx->arena, id);
    if (python_run(c->services->pythons, b, own, c->ctx, &j->order, &ear, &j->result, e) == 0) {
        return 0;
    }
    /* Code that may have run is never run again: that is an answer, whatever broke. */
    j->lost = j->result.sent && e->kind != ERR_CANCELLED && e->kind != ERR_TIMEOUT;
    j->why = *e;
    return j->lost ? 0 : -1;
}

/* ---- the answer ---------------------------------------------------------------------- */

static int exit_code(const struct job *j)
{
    if (j->lost) {
        return -1;
    }
    if (j->result.timed_out) {
        return 124;
    }
    return j->result.signal > 0 ? 128 + j->result.signal : j->result.code;
}

/* What stderr ends with when the code did not come to its own end. */
static struct str last_words(const struct job *j)
{
    struct arena *a = j->call->ctx->arena;

    if (j->lost) {
        return arena_printf(a, "[CONNECTION ERROR] %s", j->why.msg);
    }
    if (j->result.timed_out) {
        return arena_printf(a, "[TIMEOUT] code %s after %" PRId64 "s",
                            j->result.restarted ? "killed" : "interrupted", j->args->timeout_s);
    }
    return STR_EMPTY;
}

static void put_value(const struct job *j, json_t *o)
{
    struct buf text own_buf = {0};

    if (j->result.value.len > 0) {
        buf_init(&text, STREAM_BYTES_MAX);
        plain_text(j->result.value, &text);
        answer_str(o, "result", buf_str(&text));
    }
}

static void add_note(struct buf *notes, struct str note)
{
    if (note.len > 0) {
        buf_addf(notes, "%s%.*s", notes->len > 0 ? "; " : "", STR_ARG(note));
    }
}

static void put_notes(const struct job *j, json_t *o, struct str made)
{
    const struct python_result *r = &j->result;
    struct buf notes own_buf = {0};

    buf_init(&notes, 4096);
    add_note(&notes, made);
    if (r->lost_state) {
        add_note(&notes,
                 S("the interpreter had ended since the last call: this ran in a fresh one, "
                   "and variables of earlier calls are gone"));
    }
    if (r->restarted) {
        add_note(&notes,
                 S("the interpreter ended with this code: the next call has a fresh one, and "
                   "variables are gone"));
    } else if (r->timed_out) {
        add_note(&notes, S("the code was interrupted and the interpreter goes on: variables are "
                           "kept"));
    }
    if (r->more_files) {
        add_note(&notes, S("the work folder has more than 2000 entries, of which the rest was not "
                           "looked at for new files"));
    }
    if (r->end == PYTHON_LEFT) {
        add_note(&notes,
                 S("the code still runs and was not restarted: call again with empty code to "
                   "wait for its end, or with reset to end it; timeout_s makes a call wait "
                   "longer"));
    }
    plain_text(r->note, &notes);
    answer_str_if(o, "note", buf_str(&notes));
}

static void put_files(struct job *j, json_t *o)
{
    struct call *c = j->call;
    const struct python_result *r = &j->result;
    json_t *files = json_array();
    json_t *links = json_array();

    for (size_t i = 0; i < r->n_files; i++) {
        struct str link = answer_link(c, j->box_id, r->files[i]);

        link = link.len > 0 ? link : resource_file_uri(c->ctx->arena, j->box_id, r->files[i]);
        (void)json_array_append_new(files, js_string(r->files[i]));
        (void)json_array_append_new(links, js_string(link));
    }
    (void)json_object_set_new(o, "files", files);
    (void)json_object_set_new(o, "file_links", links);
    if (answer_is_mcp_sandbox(c)) {
        (void)json_object_set(o, "machine_file_links", links);
    }
    if (r->all_files > (int64_t)r->n_files) {
        (void)json_object_set_new(o, "files_in_all", json_integer(r->all_files));
    }
}

static json_t *answer_for(struct job *j, struct str made)
{
    const struct python_result *r = &j->result;
    int64_t wall_ms = j->lost ? clock_mono_ms() - j->started_ms : r->wall_ms;
    json_t *o = json_object();
    bool cut;

    if (r->end == PYTHON_LEFT) {
        (void)json_object_set_new(o, "running", json_true());
    } else {
        (void)json_object_set_new(o, "exit_code", json_integer(exit_code(j)));
    }
    put_value(j, o);
    cut = exec_put_stream(j->output, o, "stdout", STREAM_OUT, STR_EMPTY);
    cut = exec_put_stream(j->output, o, "stderr", STREAM_ERR, last_words(j)) || cut;
    put_files(j, o);
    (void)json_object_set_new(o, "duration", answer_seconds(wall_ms));
    (void)json_object_set_new(o, "timed_out", json_boolean(r->timed_out));
    (void)json_object_set_new(o, "signal", r->signal > 0 ? answer_signal(r->signal) : json_null());
    (void)json_object_set_new(o, "connection_error", json_boolean(j->lost));
    if (r->restarted) {
        (void)json_object_set_new(o, "restarted", json_true());
    }
    if (cut) {
        (void)json_object_set_new(o, "truncated", json_true());
    }
    put_notes(j, o, made);
    if (j->lost) {
        answer_str(o, "error",
                   arena_printf(j->call->ctx->arena,
                                "%s: the code may have run in part, or still run. Look before you "
                                "run it again: a call with empty code waits for it",
                                j->why.msg));
        (void)json_object_set_new(o, "code", json_string(err_kind_name(j->why.kind)));
        j->call->is_error = true;
    }
    return o;
}

/* ---- blocks beside the text ---------------------------------------------------------- */

static json_t *text_block(const json_t *answer, size_t *bytes)
{
    struct buf text own_buf = {0};
    json_t *block = json_object();

    buf_init(&text, TOOL_TEXT_MAX);
    js_dump(answer, &text);
    *bytes = text.len + text.len / 8;
    (void)json_object_set_new(block, "type", json_string("text"));
    (void)json_object_set_new(block, "text", js_string(buf_str(&text)));
    return block;
}

static json_t *image_block(const struct job *j, const struct python_image *image)
{
    json_t *block = json_object();

    (void)json_object_set_new(block, "type", json_string("image"));
    answer_str(block, "data", base64_encode(j->call->ctx->arena, image->bytes));
    answer_str(block, "mimeType", image->type);
    return block;
}

static void add_links(struct job *j, json_t *content)
{
    const struct python_result *r = &j->result;

    for (size_t i = 0; i < r->n_files && i < LINKS_MAX; i++) {
        json_t *block = json_object();

        (void)json_object_set_new(block, "type", json_string("resource_link"));
        answer_str(block, "uri", resource_file_uri(j->call->ctx->arena, j->box_id, r->files[i]));
        answer_str(block, "name", path_base(r->files[i]));
        (void)json_object_set_new(block, "mimeType", json_string(mime_of(r->files[i]).type));
        (void)json_array_append_new(content, block);
    }
}

/* Images that fit, and links where there is no HTTP to have them by. */
static void put_content(struct job *j, json_t *answer)
{
    const struct python_result *r = &j->result;
    bool with_links = j->call->link_base.len == 0 && r->n_files > 0;
    json_t *content;
    size_t bytes = 0;

    if (r->n_images == 0 && !with_links) {
        return;
    }
    content = json_array();
    (void)json_array_append_new(content, text_block(answer, &bytes));
    for (size_t i = 0; i < r->n_images; i++) {
        size_t size = r->images[i].bytes.len / 3 * 4 + 100;

        if (bytes + size > CONTENT_MAX) {
            (void)json_object_set_new(answer, "images_left_out",
                                      json_integer((json_int_t)(r->n_images - i)));
            (void)json_array_set_new(content, 0, text_block(answer, &bytes));
            break;
        }
        bytes += size;
        (void)json_array_append_new(content, image_block(j, &r->images[i]));
    }
    if (with_links) {
        add_links(j, content);
    }
    j->call->content = content;
}

/* ---- the tool ------------------------------------------------------------------------ */

static int not_begun(const struct job *j, struct err *e)
{
    if (j->result.end == PYTHON_BUSY) {
        return err_set(e, ERR_EXISTS,
                       "the interpreter still runs the code of an earlier call (for %" PRId64
                       " s), and this code did not run: call with empty code to wait for its "
                       "end, or with reset to end it and begin afresh",
                       j->result.wall_ms / 1000);
    }
    return err_set(e, ERR_INVALID,
                   "code is empty, and no code of an earlier call runs: give the "
                   "Python code to run");
}

static void make_order(struct job *j, struct args *args, const struct config *config)
{
    args->timeout_s = args->timeout_s > 0 ? args->timeout_s : config->exec_timeout_s;
    args->max_output_chars =
        args->max_output_chars > 0 ? args->max_output_chars : config->max_output_chars;
    if (args->max_output_chars > EXEC_CHARS_MAX) {
        args->max_output_chars = EXEC_CHARS_MAX;
    }
    j->order = (struct python_order){
        .code = args->code,
        .reset = args->reset,
        .collect = str_trim(args->code).len == 0 && !args->reset,
        .timeout_ms = args->timeout_s * 1000,
        .window_ms = args->timeout_s > 0 ? 0 : config->exec_window_s * 1000,
        .max_chars = args->max_output_chars,
        .image_bytes = IMAGE_BYTES,
    };
}

static int run(struct call *c, const void *given, json_t **out, struct err *e)
{
    struct args args = *(const struct args *)given;
    struct job j = {.call = c, .args = &args};
    struct str note = STR_EMPTY;
    int failed;

    make_order(&j, &args, c->services->config);
    j.started_ms = j.told_ms = clock_mono_ms();
    failed = answer_with_box(c, &args.box, true, run_job, &j, &note, e);
    if (failed == 0 && (j.result.end == PYTHON_BUSY || j.result.end == PYTHON_NOTHING)) {
        failed = not_begun(&j, e);
    }
    if (failed == 0) {
        *out = answer_for(&j, note);
        exec_note_down(c, args.code, *out);
        put_content(&j, *out);
    }
    output_free(j.output);
    return failed;
}

static const struct param params[] = {
    {
        .name = "code",
        .type = PARAM_STRING,
        .offset = offsetof(struct args, code),
        .required = true,
        .max = PYTHON_CODE_MAX,
        .help = "empty: wait for what still runs",
        .too_long = "write it into a file with write_remote_file and run that",
    },
    {
        .name = "reset",
        .type = PARAM_BOOLEAN,
        .offset = offsetof(struct args, reset),
        .help = "fresh interpreter first",
    },
    {
        .name = "timeout_s",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct args, timeout_s),
        .min = 1,
        .max = EXEC_TIMEOUT_MAX,
        .help = "interrupts it; default: left running after 45 s",
    },
    {
        .name = "max_output_chars",
        .type = PARAM_INTEGER,
        .offset = offsetof(struct args, max_output_chars),
        .hidden = true,
        .min = 1,
        .max = INT64_MAX,
        .help = "of each stream in the answer (default 20000)",
    },
    PARAM_BOX_SHORT(struct args),
};

const struct tool tool_execute_python_code = {
    .name = "execute_python_code",
    .title = "Run Python code",
    .help = "Run Python in the sandbox's interpreter, whose variables and imports stay between "
            "calls. Answers stdout, stderr (traceback), exit_code, result (last expression), files "
            "(new, changed); figures and PIL images as images.",
    .params = params,
    .n_params = COUNTOF(params),
    .args_size = sizeof(struct args),
    .toolsets = TOOLSET_DEFAULT | TOOLSET_MCP | TOOLSET_ALL,
    .hints = 0,
    .run = run,
};
