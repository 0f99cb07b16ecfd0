/* inner.c - the inner process becomes PID 1 of a box: see boxinit.c. */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/fd.h"
#include "base/own.h"
#include "boxinit/box.h"
#include "boxinit/fds.h"
#include "boxinit/ids.h"
#include "boxinit/image.h"
#include "boxinit/limits.h"
#include "boxinit/net.h"
#include "boxinit/process.h"
#include "boxinit/rootfs.h"

static int raise_loopback(struct err *e)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int fd own_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0) {
        return err_sys(e, errno, "raise the loopback interface");
    }
    return 0;
}

/* What there is of the outer process. */
struct outside {
    int go, net_made;
    int tree; /* of an image, or the whole root (skeleton.h); -1: none came */
};

static bool may_go_on(int go)
{
    char byte;
    struct err ignored;

    return fd_read(go, &byte, 1, &ignored) == 1;
}

/* The outer process starts the other side while the box may still have another mount
 * namespace, which slirp4netns makes for itself. */
static int connect_net(const struct spec *spec, int go, int net_made, struct err *e)
{
    if (net_make(spec, e) < 0 || fd_write_all(net_made, S("n"), e) < 0) {
        return -1;
    }
    return may_go_on(go) ? 0 : err_set(e, ERR_CANCELLED, "nobody wants the sandbox any more");
}

static int build(const struct spec *spec, int came, struct err *e)
{
    int tree own_fd = came;

    if (spec->image != NULL && tree < 0) {
        tree = image_open(spec->image, -1, e);
        if (tree < 0) {
            return -1;
        }
    }
    return rootfs_build(spec, tree, e);
}

/* All that can be done before anybody asks for the box. */
static int set_up(const struct spec *spec, struct box_fds *fds, struct outside *from, struct err *e)
{
    int keep[] = {CONTROL_FD, fds->listener, fds->end, fds->oom,       fds->memory, fds->pids,
                  fds->keep,  fds->net,      from->go, from->net_made, from->tree};

    if (fds_close_others(keep, COUNTOF(keep), e) < 0) {
        return -1;
    }
    if (setsid() < 0) {
        return err_sys(e, errno, "make a session");
    }
    /* Only now: whoever is born into a cgroup would have that of its parent as the root. */
    if (unshare(CLONE_NEWCGROUP) < 0) {
        return err_sys(e, errno, "make a cgroup namespace");
    }
    /* While we are dumpable and have the uid that owns it: the file stays usable. */
    fds->oom_adj = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    if (ids_enter(spec, e) < 0) {
        return -1;
    }
    /* Until the order we have every capability in here, and it may be long to come: other
     * programs of the same user must not get them by us. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) {
        return err_sys(e, errno, "forbid tracing");
    }
    if (!spec->host_net && raise_loopback(e) < 0) {
        return -1;
    }
    if (spec->net_program != NULL && connect_net(spec, from->go, from->net_made, e) < 0) {
        return -1;
    }
    (void)close(from->go);
    (void)close(from->net_made);
    /* What was opened on the host's side leads to the host's mounts, and commands inherit it. */
    return build(spec, from->tree, e) < 0 ? -1 : process_null_stdio(e);
}

static int obey(const struct spec *spec, struct err *e)
{
    if (sethostname(spec->hostname, strlen(spec->hostname)) < 0) {
        return err_sys(e, errno, "set the hostname");
    }
    return rootfs_finish(spec, e) < 0 ? -1 : limits_seal(spec, e);
}

/* Who does not ask in advance has sent the order already, and need not be woken up. */
static int say_prepared(struct err *e)
{
    struct pollfd said = {.fd = CONTROL_FD, .events = POLLIN};

    return poll(&said, 1, 0) > 0 ? 0 : box_say(FRAME_PREPARED, e);
}

static int become_init(struct spec *spec, struct box_fds *fds, struct arena *a,
                       struct server *server, struct err *e)
{
    if (say_prepared(e) < 0 || spec_read_order(CONTROL_FD, a, spec, e) < 0 || obey(spec, e) < 0 ||
        server_prepare(server, spec, fds, e) < 0) {
        return -1;
    }
    /* Whoever ordered it may be gone: then nobody knows of the box. */
    return box_say(FRAME_READY, e);
}

void box_init(const struct spec *spec, struct box_fds fds, int go, int net_made)
{
    struct spec own = *spec;
    struct outside from = {.go = go, .net_made = net_made};
    struct arena a own_arena = {0};
    struct server server;
    struct err e;

    if (!image_receive(go, &from.tree)) {
        _exit(1);
    }
    own.shared_root = from.tree >= 0 && own.image == NULL;
    arena_init(&a, 64u << 20);
    if (set_up(&own, &fds, &from, &e) < 0 || become_init(&own, &fds, &a, &server, &e) < 0) {
        box_say_failed(SETUP_INSIDE, &e);
        _exit(1);
    }
    (void)close(CONTROL_FD);
    spec_settle(&own);
    process_give_back();
    server_run(&server);
    _exit(0);
}
