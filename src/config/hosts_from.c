/* hosts_from.c - SSH hosts from variables and files. */
#include <string.h>
#include <sys/stat.h>

#include "config/hosts_own.h"
#include "config/settings.h"
#include "json/js.h"

#define LIST "REMOTE_SANDBOX_LIST"

/* ---- variables --------------------------------------------------------------------------------- */

static int set_from_variables(struct config *c, struct config_host *h, struct err *e)
{
    static const struct {
        const char *variable, *key;
    } names[] = {
        {"REMOTE_HOST", "host"},         {"REMOTE_PORT", "port"},
        {"REMOTE_USER", "user"},         {"REMOTE_PASSWORD", "password"},
        {"REMOTE_KEY_FILE", "key_file"}, {"REMOTE_KEY_PASSPHRASE", "key_passphrase"},
    };

    for (size_t i = 0; i < COUNTOF(names); i++) {
        const struct host_value v = {.type = HOST_TEXT, .text = config_env(names[i].variable)};

        if (v.text.len > 0 && host_set(&c->arena, h, str_from(names[i].key), &v, e) < 0) {
            return err_wrap(e, "%s", names[i].variable);
        }
    }
    return 0;
}

void hosts_from_env(struct config *c)
{
    struct str list = config_env(LIST);
    struct config_host h = {0};
    struct err e = {0};

    c->remote_list_len = (int64_t)list.len;
    c->remote_host_set = config_env("REMOTE_HOST").len > 0;
    if (list.len > 0) {
        hosts_from_list(c, list);
        return;
    }
    if (c->remote_host_set && (set_from_variables(c, &h, &e) < 0 || host_add(c, &h, &e) < 0)) {
        host_problem(c, &e);
    }
}

/* ---- REMOTE_SANDBOX_LIST ------------------------------------------------------------------------ */

static struct host_value json_value(const json_t *v)
{
    if (json_is_integer(v)) {
        return (struct host_value){.type = HOST_NUMBER, .number = json_integer_value(v)};
    }
    if (json_is_boolean(v)) {
        return (struct host_value){.type = HOST_FLAG, .number = json_is_true(v)};
    }
    if (json_is_string(v)) {
        return (struct host_value){.type = HOST_TEXT, .text = js_str(v)};
    }
    return (struct host_value){.type = json_is_null(v) ? HOST_TEXT : HOST_OTHER};
}

static int add_entry(struct config *c, json_t *entry, struct err *e)
{
    struct config_host h = {0};
    const char *key;
    json_t *v;

    if (!json_is_object(entry)) {
        return err_set(e, ERR_INVALID, "it must be an object such as {\"host\": \"gpu1\"}");
    }
    json_object_foreach (entry, key, v) {
        const struct host_value value = json_value(v);

        if (host_set(&c->arena, &h, str_from(key), &value, e) < 0) {
            return -1;
        }
    }
    return host_add(c, &h, e);
}

/* The parser's own words quote the text, which may be a password. */
static void fail_syntax(struct config *c, struct err *e)
{
    char *near = strstr(e->msg, " near ");

    if (near != NULL) {
        *near = '\0';
    }
    (void)err_wrap(e, LIST);
    host_problem(c, e);
}

void hosts_from_list(struct config *c, struct str text)
{
    struct err e = {0};
    json_t *list own_json = js_parse(text.p, text.len, &e);
    json_t *entry;
    size_t i;

    if (list == NULL) {
        fail_syntax(c, &e);
        return;
    }
    if (!json_is_array(list)) {
        (void)err_set(&e, ERR_INVALID,
                      LIST " must be a JSON list of objects, as in [{\"host\": \"gpu1\", \"user\": "
                           "\"me\"}]");
        host_problem(c, &e);
        return;
    }
    json_array_foreach (list, i, entry) {
        if (add_entry(c, entry, &e) < 0) {
            (void)err_wrap(&e, LIST " entry %zu", i + 1);
            host_problem(c, &e);
        }
    }
}

/* ---- [[ssh]] ------------------------------------------------------------------------------------- */

static struct host_value toml_host_value(const struct toml_value *v)
{
    switch (v->type) {
    case TOML_STRING: return (struct host_value){.type = HOST_TEXT, .text = v->string};
    case TOML_INTEGER: return (struct host_value){.type = HOST_NUMBER, .number = v->integer};
    case TOML_BOOLEAN: return (struct host_value){.type = HOST_FLAG, .number = v->boolean};
    case TOML_FLOAT:
    case TOML_ARRAY:
    case TOML_TABLE:
    case TOML_TABLES: break;
    }
    return (struct host_value){.type = HOST_OTHER};
}

static bool is_secret(const struct toml_value *v)
{
    return str_eq(v->key, S("password")) || str_eq(v->key, S("key_passphrase"));
}

/* Whoever writes a secret into a file must keep the file to themselves. */
static int check_private(struct config *c, struct str file, const struct toml_value *v,
                         struct err *e)
{
    struct stat st;

    if (!is_secret(v) || stat(arena_cstr(&c->arena, file), &st) < 0 || (st.st_mode & 077) == 0) {
        return 0;
    }
    return err_set(e, ERR_DENIED,
                   "%.*s is a secret, and others may read this file (mode %04o): run chmod 600 on "
                   "it, or use %.*s_file, %.*s_command or %.*s_env",
                   STR_ARG(v->key), (unsigned)st.st_mode & 07777, STR_ARG(v->key), STR_ARG(v->key),
                   STR_ARG(v->key));
}

static int add_table(struct config *c, struct str file, const struct toml_value *table,
                     struct err *e)
{
    struct config_host h = {0};

    for (const struct toml_value *v = table->first; v != NULL; v = v->next) {
        const struct host_value value = toml_host_value(v);

        if (check_private(c, file, v, e) < 0 || host_set(&c->arena, &h, v->key, &value, e) < 0) {
            return err_wrap(e, "%.*s:%d:%d", STR_ARG(file), v->key_at.line, v->key_at.column);
        }
    }
    if (host_add(c, &h, e) < 0) {
        return err_wrap(e, "%.*s:%d:%d", STR_ARG(file), table->at.line, table->at.column);
    }
    return 0;
}

void hosts_from_file(struct config *c, struct str file, const struct toml_value *v)
{
    struct err e = {0};

    if (v->type != TOML_TABLES) {
        (void)toml_fail(&e, file, v->key_at,
                        "SSH hosts are tables in a list: write [[ssh]] on a line of its own before "
                        "each");
        host_problem(c, &e);
        return;
    }
    for (const struct toml_value *table = v->first; table != NULL; table = table->next) {
        if (add_table(c, file, table, &e) < 0) {
            host_problem(c, &e);
        }
    }
}
