/* Which image is meant, and which there are. */
#include "provider/local/image.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"

#define NAMES_SHOWN    10
#define OS_RELEASE_MAX (64u << 10)
#define DEPTH_MAX      64

bool image_name_ok(struct str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.p[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!plain && (i == 0 || (c != '.' && c != '_' && c != '-'))) {
            return false;
        }
    }
    return name.len > 0 && name.len <= IMAGE_NAME_MAX;
}

/* ---- what there is ---------------------------------------------------------------- */

/* Below the folder, links resolved in it: -1 with errno. */
static int open_inside(int dir, const char *path, uint64_t flags)
{
    struct open_how how = {
        .flags = flags | O_CLOEXEC,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
    };
    return (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

struct size_walk {
    dev_t dev;
    int64_t bytes;
    DIR *levels[DEPTH_MAX];
    size_t depth;
};

static void enter(struct size_walk *w, int dir, const char *name)
{
    int fd = w->depth < DEPTH_MAX
                 ? openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                 : -1;
    DIR *below = fd >= 0 ? fdopendir(fd) : NULL;
    if (below != NULL) {
        w->levels[w->depth++] = below;
    } else if (fd >= 0) {
        (void)close(fd);
    }
}

static void add_entry(struct size_walk *w, int dir, const char *name)
{
    struct stat is;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
        fstatat(dir, name, &is, AT_SYMLINK_NOFOLLOW) < 0 || is.st_dev != w->dev) {
        return;
    }
    bool folder = S_ISDIR(is.st_mode);
    w->bytes += (int64_t)is.st_blocks * 512 / (folder ? 1 : (int64_t)is.st_nlink);
    if (folder) {
        enter(w, dir, name);
    }
}

/* Of what lies below the folder; parts that may not be read are left out. */
static int64_t size_of(int dir, dev_t dev)
{
    struct size_walk w = {.dev = dev};
    enter(&w, dir, ".");
    while (w.depth > 0) {
        DIR *level = w.levels[w.depth - 1];
        const struct dirent *entry = readdir(level);
        if (entry != NULL) {
            add_entry(&w, dirfd(level), entry->d_name);
        } else {
            (void)closedir(level);
            w.depth--;
        }
    }
    return w.bytes;
}

static struct str system_of(int image, struct arena *a)
{
    static const char *const places[] = {"etc/os-release", "usr/lib/os-release"};
    for (size_t i = 0; i < COUNTOF(places); i++) {
        struct stat is;
        int found own_fd = open_inside(image, places[i], O_PATH);
        if (found < 0 || fstat(found, &is) < 0 || !S_ISREG(is.st_mode)) {
            continue; /* to open a device may do something */
        }
        int fd own_fd = open(arena_printf(a, "/proc/self/fd/%d", found).p, O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            continue;
        }
        char *text = arena_alloc(a, 1, OS_RELEASE_MAX);
        struct err ignored;
        ssize_t n = fd_read(fd, text, OS_RELEASE_MAX, &ignored);
        struct str all = {text, n > 0 ? (size_t)n : 0};
        struct str suite = image_os_value(all, S("VERSION_CODENAME"));
        return suite.len > 0 ? suite : image_os_value(all, S("PRETTY_NAME"));
    }
    return STR_EMPTY;
}

static int tell_one(int images, struct str name, const struct ctx *ctx, image_info_fn *each,
                    void *arg, struct err *e)
{
    struct stat is;
    const char *path = arena_cstr(ctx->arena, name);
    int dir own_fd = openat(images, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || fstat(dir, &is) < 0) {
        return 0;
    }
    const struct image_info info = {.name = name,
                                    .system = system_of(dir, ctx->arena),
                                    .bytes = size_of(dir, is.st_dev),
                                    .made_at = is.st_mtim.tv_sec};
    return each(arg, &info, e);
}

struct names_found {
    struct str *items;
    size_t n;
};

static int by_name(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

/* Of whole images, sorted. None where there is no folder of them. */
static struct names_found names_of(const char *images_dir, struct arena *a)
{
    struct names_found out = {0};
    size_t cap = 0;
    DIR *dir = opendir(images_dir);
    if (dir == NULL) {
        return out;
    }
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        struct stat is;
        if (!image_name_ok(str_from(entry->d_name)) ||
            fstatat(dirfd(dir), entry->d_name, &is, 0) < 0 || !S_ISDIR(is.st_mode)) {
            continue;
        }
        if (out.n == cap) {
            cap = cap > 0 ? cap * 2 : 16;
            struct str *more = arena_alloc(a, cap, sizeof(*more));
            if (out.n > 0) {
                memcpy(more, out.items, out.n * sizeof(*more));
            }
            out.items = more;
        }
        out.items[out.n++] = arena_str(a, str_from(entry->d_name));
    }
    (void)closedir(dir);
    if (out.n > 0) {
        qsort(out.items, out.n, sizeof(*out.items), by_name);
    }
    return out;
}

static struct str images_dir(const struct local *l, struct arena *a)
{
    return arena_printf(a, "%s/images", l->state_dir);
}

size_t image_count(const struct local *l, struct arena *a)
{
    return names_of(images_dir(l, a).p, a).n;
}

static int list_images(struct provider *p, const struct ctx *ctx, image_info_fn *each, void *arg,
                       struct err *e)
{
    struct str path = images_dir(local_of(p), ctx->arena);
    struct names_found names = names_of(path.p, ctx->arena);
    int dir own_fd = open(path.p, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < names.n; i++) {
        if (ctx_check(ctx, e) < 0 || tell_one(dir, names.items[i], ctx, each, arg, e) < 0) {
            return -1;
        }
    }
    return 0;
}

const struct image_ops local_images = {
    .list = list_images,
    .make = image_make,
    .remove = image_remove,
};

/* "; there are debian and small", or how to make one. */
static struct str there_are(const struct local *l, struct arena *a)
{
    struct buf text own_buf = {0};
    struct names_found names = names_of(images_dir(l, a).p, a);
    buf_init(&text, 1024);
    if (names.n == 0) {
        return S("there is no image yet: \"anybox image make\" makes one, named " IMAGE_DEFAULT);
    }
    buf_add(&text, names.n == 1 ? S("there is ") : S("there are "));
    for (size_t i = 0; i < names.n && i < NAMES_SHOWN; i++) {
        buf_addf(&text, "%s%.*s", i == 0 ? "" : ", ", STR_ARG(names.items[i]));
    }
    buf_add(&text, names.n > NAMES_SHOWN ? S(" and more; ") : S("; "));
    buf_add(&text, S("\"anybox image make NAME\" makes one"));
    return arena_str(a, buf_str(&text));
}

const char *image_mount_below(struct arena *a, struct str path)
{
    const char *found = NULL;
    char text[PATH_MAX];
    struct mntent entry;
    FILE *mounts = setmntent("/proc/self/mounts", "re");
    while (mounts != NULL && found == NULL &&
           getmntent_r(mounts, &entry, text, sizeof(text)) != NULL) {
        if (path_inside(str_from(entry.mnt_dir), path)) {
            found = arena_cstr(a, str_from(entry.mnt_dir));
        }
    }
    if (mounts != NULL) {
        (void)endmntent(mounts);
    }
    return found;
}

/* ---- which is meant ------------------------------------------------------------------ */

static int refuse(const struct local *l, struct arena *a, struct err *e, enum err_kind kind,
                  struct str wanted, const char *why)
{
    return err_set(e, kind, "image \"%.*s\": %s. Images: %.*s", STR_ARG(str_head(wanted, 100)), why,
                   STR_ARG(there_are(l, a)));
}

/* Folders that are no image whatever is in them. */
static const char *forbidden(const struct local *l, struct arena *a, struct str path)
{
    /* The last ones are parts of this system, in which files may be root's alone. */
    static const char *const closed[] = {"/proc", "/sys", "/dev", "/run", "/usr", "/etc", "/boot"};
    struct stat is;
    struct stat root;
    char *real own_mem = realpath(l->state_dir, NULL);
    struct str state = real != NULL ? str_from(real) : str_from(l->state_dir);
    struct str images = arena_printf(a, "%.*s/images", STR_ARG(state));
    /* It is written down, a line for each thing (info.c). */
    for (size_t i = 0; i < path.len; i++) {
        if ((unsigned char)path.p[i] < 0x20 || path.p[i] == 0x7f) {
            return "its path holds a control character";
        }
    }
    if (stat(path.p, &is) == 0 && stat("/", &root) == 0 && is.st_dev == root.st_dev &&
        is.st_ino == root.st_ino) {
        return "this machine's own root cannot be one; a sandbox without an image shows its "
               "programs";
    }
    for (size_t i = 0; i < COUNTOF(closed); i++) {
        if (path_inside(path, str_from(closed[i]))) {
            return "nothing below /proc, /sys, /dev, /run, /usr, /etc and /boot is one";
        }
    }
    if (path_inside(state, path)) {
        return "anybox's own state is below it";
    }
    char *home own_mem = getenv("HOME") != NULL ? realpath(getenv("HOME"), NULL) : NULL;
    if (home != NULL && path_inside(str_from(home), path)) {
        return "your home is below it";
    }
    if (path_inside(path, state) &&
        (!path_inside(path, images) || !image_name_ok(path_base(path)) ||
         !str_eq(path_dir(path), images))) {
        return "of anybox's state folder only the whole folders in images/ are some";
    }
    return NULL;
}

static bool may_own(const struct uid_range *who, uid_t owner)
{
    if (who->mode == UID_SUBUIDS) {
        return owner == geteuid() || (owner >= who->uid && owner - who->uid < UID_RANGE - 1);
    }
    return owner == 0;
}

/* Is there a shell, and whose is it? */
static const char *no_rootfs(int image, const struct uid_range *who)
{
    static const char *const shells[] = {"bin/bash", "bin/sh"};
    struct stat is;
    if (fstat(image, &is) < 0) {
        return "it cannot be looked at";
    }
    if (!may_own(who, is.st_uid)) {
        return who->mode == UID_SUBUIDS
                   ? "it belongs to somebody else; it must be yours or your subuids', as "
                     "\"anybox image make\" makes it"
                   : "it does not belong to root; run \"sudo chown -R root:root\" on it if you "
                     "trust it";
    }
    for (size_t i = 0; i < COUNTOF(shells); i++) {
        int fd own_fd = open_inside(image, shells[i], O_PATH);
        if (fd < 0 && errno == ENOSYS) {
            return "this kernel is older than 5.6, and images need 5.19";
        }
        if (fd < 0 || fstat(fd, &is) < 0 || !S_ISREG(is.st_mode) || (is.st_mode & 0111) == 0) {
            continue;
        }
        return may_own(who, is.st_uid) ? NULL : "its shell belongs to somebody else";
    }
    return "it is no root file system: it has neither /bin/bash nor /bin/sh";
}

/* As given, or below images/. */
static int path_of(const struct local *l, struct arena *a, struct str wanted, struct str *out,
                   struct err *e)
{
    if (str_has(wanted, '\0') || wanted.len >= PATH_MAX) {
        return refuse(l, a, e, ERR_INVALID, wanted, "it is too long or holds a NUL");
    }
    if (path_is_absolute(wanted)) {
        *out = arena_str(a, wanted);
        return 0;
    }
    if (str_has(wanted, ':')) {
        return refuse(l, a, e, ERR_UNSUPPORTED, wanted,
                      "local sandboxes take a folder; an image of a registry is for "
                      "provider=docker");
    }
    if (str_has(wanted, '/')) {
        return refuse(l, a, e, ERR_INVALID, wanted,
                      "a relative path is not accepted; give a name, or a path that begins "
                      "with \"/\"");
    }
    if (!image_name_ok(wanted)) {
        return refuse(l, a, e, ERR_INVALID, wanted,
                      "a name is 1 to 64 of a-z, 0-9, '.', '_' and '-' and begins with a letter or "
                      "digit");
    }
    *out = arena_printf(a, "%s/%.*s", images_dir(l, a).p, STR_ARG(wanted));
    return 0;
}

int image_resolve(const struct local *l, const struct uid_range *who, struct arena *a,
                  struct str wanted, struct str *out, struct err *e)
{
    struct uid_range ours = {.lock = -1};
    struct str path = STR_EMPTY;
    if (path_of(l, a, wanted, &path, e) < 0) {
        return -1;
    }
    if (who == NULL && image_uids(a, &ours, e) < 0) {
        return err_wrap(e, "image \"%.*s\"", STR_ARG(str_head(wanted, 100)));
    }
    char *real own_mem = realpath(path.p, NULL);
    if (real == NULL) {
        return refuse(l, a, e, errno == EACCES ? ERR_DENIED : ERR_NOT_FOUND, wanted,
                      errno == EACCES ? "this user may not look at it" : "there is no such folder");
    }
    struct str found = arena_str(a, str_from(real));
    const char *why = forbidden(l, a, found);
    if (why != NULL) {
        return refuse(l, a, e, ERR_DENIED, wanted, why);
    }
    int dir own_fd = open(found.p, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) {
        return refuse(l, a, e, errno == EACCES ? ERR_DENIED : ERR_INVALID, wanted,
                      errno == EACCES ? "this user may not look at it" : "it is not a folder");
    }
    why = no_rootfs(dir, who != NULL ? who : &ours);
    if (why != NULL) {
        return refuse(l, a, e, ERR_INVALID, wanted, why);
    }
    *out = found;
    return 0;
}
