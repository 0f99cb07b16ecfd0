#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/path.h"
#include "provider/ssh/ssh_config.h"
#include "test.h"

/* A home with a program "ssh" of our own in its bin, which prints $HOME/answer. */
struct place {
    char dir[64];
    struct arena arena;
    struct ctx ctx;
};

static void write_file(struct place *p, const char *name, const char *text, mode_t mode)
{
    char path[256];
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/%s", p->dir, name);
    f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static int set_up(void **state)
{
    struct place *p = calloc(1, sizeof(*p));
    char path[256];

    (void)snprintf(p->dir, sizeof(p->dir), "/tmp/test-resolve-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    (void)snprintf(path, sizeof(path), "%s/bin", p->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(setenv("PATH", path, 1), 0);
    (void)snprintf(path, sizeof(path), "%s/.ssh", p->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(setenv("HOME", p->dir, 1), 0);
    arena_init(&p->arena, 8u << 20);
    p->ctx.arena = &p->arena;
    *state = p;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

static int tear_down(void **state)
{
    struct place *p = *state;

    arena_fini(&p->arena);
    (void)nftw(p->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(p);
    return 0;
}

static struct ssh_host resolved(struct place *p, struct ssh_host given)
{
    struct ssh_host out = {0};
    struct err e;

    assert_ok(ssh_config_resolve(&p->ctx, &given, &out, &e), &e);
    return out;
}

#define FAKE_SSH "#!/bin/sh\n[ \"$1 $2 $3\" = '-G -- gpu' ] || exit 3\n/bin/cat \"$HOME/answer\"\n"

static void ssh_is_asked_and_what_is_given_wins(void **state)
{
    struct place *p = *state;
    struct ssh_host h;
    char key[128];

    write_file(p, "bin/ssh", FAKE_SSH, 0700);
    write_file(p, "my key", "x", 0600);
    write_file(p, "other", "x", 0);
    write_file(p, "cert", "x", 0600);
    write_file(
        p, "answer",
        "hostname 10.1.2.3\nuser me\nport 2222\nidentityfile ~/none\nidentityfile ~/my key\n"
        "identityfile ~/other\ncertificatefile ~/cert\ncertificatefile ~/nowhere\n"
        "identitiesonly yes\nidentityagent ~/agent.sock\n"
        "proxyjump one,me@gate:23\nuserknownhostsfile ~/.ssh/kh\nstricthostkeychecking true\n",
        0600);
    (void)snprintf(key, sizeof(key), "%s/my key", p->dir);
    h = resolved(p, (struct ssh_host){.name = S("gpu"), .host = S("gpu")});
    assert_str(h.host, S("10.1.2.3"));
    assert_str(h.user, S("me"));
    assert_int_equal(h.port, 2222);
    assert_str(h.key_file, S(""));
    assert_int_equal(h.n_more_keys, 2);
    assert_str(h.more_keys[0], str_from(key));
    assert_true(str_ends(h.more_keys[1], S("/other")));
    assert_int_equal(h.n_certificates, 1);
    assert_true(str_ends(h.certificates[0], S("/cert")));
    assert_true(str_ends(h.agent_socket, S("/agent.sock")) && path_is_absolute(h.agent_socket));
    assert_true(h.keys_only);
    assert_str(h.proxy_jump, S("one,me@gate:23"));
    assert_str(h.proxy_command, S(""));
    assert_int_equal(h.trust, SSH_TRUST_STRICT);
    h = resolved(p, (struct ssh_host){.name = S("gpu"),
                                      .host = S("gpu"),
                                      .user = S("root"),
                                      .port = 22,
                                      .password = S("pw"),
                                      .proxy_command = S("nc %h %p"),
                                      .known_hosts = S("/kh")});
    assert_str(h.user, S("root"));
    assert_int_equal(h.port, 22);
    assert_int_equal(h.n_more_keys, 0);
    assert_str(h.proxy_jump, S(""));
    assert_str(h.proxy_command, S("nc %h %p"));
    assert_str(h.known_hosts, S("/kh"));
}

static void without_ssh_the_file_is_read(void **state)
{
    struct place *p = *state;
    struct ssh_host h;

    write_file(p, ".ssh/config", "Include more\nHost gpu\nHostName %h.example.com\nPort 7\n", 0600);
    write_file(p, ".ssh/more", "Host gpu\nUser more\n", 0600);
    h = resolved(p, (struct ssh_host){.name = S("gpu"), .host = S("gpu")});
    assert_str(h.host, S("gpu.example.com"));
    assert_str(h.user, S("more"));
    assert_int_equal(h.port, 7);
}

static void what_the_ssh_configuration_says_is_checked_too(void **state)
{
    struct place *p = *state;
    struct ssh_host given = {.name = S("gpu"), .host = S("gpu")};
    struct ssh_host out;
    struct err e;

    write_file(p, "bin/ssh", FAKE_SSH, 0700);
    write_file(p, "answer", "hostname -oProxyCommand=evil\n", 0600);
    assert_fails(ssh_config_resolve(&p->ctx, &given, &out, &e), &e, ERR_INVALID, "configuration");
    write_file(p, "bin/ssh", "#!/bin/sh\nexit 255\n", 0700);
    assert_fails(ssh_config_resolve(&p->ctx, &given, &out, &e), &e, ERR_INVALID, "by hand");
    given.host = S("-G");
    assert_fails(ssh_config_resolve(&p->ctx, &given, &out, &e), &e, ERR_INVALID, "no name");
}

static void secrets_come_from_files_that_are_private(void **state)
{
    struct place *p = *state;
    struct ssh_host given = {
        .name = S("gpu"), .host = S("gpu"), .password_file = S("~/secret"), .user = S("me")};
    struct ssh_host out;
    struct err e;

    write_file(p, "secret", "hunter2\nsecond line\n", 0600);
    assert_str(resolved(p, given).password, S("hunter2"));
    write_file(p, "secret", "hunter2\n", 0640);
    assert_fails(ssh_config_resolve(&p->ctx, &given, &out, &e), &e, ERR_DENIED, "chmod 600");
    assert_null(strstr(e.msg, "hunter2"));
    write_file(p, "secret", "\n", 0600);
    assert_fails(ssh_config_resolve(&p->ctx, &given, &out, &e), &e, ERR_INVALID, "empty");
    given.password_file = S("~/none");
    assert_fails(ssh_config_resolve(&p->ctx, &given, &out, &e), &e, ERR_NOT_FOUND, "password_file");
}

static void secrets_come_from_commands_that_see_none(void **state)
{
    struct place *p = *state;
    struct ssh_host given = {.name = S("gpu"),
                             .host = S("gpu"),
                             .key_file = S("/k"),
                             .key_passphrase_command = S("echo \"<$REMOTE_PASSWORD>\"; echo b")};
    struct ssh_host out;
    struct err e;

    assert_int_equal(setenv("REMOTE_PASSWORD", "hunter2", 1), 0);
    assert_str(resolved(p, given).key_passphrase, S("<>"));
    given.key_passphrase_command = S("echo hunter3; exit 4");
    assert_fails(ssh_config_resolve(&p->ctx, &given, &out, &e), &e, ERR_DENIED, "status 4");
    assert_null(strstr(e.msg, "hunter3"));
    assert_int_equal(unsetenv("REMOTE_PASSWORD"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ssh_is_asked_and_what_is_given_wins, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_ssh_the_file_is_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_the_ssh_configuration_says_is_checked_too, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(secrets_come_from_files_that_are_private, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(secrets_come_from_commands_that_see_none, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
