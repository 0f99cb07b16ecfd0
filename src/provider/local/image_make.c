/*
 * image_make.c - a small Debian by debootstrap, and removing an image.
 *
 * debootstrap runs in a namespace of its own (image_run.c) and finds the device files that
 * it wants already bound into a tmpfs at the new system's /dev: so it need not make any,
 * which a user namespace does not allow, and the image has none in the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "provider/local/image.h"

#define SUITE_DEFAULT "bookworm"
#define PACKAGES      "ca-certificates,curl,less,procps,python3,python3-venv,xz-utils"
#define WORD_MAX_LEN  2000

/* $1 the folder, $2 the suite, $3 packages, $4 the archive or "". */
static const char make_script[] =
    "set -eu\n"
    "cd \"$1\"\n"
    "find . -xdev -mindepth 1 -delete\n"
    "mkdir dev\n"
    "mount -t tmpfs -o mode=755 tmpfs dev\n"
    "for name in null zero full random urandom tty; do\n"
    "    : >dev/$name\n"
    "    mount --bind /dev/$name dev/$name\n"
    "done\n"
    "mkdir dev/pts dev/shm\n"
    "mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts\n"
    "ln -s pts/ptmx dev/ptmx\n"
    "debootstrap --variant=minbase --include=\"$3\" \"$2\" \"$1\" ${4:+\"$4\"} </dev/null\n"
    "echo 'P: tidying up'\n"
    "umount -R proc sys dev 2>/dev/null || true\n"
    "umount -l dev 2>/dev/null || true\n"
    "rm -rf var/lib/apt/lists/* var/cache/apt/* var/cache/debconf/*-old var/log/bootstrap.log\n"
    "rm -f etc/hostname etc/resolv.conf\n"
    "[ ! -e etc/machine-id ] || : >etc/machine-id\n"
    "cat >etc/apt/apt.conf.d/90anybox <<'END'\n"
    "// In a sandbox nobody can become another user, and recommended packages are many.\n"
    "APT::Sandbox::User \"root\";\n"
    "APT::Install-Recommends \"false\";\n"
    "Acquire::Languages \"none\";\n"
    "END\n"
    "chmod 755 .\n";

/* $1 the folder's parent, $2 its name. */
static const char remove_script[] = "cd \"$1\" && exec rm -rf --one-file-system -- \"./$2\"\n";

/* ---- the folder -------------------------------------------------------------------- */

struct work {
    const struct ctx *ctx;
    struct uid_range who;
    struct str dir; /* <state>/images */
    const char *name, *partial;
    int images, lock;
};

static void work_fini(struct work *w)
{
    drop_fd(&w->images);
    drop_fd(&w->lock);
}

static int check_name(struct str name, struct err *e)
{
    if (!image_name_ok(name)) {
        return err_set(
            e, ERR_INVALID,
            "\"%.*s\" is no name for an image: 1 to %d of a-z, 0-9, '.', '_' and '-' are "
            "accepted, the first a letter or digit",
            STR_ARG(str_head(name, 100)), IMAGE_NAME_MAX);
    }
    return 0;
}

static int open_work(struct work *w, const struct local *l, struct str name, struct err *e)
{
    struct arena *a = w->ctx->arena;
    if (check_name(name, e) < 0) {
        return -1;
    }
    w->dir = arena_printf(a, "%s/images", l->state_dir);
    w->name = arena_cstr(a, name);
    w->partial = arena_printf(a, ".%s.partial", w->name).p;
    if (fd_mkdirs(w->dir.p, 0700, e) < 0) {
        return -1;
    }
    w->images = open(w->dir.p, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return w->images < 0 ? err_sys(e, errno, "cannot open %s", w->dir.p) : 0;
}

/* 1: ours, 0: not there, -1. The one who had it may have renamed or removed it between our
 * open and our lock: then the lock is on nothing that is named so. */
static int lock_partial(struct work *w, struct err *e)
{
    for (;;) {
        struct stat held;
        struct stat named;
        int fd own_fd =
            openat(w->images, w->partial, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0) {
            return errno == ENOENT ? 0 : err_sys(e, errno, "cannot open %s", w->partial);
        }
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
            return err_set(e, ERR_EXISTS,
                           "the image \"%s\" is being made or removed by another anybox right now",
                           w->name);
        }
        if (fstat(fd, &held) == 0 &&
            fstatat(w->images, w->partial, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
            held.st_ino == named.st_ino) {
            w->lock = take_fd(&fd);
            return 1;
        }
    }
}

static int make_partial(struct work *w, struct err *e)
{
    for (;;) {
        if (mkdirat(w->images, w->partial, 0755) < 0 && errno != EEXIST) {
            return err_sys(e, errno, "cannot make %s/%s", w->dir.p, w->partial);
        }
        int rc = lock_partial(w, e);
        if (rc != 0) {
            return rc < 0 ? -1 : 0;
        }
    }
}

static int remove_partial(const struct work *w, const struct ctx *ctx, struct err *e)
{
    const char *const args[] = {w->dir.p, w->partial, NULL};
    const struct image_job job = {.script = remove_script, .args = args, .keep_fd = w->lock};
    int status = 0;
    if (w->who.mode != UID_SUBUIDS) {
        return fd_remove_tree(w->images, w->partial, e);
    }
    if (image_run(ctx, &w->who, &job, &status, e) < 0) {
        return -1;
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return err_set(e, ERR_SYSTEM, "cannot remove all of %s/%s", w->dir.p, w->partial);
    }
    return 0;
}

/* ---- removing ------------------------------------------------------------------------ */

static bool is_there(const struct work *w)
{
    struct stat is;
    return fstatat(w->images, w->name, &is, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool is_link(const struct work *w)
{
    struct stat is;
    return fstatat(w->images, w->name, &is, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(is.st_mode);
}

/* As somebody does who works in it by chroot. What is there is no part of the image. */
static int check_unmounted(const struct work *w, const char *name, struct err *e)
{
    struct arena *a = w->ctx->arena;
    char *dir own_mem = realpath(w->dir.p, NULL);
    struct str path = arena_printf(a, "%s/%s", dir != NULL ? dir : w->dir.p, name);
    const char *mount = image_mount_below(a, path);
    if (mount != NULL) {
        return err_set(e, ERR_EXISTS,
                       "the image \"%s\" has something mounted at %s: unmount it first", w->name,
                       mount);
    }
    return 0;
}

struct users {
    struct str path, name;
};

static int note_user(void *arg, const struct box_info *info, struct err *e)
{
    struct users *u = arg;
    (void)e;
    if (info->state != BOX_GONE && str_eq(info->image, u->path)) {
        u->name = info->name.len > 0 ? info->name : info->ref;
    }
    return 0;
}

/* What is under an overlay must not change. */
static int check_unused(struct provider *p, const struct work *w, struct err *e)
{
    char *real own_mem = realpath(arena_printf(w->ctx->arena, "%s/%s", w->dir.p, w->name).p, NULL);
    struct users users = {.path = str_from(real)};
    if (real == NULL) {
        return 0;
    }
    if (p->ops->list(p, w->ctx, note_user, &users, e) < 0) {
        return -1;
    }
    if (users.name.len > 0) {
        return err_set(e, ERR_EXISTS,
                       "the image \"%s\" is used by the sandbox %.*s: delete it first, as with "
                       "\"anybox rm\"",
                       w->name, STR_ARG(users.name));
    }
    return 0;
}

int image_remove(struct provider *p, const struct ctx *ctx, struct str name, struct err *e)
{
    struct work w CLEANUP(work_fini) = {.ctx = ctx, .images = -1, .lock = -1};
    if (open_work(&w, local_of(p), name, e) < 0 || uids_mode(ctx->arena, &w.who, e) < 0 ||
        check_unused(p, &w, e) < 0) {
        return -1;
    }
    if (is_link(&w)) {
        return fd_remove_tree(w.images, w.name, e); /* the link, not where it leads */
    }
    if (check_unmounted(&w, w.name, e) < 0 || check_unmounted(&w, w.partial, e) < 0) {
        return -1;
    }
    int left = lock_partial(&w, e);
    if (left < 0 || (left > 0 && remove_partial(&w, ctx, e) < 0)) {
        return -1;
    }
    if (!is_there(&w)) {
        return left > 0 ? 0
                        : err_set(e, ERR_NOT_FOUND,
                                  "there is no image \"%s\"; \"anybox image list\" tells which "
                                  "there are",
                                  w.name);
    }
    drop_fd(&w.lock);
    if (renameat2(w.images, w.name, w.images, w.partial, RENAME_NOREPLACE) < 0) {
        return err_sys(e, errno, "cannot remove %s/%s", w.dir.p, w.name);
    }
    if (lock_partial(&w, e) < 0) {
        return -1;
    }
    return remove_partial(&w, ctx, e);
}

/* ---- making ---------------------------------------------------------------------------- */

static bool is_word(struct str s, const char *more)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.p[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!plain && (i == 0 || c == '\0' || !str_has(str_from(more), c))) {
            return false;
        }
    }
    return s.len > 0 && s.len <= WORD_MAX_LEN;
}

static bool is_mirror(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if ((unsigned char)s.p[i] <= 0x20 || s.p[i] == 0x7f) {
            return false;
        }
    }
    return s.len <= WORD_MAX_LEN && (str_starts(s, S("http://")) || str_starts(s, S("https://")) ||
                                     str_starts(s, S("file:///")));
}

static int check_order(const struct image_order *o, struct err *e)
{
    if (o->suite.len > 0 && !is_word(o->suite, "-.")) {
        return err_set(e, ERR_INVALID, "the suite \"%.*s\" is no name such as bookworm or trixie",
                       STR_ARG(str_head(o->suite, 80)));
    }
    if (o->mirror.len > 0 && !is_mirror(o->mirror)) {
        return err_set(e, ERR_INVALID,
                       "the mirror \"%.*s\" is no address that begins with http://, https:// or "
                       "file:///",
                       STR_ARG(str_head(o->mirror, 200)));
    }
    if (o->packages.len > 0 && !is_word(o->packages, "+-.,")) {
        return err_set(e, ERR_INVALID,
                       "the packages \"%.*s\" are no names with commas between, such as git,make",
                       STR_ARG(str_head(o->packages, 200)));
    }
    return 0;
}

int image_can_make(struct err *e)
{
    static const char *const places[] = {"/usr/local/sbin/debootstrap", "/usr/sbin/debootstrap",
                                         "/usr/bin/debootstrap", "/sbin/debootstrap"};
    for (size_t i = 0; i < COUNTOF(places); i++) {
        if (access(places[i], X_OK) == 0) {
            return 0;
        }
    }
    return err_set(e, ERR_UNSUPPORTED,
                   "the program debootstrap, which makes images, is not on this machine: run "
                   "\"" IMAGE_MAKE_FIX "\"");
}

static const struct phase {
    const char *line, *said;
} phases[] = {
    {"I: Retrieving InRelease", "looking at the archive"},
    {"I: Retrieving Release", "looking at its older index"},
    {"I: Retrieving Packages", "reading its list of packages"},
    {"I: Resolving ", "choosing packages"},
    {"I: Retrieving ", "downloading packages"},
    {"I: Extracting ", "extracting the first packages"},
    {"I: Unpacking ", "unpacking"},
    {"I: Configuring ", "configuring"},
    {"I: Unpacking the base", "unpacking the rest"},
    {"I: Configuring the base", "configuring the rest"},
    {"P: tidying up", "tidying up"},
};

struct listener {
    image_phase_fn *phase;
    void *arg;
    size_t next;   /* of phases; they only go forward */
    char why[300]; /* the last error, else the last line */
    bool is_error;
};

static void on_line(void *arg, struct str line)
{
    struct listener *l = arg;
    bool error = str_starts(line, S("E: "));
    if (line.len > 0 && (error || !l->is_error)) {
        (void)snprintf(l->why, sizeof(l->why), "%.*s", STR_ARG(str_skip(line, error ? 3 : 0)));
        l->is_error = error;
    }
    /* The longest fits best: "Retrieving InRelease" is a "Retrieving", too. */
    size_t best = COUNTOF(phases);
    for (size_t i = 0; i < COUNTOF(phases); i++) {
        if (str_starts(line, str_from(phases[i].line)) &&
            (best == COUNTOF(phases) || strlen(phases[i].line) > strlen(phases[best].line))) {
            best = i;
        }
    }
    if (best < COUNTOF(phases) && best >= l->next) {
        l->next = best + 1;
        l->phase(l->arg, str_from(phases[best].said));
    }
}

static int run_debootstrap(const struct work *w, const struct image_order *o, struct listener *l,
                           struct err *e)
{
    struct arena *a = w->ctx->arena;
    struct str suite;
    struct str mirror;
    image_own_source(a, &suite, &mirror);
    suite = o->suite.len > 0 ? o->suite : suite.len > 0 ? suite : S(SUITE_DEFAULT);
    mirror = o->mirror.len > 0 ? o->mirror : mirror;
    const char *const args[] = {
        arena_printf(a, "%s/%s", w->dir.p, w->partial).p, arena_cstr(a, suite),
        arena_printf(a, PACKAGES "%s%.*s", o->packages.len > 0 ? "," : "", STR_ARG(o->packages)).p,
        arena_cstr(a, mirror), NULL};
    const struct image_job job = {
        .script = make_script, .args = args, .keep_fd = w->lock, .line = on_line, .arg = l};
    int status = 0;
    if (image_run(w->ctx, &w->who, &job, &status, e) < 0) {
        return -1;
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return err_set(e, ERR_SYSTEM,
                       "making %.*s by debootstrap failed: %s. --suite and --mirror choose another "
                       "archive; http_proxy is respected",
                       STR_ARG(suite), l->why);
    }
    return 0;
}

static int check_free(const struct work *w, struct err *e)
{
    if (is_there(w)) {
        return err_set(
            e, ERR_EXISTS,
            "there is an image \"%s\" already: remove it with \"anybox image rm %s\", or "
            "choose another name",
            w->name, w->name);
    }
    return 0;
}

int image_make(struct provider *p, const struct ctx *ctx, const struct image_order *order,
               image_phase_fn *phase, void *arg, struct err *e)
{
    struct work w CLEANUP(work_fini) = {.ctx = ctx, .images = -1, .lock = -1};
    struct listener l = {.phase = phase, .arg = arg};
    struct str name = order->name.len > 0 ? order->name : S(IMAGE_DEFAULT);
    if (check_name(name, e) < 0 || check_order(order, e) < 0 ||
        image_uids(ctx->arena, &w.who, e) < 0 || image_can_make(e) < 0 ||
        open_work(&w, local_of(p), name, e) < 0 || check_free(&w, e) < 0 ||
        make_partial(&w, e) < 0) {
        return -1;
    }
    int rc = check_free(&w, e);
    if (rc == 0) {
        rc = run_debootstrap(&w, order, &l, e);
    }
    if (rc == 0 && renameat2(w.images, w.partial, w.images, w.name, RENAME_NOREPLACE) < 0) {
        rc = err_sys(e, errno, "cannot rename %s/%s", w.dir.p, w.partial);
    }
    if (rc < 0) {
        const struct ctx quiet = {.arena = ctx->arena};
        struct err ignored;
        (void)!remove_partial(&w, &quiet, &ignored);
    }
    return rc;
}
