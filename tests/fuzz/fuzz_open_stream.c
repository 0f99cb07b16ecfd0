/* What an execd streams, which code in the sandbox may have replaced: any bytes, cut anywhere, give
 * events or a sentence, and lines that are never longer than what came. */
#include <stdint.h>
#include <stdlib.h>

#include "provider/opensandbox/stream.h"

struct heard {
    struct lines lines;
    size_t n, n_bytes;
};

static int hear(void *arg, const struct event *event, struct err *e)
{
    struct heard *h = arg;
    struct exec_result result = {0};
    struct line line;

    (void)e;
    h->n++;
    h->n_bytes += event->text.len + 1;
    lines_take(&h->lines, event->text, &line);
    (void)event_result(event, &result);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct heard h = {.lines = {.mark = S("MARK")}};
    struct events s;
    struct err e;
    size_t step = size > 0 ? 1u + data[0] % 64 : 1;
    struct str rest = {(const char *)data, size};

    events_init(&s);
    while (rest.len > 0) {
        if (events_take(&s, str_head(rest, step), hear, &h, &e) != 0) {
            break;
        }
        rest = str_skip(rest, step < rest.len ? step : rest.len);
    }
    if (rest.len == 0) {
        (void)!events_end(&s, hear, &h, &e);
    }
    events_fini(&s);
    if (h.lines.n_bytes > h.n_bytes || h.lines.n_told != h.n) {
        abort();
    }
    struct told told = {.n = h.n};
    if (told_skip(&told, (struct str){(const char *)data, size}).len > 0 && told.n > 0) {
        abort();
    }
    return 0;
}
