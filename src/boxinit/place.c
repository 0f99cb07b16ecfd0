#include "boxinit/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "agent/proto.h"
#include "base/attr.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"

#define LOCK_FILE      "lock"
#define NEW_SOCKET     AGENT_SOCKET ".new"
#define OLD_SOCKET     AGENT_SOCKET ".old"
#define LISTEN_BACKLOG 128
#define CONNECT_S      5  /* that a swamped one has to take us */
#define UNUSED_S       60 /* since another version was put there */

/* The machine's name as a file name. */
static void machine_name(char *to, size_t cap)
{
    struct utsname name;

    (void)snprintf(to, cap, "%s",
                   uname(&name) == 0 && name.nodename[0] != '\0' ? name.nodename : "localhost");
    for (char *p = to; *p != '\0'; p++) {
        if (*p == '/' || *p == '.') {
            *p = '_';
        }
    }
}

static int check_ours(int fd, const char *path, struct err *e)
{
    struct stat is;

    if (fstat(fd, &is) < 0) {
        return err_sys(e, errno, "look at %s", path);
    }
    if (is.st_uid != geteuid()) {
        return err_set(e, ERR_DENIED,
                       "the folder %s belongs to user %u and not to us (%u); name another one",
                       path, (unsigned)is.st_uid, (unsigned)geteuid());
    }
    if ((is.st_mode & 077) != 0) {
        return err_set(e, ERR_DENIED,
                       "others may use the folder %s (mode %04o); close it with chmod 700", path,
                       (unsigned)(is.st_mode & 07777));
    }
    return 0;
}

int place_open(const char *dir, struct err *e)
{
    char machine[80];
    char path[PATH_MAX_BYTES];
    int fd own_fd = -1;

    machine_name(machine, sizeof(machine));
    if (dir[0] != '/' || strlen(dir) + sizeof(machine) + 2 > sizeof(path)) {
        return err_set(e, ERR_INVALID, "\"%.200s\" is not the absolute path of a folder", dir);
    }
    (void)snprintf(path, sizeof(path), "%s/%s", dir, machine);
    if (fd_mkdirs(path, 0700, e) < 0) {
        return err_wrap(e, "make the folder %.300s", path);
    }
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return err_sys(e, errno, "open the folder %.300s", path);
    }
    return check_ours(fd, path, e) < 0 ? -1 : take_fd(&fd);
}

int place_lock(int place, struct err *e)
{
    int fd own_fd = openat(place, LOCK_FILE, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0) {
        return err_sys(e, errno, "make the agent's lock");
    }
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        return errno == EWOULDBLOCK ? err_set(e, ERR_EXISTS, "another agent serves here")
                                    : err_sys(e, errno, "take the agent's lock");
    }
    return take_fd(&fd);
}

/* ---- other versions ---------------------------------------------------------------- */

static bool is_place(const char *name)
{
    size_t skip = strlen(PLACE_OF);

    return strncmp(name, PLACE_OF, skip) == 0 && strlen(name) == skip + PLACE_OF_DIGITS &&
           strspn(name + skip, "0123456789abcdef") == PLACE_OF_DIGITS;
}

/* True: nobody serves in this folder, and nobody will any more. One that another machine serves in
 * is not empty in the end; what is removed for that one is made anew. */
static bool empty_place(int dir, const char *machine)
{
    static const char *const names[] = {AGENT_SOCKET, NEW_SOCKET, OLD_SOCKET, LOCK_FILE};
    struct err ignored = {0};
    int place own_fd = openat(dir, machine, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int lock own_fd = place < 0 ? -1 : place_lock(place, &ignored);

    if (place >= 0 && lock < 0) {
        return false;
    }
    for (size_t i = 0; place >= 0 && i < COUNTOF(names); i++) {
        (void)unlinkat(place, names[i], 0);
    }
    return place < 0 || unlinkat(dir, machine, AT_REMOVEDIR) == 0;
}

static void remove_program(int parent, DIR *all, const char *digits)
{
    rewinddir(all);
    for (const struct dirent *it = readdir(all); it != NULL; it = readdir(all)) {
        bool is_its = strncmp(it->d_name, PROGRAM_OF, strlen(PROGRAM_OF)) == 0 &&
                      strncmp(it->d_name + strlen(PROGRAM_OF), digits, PLACE_OF_DIGITS) == 0;

        if (is_its) {
            (void)unlinkat(parent, it->d_name, 0);
        }
    }
}

static void sweep_one(int parent, const char *name, const char *machine)
{
    int dir own_fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat is;

    /* One that is just being made has no lock yet. */
    if (dir < 0 || fstat(dir, &is) < 0 || is.st_uid != geteuid() ||
        time(NULL) - is.st_mtime < UNUSED_S || !empty_place(dir, machine) ||
        unlinkat(parent, name, AT_REMOVEDIR) < 0) {
        return;
    }
    int again = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *all = again < 0 ? NULL : fdopendir(again);
    if (all != NULL) {
        remove_program(parent, all, name + strlen(PLACE_OF));
        (void)closedir(all);
    } else if (again >= 0) {
        (void)close(again);
    }
}

void place_sweep(const char *dir)
{
    char machine[80], path[PATH_MAX_BYTES];
    const char *ours = path_base(str_from(dir)).p;

    machine_name(machine, sizeof(machine));
    (void)snprintf(path, sizeof(path), "%.*s", STR_ARG(path_dir(str_from(dir))));
    DIR *all = is_place(ours) ? opendir(path) : NULL;
    if (all == NULL) {
        return;
    }
    for (const struct dirent *it = readdir(all); it != NULL; it = readdir(all)) {
        if (is_place(it->d_name) && strcmp(it->d_name, ours) != 0) {
            sweep_one(dirfd(all), it->d_name, machine);
        }
    }
    (void)closedir(all);
}

/* ---- the socket -------------------------------------------------------------------- */

/* sun_path is short, a folder's path may not be. */
static struct sockaddr_un address(int place, const char *name)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    (void)snprintf(at.sun_path, sizeof(at.sun_path), "/proc/self/fd/%d/%s", place, name);
    return at;
}

int place_listen(int place, struct err *e)
{
    struct sockaddr_un at = address(place, NEW_SOCKET);
    int fd own_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0) {
        return err_sys(e, errno, "make the agent's socket");
    }
    (void)unlinkat(place, NEW_SOCKET, 0);
    (void)unlinkat(place, OLD_SOCKET, 0);
    if (bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, LISTEN_BACKLOG) < 0 ||
        renameat(place, NEW_SOCKET, place, AGENT_SOCKET) < 0) {
        return err_sys(e, errno, "listen in the agent's folder");
    }
    return take_fd(&fd);
}

bool place_leave(int place, int listener)
{
    struct pollfd waiting = {.fd = listener, .events = POLLIN};

    (void)renameat(place, AGENT_SOCKET, place, OLD_SOCKET);
    if (poll(&waiting, 1, 0) > 0) {
        (void)renameat(place, OLD_SOCKET, place, AGENT_SOCKET);
        return false;
    }
    (void)unlinkat(place, OLD_SOCKET, 0);
    return true;
}

int place_connect(int place, struct err *e)
{
    struct sockaddr_un at = address(place, AGENT_SOCKET);
    struct timeval patience = {.tv_sec = CONNECT_S};
    int fd own_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0) {
        return err_sys(e, errno, "make a socket");
    }
    if (connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0) {
        return take_fd(&fd);
    }
    if (errno == ENOENT || errno == ECONNREFUSED) {
        return err_set(e, ERR_NOT_FOUND, "no agent serves here");
    }
    if (errno == EAGAIN) {
        return err_set(e, ERR_UNREACHABLE,
                       "the agent on the host is stopped or has too much to do: it takes nobody");
    }
    return err_sys(e, errno, "connect to the agent");
}
