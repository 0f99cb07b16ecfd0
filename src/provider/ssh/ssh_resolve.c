/* ssh_resolve.c - what is fetched before the first connection to a host: the ssh
 * configuration's words about it, and secrets from where the operator keeps them. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/host.h"
#include "base/own.h"
#include "base/path.h"
#include "base/proc.h"
#include "provider/ssh/ssh_config.h"

#define FILE_MAX_BYTES (1u << 20)
#define ANSWER_MAX     (256u << 10)
#define SECRET_MAX     4096
#define ANSWER_WAIT_MS 10000
#define SECRET_WAIT_MS 30000 /* somebody may have to type or touch something */

/* ---- programs ------------------------------------------------------------------------------- */

/* Only what such programs need: our own environment may hold secrets. */
static const char *const *child_env(struct arena *a)
{
    static const char *const names[] = {
        "PATH",       "HOME",          "USER",          "LOGNAME",
        "LANG",       "LC_ALL",        "SHELL",         "TERM",
        "DISPLAY",    "XAUTHORITY",    "GPG_TTY",       "DBUS_SESSION_BUS_ADDRESS",
        "GNUPGHOME",  "SSH_AUTH_SOCK", "XDG_DATA_HOME", "XDG_RUNTIME_DIR",
        "OP_ACCOUNT", "VAULT_ADDR",    "BW_SESSION",    "PASSWORD_STORE_DIR",
    };
    const char **env = arena_alloc(a, COUNTOF(names) + 1, sizeof(*env));
    size_t n = 0;

    for (size_t i = 0; i < COUNTOF(names); i++) {
        const char *value = getenv(names[i]);

        if (value != NULL) {
            env[n++] = arena_printf(a, "%s=%s", names[i], value).p;
        }
    }
    return env;
}

static struct ctx within(const struct ctx *ctx, int64_t wait_ms)
{
    int64_t until_ms = clock_mono_ms() + wait_ms;
    struct ctx shorter = *ctx;

    if (ctx->deadline_ms == 0 || ctx->deadline_ms > until_ms) {
        shorter.deadline_ms = until_ms;
    }
    return shorter;
}

static bool has_ssh(struct arena *a)
{
    struct str path = str_from(getenv("PATH"));

    while (path.len > 0) {
        struct str dir = str_cut(path, ':', &path);

        if (path_is_absolute(dir) && access(path_join(a, dir, S("ssh")).p, X_OK) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- the ssh configuration -------------------------------------------------------------------- */

/* The home folder that the user database has, by which ssh goes; empty: none. */
static struct str listed_home(struct arena *a)
{
    struct passwd entry;
    struct passwd *found = NULL;
    const size_t size = 16384;
    char *room = arena_alloc(a, 1, size);

    return getpwuid_r(getuid(), &entry, room, size, &found) != 0 || found == NULL
               ? STR_EMPTY
               : str_from(found->pw_dir);
}

static struct str home_folder(struct arena *a)
{
    struct str home = str_from(getenv("HOME"));

    if (!path_is_absolute(home)) {
        home = listed_home(a);
    }
    return home.len > 0 ? home : S("/");
}

static int ask_ssh(const struct ctx *ctx, struct str host, struct ssh_options *out, struct err *e)
{
    struct ctx shorter = within(ctx, ANSWER_WAIT_MS);
    const char *const argv[] = {"ssh", "-G", "--", arena_cstr(ctx->arena, host), NULL};
    struct buf text own_buf = {0};
    int status = 0;

    buf_init(&text, ANSWER_MAX);
    if (proc_output(&shorter, argv, child_env(ctx->arena), &text, &status, e) < 0) {
        return err_wrap(e, "cannot ask `ssh -G %s`", argv[3]);
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return err_set(e, ERR_INVALID,
                       "`ssh -G %s` failed: run it by hand to see what is wrong with "
                       "~/.ssh/config",
                       argv[3]);
    }
    ssh_config_answer(arena_str(ctx->arena, buf_str(&text)), out);
    return 0;
}

static struct str read_or_empty(void *arg, struct arena *a, struct str path)
{
    struct str text = STR_EMPTY;
    struct err ignored;

    (void)arg;
    return fd_read_file(AT_FDCWD, arena_cstr(a, path), FILE_MAX_BYTES, a, &text, &ignored) < 0
               ? STR_EMPTY
               : text;
}

static void each_of_glob(void *arg, struct arena *a, struct str pattern,
                         void (*each)(void *to, struct str path), void *to)
{
    const struct str *home = arg;
    glob_t found = {0};

    if (glob(arena_cstr(a, path_tilde(a, pattern, *home)), 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            each(to, str_from(found.gl_pathv[i]));
        }
    }
    globfree(&found);
}

static void read_config(struct arena *a, struct str host, struct ssh_options *out)
{
    struct str home = home_folder(a);
    struct ssh_config_source from = {
        .file = read_or_empty,
        .glob = each_of_glob,
        .arg = &home,
        .folder = path_join(a, home, S(".ssh")),
    };

    *out = (struct ssh_options){0};
    ssh_config_read(a, &from, read_or_empty(NULL, a, path_join(a, from.folder, S("config"))), host,
                    out);
    from.folder = S("/etc/ssh");
    ssh_config_read(a, &from, read_or_empty(NULL, a, S("/etc/ssh/ssh_config")), host, out);
}

/* %d, %h, %n, %r, %u and %% in the names of files and hosts. */
static struct str expand(struct arena *a, struct str text, const struct ssh_host *h,
                         struct str home)
{
    struct buf out own_buf = {0};

    if (!str_has(text, '%')) {
        return text;
    }
    buf_init(&out, 4096);
    for (size_t i = 0; i < text.len; i++) {
        int c = i + 1 < text.len && text.p[i] == '%' ? text.p[i + 1] : 0;

        if (c == 'd') {
            buf_add(&out, home);
        } else if (c == 'h' || c == 'n') {
            buf_add(&out, h->host);
        } else if (c == 'r' || c == 'u') {
            buf_add(&out, h->user);
        } else if (c == '%') {
            buf_addc(&out, '%');
        } else {
            buf_addc(&out, text.p[i]);
            continue;
        }
        i++;
    }
    return arena_str(a, buf_str(&out));
}

/* ssh lists files that it would try; those that are not there are none. */
static size_t existing(struct arena *a, const struct str *files, size_t n, const struct ssh_host *h,
                       struct str out[SSH_KEYS_MAX])
{
    struct str home = home_folder(a);
    size_t found = 0;

    for (size_t i = 0; i < n; i++) {
        struct str path = path_tilde(a, expand(a, files[i], h, home), home);

        if (access(arena_cstr(a, path), F_OK) == 0) {
            out[found++] = path;
        }
    }
    return found;
}

static void prefer(struct str *to, struct str given)
{
    *to = given.len > 0 ? given : *to;
}

static bool has_credentials(const struct ssh_host *h)
{
    return h->key_file.len > 0 || h->password.len > 0 || h->password_file.len > 0 ||
           h->password_command.len > 0;
}

/* What ssh names when nobody configured a file is below the home of the user's account, which
 * need not be $HOME: that is no answer, and ours goes by $HOME. */
static struct str known_hosts_of(struct arena *a, const struct ssh_options *o,
                                 const struct ssh_host *h, struct str home)
{
    struct str known = path_tilde(a, expand(a, o->known_hosts, h, home), home);

    return str_ends(known, S("/.ssh/known_hosts")) ? STR_EMPTY : known;
}

static void merge(struct arena *a, const struct ssh_options *o, struct ssh_host *h)
{
    struct str home = home_folder(a);
    struct str known = known_hosts_of(a, o, h, home);

    if (h->proxy_jump.len == 0 && h->proxy_command.len == 0) {
        h->proxy_jump = o->proxy_jump;
        h->proxy_command = o->proxy_command;
    }
    if (o->host.len > 0) {
        /* The name that was given, not the one it means, is what known_hosts may go by. */
        h->host = expand(a, o->host, h, home);
    }
    h->user = h->user.len > 0 ? h->user : o->user;
    h->port = h->port > 0 ? h->port : o->port;
    if (!has_credentials(h)) {
        h->n_more_keys = existing(a, o->keys, o->n_keys, h, h->more_keys);
    }
    h->n_certificates = existing(a, o->certificates, o->n_certificates, h, h->certificates);
    h->agent_socket = path_tilde(a, expand(a, o->agent, h, home), home);
    h->keys_only = o->keys_only;
    prefer(&known, h->known_hosts);
    h->known_hosts = known;
    h->host_key_alias = h->host_key_alias.len > 0 ? h->host_key_alias : o->host_key_alias;
    h->connect_timeout_s = h->connect_timeout_s > 0 ? h->connect_timeout_s : o->connect_timeout_s;
    h->no_agent = h->no_agent || o->no_agent;
    if (o->strict) {
        h->trust = SSH_TRUST_STRICT;
    }
}

/* ---- secrets -------------------------------------------------------------------------------- */

/* The first line, without its end. */
static int first_line(struct arena *a, struct str text, struct str *out, struct err *e)
{
    struct str line = str_cut(text, '\n', &text);

    if (str_ends(line, S("\r"))) {
        line.len--;
    }
    if (line.len == 0) {
        return err_set(e, ERR_INVALID, "its first line is empty");
    }
    *out = arena_str(a, line);
    return 0;
}

static int secret_of_file(struct arena *a, struct str path, struct str *out, struct err *e)
{
    const char *file = arena_cstr(a, path_tilde(a, path, home_folder(a)));
    int fd own_fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    char text[SECRET_MAX];
    ssize_t n;

    if (fd < 0 || fstat(fd, &st) < 0) {
        return err_sys(e, errno, "cannot read %s", file);
    }
    if (!S_ISREG(st.st_mode) || (st.st_mode & 077) != 0 ||
        (st.st_uid != geteuid() && st.st_uid != 0)) {
        return err_set(e, ERR_DENIED,
                       "%s holds a secret, and others may read or write it (mode %04o): run "
                       "chmod 600 on it as its owner",
                       file, (unsigned)st.st_mode & 07777);
    }
    n = fd_read(fd, text, sizeof(text), e);
    if (n < 0 || first_line(a, (struct str){text, (size_t)n}, out, e) < 0) {
        return err_wrap(e, "%s", file);
    }
    return 0;
}

/* By sh, as the operator wrote it; nothing is put into it. */
static int secret_of_command(const struct ctx *ctx, struct str command, struct str *out,
                             struct err *e)
{
    struct ctx shorter = within(ctx, SECRET_WAIT_MS);
    const char *const argv[] = {"/bin/sh", "-c", arena_cstr(ctx->arena, command), NULL};
    struct buf text own_buf = {0};
    int status = 0;

    buf_init(&text, SECRET_MAX);
    if (proc_output(&shorter, argv, child_env(ctx->arena), &text, &status, e) < 0) {
        return -1;
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return err_set(e, ERR_DENIED, "it ended with status %d",
                       WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
    return first_line(ctx->arena, buf_str(&text), out, e);
}

struct secret {
    const char *what; /* the key in the configuration */
    struct str *value;
    struct str *file, *command;
};

static int fetch_secret(const struct ctx *ctx, const struct secret *s, struct err *e)
{
    if (s->value->len > 0) {
        return 0;
    }
    if (s->file->len > 0 && secret_of_file(ctx->arena, *s->file, s->value, e) < 0) {
        return err_wrap(e, "%s_file", s->what);
    }
    if (s->file->len == 0 && s->command->len > 0 &&
        secret_of_command(ctx, *s->command, s->value, e) < 0) {
        return err_wrap(e, "%s_command", s->what);
    }
    return 0;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int check(const struct ssh_host *h, struct err *e)
{
    if (host_check(h->host, e) < 0 || (h->user.len > 0 && host_check_user(h->user, e) < 0) ||
        (h->host_key_alias.len > 0 && host_check(h->host_key_alias, e) < 0)) {
        return -1;
    }
    return h->proxy_jump.len > 0 ? host_check_jump(h->proxy_jump, e) : 0;
}

int ssh_config_resolve(const struct ctx *ctx, const struct ssh_host *given, struct ssh_host *out,
                       struct err *e)
{
    struct ssh_host h = *given;
    const struct secret secrets[] = {
        {"password", &h.password, &h.password_file, &h.password_command},
        {"key_passphrase", &h.key_passphrase, &h.key_passphrase_file, &h.key_passphrase_command},
    };
    struct ssh_options options = {0};

    if (check(&h, e) < 0) {
        return -1;
    }
    /* To start ssh takes longer than to log in. Where the files say nothing about a host whose
     * credentials are known, it would add nothing. */
    read_config(ctx->arena, h.host, &options);
    bool is_known = !options.is_said && has_credentials(&h) &&
                    str_eq(home_folder(ctx->arena), listed_home(ctx->arena));
    if (!is_known && has_ssh(ctx->arena) && ask_ssh(ctx, h.host, &options, e) < 0) {
        return -1;
    }
    merge(ctx->arena, &options, &h);
    if (check(&h, e) < 0) {
        return err_wrap(e, "the ssh configuration of %.*s", STR_ARG(given->host));
    }
    for (size_t i = 0; i < COUNTOF(secrets); i++) {
        if (fetch_secret(ctx, &secrets[i], e) < 0) {
            return -1;
        }
    }
    *out = h;
    return 0;
}

int ssh_config_doctor(const struct ctx *ctx, check_fn *each, void *arg, struct err *e)
{
    struct check line = {CHECK_OK, S("ssh configuration"), S("hosts are looked up with ssh -G"),
                         STR_EMPTY};
    struct ssh_options options = {0};

    if (!has_ssh(ctx->arena)) {
        read_config(ctx->arena, S("localhost"), &options);
        line.found = S("ssh is not installed: ~/.ssh/config is read without it");
        if (options.skipped_match) {
            line.state = CHECK_WARN;
            line.found = S("ssh is not installed: Match blocks of ~/.ssh/config are left out");
            line.fix = S("install openssh-client");
        }
    }
    return each(arg, &line, e);
}
