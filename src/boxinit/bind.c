#include "boxinit/bind.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "base/str.h"
#include "boxinit/rootfs.h"

#define MOUNTINFO_MAX (4u << 20)

static uint64_t attributes(unsigned flags)
{
    uint64_t set = MOUNT_ATTR_NOSUID;

    set |= flags & BIND_RDONLY ? MOUNT_ATTR_RDONLY : 0;
    set |= flags & BIND_NODEV ? MOUNT_ATTR_NODEV : 0;
    set |= flags & BIND_NOEXEC ? MOUNT_ATTR_NOEXEC : 0;
    return set;
}

int bind_tree(int from, const char *to, unsigned flags, struct err *e)
{
    struct mount_attr attr = {.attr_set = attributes(flags)};
    int tree own_fd =
        open_tree(from, "", AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

    if (tree < 0 && errno == ENOSYS) {
        return bind_tree_old(from, to, flags, e);
    }
    if (tree < 0) {
        return err_sys(e, errno, "bind %s", to);
    }
    if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0) {
        if (errno == ENOSYS) {
            return bind_tree_old(from, to, flags, e);
        }
        return err_sys(e, errno, "protect %s", to);
    }
    if (move_mount(tree, "", AT_FDCWD, to, MOVE_MOUNT_F_EMPTY_PATH) < 0) {
        return err_sys(e, errno, "mount %s", to);
    }
    return 0;
}

/* A mount that came from the host keeps the flags it has: in a user namespace they
 * are locked, and a remount without them is refused. */
static unsigned long present_flags(const char *path)
{
    static const struct {
        unsigned long has, flag;
    } map[] = {
        {ST_RDONLY, MS_RDONLY},     {ST_NOSUID, MS_NOSUID},   {ST_NODEV, MS_NODEV},
        {ST_NOEXEC, MS_NOEXEC},     {ST_NOATIME, MS_NOATIME}, {ST_NODIRATIME, MS_NODIRATIME},
        {ST_RELATIME, MS_RELATIME},
    };
    struct statvfs is;
    unsigned long flags = 0;

    if (statvfs(path, &is) < 0) {
        return 0;
    }
    for (size_t i = 0; i < sizeof(map) / sizeof(map[0]); i++) {
        flags |= is.f_flag & map[i].has ? map[i].flag : 0;
    }
    return flags;
}

static int remount(const char *path, unsigned flags, struct err *e)
{
    unsigned long add = MS_NOSUID;

    add |= flags & BIND_RDONLY ? MS_RDONLY : 0;
    add |= flags & BIND_NODEV ? MS_NODEV : 0;
    add |= flags & BIND_NOEXEC ? MS_NOEXEC : 0;
    if (mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | add | present_flags(path), NULL) < 0) {
        return err_sys(e, errno, "protect %s", path);
    }
    return 0;
}

/* The fifth field of a line of mountinfo, with its octal escapes undone. */
static struct str mount_point(struct arena *a, struct str line)
{
    struct str field = STR_EMPTY;
    char *text;
    size_t n = 0;

    for (int i = 0; i < 5; i++) {
        field = str_cut(line, ' ', &line);
    }
    text = arena_alloc(a, field.len + 1, 1);
    for (size_t i = 0; i < field.len; i++) {
        if (field.p[i] == '\\' && field.len - i >= 4) {
            text[n++] = (char)((field.p[i + 1] - '0') * 64 + (field.p[i + 2] - '0') * 8 +
                               (field.p[i + 3] - '0'));
            i += 3;
        } else {
            text[n++] = field.p[i];
        }
    }
    return (struct str){text, n};
}

/* The host's /proc: ours is not mounted yet when most binds are made. */
static const char *proc_folder(void)
{
    return access(ROOTFS_HOST "/proc/self", F_OK) == 0 ? ROOTFS_HOST "/proc" : "/proc";
}

/* Each mount at `path` and below by its own: kernels before 5.12 cannot do it at once. */
static int protect_old(const char *path, unsigned flags, struct err *e)
{
    struct arena a own_arena = {0};
    struct str table;
    char source[64];

    arena_init(&a, 8u << 20);
    (void)snprintf(source, sizeof(source), "%s/self/mountinfo", proc_folder());
    if (fd_read_file(AT_FDCWD, source, MOUNTINFO_MAX, &a, &table, e) < 0) {
        return -1;
    }
    while (table.len > 0) {
        struct str point = mount_point(&a, str_cut(table, '\n', &table));

        if (path_inside(point, str_from(path)) && remount(arena_cstr(&a, point), flags, e) < 0) {
            return -1;
        }
    }
    return 0;
}

int bind_protect(const char *path, unsigned flags, struct err *e)
{
    struct mount_attr attr = {.attr_set = attributes(flags)};

    if (mount_setattr(AT_FDCWD, path, AT_RECURSIVE, &attr, sizeof(attr)) < 0) {
        return errno == ENOSYS ? protect_old(path, flags, e)
                               : err_sys(e, errno, "protect %s", path);
    }
    return 0;
}

int bind_tree_old(int from, const char *to, unsigned flags, struct err *e)
{
    char source[64];

    (void)snprintf(source, sizeof(source), "%s/self/fd/%d", proc_folder(), from);
    if (mount(source, to, NULL, MS_BIND | MS_REC, NULL) < 0) {
        return err_sys(e, errno, "bind %s", to);
    }
    return protect_old(to, flags, e);
}

int bind_make_dir(const char *path, mode_t mode, struct err *e)
{
    if (mkdir(path, mode) < 0 && errno != EEXIST) {
        return err_sys(e, errno, "make %s", path);
    }
    return 0;
}
