/*
 * image.c - an image as the root of a box.
 *
 * The root is an overlay: below it the image, which is shared and never written, above
 * it a folder of the box's own tmpfs, so that what is written counts as disk and goes with
 * the box. The overlay is mounted inside of the box's user namespace and can do no more
 * than the box's root could.
 *
 * For a box of root the image's files belong to uids that the box does not have. So the
 * outer process, which may, clones the image's mount with the box's map on it, and hands
 * it over: its root is the box's root then. A user with subuids has files of the right
 * owner in the image already.
 *
 * Nothing in the image is trusted. It is entered by pivot_root before any path of the box
 * is used, and while the host's tree is still there (below ROOTFS_APART) a link of the
 * image could lead to it: so folders that something is mounted on or made in must be
 * folders, and links in their place are replaced.
 */
#include "boxinit/image.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/proto.h"
#include "base/attr.h"
#include "base/own.h"
#include "boxinit/rootfs.h"

/* While the overlay is made, as the host's root is still ours; /proc as in rootfs.c. */
#define SPACE "/proc"
#define LOWER SPACE "/lower"
#define UPPER SPACE "/upper"
#define WORK  SPACE "/overlay"
#define ROOT  SPACE "/root"

/* ---- the tree -------------------------------------------------------------------- */

static int explain_open(const char *path, int errnum, struct err *e)
{
    struct utsname os = {0};

    (void)uname(&os);
    if (errnum == ENOSYS) {
        return err_set(e, ERR_UNSUPPORTED, "images need Linux 5.19; this kernel is %s", os.release);
    }
    if (errnum == EPERM) {
        return err_set(
            e, ERR_UNSUPPORTED,
            "images need the right to mount (CAP_SYS_ADMIN), which is missing here, as in "
            "most containers; leave image out");
    }
    if (errnum == EINVAL) {
        return err_set(e, ERR_UNSUPPORTED,
                       "the image %s cannot be used where it is: something is mounted below it, or "
                       "its file system cannot show other owners (Linux %s); copy it to a folder "
                       "on ext4, xfs or btrfs",
                       path, os.release);
    }
    return err_sys(e, errnum, "open the image %s", path);
}

/* The path was looked at without its links: one that has come to be in it since then may have
 * been put there by somebody else, to show another folder. */
static int open_folder(const char *path)
{
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_NO_SYMLINKS,
    };

    return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
}

int image_open(const char *path, int user_ns, struct err *e)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    int folder own_fd = open_folder(path);
    int tree own_fd =
        folder >= 0 ? open_tree(folder, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH)
                    : -1;

    if (tree < 0) {
        return explain_open(path, errno, e);
    }
    if (user_ns >= 0) {
        attr.attr_set |= MOUNT_ATTR_IDMAP;
        attr.userns_fd = (uint64_t)user_ns;
    }
    if (mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0) {
        return explain_open(path, errno, e);
    }
    return take_fd(&tree);
}

/* ---- from one process to the other -------------------------------------------------- */

union fd_message {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
};

int image_send(int to, int tree, struct err *e)
{
    union fd_message control = {0};
    char byte = 'g';
    struct iovec data = {&byte, 1};
    struct msghdr m = {.msg_iov = &data,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&m);

    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &tree, sizeof(tree));
    if (sendmsg(to, &m, MSG_NOSIGNAL) != 1) {
        return err_sys(e, errno, "hand over the image");
    }
    return 0;
}

bool image_receive(int from, int *tree)
{
    union fd_message control = {0};
    char byte;
    struct iovec data = {&byte, 1};
    struct msghdr m = {.msg_iov = &data,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof(control.bytes)};
    ssize_t n;

    *tree = -1;
    do {
        n = recvmsg(from, &m, MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    struct cmsghdr *head = n == 1 ? CMSG_FIRSTHDR(&m) : NULL;
    if (head != NULL && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
        head->cmsg_len == CMSG_LEN(sizeof(int))) {
        memcpy(tree, CMSG_DATA(head), sizeof(*tree));
    }
    return n == 1;
}

/* ---- the overlay ----------------------------------------------------------------------- */

static int make_dir(const char *path, struct err *e)
{
    return mkdir(path, 0755) < 0 ? err_sys(e, errno, "make %s", path) : 0;
}

static int mount_overlay(struct err *e)
{
    struct utsname os = {0};

    /* userxattr: what marks a folder as new must be something that the box may write. */
    if (mount("overlay", ROOT, "overlay", MS_NOSUID | MS_NODEV,
              "lowerdir=" LOWER ",upperdir=" UPPER ",workdir=" WORK ",userxattr") == 0) {
        return 0;
    }
    if (errno == ENODEV) {
        return err_set(e, ERR_UNSUPPORTED,
                       "images need the kernel's module overlay, which is not there: run \"sudo "
                       "modprobe overlay\", or leave image out");
    }
    if (errno == EINVAL || errno == EPERM) {
        (void)uname(&os);
        return err_set(
            e, ERR_UNSUPPORTED,
            "this kernel (%s) mounts no overlay over an image in a user namespace: images "
            "need Linux 5.19",
            os.release);
    }
    return err_sys(e, errno, "mount the overlay");
}

static int make_overlay(int tree, struct err *e)
{
    if (mount("tmpfs", SPACE, "tmpfs", MS_NOSUID | MS_NODEV, ROOTFS_SPACE) < 0) {
        return err_sys(e, errno, "mount a tmpfs at " SPACE);
    }
    if (make_dir(LOWER, e) < 0 || make_dir(UPPER, e) < 0 || make_dir(WORK, e) < 0 ||
        make_dir(ROOT, e) < 0 || make_dir(SPACE "/host", e) < 0) {
        return -1;
    }
    if (move_mount(tree, "", AT_FDCWD, LOWER, MOVE_MOUNT_F_EMPTY_PATH) < 0) {
        return err_sys(e, errno, "mount the image");
    }
    return mount_overlay(e);
}

/* The tmpfs is shown in the new root as well, and the host's tree in that. */
static int move_in(struct err *e)
{
    if (mkdir(ROOT ROOTFS_APART, 0700) < 0) {
        return errno == EEXIST ? err_set(e, ERR_INVALID,
                                         "the image has an entry " ROOTFS_APART
                                         ", which is a name of anybox's own")
                               : err_sys(e, errno, "make " ROOTFS_APART);
    }
    if (mount(SPACE, ROOT ROOTFS_APART, NULL, MS_BIND, NULL) < 0) {
        return err_sys(e, errno, "mount " ROOTFS_APART);
    }
    if (syscall(SYS_pivot_root, ROOT, ROOT ROOTFS_HOST) < 0) {
        return err_sys(e, errno, "change the root");
    }
    return chdir("/") < 0 ? err_sys(e, errno, "enter the new root") : 0;
}

static int own_folder(const char *path, mode_t mode, struct err *e)
{
    struct stat is;
    bool there = lstat(path, &is) == 0;

    if (there && S_ISDIR(is.st_mode)) {
        return 0;
    }
    if ((there && unlink(path) < 0) || mkdir(path, mode) < 0) {
        /* What marks it as new, in the overlay, is an attribute that tmpfs has since 6.6. */
        if (there && errno == EIO) {
            return err_set(e, ERR_UNSUPPORTED,
                           "%s of the image is no folder, and only Linux 6.6 can put one in its "
                           "place: make it one in the image",
                           path);
        }
        return err_sys(e, errno, "make the folder %s in the image's place", path);
    }
    return 0;
}

static int own_folders(struct err *e)
{
    static const char *const places[] = {"/etc", "/proc",    "/dev",  "/run",   "/tmp",
                                         "/var", "/var/tmp", "/home", BOX_HOME, BOX_WORK_DIR};

    for (size_t i = 0; i < COUNTOF(places); i++) {
        if (own_folder(places[i], 0755, e) < 0) {
            return -1;
        }
    }
    return own_folder(BOX_ROOT_HOME, 0700, e);
}

int image_enter(int tree, struct err *e)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        return err_sys(e, errno, "make the mounts private");
    }
    if (make_overlay(tree, e) < 0 || move_in(e) < 0 || own_folders(e) < 0) {
        return -1;
    }
    /* What the image has in /dev is nothing for a box. */
    if (mount("tmpfs", "/dev", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=64k,nr_inodes=64") <
        0) {
        return err_sys(e, errno, "mount /dev");
    }
    return 0;
}
