/* libssh_first HOST PORT USER KEY - how long libssh itself takes from nothing to the end of
 * a first command, in microseconds: connect, key exchange, login by key, `true`. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <libssh/libssh.h>

static double now_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void check(int rc, const char *what, ssh_session s)
{
    if (rc != SSH_OK) {
        fprintf(stderr, "libssh_first: %s: %s\n", what, ssh_get_error(s));
        exit(1);
    }
}

int main(int argc, char **argv)
{
    ssh_session s = ssh_new();
    ssh_channel c;
    ssh_key key = NULL;
    int off = 0, on = 1, port;
    char room[256];
    double began;

    if (argc != 5) {
        fprintf(stderr, "usage: libssh_first HOST PORT USER KEY\n");
        return 2;
    }
    port = (int)strtol(argv[2], NULL, 10);
    began = now_us();
    (void)ssh_options_set(s, SSH_OPTIONS_PROCESS_CONFIG, &off);
    (void)ssh_options_set(s, SSH_OPTIONS_HOST, argv[1]);
    (void)ssh_options_set(s, SSH_OPTIONS_PORT, &port);
    (void)ssh_options_set(s, SSH_OPTIONS_USER, argv[3]);
    (void)ssh_options_set(s, SSH_OPTIONS_NODELAY, &on);
    check(ssh_connect(s), "connect", s);
    check(ssh_pki_import_privkey_file(argv[4], NULL, NULL, NULL, &key), "read the key", s);
    check(ssh_userauth_publickey(s, NULL, key), "log in", s);
    c = ssh_channel_new(s);
    check(ssh_channel_open_session(c), "open a channel", s);
    check(ssh_channel_request_exec(c, "true"), "start a command", s);
    while (ssh_channel_read(c, room, sizeof(room), 0) > 0) {
    }
    (void)ssh_channel_get_exit_status(c);
    printf("%.0f\n", now_us() - began);
    return 0;
}
