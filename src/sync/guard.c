#include "sync/guard.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/path.h"

#define SHOWN_PATH 200

/* Nothing is deleted in them, nor anywhere below. */
static const char *const systems[] = {
    "/bin", "/boot", "/dev", "/etc", "/lib",    "/lib32",   "/lib64",        "/proc",
    "/run", "/sbin", "/sys", "/usr", "/System", "/Library", "/Applications",
};

/* What lies below them may be anybody's; they themselves are not. */
static const char *const shared[] = {
    "/",    "/home", "/Users", "/root",    "/mnt",     "/media",   "/opt",
    "/srv", "/tmp",  "/var",   "/var/lib", "/var/log", "/var/tmp", "/Volumes",
};

/* Of a home: keys and settings. */
static const char *const of_home[] = {".ssh", ".gnupg", ".config", ".local", ".aws", ".kube"};

static int refuse(struct str folder, const char *what, struct err *e)
{
    return err_set(e, ERR_INVALID,
                   "delete_extras is refused for %.*s: %s. Give a folder of its own for what is "
                   "synced, or leave delete_extras out",
                   STR_ARG(str_head(folder, SHOWN_PATH)), what);
}

static bool is_system(struct str folder)
{
    for (size_t i = 0; i < COUNTOF(systems); i++) {
        /* A user's own folder of this session. */
        if (path_inside(folder, str_from(systems[i])) && !str_starts(folder, S("/run/user/"))) {
            return true;
        }
    }
    for (size_t i = 0; i < COUNTOF(shared); i++) {
        if (str_eq(folder, str_from(shared[i]))) {
            return true;
        }
    }
    return false;
}

static bool is_private(struct str folder, struct str home)
{
    struct str rest;

    if (home.len == 0 || !path_inside(folder, home) || folder.len == home.len) {
        return false;
    }
    rest = str_skip(folder, home.len + 1);
    for (size_t i = 0; i < COUNTOF(of_home); i++) {
        struct str name = str_from(of_home[i]);

        if (str_eq(rest, name) || (i < 2 && path_inside(rest, name))) {
            return true;
        }
    }
    return false;
}

int guard_check(const struct guard *g, struct str folder, struct err *e)
{
    if (!path_is_absolute(folder)) {
        return refuse(folder, "it is not known where that is", e);
    }
    if (is_system(folder)) {
        return refuse(folder, "it belongs to the system", e);
    }
    if (g->home.len > 1 && str_eq(folder, g->home)) {
        return refuse(folder, "it is a home folder", e);
    }
    if (g->home.len > 1 && path_inside(g->home, folder)) {
        return refuse(folder, "a home folder lies in it", e);
    }
    if (is_private(folder, g->home)) {
        return refuse(folder, "it has keys and settings of the user", e);
    }
    if (g->state_dir.len > 0 &&
        (path_inside(folder, g->state_dir) || path_inside(g->state_dir, folder))) {
        return refuse(folder, "anybox keeps its own state there", e);
    }
    return 0;
}

int guard_check_here(const struct guard *g, struct str folder, int fd, struct err *e)
{
    struct stat here;
    struct stat above;

    if (guard_check(g, folder, e) < 0) {
        return -1;
    }
    if (fstat(fd, &here) == 0 && fstatat(fd, "..", &above, 0) == 0 && here.st_dev != above.st_dev) {
        return refuse(folder, "it is the root of a file system", e);
    }
    return 0;
}
