/* ssh_config.c - the format: what `ssh -G` prints, and a small reader of the files. Pure. */
#include "provider/ssh/ssh_config.h"

#define INCLUDES_DEEP 16
#define INCLUDES_MAX  256 /* files in all */
#define TIMEOUT_MAX   3600

/* ---- options ------------------------------------------------------------------------------ */

static bool is_none(struct str value)
{
    return value.len == 0 || str_eq_nocase(value, S("none"));
}

static void keep(struct str *to, struct str value)
{
    if (to->len == 0 && !is_none(value)) {
        *to = value;
    }
}

static void keep_number(int32_t *to, struct str value, int64_t max)
{
    struct err ignored;
    int64_t n = 0;

    if (*to == 0 && str_to_i64(value, 1, max, &n, &ignored) == 0) {
        *to = (int32_t)n;
    }
}

/* The first word of a list, which may be in quotes. */
static struct str first_word(struct str value)
{
    struct str rest;

    if (str_starts(value, S("\""))) {
        return str_cut(str_skip(value, 1), '"', &rest);
    }
    return str_cut(value, ' ', &rest);
}

static struct str unquoted(struct str value)
{
    bool quoted = value.len >= 2 && value.p[0] == '"' && value.p[value.len - 1] == '"';

    return quoted ? str_head(str_skip(value, 1), value.len - 2) : value;
}

static void add(struct str list[SSH_KEYS_MAX], size_t *n, struct str value)
{
    if (*n < SSH_KEYS_MAX && !is_none(value)) {
        list[(*n)++] = unquoted(value);
    }
}

static void keep_word(bool *to, bool *is_met, struct str value)
{
    if (!*is_met) {
        *is_met = true;
        *to = str_eq_nocase(value, S("yes")) || str_eq_nocase(value, S("true"));
    }
}

/* "SSH_AUTH_SOCK" and "$VARIABLE" are what we go by anyway, or nothing we can know. */
static void take_agent(struct ssh_options *o, struct str value)
{
    if (str_eq_nocase(value, S("none"))) {
        o->no_agent = true;
    } else if (str_starts(value, S("/")) || str_starts(value, S("~"))) {
        keep(&o->agent, value);
    }
}

/* Who we are and with what: false when the key is about something else. */
static bool take_identity(struct ssh_options *o, struct str key, struct str value)
{
    if (str_eq_nocase(key, S("user"))) {
        keep(&o->user, unquoted(value));
    } else if (str_eq_nocase(key, S("identityfile"))) {
        add(o->keys, &o->n_keys, value);
    } else if (str_eq_nocase(key, S("certificatefile"))) {
        add(o->certificates, &o->n_certificates, value);
    } else if (str_eq_nocase(key, S("identitiesonly"))) {
        keep_word(&o->keys_only, &o->has_keys_word, value);
    } else if (str_eq_nocase(key, S("identityagent"))) {
        take_agent(o, unquoted(value));
    } else {
        return false;
    }
    return true;
}

/* What changes neither where a host is nor who we are there. */
static bool is_idle(struct str key)
{
    static const char *const idle[] = {"sendenv",
                                       "hashknownhosts",
                                       "gssapiauthentication",
                                       "serveraliveinterval",
                                       "serveralivecountmax",
                                       "compression",
                                       "forwardagent",
                                       "forwardx11",
                                       "forwardx11trusted",
                                       "addkeystoagent",
                                       "controlmaster",
                                       "controlpath",
                                       "controlpersist",
                                       "loglevel",
                                       "visualhostkey"};

    for (size_t i = 0; i < COUNTOF(idle); i++) {
        if (str_eq_nocase(key, str_from(idle[i]))) {
            return true;
        }
    }
    return false;
}

static void take_option(struct ssh_options *o, struct str key, struct str value)
{
    o->is_said = o->is_said || !is_idle(key);
    if (take_identity(o, key, value)) {
        return;
    }
    if (str_eq_nocase(key, S("hostname"))) {
        keep(&o->host, unquoted(value));
    } else if (str_eq_nocase(key, S("port"))) {
        keep_number(&o->port, value, 65535);
    } else if (str_eq_nocase(key, S("userknownhostsfile"))) {
        keep(&o->known_hosts, first_word(value));
    } else if (str_eq_nocase(key, S("hostkeyalias"))) {
        keep(&o->host_key_alias, unquoted(value));
    } else if (str_eq_nocase(key, S("proxyjump")) && o->proxy_command.len == 0) {
        keep(&o->proxy_jump, unquoted(value));
    } else if (str_eq_nocase(key, S("proxycommand")) && o->proxy_jump.len == 0) {
        keep(&o->proxy_command, value);
    } else if (str_eq_nocase(key, S("connecttimeout"))) {
        keep_number(&o->connect_timeout_s, value, TIMEOUT_MAX);
    } else if (str_eq_nocase(key, S("stricthostkeychecking"))) {
        keep_word(&o->strict, &o->has_trust_word, value);
    }
}

static struct str next_line(struct str *text)
{
    return str_trim(str_cut(*text, '\n', text));
}

/* "Key value", "Key=value", "Key = value" */
static struct str cut_option(struct str line, struct str *value)
{
    size_t n = 0;

    while (n < line.len && line.p[n] != ' ' && line.p[n] != '\t' && line.p[n] != '=') {
        n++;
    }
    *value = str_trim(str_skip(line, n));
    if (str_starts(*value, S("="))) {
        *value = str_trim(str_skip(*value, 1));
    }
    return str_head(line, n);
}

void ssh_config_answer(struct str text, struct ssh_options *out)
{
    *out = (struct ssh_options){0};
    while (text.len > 0) {
        struct str value;
        struct str key = cut_option(next_line(&text), &value);

        take_option(out, key, value);
    }
}

/* ---- patterns ------------------------------------------------------------------------------ */

static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

/* '*' and '?'. Where it fails behind a '*', that one takes a character more. */
static bool matches_one(struct str pattern, struct str s)
{
    struct str star = STR_EMPTY;
    struct str behind = STR_EMPTY;

    while (s.len > 0) {
        if (pattern.len > 0 && pattern.p[0] == '*') {
            star = str_skip(pattern, 1);
            behind = s;
            pattern = star;
        } else if (pattern.len > 0 &&
                   (pattern.p[0] == '?' || lower(pattern.p[0]) == lower(s.p[0]))) {
            pattern = str_skip(pattern, 1);
            s = str_skip(s, 1);
        } else if (star.p != NULL) {
            behind = str_skip(behind, 1);
            pattern = star;
            s = behind;
        } else {
            return false;
        }
    }
    while (pattern.len > 0 && pattern.p[0] == '*') {
        pattern = str_skip(pattern, 1);
    }
    return pattern.len == 0;
}

bool ssh_config_matches(struct str patterns, struct str host)
{
    bool found = false;

    while (patterns.len > 0) {
        struct str one;
        size_t n = 0;

        patterns = str_trim(patterns);
        while (n < patterns.len && patterns.p[n] != ' ' && patterns.p[n] != '\t') {
            n++;
        }
        one = unquoted(str_head(patterns, n));
        patterns = str_skip(patterns, n);
        if (str_starts(one, S("!"))) {
            if (matches_one(str_skip(one, 1), host)) {
                return false;
            }
        } else if (one.len > 0 && matches_one(one, host)) {
            found = true;
        }
    }
    return found;
}

/* ---- files --------------------------------------------------------------------------------- */

struct reading {
    struct arena *arena;
    const struct ssh_config_source *from;
    struct str host;
    struct ssh_options *out;
    int depth, n_files;
};

static void read_text(struct reading *r, struct str text);

static void read_included(void *to, struct str path)
{
    struct reading *r = to;

    if (r->depth < INCLUDES_DEEP && r->n_files < INCLUDES_MAX) {
        r->depth++;
        r->n_files++;
        read_text(r, r->from->file(r->from->arg, r->arena, path));
        r->depth--;
    }
}

static void read_include(struct reading *r, struct str patterns)
{
    while (patterns.len > 0) {
        struct str one = first_word(patterns);
        size_t used = one.len + (patterns.p[0] == '"' ? 2 : 0);

        patterns = str_trim(str_skip(patterns, used < patterns.len ? used : patterns.len));
        if (one.len > 0 && !str_starts(one, S("/")) && !str_starts(one, S("~"))) {
            one = arena_printf(r->arena, "%.*s/%.*s", STR_ARG(r->from->folder), STR_ARG(one));
        }
        if (one.len > 0) {
            r->from->glob(r->from->arg, r->arena, one, read_included, r);
        }
    }
}

/* An included file has blocks of its own and ends with them. */
static void read_text(struct reading *r, struct str text)
{
    bool applies = true;

    while (text.len > 0) {
        struct str line = next_line(&text);
        struct str value;
        struct str key = cut_option(line, &value);

        if (line.len == 0 || line.p[0] == '#') {
            continue;
        }
        if (str_eq_nocase(key, S("host"))) {
            applies = ssh_config_matches(value, r->host);
        } else if (str_eq_nocase(key, S("match"))) {
            applies = str_eq_nocase(value, S("all"));
            r->out->skipped_match = r->out->skipped_match || !applies;
            r->out->is_said = true;
        } else if (applies && str_eq_nocase(key, S("include"))) {
            read_include(r, value);
        } else if (applies) {
            take_option(r->out, key, value);
        }
    }
}

void ssh_config_read(struct arena *a, const struct ssh_config_source *from, struct str text,
                     struct str host, struct ssh_options *out)
{
    struct reading r = {.arena = a, .from = from, .host = host, .out = out};

    read_text(&r, text);
}
