/*
 * skeleton.c - a root that is built once and shown in many boxes.
 *
 * Most of a box's root is the same for every box of a server: folders, links, the host's system,
 * some fifty files of /etc, the devices. To build it takes a fifth of a box's processor time and
 * a tenth of its memory. So a maker that is root has a child, the keeper, which builds it in a
 * mount namespace of its own, by the very functions that build the root of a single box
 * (rootfs.c), and stays in it.
 *
 * For each box the maker sends the keeper the box's user namespace and gets a clone of the whole
 * tree, with that namespace as the map of owners: the box's root owns its root as if it had made
 * it. It is read-only before any box has it, and as a whole file system, which only the machine's
 * root can change: all that differs from box to box is mounted over it and lies in the box's
 * own tmpfs. And it is locked as what a user namespace inherits is, so that no right in a box
 * uncovers what the host has mounted something over, or takes a flag from a mount.
 *
 * The host's folders go on living: a skeleton is used for a moment only, as the server's own
 * picture of the machine is (provider/local/snapshot.h), and never with another view. The keeper
 * ends after that moment, or with its maker: nothing of the host is held by one who is idle, nor
 * by one who hangs in a folder of it.
 *
 * A tmpfs with other owners takes Linux 6.3, and the rights of the machine's root to mount. Where
 * that is not so the keeper says so once, a byte without a tree, and boxes build their root
 * themselves; so does a box that gets no answer.
 */
#include "boxinit/skeleton.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "boxinit/fds.h"
#include "boxinit/image.h"
#include "boxinit/rootfs.h"

#define FRESH_MS  1000
#define ENDING_MS 1000
#define REPLY_S   4  /* one that hangs must not keep all boxes from being made */
#define LIFE_S    10 /* of a keeper, whatever it hangs in */
#define REFUSED   S("r")
#define VIEW_MAX  (256u << 10)

#define SKELETON_FD 64 /* or above: the low numbers are those of the next box */
#define TREE_FD     3  /* the keeper's, who has closed all others */

void skeleton_init(struct skeleton *s)
{
    *s = (struct skeleton){.keeper = -1};
    buf_init(&s->view, VIEW_MAX);
}

/* ---- the keeper -------------------------------------------------------------------- */

static int clone_tree(int from, const char *path)
{
    return open_tree(from, path,
                     OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH);
}

/* The kernel locks mounts when a user namespace gets a copy of them, not when they are handed
 * over. So a child in a namespace of its own takes the tree for us, by the same table of
 * descriptors. It is mounted out of the way: what is nowhere cannot be cloned before 6.15. */
static int lock_tree(struct err *e)
{
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWNS | CLONE_FILES | SIGCHLD, NULL,
                               NULL, NULL, NULL);

    if (pid == 0) {
        _exit(dup2(clone_tree(AT_FDCWD, "/"), TREE_FD) < 0);
    }
    if (pid < 0) {
        return err_sys(e, errno, "make a user namespace");
    }
    (void)waitpid(pid, NULL, 0); /* the tree tells whether it could */
    if (move_mount(TREE_FD, "", AT_FDCWD, "/mnt", MOVE_MOUNT_F_EMPTY_PATH) < 0) {
        return err_sys(e, errno, "lock the shared root");
    }
    return 0;
}

/* Only the tmpfs gets the map: the host's files show no other owners than they have. */
static int clone_root(int user_ns)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                          MOUNT_ATTR_IDMAP,
                              .userns_fd = (uint64_t)user_ns};
    int tree own_fd = clone_tree(TREE_FD, "");

    if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0) {
        return -1;
    }
    return take_fd(&tree);
}

/* False: nobody asks any more. */
static bool answer(int maker)
{
    struct err ignored;
    int asked = -1;

    if (!image_receive(maker, &asked) || asked < 0) {
        return false;
    }
    int user_ns own_fd = asked;
    int tree own_fd = clone_root(user_ns);
    return (tree >= 0 ? image_send(maker, tree, &ignored)
                      : fd_write_all(maker, REFUSED, &ignored)) == 0;
}

NORETURN static void keep(const struct spec *spec, int maker)
{
    struct pollfd asks = {.fd = maker, .events = POLLIN};
    struct err e;

    (void)alarm(LIFE_S);
    /* No groups: see look_as_box() in rootfs.c. */
    if (fds_close_others(&maker, 1, &e) < 0 || setgroups(0, NULL) < 0 || unshare(CLONE_NEWNS) < 0 ||
        rootfs_build_shared(spec, &e) < 0 || lock_tree(&e) < 0) {
        (void)!fd_write_all(maker, REFUSED, &e);
        _exit(1);
    }
    /* One that somebody has stopped, too. Not before: a change of owners undoes it. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    while (poll(&asks, 1, FRESH_MS) > 0 && answer(maker)) {
    }
    _exit(0);
}

static int start_keeper(const struct spec *spec, pid_t *pid)
{
    const struct timeval patience = {.tv_sec = REPLY_S};
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        return -1;
    }
    int ours own_fd = ends[0];
    int theirs own_fd = ends[1];
    if (setsockopt(ours, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0) {
        return -1;
    }
    *pid = fork();
    if (*pid == 0) {
        keep(spec, theirs);
    }
    return *pid > 0 ? fcntl(ours, F_DUPFD_CLOEXEC, SKELETON_FD) : -1;
}

/* ---- for a box --------------------------------------------------------------------- */

/* A host's network brings its own files in /etc. */
static bool has_shared_root(const struct spec *spec)
{
    return spec->uid_mode == UIDS_WRITE && spec->image == NULL && spec->net_program == NULL &&
           !spec->host_net;
}

/* Files of /etc are shown one by one: a new one in the place of an old one is another view. */
static void put_view(const struct spec *spec, struct buf *to)
{
    struct stat etc = {0};

    (void)!stat("/etc", &etc);
    buf_addf(to, "%lld.%09ld\n", (long long)etc.st_mtim.tv_sec, etc.st_mtim.tv_nsec);
    for (size_t i = 0; i < spec->n_ro_binds; i++) {
        buf_addf(to, "%s\n", spec->ro_binds[i]);
    }
    for (size_t i = 0; i < spec->n_etc_binds; i++) {
        buf_addf(to, "%s\n", spec->etc_binds[i]);
    }
}

void skeleton_close_others(const struct skeleton *s, int first)
{
    if (s->keeper >= 0) {
        (void)close_range((unsigned)first, (unsigned)s->keeper - 1, 0);
    }
    (void)close_range((unsigned)(s->keeper >= 0 ? s->keeper + 1 : first), ~0u, 0);
}

/* Its end is cut off, too, for those who have it from us and have not come to close it. */
static void forget(struct skeleton *s)
{
    if (s->keeper >= 0) {
        (void)shutdown(s->keeper, SHUT_RDWR);
        (void)close(take_fd(&s->keeper));
    }
}

/* That it is gone is all that can be learnt: maker.c. One that hangs ends with us, or soon. */
void skeleton_end(struct skeleton *s)
{
    int64_t until_ms = clock_mono_ms() + ENDING_MS;

    forget(s);
    while (s->pid > 0 && waitpid(s->pid, NULL, WNOHANG) == 0 && clock_mono_ms() < until_ms) {
        (void)poll(NULL, 0, 1);
    }
}

static void make_anew(struct skeleton *s, const struct spec *spec, struct str view)
{
    forget(s);
    s->made_ms = clock_mono_ms();
    s->keeper = start_keeper(spec, &s->pid);
    buf_clear(&s->view);
    buf_add(&s->view, view);
}

void skeleton_prepare(struct skeleton *s, const struct spec *spec)
{
    struct buf view own_buf = {0};

    if (s->is_refused || !has_shared_root(spec)) {
        return;
    }
    buf_init(&view, VIEW_MAX);
    put_view(spec, &view);
    if (s->keeper < 0 || clock_mono_ms() - s->made_ms >= FRESH_MS ||
        !str_eq(buf_str(&view), buf_str(&s->view))) {
        make_anew(s, spec, buf_str(&view));
    }
}

enum reply { REPLY_NONE, REPLY_LATE, REPLY_REFUSED, REPLY_TREE };

/* What cannot be sent to one that has ended does not matter: its last word may be there. */
static enum reply ask(const struct skeleton *s, int user_ns, int *tree)
{
    struct err ignored;

    if (s->keeper < 0) {
        return REPLY_NONE;
    }
    (void)!image_send(s->keeper, user_ns, &ignored);
    errno = 0;
    if (image_receive(s->keeper, tree)) {
        return *tree >= 0 ? REPLY_TREE : REPLY_REFUSED;
    }
    return errno == EAGAIN ? REPLY_LATE : REPLY_NONE;
}

int skeleton_clone(struct skeleton *s, const struct spec *spec, pid_t pid)
{
    char path[64];
    int tree = -1;

    if (s->is_refused || !has_shared_root(spec)) {
        return -1;
    }
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
    int user_ns own_fd = open(path, O_RDONLY | O_CLOEXEC);
    if (user_ns < 0) {
        return -1; /* it has ended */
    }
    enum reply got = ask(s, user_ns, &tree);
    if (got == REPLY_NONE) {
        forget(s); /* its time is over */
        skeleton_prepare(s, spec);
        got = ask(s, user_ns, &tree);
    }
    if (got != REPLY_TREE) {
        forget(s);
    }
    s->is_refused = got == REPLY_REFUSED || got == REPLY_LATE;
    return tree;
}
