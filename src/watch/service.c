#include "watch/service.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/proc.h"
#include "config/config.h"

#define MANAGER_MS 20000

int service_spec_of(const struct config *c, struct arena *a, struct service_spec *out,
                    struct err *e)
{
    const char *path = getenv("PATH");
    char program[4096];
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program));

    if (n <= 0 || (size_t)n == sizeof(program)) {
        return err_sys(e, n < 0 ? errno : ENAMETOOLONG, "find out where this program lies");
    }
    *out = (struct service_spec){
        .program = arena_str(a, (struct str){program, (size_t)n}),
        .state_dir = c->state_dir,
        .config = c->named_file,
        .path =
            path != NULL && path[0] != '\0' ? str_from(path) : S("/usr/local/bin:/usr/bin:/bin"),
    };
    return 0;
}

/* ---- texts ----------------------------------------------------------------------- */

static int check_text(struct str s, const char *what, struct err *e)
{
    for (size_t i = 0; i < s.len; i++) {
        if ((unsigned char)s.p[i] < ' ' || s.p[i] == 0x7f) {
            return err_set(e, ERR_INVALID,
                           "the %s has a control character in it, which a service file cannot hold",
                           what);
        }
    }
    return 0;
}

static int check_spec(const struct service_spec *s, struct err *e)
{
    if (check_text(s->program, "program's path", e) < 0 ||
        check_text(s->state_dir, "state folder's path", e) < 0 ||
        check_text(s->config, "configuration's path", e) < 0) {
        return -1;
    }
    return check_text(s->path, "PATH", e);
}

/* A word of a unit file: in quotes, with systemd's own escapes and specifiers made literal. */
static void add_unit_word(struct buf *out, struct str word, bool is_command)
{
    buf_addc(out, '"');
    for (size_t i = 0; i < word.len; i++) {
        char c = word.p[i];

        if (c == '"' || c == '\\') {
            buf_addc(out, '\\');
        } else if (c == '%' || (is_command && c == '$')) {
            buf_addc(out, c);
        }
        buf_addc(out, c);
    }
    buf_addc(out, '"');
}

static void add_unit_variable(struct buf *out, struct arena *a, const char *name, struct str value)
{
    buf_add(out, S("Environment="));
    add_unit_word(out, arena_printf(a, "%s=%.*s", name, STR_ARG(value)), false);
    buf_addc(out, '\n');
}

int service_unit_text(const struct service_spec *s, struct buf *out, struct err *e)
{
    struct arena a own_arena = {0};

    if (check_spec(s, e) < 0) {
        return -1;
    }
    arena_init(&a, 1u << 20);
    buf_add(out, S("[Unit]\n"
                   "Description=anybox watchdog: looks after long jobs\n"
                   "After=network-online.target\n"
                   "\n"
                   "[Service]\n"
                   "ExecStart="));
    add_unit_word(out, s->program, true);
    if (s->config.len > 0) {
        buf_add(out, S(" --config "));
        add_unit_word(out, s->config, true);
    }
    buf_add(out, S(" watchdog run\n"));
    add_unit_variable(out, &a, "ANYBOX_HOME", s->state_dir);
    add_unit_variable(out, &a, "PATH", s->path);
    /* Local sandboxes and commands that it started are not its own to take along. */
    buf_add(out, S("KillMode=process\n"
                   "Restart=always\n"
                   "RestartSec=10\n"
                   "UMask=0077\n"
                   "\n"
                   "[Install]\n"
                   "WantedBy=default.target\n"));
    return 0;
}

static void add_xml(struct buf *out, const char *tag, struct str text)
{
    buf_addf(out, "<%s>", tag);
    for (size_t i = 0; i < text.len; i++) {
        switch (text.p[i]) {
        case '&': buf_add(out, S("&amp;")); break;
        case '<': buf_add(out, S("&lt;")); break;
        case '>': buf_add(out, S("&gt;")); break;
        default: buf_addc(out, text.p[i]);
        }
    }
    buf_addf(out, "</%s>", tag);
}

static void add_argument(struct buf *out, struct str text)
{
    buf_add(out, S("    "));
    add_xml(out, "string", text);
    buf_addc(out, '\n');
}

static void add_pair(struct buf *out, const char *indent, const char *key, struct str value)
{
    buf_add(out, str_from(indent));
    add_xml(out, "key", str_from(key));
    add_xml(out, "string", value);
    buf_addc(out, '\n');
}

int service_plist_text(const struct service_spec *s, struct buf *out, struct err *e)
{
    if (check_spec(s, e) < 0) {
        return -1;
    }
    buf_add(out, S("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                   "<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" "
                   "\"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n"
                   "<plist version=\"1.0\">\n<dict>\n"));
    add_pair(out, "  ", "Label", S(SERVICE_LABEL));
    buf_add(out, S("  <key>ProgramArguments</key>\n  <array>\n"));
    add_argument(out, s->program);
    if (s->config.len > 0) {
        add_argument(out, S("--config"));
        add_argument(out, s->config);
    }
    add_argument(out, S("watchdog"));
    add_argument(out, S("run"));
    buf_add(out, S("  </array>\n  <key>EnvironmentVariables</key>\n  <dict>\n"));
    add_pair(out, "    ", "ANYBOX_HOME", s->state_dir);
    add_pair(out, "    ", "PATH", s->path);
    buf_add(out, S("  </dict>\n"
                   "  <key>RunAtLoad</key><true/>\n"
                   "  <key>KeepAlive</key><true/>\n"
                   "  <key>Umask</key><integer>63</integer>\n"
                   "</dict>\n</plist>\n"));
    return 0;
}

/* ---- the managers ---------------------------------------------------------------- */

static int ask(const struct ctx *ctx, const char *const *argv, int *status, struct str *said,
               struct err *e)
{
    const struct ctx limited = {ctx->arena, ctx->cancel, clock_mono_ms() + MANAGER_MS};
    struct buf out own_buf = {0};

    buf_init(&out, 64u << 10);
    if (proc_output(&limited, argv, (const char *const *)environ, &out, status, e) < 0) {
        return -1;
    }
    *said = arena_str(ctx->arena, str_trim(buf_str(&out)));
    return 0;
}

static int must(const struct ctx *ctx, const char *const *argv, struct err *e)
{
    struct str said;
    int status;

    if (ask(ctx, argv, &status, &said, e) < 0) {
        return -1;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        return 0;
    }
    return err_set(e, ERR_UNSUPPORTED,
                   "`%s %s %s` failed: is there a service manager for users here? Without one the "
                   "watchdog runs as a process of its own: anybox watchdog start",
                   argv[0], argv[1], argv[2]);
}

static const char *home(void)
{
    const char *h = getenv("HOME");

    return h != NULL && h[0] == '/' ? h : NULL;
}

static int where(struct arena *a, struct str *out, struct err *e)
{
    const char *config = getenv("XDG_CONFIG_HOME");

    if (home() == NULL) {
        return err_set(e, ERR_INVALID,
                       "HOME is not set to a folder: there is no place for a "
                       "service of the user");
    }
#ifdef __APPLE__
    (void)config;
    *out = arena_printf(a, "%s/Library/LaunchAgents/" SERVICE_LABEL ".plist", home());
#else
    *out = config != NULL && config[0] == '/'
               ? arena_printf(a, "%s/systemd/user/" SERVICE_UNIT, config)
               : arena_printf(a, "%s/.config/systemd/user/" SERVICE_UNIT, home());
#endif
    return 0;
}

static bool is_running(const struct ctx *ctx, struct service_state *s)
{
#ifdef __APPLE__
    const char *const argv[] = {"launchctl", "list", SERVICE_LABEL, NULL};
#else
    const char *const argv[] = {"systemctl", "--user", "is-active", SERVICE_UNIT, NULL};
#endif
    struct str said = STR_EMPTY;
    struct err e;
    int status = 0;

    if (ask(ctx, argv, &status, &said, &e) < 0) {
        s->problem = arena_str(ctx->arena, str_from(e.msg));
        return false;
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int service_look(const struct ctx *ctx, struct service_state *out, struct err *e)
{
    struct stat st;

#ifdef __APPLE__
    *out = (struct service_state){.manager = "launchd"};
#else
    *out = (struct service_state){.manager = "systemd"};
#endif
    if (where(ctx->arena, &out->file, e) < 0) {
        return -1;
    }
    out->installed = lstat(out->file.p, &st) == 0;
    out->running = out->installed && is_running(ctx, out);
    return 0;
}

static int write_file(struct arena *a, struct str file, struct str text, struct err *e)
{
    const char *slash = memrchr(file.p, '/', file.len);
    struct str folder = arena_str(a, str_head(file, (size_t)(slash - file.p)));

    if (fd_mkdirs(folder.p, 0700, e) < 0) {
        return -1;
    }
    return fd_replace_file(AT_FDCWD, file.p, text, 0600, e);
}

static int start(const struct ctx *ctx, struct str file, bool now, struct err *e)
{
#ifdef __APPLE__
    const char *const load[] = {"launchctl", "load", "-w", file.p, NULL};

    return now ? must(ctx, load, e) : 0;
#else
    const char *const reload[] = {"systemctl", "--user", "daemon-reload", NULL};
    const char *const enable[] = {"systemctl", "--user", "enable", SERVICE_UNIT, NULL};
    const char *const restart[] = {"systemctl", "--user", "restart", SERVICE_UNIT, NULL};

    (void)file;
    if (must(ctx, reload, e) < 0 || must(ctx, enable, e) < 0) {
        return -1;
    }
    return now ? must(ctx, restart, e) : 0;
#endif
}

int service_install(const struct ctx *ctx, const struct service_spec *s, bool start_now,
                    struct service_state *out, struct err *e)
{
    struct buf text own_buf = {0};
    bool was_there;

    if (service_look(ctx, out, e) < 0) {
        return -1;
    }
    was_there = out->installed;
    buf_init(&text, 64u << 10);
#ifdef __APPLE__
    if (service_plist_text(s, &text, e) < 0) {
        return -1;
    }
#else
    if (service_unit_text(s, &text, e) < 0) {
        return -1;
    }
#endif
    if (write_file(ctx->arena, out->file, buf_str(&text), e) < 0) {
        return -1;
    }
    if (start(ctx, out->file, start_now, e) < 0) {
        if (!was_there) {
            (void)unlink(out->file.p);
        }
        return -1;
    }
    return service_look(ctx, out, e);
}

/* What the manager says to it does not matter: without a manager nothing runs. */
static void stop(const struct ctx *ctx, struct str file)
{
#ifdef __APPLE__
    const char *const argv[] = {"launchctl", "unload", "-w", file.p, NULL};
#else
    const char *const argv[] = {"systemctl", "--user", "disable", "--now", SERVICE_UNIT, NULL};
#endif
    struct str said;
    struct err ignored;
    int status;

    (void)file;
    (void)ask(ctx, argv, &status, &said, &ignored);
}

int service_remove(const struct ctx *ctx, struct service_state *out, bool *removed, struct err *e)
{
    if (service_look(ctx, out, e) < 0) {
        return -1;
    }
    *removed = out->installed;
    if (!out->installed) {
        return 0;
    }
    stop(ctx, out->file);
    if (unlink(out->file.p) < 0 && errno != ENOENT) {
        return err_sys(e, errno, "remove %s", out->file.p);
    }
    return service_look(ctx, out, e);
}
