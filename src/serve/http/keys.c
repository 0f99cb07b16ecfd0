/*
 * keys.c - the keys in memory, and the file they come from.
 *
 * A line of the file is "name hash created": a name, 64 hexadecimal digits, seconds since
 * 1970. It is replaced as a whole under the state folder's lock. A server looks at the file's
 * inode, size and times before each check and reads it again when they differ; keys.lock
 * guards what it has read.
 */
#include "serve/http/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/base64url.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/own.h"
#include "base/sha256.h"
#include "base/thread.h"
#include "core/private.h"

#define KEY_FILE       "http_keys"
#define KEY_FILE_MAX   (1u << 18)
#define KEY_PREFIX     "abx_"
#define KEY_RANDOM     24
#define FIRST_NAME     "default"
#define UNNAMED        "config" /* a key of the configuration without a name */
#define READ_ARENA_MAX (4u << 20)

struct key_set {
    struct key *items; /* owned */
    size_t n;
};

struct keys {
    const struct config *config;
    pthread_mutex_t lock;
    struct key_set set; /* this and the next: guarded by lock */
    struct stat seen;   /* of the file that was read; all zero: there was none */
};

/* ---- names and keys --------------------------------------------------------------- */

static bool is_word(struct str s, const char *others)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.p[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              (c != '\0' && strchr(others, c) != NULL))) {
            return false;
        }
    }
    return s.len > 0;
}

static int check_name(struct str name, struct err *e)
{
    if (name.len > KEY_NAME_MAX || !is_word(name, "-_.")) {
        return err_set(e, ERR_INVALID,
                       "the name of a key has 1 to %d letters, digits, '-', '_' and '.'",
                       KEY_NAME_MAX);
    }
    return 0;
}

static int check_key(struct str name, struct str key, struct err *e)
{
    while (str_ends(key, S("=")) && key.len > KEY_LEN_MIN) {
        key.len--;
    }
    if (key.len < KEY_LEN_MIN || key.len > KEY_LEN_MAX || !is_word(key, "-._~+/")) {
        return err_set(e, ERR_INVALID,
                       "the key named %.*s must have %d to %d letters, digits and -._~+/",
                       STR_ARG(name), KEY_LEN_MIN, KEY_LEN_MAX);
    }
    return 0;
}

static const struct key *named(const struct key_set *set, struct str name)
{
    for (size_t i = 0; i < set->n; i++) {
        if (str_eq(str_from(set->items[i].name), name)) {
            return &set->items[i];
        }
    }
    return NULL;
}

static int add_to_set(struct key_set *set, const struct key *key, struct err *e)
{
    if (named(set, str_from(key->name)) != NULL) {
        return err_set(e, ERR_EXISTS,
                       "there are two keys with the name %s: change it in the configuration, or "
                       "remove the other one with `anybox key rm %s`",
                       key->name, key->name);
    }
    if (set->n == KEYS_MAX) {
        return err_set(e, ERR_LIMIT, "there are more than %d keys", KEYS_MAX);
    }
    set->items = xrealloc(set->items, set->n + 1, sizeof(*set->items));
    set->items[set->n++] = *key;
    return 0;
}

static void free_set(struct key_set *set)
{
    free(set->items);
    *set = (struct key_set){0};
}

const char *key_owner(const char *name, char to[KEY_OWNER_SIZE])
{
    (void)snprintf(to, KEY_OWNER_SIZE, "key:%s", name);
    return to;
}

/* ---- from the configuration ---------------------------------------------------------- */

/* "name:key" or "key". */
static int add_configured(struct key_set *set, struct str item, struct err *e)
{
    struct str secret;
    struct str name = str_cut(item, ':', &secret);
    struct key key = {.configured = true};

    if (secret.p == NULL) {
        secret = item;
        name = S(UNNAMED);
    }
    if (check_name(name, e) < 0 || check_key(name, secret, e) < 0) {
        return -1;
    }
    (void)snprintf(key.name, sizeof(key.name), "%.*s", STR_ARG(name));
    sha256_of(secret, key.hash);
    return add_to_set(set, &key, e);
}

static int add_all_configured(struct key_set *set, struct str text, char between, struct err *e)
{
    while (text.len > 0) {
        struct str item = str_trim(str_cut(text, between, &text));

        if (item.len == 0 || (between == '\n' && item.p[0] == '#')) {
            continue;
        }
        if (add_configured(set, item, e) < 0) {
            return -1;
        }
    }
    return 0;
}

static int read_key_file(struct key_set *set, struct str path, struct err *e)
{
    struct arena scratch own_arena = {0};
    struct str text;
    const char *name;

    arena_init(&scratch, READ_ARENA_MAX);
    name = arena_cstr(&scratch, path);
    if (private_read(AT_FDCWD, name, KEY_FILE_MAX, &scratch, &text, e) < 0) {
        return -1;
    }
    return add_all_configured(set, text, '\n', e);
}

static int read_configured(const struct config *config, struct key_set *set, struct err *e)
{
    if (add_all_configured(set, config->http_keys, ',', e) < 0) {
        return err_wrap(e, "http.keys");
    }
    if (config->http_key_file.len > 0 && read_key_file(set, config->http_key_file, e) < 0) {
        return err_wrap(e, "http.key_file");
    }
    return 0;
}

/* ---- from the file ---------------------------------------------------------------------- */

static bool read_hash(struct str hex, unsigned char hash[SHA256_SIZE])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < SHA256_HEX_SIZE - 1; i++) {
        const char *at = i < hex.len && hex.p[i] != '\0' ? strchr(digits, hex.p[i]) : NULL;

        if (at == NULL) {
            return false;
        }
        hash[i / 2] = (unsigned char)(hash[i / 2] << 4 | (at - digits));
    }
    return hex.len == SHA256_HEX_SIZE - 1;
}

static int add_line(struct key_set *set, struct str line, int number, struct err *e)
{
    struct str rest;
    struct str name = str_cut(line, ' ', &rest);
    struct str hash = str_cut(rest, ' ', &rest);
    struct key key = {0};
    int64_t created_s;

    if (check_name(name, e) < 0 || !read_hash(hash, key.hash) ||
        str_to_i64(rest, 0, 1ll << 40, &created_s, e) < 0) {
        return err_set(e, ERR_INVALID,
                       "line %d is not a name, a SHA-256 and a time: remove it, or the file",
                       number);
    }
    key.created_ms = created_s * 1000;
    (void)snprintf(key.name, sizeof(key.name), "%.*s", STR_ARG(name));
    return add_to_set(set, &key, e);
}

/* The keys of the file; none when there is no file. *seen is what was read. */
static int read_file(int dir, struct key_set *set, struct stat *seen, struct err *e)
{
    struct arena scratch own_arena = {0};
    struct str text;
    int number = 0;

    *seen = (struct stat){0};
    if (fstatat(dir, KEY_FILE, seen, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT) {
        return 0;
    }
    arena_init(&scratch, READ_ARENA_MAX);
    if (private_read(dir, KEY_FILE, KEY_FILE_MAX, &scratch, &text, e) < 0) {
        return e->kind == ERR_NOT_FOUND ? 0 : -1;
    }
    while (text.len > 0) {
        struct str line = str_cut(text, '\n', &text);

        number++;
        if (line.len > 0 && add_line(set, line, number, e) < 0) {
            return err_wrap(e, KEY_FILE " in the state folder");
        }
    }
    return 0;
}

static int write_file(int dir, const struct key_set *set, struct err *e)
{
    struct buf text own_buf = {0};
    char hex[SHA256_HEX_SIZE];

    buf_init(&text, KEY_FILE_MAX);
    for (size_t i = 0; i < set->n; i++) {
        const struct key *key = &set->items[i];

        buf_addf(&text, "%s %s %lld\n", key->name, sha256_hex(key->hash, hex),
                 (long long)(key->created_ms / 1000));
    }
    return fd_replace_file(dir, KEY_FILE, buf_str(&text), 0600, e);
}

/* ---- both --------------------------------------------------------------------------------- */

/* Configured ones first: a name that is there twice is then told of the file. */
static int read_all(const struct config *config, int dir, struct key_set *set, struct stat *seen,
                    struct err *e)
{
    if (read_configured(config, set, e) < 0 || read_file(dir, set, seen, e) < 0) {
        free_set(set);
        return -1;
    }
    return 0;
}

/* A key of our own making, into the set and as text. */
static int make_key(struct key_set *set, struct str name, struct buf *text, struct err *e)
{
    char random[KEY_RANDOM];
    struct key key = {.created_ms = clock_wall_ms()};
    size_t start = text->len;

    (void)snprintf(key.name, sizeof(key.name), "%.*s", STR_ARG(name));
    id_random(random, sizeof(random));
    buf_add(text, S(KEY_PREFIX));
    base64url_add(text, (struct str){random, sizeof(random)});
    explicit_bzero(random, sizeof(random));
    sha256_of(str_skip(buf_str(text), start), key.hash);
    return add_to_set(set, &key, e);
}

struct change {
    struct key_set configured; /* owned by change_file() */
    struct str name;
    struct buf *text;
    bool only_first; /* make a key only when there is none */
    bool made;       /* something was changed */
};

static int add_key(struct key_set *set, struct change *c, struct err *e)
{
    if (c->only_first && (set->n > 0 || c->configured.n > 0)) {
        return 0;
    }
    if (named(set, c->name) != NULL || named(&c->configured, c->name) != NULL) {
        return err_set(e, ERR_EXISTS,
                       "there is a key named %.*s already; remove it first, or choose "
                       "another name",
                       STR_ARG(c->name));
    }
    c->made = make_key(set, c->name, c->text, e) == 0;
    return c->made ? 0 : -1;
}

static int remove_key(struct key_set *set, struct change *c, struct err *e)
{
    const struct key *found = named(set, c->name);

    if (found == NULL && named(&c->configured, c->name) != NULL) {
        return err_set(
            e, ERR_UNSUPPORTED,
            "the key %.*s is in the configuration (http.keys or http.key_file): remove it "
            "there",
            STR_ARG(c->name));
    }
    if (found == NULL) {
        return err_set(e, ERR_NOT_FOUND, "there is no key named %.*s; `anybox key list` shows all",
                       STR_ARG(str_head(c->name, KEY_NAME_MAX)));
    }
    set->items[found - set->items] = set->items[--set->n];
    c->made = true;
    return 0;
}

/* While nobody else does: `change` gets the file's keys as they are now. */
static int change_locked(const struct config *config, int dir,
                         int (*change)(struct key_set *, struct change *, struct err *),
                         struct change *c, struct err *e)
{
    struct key_set set CLEANUP(free_set) = {0};
    struct stat seen;
    int held own_fd = private_lock(dir, e);

    if (held < 0 || read_configured(config, &c->configured, e) < 0 ||
        read_file(dir, &set, &seen, e) < 0 || change(&set, c, e) < 0) {
        return -1;
    }
    return c->made ? write_file(dir, &set, e) : 0;
}

static int change_file(const struct config *config,
                       int (*change)(struct key_set *, struct change *, struct err *),
                       struct change *c, struct err *e)
{
    int dir own_fd = private_open(config->state_dir, e);
    int rc = dir >= 0 ? change_locked(config, dir, change, c, e) : -1;

    free_set(&c->configured);
    return rc;
}

int keys_add(const struct config *config, struct str name, struct buf *key, struct err *e)
{
    struct change c = {.name = name, .text = key};

    return check_name(name, e) < 0 ? -1 : change_file(config, add_key, &c, e);
}

int keys_remove(const struct config *config, struct str name, struct err *e)
{
    struct change c = {.name = name};

    return change_file(config, remove_key, &c, e);
}

static int by_name(const void *a, const void *b)
{
    const struct key *x = a, *y = b;

    return strcmp(x->name, y->name);
}

const struct key *keys_list(const struct config *config, struct arena *a, size_t *n, struct err *e)
{
    struct key_set set CLEANUP(free_set) = {0};
    struct stat seen;
    int dir own_fd = private_open(config->state_dir, e);
    struct key *copy;

    if (dir < 0 || read_all(config, dir, &set, &seen, e) < 0) {
        return NULL;
    }
    copy = arena_alloc(a, set.n + 1, sizeof(*copy));
    if (set.n > 0) {
        memcpy(copy, set.items, set.n * sizeof(*copy));
        qsort(copy, set.n, sizeof(*copy), by_name);
    }
    *n = set.n;
    return copy;
}

/* ---- for a server ---------------------------------------------------------------------------- */

/* Reads them again; on failure only the configured ones are left. */
static int reload(struct keys *k, int dir, struct err *e)
{
    struct key_set fresh = {0};
    int rc = read_all(k->config, dir, &fresh, &k->seen, e);

    if (rc < 0) {
        struct err ignored;

        (void)!read_configured(k->config, &fresh, &ignored);
    }
    free_set(&k->set);
    k->set = fresh;
    return rc;
}

struct keys *keys_open(const struct config *config, struct err *e)
{
    struct keys *k;
    int dir own_fd = private_open(config->state_dir, e);

    if (dir < 0) {
        return NULL;
    }
    k = xcalloc(1, sizeof(*k));
    k->config = config;
    (void)pthread_mutex_init(&k->lock, NULL);
    if (reload(k, dir, e) < 0) {
        keys_close(k);
        return NULL;
    }
    return k;
}

void keys_close(struct keys *k)
{
    if (k == NULL) {
        return;
    }
    free_set(&k->set);
    (void)pthread_mutex_destroy(&k->lock);
    free(k);
}

size_t keys_count(struct keys *k)
{
    LOCKED(&k->lock);
    return k->set.n;
}

int keys_need_one(struct keys *k, struct buf *key, bool *made, struct err *e)
{
    struct change c = {.name = S(FIRST_NAME), .text = key, .only_first = true};

    *made = false;
    if (keys_count(k) > 0) {
        return 0;
    }
    if (change_file(k->config, add_key, &c, e) < 0) {
        return -1;
    }
    *made = c.made;
    return 0;
}

static bool has_changed(const struct stat *was, const struct stat *is)
{
    return was->st_ino != is->st_ino || was->st_size != is->st_size ||
           was->st_mode != is->st_mode || was->st_mtim.tv_sec != is->st_mtim.tv_sec ||
           was->st_mtim.tv_nsec != is->st_mtim.tv_nsec ||
           was->st_ctim.tv_sec != is->st_ctim.tv_sec || was->st_ctim.tv_nsec != is->st_ctim.tv_nsec;
}

/* The lock is held. */
static void look_again(struct keys *k)
{
    struct arena scratch own_arena = {0};
    struct stat now = {0};
    struct err ignored;
    struct str path;

    arena_init(&scratch, 64u << 10);
    path = arena_printf(&scratch, "%.*s/" KEY_FILE, STR_ARG(k->config->state_dir));
    (void)lstat(path.p, &now);
    if (!has_changed(&k->seen, &now)) {
        return;
    }
    int dir own_fd = private_open(k->config->state_dir, &ignored);

    (void)!reload(k, dir, &ignored);
}

bool keys_check(struct keys *k, struct str key, char name[KEY_NAME_MAX + 1])
{
    unsigned char hash[SHA256_SIZE];
    const struct key *found = NULL;

    sha256_of(key, hash);
    LOCKED(&k->lock);
    look_again(k);
    for (size_t i = 0; i < k->set.n; i++) {
        if (secret_eq(hash, k->set.items[i].hash, sizeof(hash))) {
            found = &k->set.items[i];
        }
    }
    if (found == NULL) {
        return false;
    }
    memcpy(name, found->name, sizeof(found->name));
    return true;
}

bool keys_has(struct keys *k, struct str name)
{
    LOCKED(&k->lock);
    look_again(k);
    return named(&k->set, name) != NULL;
}
