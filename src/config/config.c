/* config.c - files, environment and flags in their order, and where things are. */
#include "config/config.h"

#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "config/hosts_own.h"
#include "config/json_file.h"
#include "config/settings.h"
#include "config/toml.h"

#define CONFIG_ARENA_MAX  (32u << 20)
#define SCRATCH_ARENA_MAX (32u << 20)

void config_problem(struct config *c, const struct err *e)
{
    if (c->problem.len == 0) {
        c->problem = arena_str(&c->arena, str_from(e->msg));
    }
}

struct str config_env(const char *name)
{
    return str_trim(str_from(getenv(name)));
}

struct str config_home(struct arena *a)
{
    struct str home = config_env("HOME");
    struct passwd entry;
    struct passwd *found = NULL;
    char *room = NULL;
    const size_t size = 16384;

    if (path_is_absolute(home)) {
        return home;
    }
    room = arena_alloc(a, 1, size);
    if (getpwuid_r(getuid(), &entry, room, size, &found) != 0 || found == NULL) {
        return STR_EMPTY;
    }
    home = str_from(found->pw_dir);
    return path_is_absolute(home) ? home : STR_EMPTY;
}

/* ---- files -------------------------------------------------------------------- */

static void read_file(struct config *c, struct str path, bool must_exist)
{
    struct arena scratch own_arena = {0};
    struct toml_value *root;
    struct str text;
    struct err e;

    arena_init(&scratch, SCRATCH_ARENA_MAX);
    if (fd_read_file(AT_FDCWD, arena_cstr(&scratch, path), TOML_MAX_BYTES, &scratch, &text, &e) <
        0) {
        if (e.kind != ERR_NOT_FOUND || must_exist) {
            (void)err_wrap(&e, "cannot read the configuration file %.*s", STR_ARG(path));
            config_problem(c, &e);
        }
        return;
    }
    c->files = c->files.len > 0
                   ? arena_printf(&c->arena, "%.*s, %.*s", STR_ARG(c->files), STR_ARG(path))
                   : arena_str(&c->arena, path);
    bool is_json = str_ends(path, S(".json"));
    root =
        is_json ? json_file_parse(&scratch, path, text, &e) : toml_parse(&scratch, path, text, &e);
    if (root == NULL) {
        config_problem(c, &e);
        return;
    }
    settings_from_file(c, path, root, is_json);
}

static void read_files(struct config *c, struct str named, struct str home)
{
    struct str folder = config_env("XDG_CONFIG_HOME");

    if (named.len > 0) {
        c->file = arena_str(&c->arena, named);
        read_file(c, named, true);
        return;
    }
    c->file = S("/etc/anybox/anybox.toml");
    read_file(c, c->file, false);
    if (!path_is_absolute(folder)) {
        folder = home.len > 0 ? path_join(&c->arena, home, S(".config")) : STR_EMPTY;
    }
    if (folder.len > 0) {
        c->file = path_join(&c->arena, folder, S("anybox/anybox.toml"));
        read_file(c, c->file, false);
    }
}

/* ---- which toolset ------------------------------------------------------------- */

static struct str toolset_of_program(struct str program)
{
    static const struct {
        struct str program, toolset;
    } names[] = {
        {{"remote-sandbox-mcp", 18}, {"remote-sandbox", 14}},
        {{"mcp-sandbox", 11}, {"mcp-sandbox", 11}},
        {{"mcp-python-sandbox", 18}, {"mcp-sandbox", 11}},
        {{"opensandbox-mcp-server", 22}, {"opensandbox", 11}},
    };

    for (size_t i = 0; i < COUNTOF(names); i++) {
        if (str_eq(names[i].program, program)) {
            return names[i].toolset;
        }
    }
    return STR_EMPTY;
}

static bool is_set(const char *name)
{
    return config_env(name).len > 0;
}

static const char *first_set(const char *one, const char *other)
{
    return is_set(one) ? one : is_set(other) ? other : NULL;
}

static bool has_remote(void)
{
    return is_set("REMOTE_HOST") || is_set("REMOTE_SANDBOX_LIST");
}

static const char *open_variable(void)
{
    return first_set("OPENSANDBOX_SERVER", "OPEN_SANDBOX_DOMAIN");
}

/* Where exactly one of the programs that we replace is configured, its tools. */
static struct str toolset_of_seeds(const struct config *c)
{
    bool remote = has_remote();
    bool open = open_variable() != NULL || c->open_file;

    if (remote == open) {
        return STR_EMPTY;
    }
    return remote ? S("remote-sandbox") : S("opensandbox");
}

static bool wants_advanced(void)
{
    struct err ignored;
    bool on = false;

    if (str_to_bool(config_env("REMOTE_SANDBOX_EXPOSE_ADVANCED_TOOLS"), &on, &ignored) < 0) {
        return false;
    }
    return on;
}

static bool has_advanced(struct str toolset)
{
    while (toolset.len > 0) {
        struct str one = str_trim(str_cut(toolset, ',', &toolset));

        if (str_eq(one, S("advanced")) || str_eq(one, S("all"))) {
            return true;
        }
    }
    return false;
}

static void choose_toolset(struct config *c, struct str flag)
{
    struct str by_program = toolset_of_program(c->program);
    struct str by_seeds = toolset_of_seeds(c);
    struct str chosen = flag.len > 0         ? flag
                        : by_program.len > 0 ? by_program
                        : c->toolset.len > 0 ? c->toolset
                        : by_seeds.len > 0   ? by_seeds
                                             : S("default");

    if (wants_advanced() && !has_advanced(chosen)) {
        c->toolset = arena_printf(&c->arena, "%.*s,advanced", STR_ARG(chosen));
    } else {
        c->toolset = arena_str(&c->arena, chosen);
    }
}

/* ---- which platform ------------------------------------------------------------ */

static bool has_word(struct str list, struct str word)
{
    while (list.len > 0) {
        if (str_eq(str_trim(str_cut(list, ',', &list)), word)) {
            return true;
        }
    }
    return false;
}

/* http, https or no scheme, as OPEN_SANDBOX_DOMAIN has none; empty is fine. */
static bool is_web_address(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.p[i] <= ' ' || s.p[i] == 0x7f) {
            return false;
        }
    }
    return memmem(s.p, s.len, "://", 3) == NULL || str_starts(s, S("http://")) ||
           str_starts(s, S("https://"));
}

/* A platform is configured by its address, or meant by whoever wants its tools. */
static void choose_platform(struct config *c)
{
    bool is_meant =
        has_word(c->toolset, S("opensandbox")) || str_eq(c->default_provider, S("opensandbox"));
    struct err e;

    if (c->open_server.len > 0) {
        c->elsewhere = is_set("OPENSANDBOX_SERVER")    ? S("OPENSANDBOX_SERVER")
                       : is_set("OPEN_SANDBOX_DOMAIN") ? S("OPEN_SANDBOX_DOMAIN")
                                                       : S("opensandbox.server");
    } else if (is_meant) {
        c->open_server = S("http://localhost:8080");
    }
    if (c->default_provider.len == 0) {
        bool is_there = c->open_server.len > 0 && (c->elsewhere.len > 0 || is_meant);

        c->default_provider = is_there ? S("opensandbox") : S("local");
    }
    if (!is_web_address(c->open_server)) {
        (void)err_set(&e, ERR_INVALID,
                      "opensandbox.server (OPENSANDBOX_SERVER) must be an address such as "
                      "http://localhost:8080, not \"%.*s\"",
                      STR_ARG(str_head(c->open_server, 100)));
        config_problem(c, &e);
    }
    if (!has_word(S("auto,direct,proxy"), c->open_connection)) {
        (void)err_set(&e, ERR_INVALID,
                      "opensandbox.connection must be auto, direct or proxy, not \"%.*s\"",
                      STR_ARG(str_head(c->open_connection, 16)));
        config_problem(c, &e);
    }
}

/* ---- where things are ------------------------------------------------------------ */

static struct str working_folder(struct arena *a, struct str home)
{
    char *cwd own_mem = getcwd(NULL, 0);

    /* "(unreachable)/x" is what getcwd() says in a folder that was unmounted. */
    if (cwd != NULL && cwd[0] == '/') {
        return arena_str(a, str_from(cwd));
    }
    return home.len > 0 ? home : S("/");
}

static struct str absolute(struct config *c, struct str path, struct str home, struct str cwd)
{
    struct str whole = path_join(&c->arena, cwd, path_tilde(&c->arena, path, home));

    return path_clean(&c->arena, whole);
}

static void find_folders(struct config *c, struct str home, struct str named)
{
    struct str cwd = working_folder(&c->arena, home);
    struct str project = config_env("CLAUDE_PROJECT_DIR");
    struct str state = config_env("ANYBOX_HOME");

    c->folder = absolute(c, project.len > 0 ? project : cwd, home, cwd);
    if (state.len == 0) {
        state = config_env("REMOTE_SANDBOX_MCP_HOME");
    }
    if (state.len == 0 && is_set("XDG_STATE_HOME")) {
        state = path_join(&c->arena, config_env("XDG_STATE_HOME"), S("anybox"));
    }
    if (state.len == 0 && home.len > 0) {
        state = path_join(&c->arena, home, S(".local/state/anybox"));
    }
    if (state.len == 0) {
        /* No home at all, as in a container with an odd uid. The store refuses the folder
         * when it belongs to somebody else. */
        state = arena_printf(&c->arena, "/tmp/anybox-%lu", (unsigned long)getuid());
    }
    c->state_dir = absolute(c, state, home, cwd);
    c->named_file = named.len > 0 ? absolute(c, named, home, cwd) : STR_EMPTY;
}

/* What a container is told must be right by itself: it is checked here, where it has a name. */
static void check_docker(struct config *c)
{
    struct str dir = c->docker_work_dir;
    struct str user = c->docker_user;
    struct err e;

    if (!path_is_absolute(dir) || !str_eq(path_clean(&c->arena, dir), dir) || str_has(dir, '\n') ||
        str_has(dir, ':')) {
        (void)err_set(
            &e, ERR_INVALID,
            "docker.container_work_dir must be an absolute path without . and .. and ':' in "
            "it, such as /app/results, not %.*s",
            STR_ARG(dir));
        config_problem(c, &e);
        c->docker_work_dir = S("/app/results");
    }
    for (size_t i = 0; i < user.len; i++) {
        if ((user.p[i] < '0' || user.p[i] > '9') && user.p[i] != ':') {
            (void)err_set(&e, ERR_INVALID,
                          "docker.user must be a number, or two with a colon between them, such as "
                          "1000:1000, not %.*s",
                          STR_ARG(user));
            config_problem(c, &e);
            c->docker_user = STR_EMPTY;
            return;
        }
    }
}

static void find_mount_root(struct config *c)
{
    if (c->docker_mount == 0) {
        c->docker_mount_root = STR_EMPTY;
    } else if (c->docker_mount_root.len == 0 && c->named_file.len > 0) {
        c->docker_mount_root = path_join(&c->arena, path_dir(c->named_file), S("data"));
    } else if (c->docker_mount_root.len == 0) {
        c->docker_mount_root = path_join(&c->arena, c->home, S("anybox-data"));
    }
}

void config_load(struct config *c, const struct config_flags *flags)
{
    struct str home;

    *c = (struct config){0};
    arena_init(&c->arena, CONFIG_ARENA_MAX);
    c->program = arena_str(&c->arena, path_base(flags->program));
    home = arena_str(&c->arena, config_home(&c->arena));
    c->home = home;
    settings_defaults(c);
    hosts_from_env(c);
    read_files(c, flags->config_file, home);
    hosts_finish(c);
    settings_from_env(c);
    choose_toolset(c, flags->toolset);
    choose_platform(c);
    find_folders(c, home, flags->config_file);
    c->runtime_dir = config_env("XDG_RUNTIME_DIR");
    c->runtime_dir =
        path_is_absolute(c->runtime_dir) ? arena_str(&c->arena, c->runtime_dir) : STR_EMPTY;
    check_docker(c);
    find_mount_root(c);
}

void config_fini(struct config *c)
{
    arena_fini(&c->arena);
    *c = (struct config){0};
}
