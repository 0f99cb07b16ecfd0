#include "provider/opensandbox/web.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/own.h"
#include "base/thread.h"
#include "provider/curl.h"

#define IDLE_MAX       32
#define DRAINING_MAX   16
#define CONNECT_MS     10000
#define POLL_MS        1000
#define CONN_MAX_AGE_S 20 /* the platform's server closes idle connections after 30 s */
#define PIECE          (256u << 10)

struct channel {
    const struct curl_library *lib;
    CURL *easy;
    CURLM *multi;
    struct curl_slist *headers;
    curl_mime *mime;
    struct exchange *now; /* NULL: draining, what comes is dropped */
    struct list link;
};

struct web {
    const char *ca_file; /* "": the machine's own */
    pthread_mutex_t lock;
    struct list idle;     /* struct channel.link; the last one was used last */
    struct list draining; /* the same, the oldest first */
    size_t n_idle, n_draining;
};

struct exchange {
    const struct ctx *ctx;
    const struct web_req *req;
    struct web_resp *resp;
    struct channel *channel;
    int64_t heard_ms;
    int64_t n_given; /* bytes of the file */
    bool is_enough, has_failed, is_paused, has_body;
    struct err why; /* of a receiver or a source */
};

/* ---- channels ------------------------------------------------------------------------------ */

static void channel_free(struct channel *c)
{
    if (c->easy != NULL) {
        (void)c->lib->multi_remove_handle(c->multi, c->easy);
        c->lib->easy_cleanup(c->easy);
    }
    if (c->mime != NULL) {
        c->lib->mime_free(c->mime);
    }
    c->lib->slist_free_all(c->headers);
    if (c->multi != NULL) {
        (void)c->lib->multi_cleanup(c->multi);
    }
    free(c);
}

static struct channel *channel_new(struct err *e)
{
    const struct curl_library *lib = curl_library(e);
    struct channel *c;

    if (lib == NULL) {
        return NULL;
    }
    c = xcalloc(1, sizeof(*c));
    c->lib = lib;
    c->multi = lib->multi_init();
    c->easy = lib->easy_init();
    if (c->multi == NULL || c->easy == NULL) {
        channel_free(c);
        (void)err_set(e, ERR_SYSTEM, "libcurl gives no handle");
        return NULL;
    }
    list_init(&c->link);
    return c;
}

/* Ready for another exchange; the connection stays. */
static void channel_reset(struct channel *c)
{
    (void)c->lib->multi_remove_handle(c->multi, c->easy);
    c->lib->easy_reset(c->easy);
    if (c->mime != NULL) {
        c->lib->mime_free(take(c->mime));
    }
    c->lib->slist_free_all(take(c->headers));
    c->now = NULL;
}

/* The answer that nobody waits for has come to its end. */
static bool has_drained(struct channel *c)
{
    int running = 0;

    return c->lib->multi_perform(c->multi, &running) == CURLM_OK && running == 0;
}

struct web *web_new(const char *ca_file)
{
    struct web *w = xcalloc(1, sizeof(*w));

    w->ca_file = ca_file;
    (void)pthread_mutex_init(&w->lock, NULL);
    list_init(&w->idle);
    list_init(&w->draining);
    return w;
}

static void free_all(struct list *head)
{
    struct list *pos;
    struct list *tmp;

    list_each_safe (pos, tmp, head) {
        list_del(pos);
        channel_free(list_entry(pos, struct channel, link));
    }
}

void web_free(struct web *w)
{
    if (w == NULL) {
        return;
    }
    free_all(&w->idle);
    free_all(&w->draining);
    (void)pthread_mutex_destroy(&w->lock);
    free(w);
}

static struct channel *take_idle(struct web *w)
{
    struct channel *c = NULL;

    LOCKED(&w->lock);
    if (!list_empty(&w->idle)) {
        c = list_entry(w->idle.prev, struct channel, link);
        list_del(&c->link);
        w->n_idle--;
    }
    return c;
}

/* The oldest first: what is not done there is not done elsewhere. */
static struct channel *take_drained(struct web *w)
{
    struct channel *c = NULL;

    {
        LOCKED(&w->lock);
        if (list_empty(&w->draining)) {
            return NULL;
        }
        c = list_entry(w->draining.next, struct channel, link);
        list_del(&c->link);
        w->n_draining--;
    }
    if (has_drained(c)) {
        channel_reset(c);
        return c;
    }
    lock(&w->lock);
    bool is_kept = w->n_draining < DRAINING_MAX;
    if (is_kept) {
        list_add_tail(&w->draining, &c->link);
        w->n_draining++;
    }
    unlock(&w->lock);
    if (!is_kept) {
        channel_free(c);
    }
    return NULL;
}

static struct channel *channel_take(struct web *w, struct err *e)
{
    struct channel *c = take_drained(w);

    if (c == NULL) {
        c = take_idle(w);
    }
    return c != NULL ? c : channel_new(e);
}

static void channel_give(struct web *w, struct channel *c, bool is_draining)
{
    struct channel *oldest = NULL;

    if (!is_draining) {
        channel_reset(c);
    } else {
        c->now = NULL;
    }
    lock(&w->lock);
    if (is_draining) {
        list_add_tail(&w->draining, &c->link);
        if (w->n_draining++ >= DRAINING_MAX) {
            oldest = list_entry(w->draining.next, struct channel, link);
            w->n_draining--;
        }
    } else {
        list_add_tail(&w->idle, &c->link);
        if (w->n_idle++ >= IDLE_MAX) {
            oldest = list_entry(w->idle.next, struct channel, link);
            w->n_idle--;
        }
    }
    if (oldest != NULL) {
        list_del(&oldest->link);
    }
    unlock(&w->lock);
    if (oldest != NULL) {
        channel_free(oldest);
    }
}

/* ---- what libcurl calls --------------------------------------------------------------------- */

static size_t fail_exchange(struct exchange *x)
{
    x->has_failed = true;
    return 0;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
    struct channel *c = arg;
    struct exchange *x = c->now;
    struct str came = {bytes, size * n};
    long status = 0;

    if (x == NULL || x->is_enough || came.len == 0) {
        return came.len;
    }
    x->heard_ms = clock_mono_ms();
    x->has_body = true;
    (void)c->lib->easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
    if (x->req->receive == NULL || status < 200 || status > 299) {
        buf_add(&x->resp->body, came);
        return came.len;
    }
    int rc = x->req->receive(x->req->arg, came, &x->why);
    if (rc < 0) {
        return fail_exchange(x);
    }
    x->is_enough = rc == WEB_ENOUGH;
    return came.len;
}

static size_t on_header(char *bytes, size_t size, size_t n, void *arg)
{
    struct channel *c = arg;
    struct exchange *x = c->now;
    struct str value;
    struct str name = str_cut((struct str){bytes, size * n}, ':', &value);

    if (x != NULL) {
        x->heard_ms = clock_mono_ms();
    }
    if (x == NULL || x->req->want == NULL || value.p == NULL ||
        !str_eq_nocase(name, str_from(x->req->want))) {
        return size * n;
    }
    value = str_head(str_trim(value), sizeof(x->resp->wanted) - 1);
    memcpy(x->resp->wanted, value.p, value.len);
    x->resp->wanted[value.len] = '\0';
    return size * n;
}

/* A file of a known size is announced: no more than that is sent, and nothing less will do. */
static ssize_t read_file(struct exchange *x, char *to, size_t cap)
{
    const struct source *from = x->req->file;
    int64_t left = from->size - x->n_given;

    if (from->size > 0 && left < (int64_t)cap) {
        cap = (size_t)left;
    }
    ssize_t got = cap > 0 ? from->read(from->arg, to, cap, &x->why) : 0;
    if (got == 0 && from->size > 0 && left > 0) {
        return err_set(&x->why, ERR_SYSTEM,
                       "the file became shorter while it was sent: it had %lld bytes, and ended "
                       "after %lld. Send it again",
                       (long long)from->size, (long long)x->n_given);
    }
    x->n_given += got > 0 ? got : 0;
    return got;
}

static size_t on_upload(char *to, size_t size, size_t n, void *arg)
{
    struct channel *c = arg;
    struct exchange *x = c->now;
    const struct source *from = x != NULL ? x->req->file : NULL;

    if (from == NULL) {
        return CURL_READFUNC_ABORT;
    }
    if (from->fd >= 0) {
        struct pollfd fd = {.fd = from->fd, .events = POLLIN};

        if (poll(&fd, 1, 0) == 0) {
            x->is_paused = true;
            return CURL_READFUNC_PAUSE;
        }
    }
    ssize_t got = read_file(x, to, size * n);
    if (got < 0) {
        (void)fail_exchange(x);
        return CURL_READFUNC_ABORT;
    }
    x->heard_ms = clock_mono_ms();
    return (size_t)got;
}

/* ---- one exchange ---------------------------------------------------------------------------- */

static void add_header(struct channel *c, struct str line)
{
    char *text = xmemdup(line.p, line.len);
    struct curl_slist *longer = c->lib->slist_append(c->headers, text);

    c->headers = longer != NULL ? longer : c->headers;
    free(text);
}

static void add_file(struct channel *c, const struct web_req *req)
{
    const struct curl_library *lib = c->lib;
    curl_mimepart *part;
    char *name = xmemdup(req->file_name.p, req->file_name.len);

    c->mime = lib->mime_init(c->easy);
    part = lib->mime_addpart(c->mime);
    (void)lib->mime_name(part, "metadata");
    (void)lib->mime_filename(part, "metadata");
    (void)lib->mime_type(part, "application/json");
    (void)lib->mime_data(part, req->file_meta.p, req->file_meta.len);
    part = lib->mime_addpart(c->mime);
    (void)lib->mime_name(part, "file");
    (void)lib->mime_filename(part, name);
    (void)lib->mime_type(part, "application/octet-stream");
    (void)lib->mime_data_cb(part, req->file->size > 0 ? (curl_off_t)req->file->size : -1, on_upload,
                            NULL, NULL, c);
    (void)lib->easy_setopt(c->easy, CURLOPT_MIMEPOST, c->mime);
    free(name);
}

static void prepare(struct channel *c, const struct web_req *req, const char *url)
{
    const struct curl_library *lib = c->lib;
    CURL *h = c->easy;

    (void)lib->easy_setopt(h, CURLOPT_URL, url);
    (void)lib->easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
    (void)lib->easy_setopt(h, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)lib->easy_setopt(h, CURLOPT_FOLLOWLOCATION, 0L);
    (void)lib->easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS,
                           (long)(req->connect_ms > 0 ? req->connect_ms : CONNECT_MS));
    (void)lib->easy_setopt(h, CURLOPT_MAXAGE_CONN, (long)CONN_MAX_AGE_S);
    (void)lib->easy_setopt(h, CURLOPT_BUFFERSIZE, (long)PIECE);
    (void)lib->easy_setopt(h, CURLOPT_UPLOAD_BUFFERSIZE, (long)PIECE);
    (void)lib->easy_setopt(h, CURLOPT_WRITEFUNCTION, on_body);
    (void)lib->easy_setopt(h, CURLOPT_WRITEDATA, c);
    (void)lib->easy_setopt(h, CURLOPT_HEADERFUNCTION, on_header);
    (void)lib->easy_setopt(h, CURLOPT_HEADERDATA, c);
    for (size_t i = 0; i < req->n_headers; i++) {
        add_header(c, req->headers[i]);
    }
    if (req->range.len > 0) {
        add_header(c, req->range);
    }
    add_header(c, S("Expect:"));
    if (req->file != NULL) {
        add_file(c, req);
    } else if (req->body.p != NULL) {
        add_header(c, S("Content-Type: application/json"));
        (void)lib->easy_setopt(h, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)req->body.len);
        (void)lib->easy_setopt(h, CURLOPT_POSTFIELDS, req->body.p);
    } else if (strcmp(req->method, "POST") == 0) {
        (void)lib->easy_setopt(h, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)0);
        (void)lib->easy_setopt(h, CURLOPT_POSTFIELDS, "");
    }
    (void)lib->easy_setopt(h, CURLOPT_CUSTOMREQUEST, req->method);
    (void)lib->easy_setopt(h, CURLOPT_HTTPHEADER, c->headers);
}

/* When to look again at the latest. */
static int next_look_ms(const struct exchange *x)
{
    int64_t now = clock_mono_ms();
    int64_t until = now + POLL_MS;

    if (x->ctx->deadline_ms > 0 && x->ctx->deadline_ms < until) {
        until = x->ctx->deadline_ms;
    }
    if (x->req->tick != NULL && now + x->req->tick_ms < until) {
        until = now + x->req->tick_ms;
    }
    return until > now ? (int)(until - now) : 0;
}

static int wait_more(struct exchange *x, struct err *e)
{
    struct channel *c = x->channel;
    struct curl_waitfd fds[2];
    unsigned n = 0;

    if (x->ctx->cancel != NULL) {
        fds[n++] = (struct curl_waitfd){.fd = x->ctx->cancel->fd, .events = CURL_WAIT_POLLIN};
    }
    if (x->is_paused) {
        fds[n++] = (struct curl_waitfd){.fd = x->req->file->fd, .events = CURL_WAIT_POLLIN};
    }
    (void)c->lib->multi_poll(c->multi, fds, n, next_look_ms(x), NULL);
    if (x->is_paused && fds[n - 1].revents != 0) {
        x->is_paused = false;
        (void)c->lib->easy_pause(c->easy, CURLPAUSE_CONT);
    }
    if (ctx_check(x->ctx, e) < 0) {
        return -1;
    }
    if (x->req->silence_ms > 0 && clock_mono_ms() - x->heard_ms > x->req->silence_ms) {
        x->resp->silent = true;
        return err_set(e, ERR_UNREACHABLE, "it has not said anything for %lld s",
                       (long long)x->req->silence_ms / 1000);
    }
    return x->req->tick != NULL ? x->req->tick(x->req->arg, e) : 0;
}

static int fail(const struct exchange *x, CURLcode code, struct err *e)
{
    if (code == CURLE_PEER_FAILED_VERIFICATION) {
        return err_set(e, ERR_UNREACHABLE,
                       "its certificate is not one that is trusted here: opensandbox.ca_file "
                       "(SSL_CERT_FILE) names the file of who signed it");
    }
    if (code == CURLE_SSL_CACERT_BADFILE) {
        return err_set(e, ERR_UNREACHABLE,
                       "opensandbox.ca_file (SSL_CERT_FILE) names no file of certificates (PEM)");
    }
    return err_set(e, ERR_UNREACHABLE, "%s", x->channel->lib->easy_strerror(code));
}

static int conclude(struct exchange *x, CURLcode code, struct err *e)
{
    const struct curl_library *lib = x->channel->lib;
    long sent = 0;

    (void)lib->easy_getinfo(x->channel->easy, CURLINFO_RESPONSE_CODE, &x->resp->status);
    if (x->has_failed) {
        *e = x->why;
        return -1;
    }
    if (code == CURLE_OK || x->is_enough) {
        return 0;
    }
    (void)lib->easy_getinfo(x->channel->easy, CURLINFO_REQUEST_SIZE, &sent);
    x->resp->refused = code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST ||
                       (code == CURLE_OPERATION_TIMEDOUT && sent == 0);
    x->resp->not_sent = x->resp->refused || sent == 0;
    x->resp->broken = x->resp->status != 0;
    return fail(x, code, e);
}

/* 1: the transfer has ended with *code; 0: it goes on. */
static int is_done(struct channel *c, CURLcode *code)
{
    int left = 0;

    for (;;) {
        const CURLMsg *said = c->lib->multi_info_read(c->multi, &left);

        if (said == NULL) {
            return 0;
        }
        if (said->msg == CURLMSG_DONE) {
            *code = said->data.result;
            return 1;
        }
    }
}

static int drive(struct exchange *x, bool *is_draining, struct err *e)
{
    struct channel *c = x->channel;
    CURLcode code = CURLE_OK;
    int running = 0;

    for (;;) {
        CURLMcode rc = c->lib->multi_perform(c->multi, &running);

        if (rc != CURLM_OK) {
            return err_set(e, ERR_BUG, "libcurl refuses to go on (%d)", (int)rc);
        }
        if (is_done(c, &code) != 0) {
            return conclude(x, code, e);
        }
        if (x->is_enough) {
            *is_draining = true;
            return conclude(x, CURLE_OK, e);
        }
        if (wait_more(x, e) < 0) {
            return -1;
        }
    }
}

int web_do(struct web *w, const struct ctx *ctx, const struct web_req *req, struct web_resp *r,
           struct err *e)
{
    struct exchange x = {.ctx = ctx, .req = req, .resp = r, .heard_ms = clock_mono_ms()};
    bool is_draining = false;

    r->status = 0;
    r->wanted[0] = '\0';
    r->not_sent = r->refused = r->silent = r->broken = false;
    buf_clear(&r->body);
    if (ctx_check(ctx, e) < 0) {
        r->not_sent = true;
        return -1;
    }
    x.channel = channel_take(w, e);
    if (x.channel == NULL) {
        r->not_sent = true;
        return -1;
    }
    x.channel->now = &x;
    prepare(x.channel, req, arena_cstr(ctx->arena, req->url));
    if (w->ca_file[0] != '\0') {
        (void)x.channel->lib->easy_setopt(x.channel->easy, CURLOPT_CAINFO, w->ca_file);
    }
    (void)x.channel->lib->multi_add_handle(x.channel->multi, x.channel->easy);
    int rc = drive(&x, &is_draining, e);
    if (rc < 0 || x.has_failed) {
        channel_reset(x.channel); /* closes a connection that is in the middle of something */
    }
    channel_give(w, x.channel, is_draining && rc == 0);
    return rc;
}

void web_resp_init(struct web_resp *r)
{
    *r = (struct web_resp){0};
    buf_init(&r->body, WEB_BODY_MAX);
}

void web_resp_fini(struct web_resp *r)
{
    buf_fini(&r->body);
}

void web_add_escaped(struct buf *to, struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.p[i];

        if (isalnum(c) || c == '-' || c == '.' || c == '_' || c == '~') {
            buf_addc(to, (char)c);
        } else {
            buf_addf(to, "%%%02X", c);
        }
    }
}
