#include "boxinit/command.h"

#include <string.h>

#include "base/path.h"

static struct str name_of(struct str var)
{
    struct str value;

    return str_cut(var, '=', &value);
}

struct env {
    char **vars;
    struct str *names; /* the same order */
    size_t n;
};

static void env_put(struct env *env, struct arena *a, struct str var)
{
    struct str name = name_of(var);
    char *text = arena_alloc(a, var.len + 1, 1);
    size_t i = 0;

    if (var.len > 0) {
        memcpy(text, var.p, var.len);
    }
    while (i < env->n && !str_eq(env->names[i], name)) {
        i++;
    }
    env->vars[i] = text;
    env->names[i] = name;
    env->n = i == env->n ? env->n + 1 : env->n;
}

char **command_env(struct arena *a, const struct str *first, size_t n_first,
                   const struct str *second, size_t n_second)
{
    struct env env = {
        .vars = arena_alloc(a, n_first + n_second + 1, sizeof(char *)),
        .names = arena_alloc(a, n_first + n_second + 1, sizeof(struct str)),
    };

    for (size_t i = 0; i < n_first; i++) {
        env_put(&env, a, first[i]);
    }
    for (size_t i = 0; i < n_second; i++) {
        env_put(&env, a, second[i]);
    }
    return env.vars;
}

struct str command_var(char *const *env, struct str name)
{
    for (; *env != NULL; env++) {
        struct str var = str_from(*env);

        if (str_eq(name_of(var), name)) {
            return str_skip(var, name.len + 1);
        }
    }
    return STR_EMPTY;
}

const char **command_files(struct arena *a, struct str program, struct str path)
{
    size_t n = 2;
    const char **files;
    struct str rest = path;

    if (str_has(program, '/')) {
        files = arena_alloc(a, 2, sizeof(*files));
        files[0] = arena_cstr(a, program);
        return files;
    }
    for (size_t i = 0; i < path.len; i++) {
        n += path.p[i] == ':';
    }
    files = arena_alloc(a, n, sizeof(*files));
    n = 0;
    do {
        struct str folder = str_cut(rest, ':', &rest);

        /* An empty folder is the current one, as for every shell. */
        folder = folder.len > 0 ? folder : S(".");
        files[n++] = arena_printf(a, "%.*s/%.*s", STR_ARG(folder), STR_ARG(program)).p;
    } while (rest.p != NULL);
    return files;
}

const char *command_path(const struct spec *spec, struct arena *a, struct str path)
{
    struct str work_dir = str_from(spec->work_dir);

    path = path_tilde(a, path, str_from(spec->home));
    return arena_cstr(a, path.len == 0 ? work_dir : path_join(a, work_dir, path));
}
