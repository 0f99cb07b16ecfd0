/*
 * fuzz_mux.c - any bytes as the other side's, to both roles of the mux.
 *
 * The first byte chooses the role. Then each byte below 250 is the length of a piece that
 * follows and is fed; the others do what a program at the end of a conversation may do, and
 * take what is to be sent.
 */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/mux.h"

#define ENDS 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct world {
    struct mux *m;
    int ends[ENDS];
    size_t n;
};

static int new_end(struct world *w)
{
    int fds[2];

    if (w->n == ENDS || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0) {
        return -1;
    }
    w->ends[w->n++] = fds[1];
    return fds[0];
}

static int accept_one(void *arg)
{
    return new_end(arg);
}

static void send_out(struct world *w, size_t most)
{
    struct str out = mux_out(w->m);

    if (out.len > MUX_OUT + MUX_DATA + 8192) {
        abort();
    }
    mux_sent(w->m, out.len < most ? out.len : most);
}

static void act(struct world *w, uint8_t what)
{
    static const char bytes[8192];
    static char got[65536];
    int end = w->n > 0 ? w->ends[w->n - 1] : -1;
    struct err e;

    mux_turn(w->m);
    switch (what) {
    case 250: (void)send(end, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT); break;
    case 251: (void)recv(end, got, sizeof(got), MSG_DONTWAIT); break;
    case 252: (void)shutdown(end, SHUT_WR); break;
    case 253:
        if (end >= 0) {
            (void)close(end);
            w->n--;
        }
        break;
    case 254: send_out(w, 1000); break;
    default:
        end = new_end(w);
        if (end >= 0 && mux_open(w->m, end, &e) < 0 && e.kind == ERR_NONE) {
            abort();
        }
    }
    mux_turn(w->m);
}

static void play(struct world *w, const uint8_t *data, size_t size)
{
    struct err e;

    while (size > 0) {
        uint8_t what = *data++;
        size_t n = what;

        size--;
        if (what >= 250) {
            act(w, what);
            continue;
        }
        n = n < size ? n : size;
        if (mux_feed(w->m, (struct str){(const char *)data, n}, &e) < 0) {
            if (e.kind != ERR_PROTOCOL || mux_out(w->m).len > 0) {
                abort();
            }
            return;
        }
        data += n;
        size -= n;
        if (mux_count(w->m) > MUX_STREAMS) {
            abort();
        }
    }
    send_out(w, SIZE_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world w = {0};
    struct err e;

    if (size == 0) {
        return 0;
    }
    w.m = mux_new(data[0] & 1 ? accept_one : NULL, &w, &e);
    if (w.m == NULL) {
        return 0;
    }
    play(&w, data + 1, size - 1);
    mux_free(w.m);
    for (size_t i = 0; i < w.n; i++) {
        (void)close(w.ends[i]);
    }
    return 0;
}
