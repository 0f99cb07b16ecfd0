/* drain.c - pipes that outlive their command. A process that was left in the background
 * and still writes to its stdout must neither block nor be killed by SIGPIPE, as long as
 * there are not too many of them. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "boxinit/server.h"

static void drain_close(struct server *s, struct drain *d)
{
    watch_close(s, &d->watch);
    d->dead = true;
}

static void on_readable(struct server *s, struct watch *w, uint32_t events)
{
    struct drain *d = CONTAINER_OF(w, struct drain, watch);
    char bytes[4096];
    ssize_t n = read(w->fd, bytes, sizeof(bytes));

    (void)events;
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        drain_close(s, d);
    }
}

void drain_add(struct server *s, int fd)
{
    struct drain *d = xcalloc(1, sizeof(*d));
    struct err ignored;

    if (watch_open(s, &d->watch, fd, EPOLLIN, on_readable, &ignored) < 0) {
        (void)close(fd);
        free(d);
        return;
    }
    list_add_tail(&s->drains, &d->link);
    s->n_drains++;
    if (s->n_drains > DRAINS_MAX) {
        struct list *pos;

        list_each (pos, &s->drains) {
            struct drain *oldest = list_entry(pos, struct drain, link);

            if (!oldest->dead) {
                drain_close(s, oldest);
                break;
            }
        }
    }
}

void drains_sweep(struct server *s)
{
    struct list *pos;
    struct list *tmp;

    list_each_safe (pos, tmp, &s->drains) {
        struct drain *d = list_entry(pos, struct drain, link);

        if (d->dead) {
            list_del(&d->link);
            s->n_drains--;
            free(d);
        }
    }
}
