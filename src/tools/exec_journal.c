/* exec_journal.c - a command and its answer as a person reads them later. */
#include "base/clock.h"
#include "base/plain.h"
#include "base/utf8.h"
#include "core/journal.h"
#include "tools/exec.h"

#define STREAM_MAX  (16u << 10) /* bytes of each stream */
#define COMMAND_MAX (4u << 10)

static void note_stream(struct buf *to, struct str text)
{
    size_t over = text.len > STREAM_MAX ? text.len - STREAM_MAX : 0;

    if (over > 0) {
        buf_addf(to, "[... %zu bytes before]\n", over);
    }
    buf_add(to, utf8_tail(text, STREAM_MAX));
    if (text.len > 0 && text.p[text.len - 1] != '\n') {
        buf_addc(to, '\n');
    }
}

/* The answer's streams are plain already, the command is not. */
void exec_note_down(struct call *c, struct str command, const json_t *answer)
{
    const json_t *code = js_get(answer, "exit_code");
    char now[CLOCK_RFC3339_SIZE];
    struct buf text own_buf = {0};

    if (c->services->journal == NULL || c->box_id.len == 0) {
        return;
    }
    buf_init(&text, JOURNAL_BYTES / 2);
    buf_addf(&text, "== %s $ ", clock_rfc3339(clock_wall_ms(), now));
    plain_text(str_head(command, COMMAND_MAX), &text);
    buf_addf(&text, "%s\n", command.len > COMMAND_MAX ? " ..." : "");
    note_stream(&text, js_str(js_get(answer, "stdout")));
    note_stream(&text, js_str(js_get(answer, "stderr")));
    if (code == NULL) {
        buf_addf(&text, "== goes on%s%.*s\n", js_get(answer, "task_id") != NULL ? " as task " : "",
                 STR_ARG(js_str(js_get(answer, "task_id"))));
    } else {
        buf_addf(&text, "== exit code %lld, %.3f s\n", (long long)json_integer_value(code),
                 json_number_value(js_get(answer, "duration")));
    }
    journal_add(c->services->journal, boxes_output_id(c->scope, c->box_id, c->ctx->arena),
                buf_str(&text));
}
