/* What is done with a host's key, against a libssh of the test's own. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "provider/ssh/machine.h"
#include "test.h"

static char dir[64];

static enum ssh_known_hosts_e is_new(ssh_session ssh)
{
    (void)ssh;
    return SSH_KNOWN_HOSTS_NOT_FOUND;
}

static int no_key(ssh_session ssh, ssh_key *key)
{
    (void)ssh;
    *key = NULL;
    return SSH_ERROR;
}

/* libssh 0.10 makes a missing folder, and fails if another connection made it meanwhile. */
static int remember(ssh_session ssh)
{
    char folder[128];
    struct stat st;

    (void)ssh;
    (void)snprintf(folder, sizeof(folder), "%s/new/.ssh", dir);
    return stat(folder, &st) == 0 && (st.st_mode & 0777) == 0700 ? SSH_OK : SSH_ERROR;
}

static const char *why(void *ssh)
{
    (void)ssh;
    return "there is no folder";
}

static const struct libssh lib = {.session_is_known_server = is_new,
                                  .get_server_publickey = no_key,
                                  .session_update_known_hosts = remember,
                                  .get_error = why};

static int check(const char *file, enum ssh_trust trust, struct err *e)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, file);
    struct machine m = {.conf = {.host = S("h"), .known_hosts = str_from(path), .trust = trust}};
    struct session s = {.machine = &m, .lib = &lib};

    return session_check_key(&s, e);
}

static void a_new_host_finds_its_folder(void **state)
{
    struct err e = {0};

    (void)state;
    assert_fails(check("new/.ssh/known_hosts", SSH_TRUST_STRICT, &e), &e, ERR_DENIED,
                 "not in known_hosts");
    assert_ok(check("new/.ssh/known_hosts", SSH_TRUST_NEW, &e), &e);
    assert_ok(check("new/.ssh/known_hosts", SSH_TRUST_NEW, &e), &e);
}

static void a_folder_that_cannot_be(void **state)
{
    char file[128];
    struct err e = {0};

    (void)state;
    (void)snprintf(file, sizeof(file), "%s/file", dir);
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
    assert_fails(check("file/known_hosts", SSH_TRUST_NEW, &e), &e, ERR_DENIED,
                 "cannot be remembered");
    assert_non_null(strstr(e.msg, file));
}

static int make_dir(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof(dir), "/tmp/ssh-trust-XXXXXX");
    return mkdtemp(dir) == NULL ? -1 : 0;
}

static int remove_dir(void **state)
{
    struct err e = {0};

    (void)state;
    return fd_remove_tree(AT_FDCWD, dir, &e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_host_finds_its_folder),
        cmocka_unit_test(a_folder_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
