/*
 * token.c - base64url of: expiry in seconds since 1970 (5 bytes, big endian), the payload,
 * the first 16 bytes of the HMAC over kind (1 byte), expiry and payload.
 *
 * The key is read once, under tokens.lock, by the first text. Another process may be making
 * it at that moment; private_make() lets one of them win.
 */
#include "core/token.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/base64url.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/own.h"
#include "base/sha256.h"
#include "base/thread.h"
#include "core/private.h"

#define KEY_FILE    "token_key"
#define KEY_SIZE    32
#define MAC_SIZE    16
#define EXPIRY_SIZE 5
#define EXPIRY_TOP  ((1ll << 40) - 1)

struct tokens {
    char *state_dir;
    pthread_mutex_t lock;
    bool has_key; /* guarded by lock; the key does not change afterwards */
    unsigned char key[KEY_SIZE];
};

struct tokens *tokens_new(struct str state_dir)
{
    struct tokens *t = xcalloc(1, sizeof(*t));

    t->state_dir = xmemdup(state_dir.p, state_dir.len);
    (void)pthread_mutex_init(&t->lock, NULL);
    return t;
}

void tokens_free(struct tokens *t)
{
    if (t == NULL) {
        return;
    }
    (void)pthread_mutex_destroy(&t->lock);
    free(t->state_dir);
    explicit_bzero(t, sizeof(*t));
    free(t);
}

static int read_key(int dir, unsigned char key[KEY_SIZE], struct err *e)
{
    struct arena scratch own_arena = {0};
    struct str bytes;

    arena_init(&scratch, 4096);
    if (private_read(dir, KEY_FILE, KEY_SIZE, &scratch, &bytes, e) < 0) {
        return -1;
    }
    if (bytes.len != KEY_SIZE) {
        return err_set(e, ERR_INVALID,
                       KEY_FILE " of the state folder is damaged: remove it; sessions and links "
                                "from before end then");
    }
    memcpy(key, bytes.p, KEY_SIZE);
    return 0;
}

/* The key that is there, else a new one, unless somebody was faster. */
static int load_key(struct tokens *t, struct err *e)
{
    unsigned char fresh[KEY_SIZE];
    int dir own_fd = private_open(str_from(t->state_dir), e);

    if (dir < 0) {
        return -1;
    }
    if (read_key(dir, t->key, e) == 0) {
        return 0;
    }
    if (e->kind != ERR_NOT_FOUND) {
        return -1;
    }
    id_random(fresh, sizeof(fresh));
    if (private_make(dir, KEY_FILE, (struct str){(const char *)fresh, sizeof(fresh)}, e) < 0 &&
        e->kind != ERR_EXISTS) {
        return -1;
    }
    return read_key(dir, t->key, e);
}

int tokens_ready(struct tokens *t, struct err *e)
{
    LOCKED(&t->lock);
    if (!t->has_key && load_key(t, e) < 0) {
        return err_wrap(e, "the key for signed texts");
    }
    t->has_key = true;
    return 0;
}

static void sign(const struct tokens *t, enum token_kind kind, struct str body,
                 unsigned char mac[SHA256_SIZE])
{
    const char first = (char)kind;
    struct hmac256 m;

    hmac256_init(&m, (struct str){(const char *)t->key, sizeof(t->key)});
    hmac256_add(&m, (struct str){&first, 1});
    hmac256_add(&m, body);
    hmac256_end(&m, mac);
}

int token_make(struct tokens *t, enum token_kind kind, struct str payload, int64_t expires_ms,
               struct buf *out, struct err *e)
{
    struct buf body own_buf = {0};
    unsigned char mac[SHA256_SIZE];
    int64_t at = expires_ms > 0 ? expires_ms / 1000 + (expires_ms % 1000 > 0) : 0;

    if (payload.len > TOKEN_PAYLOAD_MAX) {
        return err_set(e, ERR_LIMIT, "%zu bytes are too many for a signed text; at most %d",
                       payload.len, TOKEN_PAYLOAD_MAX);
    }
    if (tokens_ready(t, e) < 0) {
        return -1;
    }
    at = at < EXPIRY_TOP ? at : EXPIRY_TOP;
    buf_init(&body, EXPIRY_SIZE + TOKEN_PAYLOAD_MAX + MAC_SIZE);
    for (int i = EXPIRY_SIZE - 1; i >= 0; i--) {
        buf_addc(&body, (char)(unsigned char)(at >> (8 * i)));
    }
    buf_add(&body, payload);
    sign(t, kind, buf_str(&body), mac);
    buf_add(&body, (struct str){(const char *)mac, MAC_SIZE});
    base64url_add(out, buf_str(&body));
    return 0;
}

static int64_t expiry_of(struct str body)
{
    int64_t at = 0;

    for (size_t i = 0; i < EXPIRY_SIZE; i++) {
        at = at << 8 | (unsigned char)body.p[i];
    }
    return at;
}

int token_read(struct tokens *t, enum token_kind kind, struct str text, struct arena *a,
               struct str *payload, struct err *e)
{
    struct buf bytes own_buf = {0};
    unsigned char mac[SHA256_SIZE];
    struct str body;
    struct err ignored;

    if (tokens_ready(t, e) < 0) {
        return -1;
    }
    buf_init(&bytes, TOKEN_TEXT_MAX);
    if (text.len > TOKEN_TEXT_MAX || base64url_read(text, &bytes, &ignored) < 0 ||
        bytes.len < EXPIRY_SIZE + MAC_SIZE) {
        return err_set(e, ERR_DENIED, "this is not a text that this server has signed");
    }
    body = str_head(buf_str(&bytes), bytes.len - MAC_SIZE);
    sign(t, kind, body, mac);
    if (!secret_eq(mac, bytes.p + body.len, MAC_SIZE)) {
        return err_set(e, ERR_DENIED, "this is not a text that this server has signed");
    }
    if (clock_wall_ms() >= expiry_of(body) * 1000) {
        return err_set(e, ERR_GONE, "this has expired");
    }
    *payload = arena_str(a, str_skip(body, EXPIRY_SIZE));
    return 0;
}

int token_digest(struct tokens *t, struct hmac256 *m, struct err *e)
{
    const char none = 0; /* no enum token_kind */

    if (tokens_ready(t, e) < 0) {
        return -1;
    }
    hmac256_init(m, (struct str){(const char *)t->key, sizeof(t->key)});
    hmac256_add(m, (struct str){&none, 1});
    return 0;
}
