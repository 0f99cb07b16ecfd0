/* hosts.c - the keys of an SSH host, and what is accepted. */
#include "config/hosts.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/host.h"
#include "base/pack.h"
#include "base/path.h"
#include "config/hosts_own.h"
#include "config/settings.h"

#define SHOWN 40

enum key_type {
    KEY_TEXT,
    KEY_HOST,
    KEY_USER,
    KEY_JUMP,
    KEY_ENV,   /* the name of a variable whose value is the field's */
    KEY_TRUST, /* "new" or "known" */
    KEY_AGENT, /* "auto" or "never" */
    KEY_FLAG,
    KEY_NOT, /* a flag that turns off what the field turns on */
    KEY_PORT,
    KEY_SECONDS,
};

/* key, type, field, fallback, help */
#define KEYS(X)                                                                                    \
    X("name", TEXT, name, "", "what the sandbox is called; empty: as host")                        \
    X("host", HOST, host, "", "its name or address, or a Host of ~/.ssh/config; empty: as name")   \
    X("port", PORT, port, "22", "its port, unless ~/.ssh/config has one for it")                   \
    X("user", USER, user, "", "whom to log in as; empty: as ~/.ssh/config says, else yourself")    \
    X("key_file", TEXT, key_file, "", "private key; ~ is your home")                               \
    X("key_passphrase", TEXT, key_passphrase, "", "of the key; the file must then be mode 0600")   \
    X("key_passphrase_env", ENV, key_passphrase, "", "variable that holds it")                     \
    X("key_passphrase_file", TEXT, key_passphrase_file, "",                                        \
      "file whose first line it is; only you may be able to read it")                              \
    X("key_passphrase_command", TEXT, key_passphrase_command, "",                                  \
      "shell command that prints it; it is run before the first connection")                       \
    X("password", TEXT, password, "", "not tried beside a key; the file must then be mode 0600")   \
    X("password_env", ENV, password, "", "variable that holds it")                                 \
    X("password_file", TEXT, password_file, "",                                                    \
      "file whose first line it is; only you may be able to read it")                              \
    X("password_command", TEXT, password_command, "",                                              \
      "shell command that prints it; it is run before the first connection")                       \
    X("fallback", FLAG, fallback, "false",                                                         \
      "try the password when the key was refused or cannot be used")                               \
    X("ssh_agent", NOT, no_agent, "true", "ask ssh-agent for keys")                                \
    X("agent", AGENT, agent, "auto",                                                               \
      "auto: boxinit is put into the user's cache folder on the host, so that a command costs "    \
      "one round trip and goes on when the connection breaks; never: plain channels and SFTP "     \
      "only. Without it defaults.host_agent decides")                                              \
    X("trust", TRUST, strict, "new",                                                               \
      "a host key that nobody has seen yet: new accepts and remembers it, known refuses it; a "    \
      "changed key is always refused")                                                             \
    X("known_hosts", TEXT, known_hosts, "~/.ssh/known_hosts", "file of the host keys")             \
    X("host_key_alias", HOST, host_key_alias, "", "name to look for in known_hosts")               \
    X("proxy_jump", JUMP, proxy_jump, "", "[user@]host[:port] to go through; several with commas") \
    X("proxy_command", TEXT, proxy_command, "",                                                    \
      "shell command whose input and output are the connection; %h and %p are host and port")      \
    X("connect_timeout", SECONDS, connect_timeout_s, "15", "seconds to wait for the host")

static const struct key {
    const char *name;
    enum key_type type;
    size_t offset;
} keys[] = {
#define ROW(name, type, field, fallback, help)                                                     \
    {name, KEY_##type, offsetof(struct config_host, field)},
    KEYS(ROW)
#undef ROW
};

#define TYPE_NAME_TEXT    "string"
#define TYPE_NAME_HOST    "string"
#define TYPE_NAME_USER    "string"
#define TYPE_NAME_JUMP    "string"
#define TYPE_NAME_ENV     "string"
#define TYPE_NAME_TRUST   "string"
#define TYPE_NAME_AGENT   "string"
#define TYPE_NAME_FLAG    "boolean"
#define TYPE_NAME_NOT     "boolean"
#define TYPE_NAME_PORT    "integer"
#define TYPE_NAME_SECONDS "seconds"
static const struct setting_doc docs[] = {
#define ROW(name, type, field, fallback, help) {name, TYPE_NAME_##type, fallback, NULL, help},
    KEYS(ROW)
#undef ROW
};

size_t config_host_keys(const struct setting_doc **out)
{
    *out = docs;
    return COUNTOF(docs);
}

/* ---- one key -------------------------------------------------------------------------------- */

static struct str *text_field(struct config_host *h, const struct key *k)
{
    return (struct str *)(void *)((char *)h + k->offset);
}

static int64_t *number_field(struct config_host *h, const struct key *k)
{
    return (int64_t *)(void *)((char *)h + k->offset);
}

static int fail_key(struct str key, struct err *e)
{
    const char *nearest = NULL;
    size_t best = 4;

    for (size_t i = 0; i < COUNTOF(keys); i++) {
        size_t d = key.len <= 64 ? str_distance(key, str_from(keys[i].name)) : 64;

        if (d < best) {
            best = d;
            nearest = keys[i].name;
        }
    }
    if (nearest != NULL) {
        return err_set(e, ERR_INVALID, "unknown key \"%.*s\" of an SSH host, did you mean \"%s\"?",
                       STR_ARG(str_head(key, SHOWN)), nearest);
    }
    return err_set(e, ERR_INVALID,
                   "unknown key \"%.*s\" of an SSH host; `anybox config` lists those there are",
                   STR_ARG(str_head(key, SHOWN)));
}

static int set_number(struct config_host *h, const struct key *k, const struct host_value *v,
                      struct err *e)
{
    int64_t max = k->type == KEY_PORT ? 65535 : 3600;
    int64_t n = v->number;
    struct err ignored;

    if ((v->type == HOST_TEXT && str_to_i64(v->text, 1, max, &n, &ignored) < 0) ||
        (v->type != HOST_TEXT && v->type != HOST_NUMBER) || n < 1 || n > max) {
        return err_set(e, ERR_INVALID, "%s must be a number from 1 to %lld", k->name,
                       (long long)max);
    }
    *number_field(h, k) = n;
    return 0;
}

static int set_flag(struct config_host *h, const struct key *k, const struct host_value *v,
                    struct err *e)
{
    bool on = v->number != 0;
    struct err ignored;

    if ((v->type == HOST_TEXT && str_to_bool(v->text, &on, &ignored) < 0) ||
        (v->type != HOST_TEXT && v->type != HOST_FLAG)) {
        return err_set(e, ERR_INVALID, "%s must be true or false", k->name);
    }
    *number_field(h, k) = on == (k->type == KEY_FLAG);
    return 0;
}

static int set_trust(struct config_host *h, const struct key *k, struct str text, struct err *e)
{
    bool known = str_eq(text, S("known"));

    if (!known && !str_eq(text, S("new"))) {
        return err_set(e, ERR_INVALID, "%s must be \"new\" or \"known\"", k->name);
    }
    *number_field(h, k) = known;
    return 0;
}

static int set_agent(struct config_host *h, const struct key *k, struct str text, struct err *e)
{
    bool never = str_eq(text, S("never"));

    if (!never && !str_eq(text, S("auto"))) {
        return err_set(e, ERR_INVALID, "%s must be \"auto\" or \"never\"", k->name);
    }
    *number_field(h, k) = never ? HOST_AGENT_NEVER : HOST_AGENT_AUTO;
    return 0;
}

static int set_from_env(struct arena *a, struct config_host *h, const struct key *k,
                        struct str name, struct err *e)
{
    const char *value = getenv(arena_cstr(a, name));

    if (value == NULL || value[0] == '\0') {
        return err_set(e, ERR_INVALID, "%s names the variable %.*s, which is not set", k->name,
                       STR_ARG(str_head(name, SHOWN)));
    }
    *text_field(h, k) = arena_str(a, str_from(value));
    return 0;
}

static int check_text(const struct key *k, struct str text, struct err *e)
{
    int rc = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] == '\0' || text.p[i] == '\n') {
            return err_set(e, ERR_INVALID, "%s must be one line of text", k->name);
        }
    }
    if (k->type == KEY_HOST) {
        rc = host_check(text, e);
    } else if (k->type == KEY_USER) {
        rc = host_check_user(text, e);
    } else if (k->type == KEY_JUMP) {
        return host_check_jump(text, e);
    }
    return rc < 0 ? err_wrap(e, "%s", k->name) : 0;
}

static int set_text(struct arena *a, struct config_host *h, const struct key *k,
                    const struct host_value *v, struct err *e)
{
    if (v->type != HOST_TEXT) {
        return err_set(e, ERR_INVALID, "%s must be a string", k->name);
    }
    if (v->text.len == 0) {
        return 0; /* as if it were not there */
    }
    if (k->type == KEY_TRUST) {
        return set_trust(h, k, v->text, e);
    }
    if (k->type == KEY_AGENT) {
        return set_agent(h, k, v->text, e);
    }
    if (check_text(k, v->text, e) < 0) {
        return -1;
    }
    if (k->type == KEY_ENV) {
        return set_from_env(a, h, k, v->text, e);
    }
    *text_field(h, k) = arena_str(a, v->text);
    return 0;
}

int host_set(struct arena *a, struct config_host *h, struct str key, const struct host_value *v,
             struct err *e)
{
    for (size_t i = 0; i < COUNTOF(keys); i++) {
        const struct key *k = &keys[i];

        if (!str_eq(str_from(k->name), key)) {
            continue;
        }
        if (k->type == KEY_PORT || k->type == KEY_SECONDS) {
            return v->type == HOST_TEXT && v->text.len == 0 ? 0 : set_number(h, k, v, e);
        }
        if (k->type == KEY_FLAG || k->type == KEY_NOT) {
            return set_flag(h, k, v, e);
        }
        return set_text(a, h, k, v, e);
    }
    return fail_key(key, e);
}

bool host_has_secret(const struct config_host *h)
{
    return h->password.len > 0 || h->key_passphrase.len > 0;
}

/* ---- one entry ------------------------------------------------------------------------------- */

static bool is_plain(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The name of a host whose address is all that is known: "fe80::1" is no name of a sandbox. */
static struct str name_of_host(struct arena *a, struct str host)
{
    struct str name = arena_str(a, str_head(host, 64));
    char *p = arena_alloc(a, 1, name.len + 1);

    for (size_t i = 0; i < name.len; i++) {
        bool kept = is_plain(name.p[i]) || name.p[i] == '_' ||
                    (i > 0 && (name.p[i] == '.' || name.p[i] == '-'));

        p[i] = '_';
        if (kept) {
            p[i] = name.p[i];
        }
    }
    return (struct str){p, name.len};
}

static bool is_id(struct str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.p[i];

        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f')) {
            return false;
        }
    }
    return name.len == 32 || name.len == 12;
}

static int check_name(struct str name, struct err *e)
{
    bool good = name.len >= 1 && name.len <= 64 && (is_plain(name.p[0]) || name.p[0] == '_');

    for (size_t i = 0; i < name.len; i++) {
        char c = name.p[i];

        good = good && (is_plain(c) || c == '_' || c == '.' || c == '-');
    }
    if (!good) {
        return err_set(e, ERR_INVALID,
                       "name must be 1 to 64 letters, digits, '.', '_' and '-', and not begin with "
                       "'.' or '-'");
    }
    if (is_id(name) || str_eq(name, S("auto"))) {
        return err_set(e, ERR_INVALID, "the name \"%.*s\" means something else: choose another",
                       STR_ARG(name));
    }
    return 0;
}

static int check_unique(const struct config *c, struct str name, struct err *e)
{
    for (size_t i = 0; i < c->n_hosts; i++) {
        if (str_eq(c->hosts[i].name, name)) {
            return err_set(e, ERR_EXISTS,
                           "a second host is called \"%.*s\": the first one counts; give this one "
                           "another name",
                           STR_ARG(name));
        }
    }
    if (c->n_hosts == CONFIG_HOSTS_MAX) {
        return err_set(e, ERR_LIMIT, "there are more than %d SSH hosts", CONFIG_HOSTS_MAX);
    }
    return 0;
}

int host_add(struct config *c, const struct config_host *h, struct err *e)
{
    struct config_host whole = *h;

    if (whole.host.len == 0 && whole.name.len == 0) {
        return err_set(e, ERR_INVALID, "host is missing: the name or address of the machine");
    }
    if (whole.host.len == 0) {
        whole.host = whole.name;
    }
    if (whole.name.len == 0) {
        whole.name = name_of_host(&c->arena, whole.host);
    }
    if (check_name(whole.name, e) < 0 || host_check(whole.host, e) < 0 ||
        check_unique(c, whole.name, e) < 0) {
        return -1;
    }
    if (whole.proxy_jump.len > 0 && whole.proxy_command.len > 0) {
        return err_set(e, ERR_INVALID, "proxy_jump and proxy_command exclude each other");
    }
    if (c->hosts == NULL) {
        c->hosts = arena_alloc(&c->arena, CONFIG_HOSTS_MAX, sizeof(*c->hosts));
    }
    c->hosts[c->n_hosts++] = whole;
    return 0;
}

/* ---- for another process ------------------------------------------------------------------------ */

static bool is_number(const struct key *k)
{
    return k->type == KEY_TRUST || k->type == KEY_AGENT || k->type == KEY_FLAG ||
           k->type == KEY_NOT || k->type == KEY_PORT || k->type == KEY_SECONDS;
}

/* By the names of the keys, so that a version with more or fewer of them reads it too. */
void host_pack(const struct config_host *h, struct buf *to)
{
    pack_add_i64(to, COUNTOF(keys));
    for (size_t i = 0; i < COUNTOF(keys); i++) {
        const void *field = (const char *)h + keys[i].offset;

        pack_add(to, str_from(keys[i].name));
        if (is_number(&keys[i])) {
            char digits[24];

            (void)snprintf(digits, sizeof(digits), "%lld", (long long)*(const int64_t *)field);
            pack_add(to, str_from(digits));
        } else {
            pack_add(to, *(const struct str *)field);
        }
    }
}

static int unpack_key(struct arena *a, struct str name, struct str value, struct config_host *h,
                      struct err *e)
{
    for (size_t i = 0; i < COUNTOF(keys); i++) {
        if (!str_eq(name, str_from(keys[i].name))) {
            continue;
        }
        if (!is_number(&keys[i])) {
            *text_field(h, &keys[i]) = arena_str(a, value);
            return 0;
        }
        return str_to_i64(value, INT64_MIN, INT64_MAX, number_field(h, &keys[i]), e);
    }
    return 0;
}

int host_unpack(struct arena *a, struct str *rest, struct config_host *out, struct err *e)
{
    struct config_host h = {0};
    int64_t n = 0;

    if (pack_take_i64(rest, &n, e) < 0) {
        return -1;
    }
    for (int64_t i = 0; i < n; i++) {
        struct str name, value;

        if (pack_take(rest, &name, e) < 0 || pack_take(rest, &value, e) < 0 ||
            unpack_key(a, name, value, &h, e) < 0) {
            return -1;
        }
    }
    *out = h;
    return 0;
}

/* ---- what is wrong ----------------------------------------------------------------------------- */

void host_problem(struct config *c, const struct err *e)
{
    if (c->hosts_problem.len == 0) {
        c->hosts_problem = arena_str(&c->arena, str_from(e->msg));
    } else {
        c->hosts_more++;
    }
}

void hosts_finish(struct config *c)
{
    if (c->hosts_more > 0) {
        c->hosts_problem = arena_printf(&c->arena, "%.*s (and %lld more are wrong)",
                                        STR_ARG(c->hosts_problem), (long long)c->hosts_more);
    }
}
