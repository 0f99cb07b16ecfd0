/*
 * rootfs.c - the file system that a box sees.
 *
 * A folder of a new tmpfs becomes the new root at once (pivot_root), with the whole tmpfs at
 * /.apart, and the host's whole tree in that. Everything else is then built in place, in the
 * end /.apart is detached, with all below it, and the root made read-only. So no step can
 * show more than it names, and a forgotten one shows nothing.
 *
 * All that can be written lies in the same tmpfs, whose size is the disk limit: /tmp,
 * /home/user, /workspace and so on are mounts of their own, which stay writable. It is seen
 * nowhere as a whole and goes when the mount namespace goes. With an image the root is an
 * overlay, and they are folders of the tmpfs that are shown there. So they are where the root is
 * shared with other boxes (skeleton.c): that is made by the same functions, but nothing can be
 * made in it any more. What names the box is two files of its own tmpfs then, shown in /etc.
 *
 * Many boxes may rest side by side, so each inode and each file system counts. A file
 * system costs every box of the machine a little: the kernel keeps a table of all of them
 * for each memory cgroup. What is only looked at while we build is looked at elsewhere.
 *
 * Host paths are resolved inside of the host's tree (RESOLVE_IN_ROOT): an absolute link
 * on the host must not be followed in the new root, nor the other way round.
 */
#include "boxinit/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/proto.h"
#include "base/attr.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "boxinit/bind.h"
#include "boxinit/etc.h"
#include "boxinit/image.h"
#include "boxinit/procfs.h"

#define BLOCK   4096
#define INO_MIN 16384
#define INO_MAX 1048576

static int make_file(const char *path, struct err *e)
{
    int why = mknod(path, S_IFREG | 0644, 0) < 0 ? errno : 0;

    /* In a read-only tree the file may be there already. */
    return why != 0 && access(path, F_OK) < 0 ? err_sys(e, why, "make %s", path) : 0;
}

/* Files that are only there to be covered are one file with many names: they can be that in
 * a folder that is ours alone and one mount, until its blank is removed. */
#define BLANK ".blank"

static int make_place_file(const char *folder, const char *path, struct err *e)
{
    char blank[32];

    (void)snprintf(blank, sizeof(blank), "%s/" BLANK, folder);
    return link(blank, path) < 0 ? make_file(path, e) : 0;
}

static int remove_blank(const char *path, struct err *e)
{
    return unlink(path) < 0 ? err_sys(e, errno, "remove %s", path) : 0;
}

static int make_link(const char *to, const char *path, struct err *e)
{
    if (symlink(to, path) < 0 && errno != EEXIST && errno != EROFS) {
        return err_sys(e, errno, "make the link %s", path);
    }
    return 0;
}

/* Nothing can be made in a shared root: a folder that every box has does as well. */
static const char *apart_of(const struct spec *spec)
{
    return spec->shared_root ? "/mnt" : ROOTFS_APART;
}

/* /dev and /proc are the mount points: they are there on every host, and nothing below them
 * is looked for meanwhile. The moves uncover them again. */
static int enter_new_root(struct err *e)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        return err_sys(e, errno, "make the mounts private");
    }
    if (mount("tmpfs", "/dev", "tmpfs", MS_NOSUID | MS_NODEV, ROOTFS_SPACE) < 0) {
        return err_sys(e, errno, "mount a tmpfs");
    }
    if (bind_make_dir("/dev/host", 0700, e) < 0 || bind_make_dir("/dev/root", 0755, e) < 0 ||
        bind_make_dir("/dev/root" ROOTFS_APART, 0700, e) < 0) {
        return -1;
    }
    if (mount("/dev/root", "/proc", NULL, MS_BIND, NULL) < 0 ||
        mount("/dev", "/proc" ROOTFS_APART, NULL, MS_MOVE, NULL) < 0) {
        return err_sys(e, errno, "mount the new root");
    }
    if (syscall(SYS_pivot_root, "/proc", "/proc" ROOTFS_HOST) < 0) {
        return err_sys(e, errno, "change the root");
    }
    if (chdir("/") < 0) {
        return err_sys(e, errno, "enter the new root");
    }
    return 0;
}

/* The same, with a root that was built by another and has nothing of the host's tree. */
static int enter_shared_root(int tree, struct err *e)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        return err_sys(e, errno, "make the mounts private");
    }
    if (move_mount(tree, "", AT_FDCWD, "/proc", MOVE_MOUNT_F_EMPTY_PATH) < 0) {
        return err_sys(e, errno, "mount the shared root");
    }
    if (mount("tmpfs", "/proc/mnt", "tmpfs", MS_NOSUID | MS_NODEV, ROOTFS_SPACE) < 0) {
        return err_sys(e, errno, "mount a tmpfs");
    }
    if (bind_make_dir("/proc/mnt/host", 0700, e) < 0) {
        return -1;
    }
    if (syscall(SYS_pivot_root, "/proc", "/proc/mnt/host") < 0) {
        return err_sys(e, errno, "change the root");
    }
    return chdir("/") < 0 ? err_sys(e, errno, "enter the new root") : 0;
}

/* What is shared is built by the machine's root, who gets everywhere: the host's paths are
 * looked up as any box would, that others may pass. */
static void look_as_box(const struct spec *spec, bool on)
{
    int errnum = errno;

    if (spec->shared_root) {
        (void)setfsgid(on ? spec->first_gid : 0);
        (void)setfsuid(on ? spec->first_uid : 0);
    }
    errno = errnum;
}

/* The calls themselves do not tell. */
static bool can_look_as_box(const struct spec *spec)
{
    look_as_box(spec, true);
    bool can =
        setfsuid((uid_t)-1) == (int)spec->first_uid && setfsgid((gid_t)-1) == (int)spec->first_gid;
    look_as_box(spec, false);
    return can;
}

/* -1 with errno: not there, or not to be reached. */
static int open_on_host(const struct spec *spec, int host, const char *path)
{
    struct open_how how = {
        .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
    };

    look_as_box(spec, true);
    int fd = (int)syscall(SYS_openat2, host, path, &how, sizeof(how));
    look_as_box(spec, false);
    return fd;
}

/* The folders above, which are mostly there. */
static int make_parents(const char *path, struct err *e)
{
    struct arena a own_arena = {0};

    arena_init(&a, 64u << 10);
    struct str dir = path_dir(str_from(path));
    if (str_eq(dir, S("/")) || str_eq(dir, S("/etc"))) {
        return 0;
    }
    return fd_mkdirs(arena_cstr(&a, dir), 0755, e);
}

/* One entry of the host at the same place in the box, read-only; a link is made again
 * as a link. What is not there is left out. */
static int show_host_path(const struct spec *spec, int host, const char *path, struct err *e)
{
    struct stat is;
    int from own_fd = open_on_host(spec, host, path);

    if (from < 0) {
        return errno == ENOSYS ? err_set(e, ERR_UNSUPPORTED, "this kernel is older than 5.6") : 0;
    }
    if (fstat(from, &is) < 0) {
        return err_sys(e, errno, "look at %s", path);
    }
    if (make_parents(path, e) < 0) {
        return -1;
    }
    if (S_ISLNK(is.st_mode)) {
        char target[PATH_MAX_BYTES];
        ssize_t n = readlinkat(from, "", target, sizeof(target) - 1);

        if (n < 0) {
            return err_sys(e, errno, "read the link %s", path);
        }
        target[n] = '\0';
        return make_link(target, path, e);
    }
    if (!S_ISDIR(is.st_mode) && !S_ISREG(is.st_mode)) {
        return err_set(e, ERR_INVALID, "%s is neither a folder nor a file: not shown to a sandbox",
                       path);
    }
    if ((S_ISDIR(is.st_mode) ? bind_make_dir(path, 0755, e) : make_file(path, e)) < 0) {
        return -1;
    }
    return bind_tree(from, path, BIND_RDONLY | BIND_NODEV, e);
}

/* Makes what a file or folder is to be shown on, or the link again (1: that is all). */
static int make_place(const char *folder, const char *name, const struct stat *is, const char *path,
                      struct err *e)
{
    char target[PATH_MAX_BYTES];
    ssize_t n;

    if (S_ISDIR(is->st_mode)) {
        return bind_make_dir(path, 0755, e);
    }
    if (S_ISREG(is->st_mode) || S_ISCHR(is->st_mode)) {
        return make_place_file(folder, path, e);
    }
    if (!S_ISLNK(is->st_mode)) {
        return 1;
    }
    n = readlink(name, target, sizeof(target) - 1);
    if (n < 0) {
        return err_sys(e, errno, "read the link %s", path);
    }
    target[n] = '\0';
    return make_link(target, path, e) < 0 ? -1 : 1;
}

/* One name of the current folder, which is the host's, in the same folder of the box. That
 * is a mount by itself, and is protected as a whole when all is there: a bind of its own
 * costs a third of bind_tree(). In a shared root it is no mount: only the root of that can get
 * other owners. */
static int show_here(const struct spec *spec, const char *folder, const char *name, struct err *e)
{
    char path[PATH_MAX_BYTES + 8];
    struct stat is;
    int rc;

    if (lstat(name, &is) < 0) {
        return 0;
    }
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    rc = make_place(folder, name, &is, path, e);
    if (rc != 0) {
        return rc < 0 ? -1 : 0;
    }
    if (mount(name, path, NULL, MS_BIND | MS_REC, NULL) < 0) {
        return err_sys(e, errno, "bind %s", path);
    }
    return spec->shared_root ? bind_protect(path, BIND_RDONLY | BIND_NODEV, e) : 0;
}

/* The host's folder becomes the current one. */
static int enter_on_host(const struct spec *spec, int host, const char *folder, struct err *e)
{
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
    };

    look_as_box(spec, true);
    int dir own_fd = (int)syscall(SYS_openat2, host, folder, &how, sizeof(how));
    int rc = dir < 0 ? -1 : fchdir(dir);
    look_as_box(spec, false);
    if (rc < 0 && errno == ENOSYS) {
        return err_set(e, ERR_UNSUPPORTED, "this kernel is older than 5.6");
    }
    if (rc < 0) {
        return err_sys(e, errno, "enter the host's %s", folder);
    }
    return 0;
}

static int show_etc(const struct spec *spec, int host, struct err *e)
{
    if (enter_on_host(spec, host, "/etc", e) < 0) {
        return -1;
    }
    if (!spec->shared_root && mount("/etc", "/etc", NULL, MS_BIND, NULL) < 0) {
        return err_sys(e, errno, "mount /etc");
    }
    if (make_file("/etc/" BLANK, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < spec->n_etc_binds; i++) {
        const char *name = spec->etc_binds[i];
        char path[PATH_MAX_BYTES + 8];

        (void)snprintf(path, sizeof(path), "/etc/%s", name);
        if ((strchr(name, '/') == NULL ? show_here(spec, "/etc", name, e)
                                       : show_host_path(spec, host, path, e)) < 0) {
            return -1;
        }
    }
    if (chdir("/") < 0) {
        return err_sys(e, errno, "leave the host's /etc");
    }
    if (remove_blank("/etc/" BLANK, e) < 0) {
        return -1;
    }
    return make_link("../usr/lib/os-release", "/etc/os-release", e);
}

static int show_host_paths(const struct spec *spec, int host, struct err *e)
{
    for (size_t i = 0; i < spec->n_ro_binds; i++) {
        if (show_host_path(spec, host, spec->ro_binds[i], e) < 0) {
            return -1;
        }
    }
    return show_etc(spec, host, e);
}

static int make_plain_dirs(struct err *e)
{
    static const char *const names[] = {"/etc",     "/var",  "/var/lib", "/var/cache",
                                        "/var/log", "/mnt",  "/srv",     "/media",
                                        "/opt",     "/home", "/dev",     "/proc"};

    for (size_t i = 0; i < COUNTOF(names); i++) {
        if (bind_make_dir(names[i], 0755, e) < 0) {
            return -1;
        }
    }
    return 0;
}

struct writable {
    const char *name; /* in the tmpfs, with an image */
    const char *at;
    mode_t mode;
    bool payload; /* belongs to the payload, else to the box's root */
};

/* The root itself is in the tmpfs, but for that of an image and a shared one: then the folder
 * is shown where it is. */
static int show_writable(const struct spec *spec, const struct writable *w, struct err *e)
{
    char apart[64];
    const char *path = spec->image != NULL || spec->shared_root ? apart : w->at;

    (void)snprintf(apart, sizeof(apart), "%s/%s", apart_of(spec), w->name);
    if ((!spec->shared_root && bind_make_dir(w->at, 0755, e) < 0) ||
        (path == apart && bind_make_dir(path, 0700, e) < 0)) {
        return -1;
    }
    if (w->payload && !spec_shares_uid(spec) && chown(path, BOX_UID, BOX_UID) < 0) {
        return err_sys(e, errno, "give %s to the payload", w->at);
    }
    if (chmod(path, w->mode) < 0) {
        return err_sys(e, errno, "set the mode of %s", w->at);
    }
    if (mount(path, w->at, NULL, MS_BIND, NULL) < 0) {
        return err_sys(e, errno, "mount %s", w->at);
    }
    return 0;
}

static const struct writable writables[] = {
    {"tmp", "/tmp", 01777, false},   {"vartmp", "/var/tmp", 01777, false},
    {"home", BOX_HOME, 0755, true},  {"work", BOX_WORK_DIR, 0755, true},
    {"run", "/run", 0755, true},     {"shm", "/dev/shm", 01777, false},
    {"kept", KEPT_DIR, 0755, false},
};

static int show_writables(const struct spec *spec, struct err *e)
{
    for (size_t i = 0; i < COUNTOF(writables); i++) {
        if (show_writable(spec, &writables[i], e) < 0) {
            return -1;
        }
    }
    return 0;
}

static int make_writable(const struct spec *spec, struct err *e)
{
    return show_writables(spec, e) < 0 ? -1 : make_link("/run", "/var/run", e);
}

/* ---- what a shared root holds places for ----------------------------------------------- */

static const char *const own_names[][2] = {{"hosts", "/etc/hosts"}, {"hostname", "/etc/hostname"}};

static int make_places_for_own(struct err *e)
{
    for (size_t i = 0; i < COUNTOF(writables); i++) {
        if (bind_make_dir(writables[i].at, 0755, e) < 0) {
            return -1;
        }
    }
    for (size_t i = 0; i < COUNTOF(own_names); i++) {
        if (make_file(own_names[i][1], e) < 0) {
            return -1;
        }
    }
    return make_link("/run", "/var/run", e);
}

static int show_own_names(const struct spec *spec, struct err *e)
{
    char path[64];

    for (size_t i = 0; i < COUNTOF(own_names); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", apart_of(spec), own_names[i][0]);
        if (make_file(path, e) < 0) {
            return -1;
        }
        if (mount(path, own_names[i][1], NULL, MS_BIND, NULL) < 0) {
            return err_sys(e, errno, "mount %s", own_names[i][1]);
        }
    }
    return 0;
}

static int fix_own_names(struct err *e)
{
    for (size_t i = 0; i < COUNTOF(own_names); i++) {
        if (bind_protect(own_names[i][1], BIND_RDONLY | BIND_NODEV, e) < 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- devices ------------------------------------------------------------- */

/* With the host's /dev as the current folder. */
static int show_device(const char *name, struct err *e)
{
    char path[32];
    struct stat is;

    if (lstat(name, &is) < 0 || !S_ISCHR(is.st_mode)) {
        return strcmp(name, "null") == 0 ? err_set(e, ERR_UNSUPPORTED, "the host has no /dev/null")
                                         : 0;
    }
    (void)snprintf(path, sizeof(path), "/dev/%s", name);
    if (make_place_file("/dev", path, e) < 0) {
        return -1;
    }
    if (mount(name, path, NULL, MS_BIND, NULL) < 0) {
        return err_sys(e, errno, "bind %s", path);
    }
    /* Read-only for the node, not for the device: where the payload is the node's owner
     * (root without its capabilities) it could change its mode, for the host too. */
    return bind_protect(path, BIND_RDONLY | BIND_NOEXEC, e);
}

static int make_dev(const struct spec *spec, int host, struct err *e)
{
    static const char *const devices[] = {"null", "zero", "full", "random", "urandom", "tty"};
    static const char *const links[][2] = {
        {"/proc/self/fd", "/dev/fd"},       {"/proc/self/fd/0", "/dev/stdin"},
        {"/proc/self/fd/1", "/dev/stdout"}, {"/proc/self/fd/2", "/dev/stderr"},
        {"pts/ptmx", "/dev/ptmx"},
    };

    if (enter_on_host(spec, host, "/dev", e) < 0 || make_file("/dev/" BLANK, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < COUNTOF(devices); i++) {
        if (show_device(devices[i], e) < 0) {
            return -1;
        }
    }
    if (chdir("/") < 0) {
        return err_sys(e, errno, "leave the host's /dev");
    }
    if (remove_blank("/dev/" BLANK, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < COUNTOF(links); i++) {
        if (make_link(links[i][0], links[i][1], e) < 0) {
            return -1;
        }
    }
    return bind_make_dir("/dev/pts", 0755, e);
}

static int mount_terminals(struct err *e)
{
    if (mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
              "newinstance,ptmxmode=0666,mode=620,max=128") < 0) {
        return err_sys(e, errno, "mount /dev/pts");
    }
    return 0;
}

static int leave_host(const char *apart, bool made, struct err *e)
{
    if (umount2(apart, MNT_DETACH) < 0 || (made && rmdir(apart) < 0)) {
        return err_sys(e, errno, "let go of the host's files");
    }
    if (chdir(BOX_WORK_DIR) < 0) {
        return err_sys(e, errno, "enter " BOX_WORK_DIR);
    }
    return 0;
}

/* The work folder's other name. What an image or the host's folders have there stays as it is, and a
 * link in its place is not followed. */
static void link_work(void)
{
    struct stat is;

    (void)mkdir("/app", 0755);
    if (lstat("/app", &is) == 0 && S_ISDIR(is.st_mode)) {
        (void)!symlink(BOX_WORK_DIR, BOX_WORK_TOO);
    }
}

static int open_host(struct err *e)
{
    int host = open(ROOTFS_HOST, O_PATH | O_DIRECTORY | O_CLOEXEC);

    return host < 0 ? err_sys(e, errno, "open the host's root") : host;
}

/* The host's own system, piece by piece, or nothing of it. */
static int show_system(const struct spec *spec, int host, struct err *e)
{
    return spec->image != NULL ? 0 : show_host_paths(spec, host, e);
}

static int enter(const struct spec *spec, int tree, struct err *e)
{
    if (spec->image != NULL) {
        return image_enter(tree, e);
    }
    return enter_new_root(e) < 0 ? -1 : make_plain_dirs(e);
}

int rootfs_build_shared(const struct spec *spec, struct err *e)
{
    struct spec shared = *spec;

    shared.shared_root = true;
    if (!can_look_as_box(&shared)) {
        return err_set(e, ERR_DENIED, "cannot look at the host's paths as a sandbox would");
    }
    if (enter(spec, -1, e) < 0) {
        return -1;
    }
    int host own_fd = open_host(e);
    if (host < 0 || make_places_for_own(e) < 0 || etc_make(&shared, e) < 0 ||
        show_system(&shared, host, e) < 0 || make_dev(&shared, host, e) < 0 ||
        leave_host(ROOTFS_APART, true, e) < 0) {
        return -1;
    }
    link_work();
    /* The file system itself, not only the mount: no right that can be had in a box undoes it. */
    if (chdir("/") < 0 ||
        mount(NULL, "/", NULL, MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) < 0) {
        return err_sys(e, errno, "make the shared root read-only");
    }
    return 0;
}

static int complete_shared(const struct spec *spec, int tree, struct err *e)
{
    if (enter_shared_root(tree, e) < 0 || show_writables(spec, e) < 0 ||
        show_own_names(spec, e) < 0 || mount_terminals(e) < 0 ||
        procfs_make(spec, apart_of(spec), e) < 0) {
        return -1;
    }
    return leave_host(apart_of(spec), false, e);
}

int rootfs_build(const struct spec *spec, int tree, struct err *e)
{
    if (spec->shared_root) {
        return complete_shared(spec, tree, e);
    }
    if (enter(spec, tree, e) < 0) {
        return -1;
    }
    int host own_fd = open_host(e);
    if (host < 0 || make_writable(spec, e) < 0 || etc_make(spec, e) < 0 ||
        show_system(spec, host, e) < 0 || make_dev(spec, host, e) < 0 || mount_terminals(e) < 0 ||
        procfs_make(spec, apart_of(spec), e) < 0 || leave_host(ROOTFS_APART, true, e) < 0) {
        return -1;
    }
    link_work();
    return 0;
}

/* The places that can be written are one file system: its size is set at one of them. */
static int resize(uint64_t bytes, struct err *e)
{
    uint64_t inodes = bytes / BLOCK;
    char options[96];

    inodes = inodes < INO_MIN ? INO_MIN : inodes;
    inodes = inodes > INO_MAX ? INO_MAX : inodes;
    (void)snprintf(options, sizeof(options), "size=%llu,nr_inodes=%llu", (unsigned long long)bytes,
                   (unsigned long long)inodes);
    if (mount(NULL, BOX_WORK_DIR, NULL, MS_REMOUNT | MS_NOSUID | MS_NODEV, options) < 0) {
        return err_sys(e, errno, "set the size of the disk");
    }
    return 0;
}

/* What nobody may change: over an image that is /dev only. */
static int fix(const struct spec *spec, struct err *e)
{
    const char *all = spec->image != NULL ? "/dev" : "/";

    if (spec->shared_root) {
        return fix_own_names(e);
    }
    if (spec->image == NULL && bind_protect("/etc", BIND_RDONLY | BIND_NODEV, e) < 0) {
        return -1;
    }
    if (mount(NULL, all, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) < 0) {
        return err_sys(e, errno, "make %s read-only", all);
    }
    return 0;
}

int rootfs_finish(const struct spec *spec, struct err *e)
{
    if (etc_name(spec, e) < 0 || resize(spec->disk_bytes, e) < 0) {
        return -1;
    }
    return fix(spec, e);
}
