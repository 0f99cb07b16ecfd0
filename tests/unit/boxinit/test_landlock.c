/* What the scopes forbid, and what they must not. In a child: there is no way back. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "boxinit/landlock.h"
#include "test.h"

static bool kernel_can(void)
{
    return syscall(SYS_landlock_create_ruleset, NULL, 0, 1u) >= LANDLOCK_SCOPES;
}

static int abstract(const char *name, bool serve)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    int fd own_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr *to = (const struct sockaddr *)&at;

    memcpy(at.sun_path + 1, name, strlen(name));
    if ((serve ? bind(fd, to, len) : connect(fd, to, len)) < 0 || (serve && listen(fd, 4) < 0)) {
        return -errno;
    }
    return take_fd(&fd);
}

/* Runs `body` in a child; its exit status is the number of the first line that failed. */
static int in_child(int (*body)(const char *name), const char *name)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        _exit(body(name));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static int scope(void)
{
    struct err e;

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || landlock_scope(&e) < 0 ? -1 : 0;
}

static int reach_out(const char *name)
{
    if (abstract(name, false) < 0) {
        return 1; /* the test itself: it can be reached without the scopes */
    }
    if (scope() < 0) {
        return 2;
    }
    if (abstract(name, false) != -EPERM) {
        return 3;
    }
    errno = 0;
    return kill(getppid(), 0) == 0 || errno != EPERM ? 4 : 0;
}

static void what_is_outside_is_out_of_reach(void **state)
{
    char name[64];

    (void)state;
    if (!kernel_can()) {
        skip();
    }
    (void)snprintf(name, sizeof(name), "anybox-test-%d", (int)getpid());
    int server own_fd = abstract(name, true);
    assert_true(server >= 0);
    assert_int_equal(in_child(reach_out, name), 0);
}

static int stay_in(const char *name)
{
    if (scope() < 0) {
        return 1;
    }
    int server own_fd = abstract(name, true);
    int fd own_fd = abstract(name, false);
    if (server < 0 || fd < 0) {
        return 2;
    }
    pid_t child = fork();
    if (child == 0) {
        (void)pause();
        _exit(0);
    }
    int status = 0;
    if (kill(child, SIGKILL) < 0 || waitpid(child, &status, 0) != child || !WIFSIGNALED(status)) {
        return 3;
    }
    return 0;
}

static void what_is_inside_is_not_touched(void **state)
{
    char name[64];

    (void)state;
    if (!kernel_can()) {
        skip();
    }
    (void)snprintf(name, sizeof(name), "anybox-test-in-%d", (int)getpid());
    assert_int_equal(in_child(stay_in, name), 0);
}

static int move_files(const char *dir)
{
    if (scope() < 0 || chdir(dir) < 0) {
        return 1;
    }
    if (mkdir("a", 0700) < 0 || mkdir("b", 0700) < 0 || mkdir("a/folder", 0700) < 0) {
        return 2;
    }
    int fd own_fd = open("a/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || link("a/file", "b/link") < 0 || rename("a/file", "b/file") < 0) {
        return 3;
    }
    if (rename("a/folder", "b/folder") < 0 || truncate("b/file", 10) < 0) {
        return 4;
    }
    return unlink("b/link") < 0 || unlink("b/file") < 0 || rmdir("b/folder") < 0 ||
                   rmdir("a") < 0 || rmdir("b") < 0
               ? 5
               : 0;
}

static void files_move_between_folders_as_before(void **state)
{
    char dir[] = "/tmp/test-landlock-XXXXXX";

    (void)state;
    if (!kernel_can()) {
        skip();
    }
    assert_non_null(mkdtemp(dir));
    int rc = in_child(move_files, dir);
    (void)rmdir(dir);
    assert_int_equal(rc, 0);
}

static int without_no_new_privs(const char *name)
{
    struct err e;

    (void)name;
    /* Root may. */
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0) {
        return 2;
    }
    return landlock_scope(&e) < 0 && e.kind == ERR_DENIED ? 0 : 1;
}

static void a_refusal_is_an_error(void **state)
{
    (void)state;
    if (!kernel_can()) {
        skip();
    }
    assert_int_equal(in_child(without_no_new_privs, ""), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_outside_is_out_of_reach),
        cmocka_unit_test(what_is_inside_is_not_touched),
        cmocka_unit_test(files_move_between_folders_as_before),
        cmocka_unit_test(a_refusal_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
