#include "watch/webhook.h"

#include <inttypes.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/own.h"
#include "base/sha256.h"
#include "core/private.h"
#include "json/js.h"
#include "provider/curl.h"
#include "watch/event.h"

#define KEY_FILE  "webhook_key"
#define KEY_BYTES 32

int webhook_key(struct str state_dir, struct arena *a, struct str *out, struct err *e)
{
    char fresh[2 * KEY_BYTES + 1];
    int dir own_fd = private_open(state_dir, e);

    if (dir < 0) {
        return -1;
    }
    if (private_read(dir, KEY_FILE, sizeof(fresh), a, out, e) == 0) {
        return 0;
    }
    if (e->kind != ERR_NOT_FOUND) {
        return -1;
    }
    id_hex(fresh, KEY_BYTES);
    if (private_make(dir, KEY_FILE, str_from(fresh), e) < 0 && e->kind != ERR_EXISTS) {
        return -1;
    }
    return private_read(dir, KEY_FILE, sizeof(fresh), a, out, e);
}

static void sign(struct str key, struct str stamp, struct str body, char hex[SHA256_HEX_SIZE])
{
    unsigned char code[SHA256_SIZE];
    struct hmac256 mac;

    hmac256_init(&mac, key);
    hmac256_add(&mac, stamp);
    hmac256_add(&mac, S("."));
    hmac256_add(&mac, body);
    hmac256_end(&mac, code);
    (void)sha256_hex(code, hex);
}

/* What the receiver says is of no use but its status. */
static size_t drop(char *bytes, size_t size, size_t n, void *arg)
{
    (void)bytes;
    (void)arg;
    return size * n;
}

struct post {
    const struct curl_library *lib;
    CURL *curl;
    struct curl_slist *headers;
};

static void post_fini(struct post *p)
{
    if (p->curl != NULL) {
        p->lib->easy_cleanup(p->curl);
    }
    if (p->headers != NULL) {
        p->lib->slist_free_all(p->headers);
    }
}

static void add_header(struct post *p, const char *line)
{
    struct curl_slist *longer = p->lib->slist_append(p->headers, line);

    p->headers = longer != NULL ? longer : p->headers;
}

static void add_headers(struct post *p, struct arena *a, struct str key,
                        const struct watch_event_row *event, struct str body)
{
    struct str stamp = arena_printf(a, "%" PRId64, clock_wall_ms() / 1000);
    char hex[SHA256_HEX_SIZE];

    sign(key, stamp, body, hex);
    add_header(p, "Content-Type: application/json");
    add_header(p, "Expect:");
    add_header(p, arena_printf(a, "X-Anybox-Event: %.*s", STR_ARG(event->type)).p);
    add_header(p, arena_printf(a, "X-Anybox-Delivery: %" PRId64, event->id).p);
    add_header(p, arena_printf(a, "X-Anybox-Timestamp: %.*s", STR_ARG(stamp)).p);
    add_header(p, arena_printf(a, "X-Anybox-Signature: sha256=%s", hex).p);
}

static void set_options(struct post *p, const struct ctx *ctx, const char *url, struct str body)
{
    const struct curl_library *lib = p->lib;
    CURL *c = p->curl;

    lib->easy_setopt(c, CURLOPT_URL, url);
    lib->easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    lib->easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    lib->easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    lib->easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)WEBHOOK_TIMEOUT_MS);
    lib->easy_setopt(c, CURLOPT_POST, 1L);
    lib->easy_setopt(c, CURLOPT_POSTFIELDS, body.p);
    lib->easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.len);
    lib->easy_setopt(c, CURLOPT_HTTPHEADER, p->headers);
    lib->easy_setopt(c, CURLOPT_WRITEFUNCTION, drop);
    lib->easy_setopt(c, CURLOPT_USERAGENT, "anybox/" ANYBOX_VERSION);
    lib->easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    lib->easy_setopt(c, CURLOPT_XFERINFOFUNCTION, curl_is_cancelled);
    lib->easy_setopt(c, CURLOPT_XFERINFODATA, ctx);
}

static int judge(struct post *p, CURLcode rc, struct str url, bool *forever, struct err *e)
{
    long status = 0;

    if (rc == CURLE_URL_MALFORMAT || rc == CURLE_UNSUPPORTED_PROTOCOL) {
        *forever = true;
        return err_set(e, ERR_INVALID, "the webhook's URL cannot be used: %s",
                       p->lib->easy_strerror(rc));
    }
    if (rc != CURLE_OK) {
        return err_set(e, ERR_UNREACHABLE, "the webhook %.*s was not reached: %s", STR_ARG(url),
                       p->lib->easy_strerror(rc));
    }
    p->lib->easy_getinfo(p->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 200 && status < 300) {
        return 0;
    }
    *forever = status == 410; /* gone: it does not want any more */
    return err_set(e, ERR_UNREACHABLE, "the webhook %.*s answered with status %ld", STR_ARG(url),
                   status);
}

int webhook_post(const struct ctx *ctx, struct str key, struct str url,
                 const struct watch_event_row *event, bool *forever, struct err *e)
{
    json_t *record own_json = event_record(event);
    struct buf body own_buf = {0};
    struct post p CLEANUP(post_fini) = {.lib = curl_library(e)};

    *forever = false;
    if (p.lib == NULL) {
        return -1;
    }
    p.curl = p.lib->easy_init();
    if (p.curl == NULL) {
        return err_set(e, ERR_SYSTEM, "libcurl has no memory");
    }
    buf_init(&body, 8u << 20);
    js_dump(record, &body);
    add_headers(&p, ctx->arena, key, event, buf_str(&body));
    set_options(&p, ctx, arena_cstr(ctx->arena, url), buf_str(&body));
    return judge(&p, p.lib->easy_perform(p.curl), url, forever, e);
}
