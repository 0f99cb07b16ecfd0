#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "boxinit/server.h"

int watch_open(struct server *s, struct watch *w, int fd, uint32_t events,
               void (*ready)(struct server *, struct watch *, uint32_t), struct err *e)
{
    *w = (struct watch){.fd = fd, .ready = ready};
    watch_want(s, w, events);
    if (w->events != events) {
        w->fd = -1;
        return err_sys(e, errno, "watch a descriptor");
    }
    return 0;
}

/* Nothing wanted takes it out of the set: a hang-up is always reported there, and would
 * spin as long as nobody reads. */
void watch_want(struct server *s, struct watch *w, uint32_t events)
{
    struct epoll_event want = {.events = events, .data.ptr = w};
    int op = EPOLL_CTL_MOD;

    if (w->fd < 0 || w->events == events) {
        return;
    }
    if (w->events == 0) {
        op = EPOLL_CTL_ADD;
    } else if (events == 0) {
        op = EPOLL_CTL_DEL;
    }
    if (epoll_ctl(s->epoll, op, w->fd, &want) == 0) {
        w->events = events;
    }
}

void watch_close(struct server *s, struct watch *w)
{
    if (w->fd < 0) {
        return;
    }
    /* Not left to close(): a child between fork and exec still holds the file, and its
     * events would go on to arrive here. */
    watch_want(s, w, 0);
    (void)close(w->fd);
    w->fd = -1;
}
