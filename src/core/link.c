#include "core/link.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/percent.h"
#include "base/sha256.h"
#include "core/token.h"

#define URL_MAX 32768

/* A box id has no NUL in it, so no two pairs of box and path look the same. */
static void hash_target(const struct link_to *to, unsigned char hash[SHA256_SIZE])
{
    struct sha256 h;

    sha256_init(&h);
    sha256_add(&h, to->box);
    sha256_add(&h, (struct str){"", 1});
    sha256_add(&h, to->path);
    sha256_end(&h, hash);
}

int link_make(const struct services *s, struct str base, const struct link_to *to, struct arena *a,
              struct str *url, struct err *e)
{
    struct buf text own_buf = {0};
    struct buf payload own_buf = {0};
    unsigned char hash[SHA256_SIZE];

    hash_target(to, hash);
    buf_init(&payload, TOKEN_PAYLOAD_MAX);
    buf_add(&payload, (struct str){(const char *)hash, sizeof(hash)});
    buf_add(&payload, to->owner);
    buf_init(&text, URL_MAX);
    buf_add(&text, base);
    buf_add(&text, S(LINK_PATH "?sandbox_id="));
    percent_add(&text, to->box, true);
    buf_add(&text, S("&file_path="));
    percent_add(&text, to->path, true);
    buf_add(&text, S("&link="));
    if (token_make(s->tokens, TOKEN_FILE, buf_str(&payload),
                   clock_wall_ms() + (s->config->http_link_ttl_s * 1000), &text, e) < 0) {
        return -1;
    }
    if (text.cut || payload.cut) {
        return err_set(e, ERR_LIMIT, "the path is too long for a link");
    }
    *url = arena_str(a, buf_str(&text));
    return 0;
}

int link_check(const struct services *s, struct str text, struct arena *a, struct link_to *to,
               struct err *e)
{
    unsigned char hash[SHA256_SIZE];
    struct str payload = STR_EMPTY;

    if (token_read(s->tokens, TOKEN_FILE, text, a, &payload, e) < 0) {
        if (e->kind == ERR_GONE) {
            return err_set(e, ERR_GONE,
                           "this link has expired: links to files are good for a while only; ask "
                           "for a new one, or use a key");
        }
        return -1;
    }
    hash_target(to, hash);
    if (payload.len < sizeof(hash) || !secret_eq(payload.p, hash, sizeof(hash))) {
        return err_set(e, ERR_DENIED,
                       "this link is for another file: links are good for the one that they "
                       "were made for; use a key to read others");
    }
    to->owner = str_skip(payload, sizeof(hash));
    return 0;
}
