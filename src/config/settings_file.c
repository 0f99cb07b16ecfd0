/* settings_file.c - the keys of a configuration file, ours and those of the programs that we
 * replace, and the sentences about keys that are wrong. */
#include <stdio.h>

#include "base/buf.h"
#include "base/path.h"
#include "config/hosts_own.h"
#include "config/settings_own.h"
#include "config/tools_own.h"

/* The value as the sentence shows it. */
static struct str show_value(struct arena *a, const struct toml_value *v)
{
    switch (v->type) {
    case TOML_STRING: return arena_printf(a, "\"%.*s\"", STR_ARG(str_head(v->string, 80)));
    case TOML_INTEGER: return arena_printf(a, "%lld", (long long)v->integer);
    case TOML_FLOAT: return arena_printf(a, "%g", v->real);
    case TOML_BOOLEAN: return v->boolean ? S("true") : S("false");
    case TOML_ARRAY:
    case TOML_TABLE:
    case TOML_TABLES: break;
    }
    return str_from(toml_type_name(v->type));
}

static int set_list(struct config *c, const struct setting *s, const struct toml_value *v,
                    struct err *e)
{
    struct buf joined own_buf = {0};

    buf_init(&joined, (size_t)s->max + 1);
    for (const struct toml_value *item = v->first; item != NULL; item = item->next) {
        if (item->type != TOML_STRING || str_has(item->string, ',')) {
            return setting_refuse(s, show_value(&c->arena, item), e);
        }
        buf_add(&joined, joined.len > 0 ? S(",") : STR_EMPTY);
        buf_add(&joined, item->string);
    }
    return setting_text(c, s, buf_str(&joined), e);
}

static int set_from_value(struct config *c, const struct setting *s, const struct toml_value *v,
                          struct err *e)
{
    struct str found = show_value(&c->arena, v);
    int64_t millis;

    if (v->type == TOML_ARRAY && setting_is_list(s)) {
        return set_list(c, s, v, e);
    }
    if (v->type == TOML_STRING && setting_is_text(s)) {
        return setting_text(c, s, v->string, e);
    }
    if (v->type == TOML_STRING && s->type == SETTING_SIZE) {
        return setting_from_text(c, s, v->string, e);
    }
    if (s->type == SETTING_BOOLEAN) {
        return v->type == TOML_BOOLEAN ? setting_number(c, s, v->boolean, found, e)
                                       : setting_refuse(s, found, e);
    }
    if (v->type == TOML_INTEGER && s->type == SETTING_MILLIS) {
        return setting_to_millis((double)v->integer, &millis)
                   ? setting_number(c, s, millis, found, e)
                   : setting_refuse(s, found, e);
    }
    if (v->type == TOML_FLOAT && s->type == SETTING_MILLIS) {
        return setting_to_millis(v->real, &millis) ? setting_number(c, s, millis, found, e)
                                                   : setting_refuse(s, found, e);
    }
    if (v->type == TOML_INTEGER && !setting_is_text(s)) {
        return setting_number(c, s, v->integer, found, e);
    }
    return setting_refuse(s, found, e);
}

static struct str section_of(const struct setting *s)
{
    struct str rest;

    return str_cut(str_from(s->key), '.', &rest);
}

static struct str name_of(const struct setting *s)
{
    struct str rest;

    (void)str_cut(str_from(s->key), '.', &rest);
    return rest;
}

/* A typing mistake, not another word: at most a third of the letters differ. */
static bool is_near(struct str a, struct str b, size_t *best)
{
    size_t d = a.len <= 64 ? str_distance(a, b) : 64;
    size_t most = b.len / 3 > 2 ? b.len / 3 : 2;

    if (d > most || d >= *best || d >= b.len) {
        return false;
    }
    *best = d;
    return true;
}

/* "[server], [log], [local] and [[ssh]]". The rows of a section stand together. */
static void add_sections(struct buf *to)
{
    struct str held = STR_EMPTY; /* until it is known whether it is the last one */

    for (size_t i = 0; i < n_settings; i++) {
        struct str section = section_of(&settings[i]);

        if (str_eq(section, held)) {
            continue;
        }
        if (held.len > 0) {
            buf_addf(to, "%s[%.*s]", to->len > 0 ? ", " : "", STR_ARG(held));
        }
        held = section;
    }
    buf_addf(to, ", [%.*s] and [[ssh]]", STR_ARG(held));
}

static int fail_section(const struct toml_value *v, struct str file, struct err *e)
{
    struct buf all own_buf = {0};
    struct str nearest = STR_EMPTY;
    size_t best = SIZE_MAX;

    for (size_t i = 0; i < n_settings; i++) {
        if (is_near(v->key, section_of(&settings[i]), &best)) {
            nearest = section_of(&settings[i]);
        }
    }
    if (nearest.len > 0) {
        return toml_fail(e, file, v->key_at, "unknown section [%.*s], did you mean [%.*s]?",
                         STR_ARG(str_head(v->key, 64)), STR_ARG(nearest));
    }
    buf_init(&all, 200);
    add_sections(&all);
    return toml_fail(e, file, v->key_at, "unknown section [%.*s]; there are %.*s",
                     STR_ARG(str_head(v->key, 64)), STR_ARG(buf_str(&all)));
}

static const struct setting *setting_named(struct str name)
{
    for (size_t i = 0; i < n_settings; i++) {
        if (str_eq(name_of(&settings[i]), name)) {
            return &settings[i];
        }
    }
    return NULL;
}

static const struct setting *nearest_setting(struct str section, struct str name)
{
    const struct setting *nearest = NULL;
    size_t best = SIZE_MAX;

    for (size_t i = 0; i < n_settings; i++) {
        if (str_eq(section_of(&settings[i]), section) &&
            is_near(name, name_of(&settings[i]), &best)) {
            nearest = &settings[i];
        }
    }
    return nearest;
}

/* `section` is empty for a key above the first header. */
static int fail_key(const struct toml_value *v, struct str section, struct str file, struct err *e)
{
    const struct setting *elsewhere = setting_named(v->key);
    const struct setting *nearest = nearest_setting(section, v->key);
    char where[80] = "";

    if (section.len > 0) {
        (void)snprintf(where, sizeof(where), " in [%.*s]", STR_ARG(section));
    }
    if (elsewhere != NULL) {
        return toml_fail(e, file, v->key_at, "unknown key \"%.*s\"%s; it belongs in [%.*s]",
                         STR_ARG(v->key), where, STR_ARG(section_of(elsewhere)));
    }
    if (nearest != NULL) {
        return toml_fail(e, file, v->key_at, "unknown key \"%.*s\"%s, did you mean \"%.*s\"?",
                         STR_ARG(str_head(v->key, 64)), where, STR_ARG(name_of(nearest)));
    }
    return toml_fail(e, file, v->key_at, "unknown key \"%.*s\"%s", STR_ARG(str_head(v->key, 64)),
                     where);
}

/* ---- keys of the programs that we replace ------------------------------------------------ */

static const struct alias {
    const char *key;
    const char *meant; /* ours; NULL: it is accepted and changes nothing here */
    int64_t scale;     /* of an integer */
} aliases[] = {
    {"logging.level", "log.level", 1},
    {"logging.file", "log.file", 1},
    {"logging.log_file", "log.file", 1},
    {"logging.max_size_mb", "log.max_size", 1 << 20},
    {"logging.max_file_size", "log.max_size", 1},
    {"logging.backup_count", "log.backups", 1},
    {"logging.format", NULL, 1},
    {"logging.use_structured_format", NULL, 1},
    {"logging.console_output", NULL, 1},
    {"docker.dockerfile_path", NULL, 1},
    {"docker.check_dockerfile_changes", NULL, 1},
    {"docker.build_info_file", NULL, 1},
    {"docker.create_image_in_thread", NULL, 1},
    {"docker.user_only_one_container", NULL, 1},
    {"server.reset_all_containers", NULL, 1},
    {"auth.default_user_id", NULL, 1},
    {"auth.user_sandbox_limit", NULL, 1},
    {"opensandbox.server_url", "opensandbox.server", 1},
    {"opensandbox.default_image", "opensandbox.image", 1},
    {"opensandbox.default_timeout", "opensandbox.timeout", 1},
    {"opensandbox.max_concurrent_sandboxes", "local.max_boxes", 1},
    {"opensandbox.auto_cleanup", "defaults.cleanup", 1},
    {"opensandbox.cleanup_after_minutes", "defaults.cleanup_after", 60},
    {"server.apiKey", "http.keys", 1},
    {"server.name", NULL, 1},
    {"server.version", NULL, 1},
    {"server.description", NULL, 1},
};

static const struct alias *alias_of(struct str section, struct str name)
{
    for (size_t i = 0; i < COUNTOF(aliases); i++) {
        struct str rest;
        struct str first = str_cut(str_from(aliases[i].key), '.', &rest);

        if (str_eq(first, section) && (name.p == NULL || str_eq(rest, name))) {
            return &aliases[i];
        }
    }
    return NULL;
}

static int set_alias(struct config *c, struct str file, const struct alias *a,
                     const struct toml_value *v, struct err *e)
{
    struct toml_value meant = *v;

    if (v->type == TOML_INTEGER && __builtin_mul_overflow(v->integer, a->scale, &meant.integer)) {
        meant.integer = INT64_MAX;
    }
    for (size_t i = 0; a->meant != NULL && i < n_settings; i++) {
        if (!str_eq(str_from(settings[i].key), str_from(a->meant))) {
            continue;
        }
        /* Theirs are often relative: to the file, as nobody knows where a client starts us. */
        if (settings[i].type == SETTING_PATH && v->type == TOML_STRING && v->string.len > 0 &&
            !str_starts(v->string, S("~"))) {
            meant.string = path_clean(&c->arena, path_join(&c->arena, path_dir(file), v->string));
        }
        return set_from_value(c, &settings[i], &meant, e);
    }
    return 0;
}

static bool has_section(struct str name)
{
    for (size_t i = 0; i < n_settings; i++) {
        if (str_eq(section_of(&settings[i]), name)) {
            return true;
        }
    }
    return alias_of(name, STR_EMPTY) != NULL;
}

static bool is_known(struct str section, struct str name)
{
    for (size_t i = 0; i < n_settings; i++) {
        if (str_eq(section_of(&settings[i]), section) && str_eq(name_of(&settings[i]), name)) {
            return true;
        }
    }
    return alias_of(section, name) != NULL;
}

static int read_key(struct config *c, struct str file, struct str section,
                    const struct toml_value *v, struct err *e)
{
    const struct alias *alias = alias_of(section, v->key);

    for (size_t i = 0; i < n_settings; i++) {
        const struct setting *s = &settings[i];

        if (!str_eq(section_of(s), section) || !str_eq(name_of(s), v->key)) {
            continue;
        }
        if (set_from_value(c, s, v, e) < 0) {
            return err_wrap(e, "%.*s:%d:%d", STR_ARG(file), v->at.line, v->at.column);
        }
        return 0;
    }
    if (alias == NULL) {
        return fail_key(v, section, file, e);
    }
    /* Keys that only MCP Sandbox knows: this is its configuration, and its boxes are containers. */
    if (str_starts(str_from(alias->key), S("docker.")) && c->default_provider.len == 0) {
        c->default_provider = S("docker");
    }
    if (set_alias(c, file, alias, v, e) < 0) {
        return err_wrap(e, "%.*s:%d:%d: %s", STR_ARG(file), v->at.line, v->at.column, alias->key);
    }
    return 0;
}

/* What is in the place of a section and is none. */
static void refuse_value(struct config *c, struct str file, const struct toml_value *v)
{
    struct err e;

    (void)(has_section(v->key) ? toml_fail(&e, file, v->key_at,
                                           "%.*s is a section: write [%.*s] on a line of its own",
                                           STR_ARG(v->key), STR_ARG(v->key))
                               : fail_key(v, STR_EMPTY, file, &e));
    config_problem(c, &e);
}

static void read_section(struct config *c, struct str file, const struct toml_value *section,
                         bool is_lenient)
{
    struct err e;

    for (const struct toml_value *v = section->first; v != NULL; v = v->next) {
        if (is_lenient && !is_known(section->key, v->key)) {
            continue;
        }
        if (read_key(c, file, section->key, v, &e) < 0) {
            config_problem(c, &e);
        }
    }
}

void settings_from_file(struct config *c, struct str file, const struct toml_value *root,
                        bool is_lenient)
{
    struct err e;

    for (const struct toml_value *v = root->first; v != NULL; v = v->next) {
        if (str_eq(v->key, S("ssh"))) {
            hosts_from_file(c, file, v);
            continue;
        }
        if (str_eq(v->key, S("tool"))) {
            tools_from_file(c, file, v);
            continue;
        }
        if (is_lenient && (v->type != TOML_TABLE || !has_section(v->key))) {
            continue;
        }
        if (v->type != TOML_TABLE) {
            refuse_value(c, file, v);
            continue;
        }
        if (!has_section(v->key)) {
            (void)fail_section(v, file, &e);
            config_problem(c, &e);
            continue;
        }
        c->open_file = c->open_file || (is_lenient && str_eq(v->key, S("opensandbox")));
        read_section(c, file, v, is_lenient);
    }
}
