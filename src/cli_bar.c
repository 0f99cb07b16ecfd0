#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli_sync.h"

#define SHOW_EVERY_MS 100
#define BAR_WIDTH     24
#define MIB           1048576.0
#define RATE_AFTER_MS 1000 /* before, a rate tells nothing */

void bar_init(struct bar *b)
{
    *b = (struct bar){.shown = isatty(STDERR_FILENO) == 1, .started_ms = clock_mono_ms()};
}

/* Bytes tell how far it is; where there are none, files do. */
static double fraction(const struct sync_progress *now)
{
    double done = (double)now->bytes;
    double all = (double)now->bytes_total;

    if (now->bytes_total == 0) {
        done = (double)now->files;
        all = (double)now->files_total;
    }
    return all <= 0 ? 1 : done >= all ? 1 : done / all;
}

void bar_line(struct buf *to, const struct sync_progress *now, int64_t ms, int columns)
{
    double part = fraction(now);
    double rate = ms > 0 ? (double)now->bytes / MIB / ((double)ms / 1000) : 0;
    size_t start = to->len;

    buf_addc(to, '[');
    for (int i = 0; i < BAR_WIDTH; i++) {
        buf_addc(to, i < (int)(part * BAR_WIDTH) ? '#' : '.');
    }
    buf_addf(to, "] %3d %%  %.1f of %.1f MiB  %llu of %llu files", (int)(part * 100),
             (double)now->bytes / MIB, (double)now->bytes_total / MIB,
             (unsigned long long)now->files, (unsigned long long)now->files_total);
    if (ms >= RATE_AFTER_MS && rate > 0) {
        long left = (long)((double)(now->bytes_total - now->bytes) / MIB / rate);

        buf_addf(to, "  %.1f MiB/s", rate);
        if (now->bytes < now->bytes_total) {
            buf_addf(to, "  %ld:%02ld left", left / 60, left % 60);
        }
    }
    if (columns > 0 && to->len - start > (size_t)columns) {
        to->len = start + (size_t)columns;
    }
}

static int terminal_columns(void)
{
    struct winsize size;

    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col - 1 : 79;
}

void bar_show(struct bar *b, const struct sync_progress *now)
{
    struct buf line own_buf = {0};
    int64_t now_ms;

    if (!b->shown) {
        return;
    }
    now_ms = clock_mono_ms();
    if (now_ms < b->next_ms) {
        return;
    }
    b->next_ms = now_ms + SHOW_EVERY_MS;
    buf_init(&line, 512);
    bar_line(&line, now, now_ms - b->started_ms, terminal_columns());
    (void)fprintf(stderr, "\r%.*s\033[K", STR_ARG(buf_str(&line)));
    (void)fflush(stderr);
}

void bar_clear(struct bar *b)
{
    if (b->shown && b->next_ms > 0) {
        (void)fputs("\r\033[K", stderr);
        (void)fflush(stderr);
    }
}
