#include "core/index_fetch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/base64url.h"
#include "base/id.h"
#include "base/percent.h"
#include "base/sha256.h"
#include "core/index_page.h"
#include "core/package.h"
#include "provider/curl.h"

#define PAGE_MAX     (64u << 20)
#define ASIDE_MAX    (256 << 10) /* bytes of an answer that is not what was asked for */
#define HOPS         5
#define CONNECT_MS   20000
#define SLOW_S       60 /* without a byte */
#define KEY_BYTES    32
#define SIGNED_MAX   (INDEX_URL_MAX + 1)
#define OF_A_REQUEST (1u << 20) /* memory */

struct index_fetch {
    const struct index_conf *conf;
    const struct ctx *ctx;
    const struct curl_library *lib;
    CURL *curl;
    struct index_url index;
    unsigned char key[KEY_BYTES];
};

/* One request, over all its redirects. */
struct get {
    struct index_fetch *f;
    struct arena *arena;
    struct buf *page;             /* where it goes, or */
    const struct index_taker *to; /* whom it is given to */
    struct index_url url;         /* of this hop */
    bool begun;
    bool refused; /* the address */
    int64_t max, got;
    struct err why; /* of a callback; ERR_NONE: none */
};

/* ---- which hosts --------------------------------------------------------------------------- */

static bool v4_is_public(uint32_t a)
{
    static const struct {
        uint32_t net;
        int bits;
    } others[] = {
        {0x00000000, 8},  {0x0a000000, 8},  {0x64400000, 10}, {0x7f000000, 8},
        {0xa9fe0000, 16}, {0xac100000, 12}, {0xc0000000, 24}, {0xc0000200, 24},
        {0xc0a80000, 16}, {0xc6120000, 15}, {0xe0000000, 3},
    };

    for (size_t i = 0; i < COUNTOF(others); i++) {
        if ((a ^ others[i].net) >> (32 - others[i].bits) == 0) {
            return false;
        }
    }
    return true;
}

static uint32_t v4_in(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

bool index_address_is_public(const struct sockaddr *address)
{
    static const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    if (address->sa_family == AF_INET) {
        memcpy(&v4, address, sizeof(v4));
        return v4_is_public(ntohl(v4.sin_addr.s_addr));
    }
    if (address->sa_family != AF_INET6) {
        return false;
    }
    memcpy(&v6, address, sizeof(v6));
    if (memcmp(&v6.sin6_addr, mapped, sizeof(mapped)) == 0) {
        return v4_is_public(v4_in(v6.sin6_addr.s6_addr + 12));
    }
    /* 2000::/3 is all that was given out; 2002::/16 may mean any address of the old kind. */
    return v6.sin6_addr.s6_addr[0] >> 5 == 1 &&
           !(v6.sin6_addr.s6_addr[0] == 0x20 && v6.sin6_addr.s6_addr[1] == 0x02);
}

static bool is_listed(const struct index_conf *conf, const struct index_url *u)
{
    for (struct str rest = conf->file_hosts; rest.p != NULL;) {
        struct str one = str_trim(str_cut(rest, ',', &rest));
        struct index_url listed;
        struct err ignored = {0};
        char text[300] = "https://";

        if (one.len == 0 || one.len > 270) {
            continue;
        }
        memcpy(text + 8, one.p, one.len);
        if (index_url_read((struct str){text, one.len + 8}, &listed, &ignored) < 0) {
            continue;
        }
        if (str_eq_nocase(listed.host, u->host) &&
            (listed.host.len == one.len || listed.port == u->port)) {
            return true;
        }
    }
    return false;
}

/* The operator has named it, so it may be anywhere. */
static bool is_trusted(const struct index_fetch *f, const struct index_url *u)
{
    return index_url_same(u, &f->index) || is_listed(f->conf, u);
}

/* Then addresses are looked up elsewhere, and what we connect to is the proxy: libcurl takes the
 * first of these that is not empty, and HTTP_PROXY never. */
bool index_has_proxy(bool tls)
{
    static const char *const secure[] = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};
    static const char *const plain[] = {"http_proxy", "all_proxy", "ALL_PROXY"};
    const char *const *names = tls ? secure : plain;
    size_t n = tls ? COUNTOF(secure) : COUNTOF(plain);

    for (size_t i = 0; i < n; i++) {
        const char *value = getenv(names[i]);

        if (value != NULL && value[0] != '\0') {
            return true;
        }
    }
    return false;
}

static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct get *g = arg;

    (void)purpose;
    if (!is_trusted(g->f, &g->url) && !index_has_proxy(g->url.tls) &&
        !index_address_is_public(&address->addr)) {
        g->refused = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* ---- one request ----------------------------------------------------------------------------- */

static int begin(struct get *g)
{
    curl_off_t length = -1;

    if (g->begun || g->to == NULL) {
        return 0;
    }
    g->begun = true;
    (void)g->f->lib->easy_getinfo(g->f->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    return g->to->begin(g->to->arg, length, &g->why);
}

static int take(struct get *g, struct str bytes)
{
    long status = 0;

    (void)g->f->lib->easy_getinfo(g->f->curl, CURLINFO_RESPONSE_CODE, &status);
    g->got += (int64_t)bytes.len;
    if (status != 200) { /* what is said about an error is not for the box */
        return g->got <= ASIDE_MAX
                   ? 0
                   : err_set(&g->why, ERR_PROTOCOL, "%.*s answered with status %ld, at length",
                             STR_ARG(index_url_text(g->arena, &g->url)), status);
    }
    if (g->got > g->max) {
        return err_set(&g->why, ERR_LIMIT,
                       "%.*s has more than %lld bytes, and no more are fetched for a sandbox",
                       STR_ARG(index_url_text(g->arena, &g->url)), (long long)g->max);
    }
    if (g->page != NULL) {
        buf_add(g->page, bytes);
        return 0;
    }
    return begin(g) < 0 ? -1 : g->to->write(g->to->arg, bytes, &g->why);
}

static size_t on_bytes(void *bytes, size_t size, size_t n, void *arg)
{
    struct str came = {bytes, size * n};

    return take(arg, came) < 0 ? 0 : came.len;
}

static void set_user(struct get *g)
{
    const struct curl_library *lib = g->f->lib;
    CURL *c = g->f->curl;
    struct err ignored = {0};
    struct str secret = STR_EMPTY;
    struct str name = str_cut(g->f->index.user, ':', &secret);

    (void)lib->easy_setopt(c, CURLOPT_USERNAME, NULL);
    (void)lib->easy_setopt(c, CURLOPT_PASSWORD, NULL);
    if (g->f->index.user.len == 0 || !index_url_same(&g->url, &g->f->index) ||
        g->url.tls != g->f->index.tls || percent_read(g->arena, name, false, &name, &ignored) < 0 ||
        percent_read(g->arena, secret, false, &secret, &ignored) < 0) {
        return;
    }
    (void)lib->easy_setopt(c, CURLOPT_USERNAME, arena_cstr(g->arena, name));
    (void)lib->easy_setopt(c, CURLOPT_PASSWORD, arena_cstr(g->arena, secret));
}

/* libcurl itself has its builder's authorities; programs that use it take these variables. */
static void set_authorities(const struct curl_library *lib, CURL *c)
{
    const char *file = getenv("SSL_CERT_FILE");
    const char *folder = getenv("SSL_CERT_DIR");

    if (file != NULL && file[0] != '\0') {
        (void)lib->easy_setopt(c, CURLOPT_CAINFO, file);
    }
    if (folder != NULL && folder[0] != '\0') {
        (void)lib->easy_setopt(c, CURLOPT_CAPATH, folder);
    }
}

static void set_options(struct get *g)
{
    const struct curl_library *lib = g->f->lib;
    CURL *c = g->f->curl;

    (void)lib->easy_setopt(c, CURLOPT_URL, index_url_text(g->arena, &g->url).p);
    (void)lib->easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)lib->easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    /* no_proxy is for hosts that the operator has named: to others there is no way around it. */
    (void)lib->easy_setopt(c, CURLOPT_NOPROXY, is_trusted(g->f, &g->url) ? NULL : "");
    (void)lib->easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    (void)lib->easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    (void)lib->easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    (void)lib->easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)SLOW_S);
    (void)lib->easy_setopt(c, CURLOPT_ACCEPT_ENCODING, g->page != NULL ? "" : NULL);
    (void)lib->easy_setopt(c, CURLOPT_USERAGENT, "anybox/" ANYBOX_VERSION);
    (void)lib->easy_setopt(c, CURLOPT_WRITEFUNCTION, on_bytes);
    (void)lib->easy_setopt(c, CURLOPT_WRITEDATA, g);
    (void)lib->easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    (void)lib->easy_setopt(c, CURLOPT_OPENSOCKETDATA, g);
    (void)lib->easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    (void)lib->easy_setopt(c, CURLOPT_XFERINFOFUNCTION, curl_is_cancelled);
    (void)lib->easy_setopt(c, CURLOPT_XFERINFODATA, g->f->ctx);
    set_authorities(lib, c);
    set_user(g);
}

static bool is_untrusted(CURLcode rc)
{
    return rc == CURLE_PEER_FAILED_VERIFICATION || rc == CURLE_SSL_CACERT_BADFILE;
}

static int failed(struct get *g, CURLcode rc, struct err *e)
{
    struct str url = index_url_text(g->arena, &g->url);

    if (g->why.kind != ERR_NONE) {
        *e = g->why;
        return -1;
    }
    if (g->refused) {
        return err_set(e, ERR_DENIED,
                       "%.*s is not fetched: the index links to a host at an address that is not "
                       "public; if it is right, name it in mirror.file_hosts",
                       STR_ARG(str_head(url, 250)));
    }
    if (ctx_check(g->f->ctx, e) < 0) {
        return -1;
    }
    return err_set(e, ERR_UNREACHABLE, "%.*s was not reached: %s%s", STR_ARG(str_head(url, 250)),
                   g->f->lib->easy_strerror(rc),
                   is_untrusted(rc) ? "; if its certificate is of an authority of your own, set "
                                      "SSL_CERT_FILE to that authority's file where anybox starts"
                                    : "");
}

static int redirect(struct get *g, struct err *e)
{
    struct index_url from = g->url;
    struct str fragment;
    struct str url;
    char *to = NULL;

    (void)g->f->lib->easy_getinfo(g->f->curl, CURLINFO_REDIRECT_URL, &to);
    if (to == NULL || index_url_join(g->arena, &from, str_from(to), &url, &fragment, e) < 0 ||
        index_url_read(url, &g->url, e) < 0) {
        return err_set(e, ERR_PROTOCOL, "%.*s leads to an address that cannot be used",
                       STR_ARG(str_head(index_url_text(g->arena, &from), 250)));
    }
    if ((!str_eq_nocase(g->url.host, from.host) && !is_trusted(g->f, &g->url)) ||
        (from.tls && !g->url.tls)) {
        return err_set(e, ERR_DENIED,
                       "%.*s leads to %.*s, which is not followed: name that host in "
                       "mirror.file_hosts if it is right",
                       STR_ARG(str_head(index_url_text(g->arena, &from), 150)),
                       STR_ARG(str_head(url, 150)));
    }
    return 0;
}

static int judge(struct get *g, long status, struct err *e)
{
    struct str url = str_head(index_url_text(g->arena, &g->url), 250);

    if (status == 200) {
        return begin(g) < 0 ? failed(g, CURLE_OK, e) : 0;
    }
    if (status == 404 || status == 410) {
        return err_set(e, ERR_NOT_FOUND, "%.*s is not there (status %ld)", STR_ARG(url), status);
    }
    return err_set(e, ERR_UNREACHABLE, "%.*s answered with status %ld%s", STR_ARG(url), status,
                   status == 401 || status == 403
                       ? ": mirror.pypi_index_url may need a user and a secret"
                       : "");
}

static int get(struct get *g, struct err *e)
{
    for (int hop = 0; hop <= HOPS; hop++) {
        long status = 0;
        CURLcode rc;

        set_options(g);
        g->got = 0;
        rc = g->f->lib->easy_perform(g->f->curl);
        if (rc != CURLE_OK) {
            return failed(g, rc, e);
        }
        (void)g->f->lib->easy_getinfo(g->f->curl, CURLINFO_RESPONSE_CODE, &status);
        if (status < 300 || status >= 400) {
            return judge(g, status, e);
        }
        if (redirect(g, e) < 0) {
            return -1;
        }
    }
    return err_set(e, ERR_PROTOCOL, "%.*s leads on and on",
                   STR_ARG(str_head(index_url_text(g->arena, &g->url), 250)));
}

/* ---- pages ------------------------------------------------------------------------------------ */

static void sign(const struct index_fetch *f, struct str text, char hex[SHA256_HEX_SIZE])
{
    unsigned char code[SHA256_SIZE];
    struct hmac256 mac;

    hmac256_init(&mac, (struct str){(const char *)f->key, KEY_BYTES});
    hmac256_add(&mac, text);
    hmac256_end(&mac, code);
    (void)sha256_hex(code, hex);
}

struct rewriting {
    struct index_fetch *f;
    struct buf *to;
};

static int add_link(void *arg, const struct index_link *link, struct err *e)
{
    struct rewriting *r = arg;
    struct buf text own_buf = {0};
    struct buf href own_buf = {0};
    char hex[SHA256_HEX_SIZE];

    (void)e;
    buf_init(&text, SIGNED_MAX);
    buf_addc(&text, link->metadata.len > 0 ? 'm' : '-');
    buf_add(&text, link->url);
    sign(r->f, buf_str(&text), hex);
    buf_init(&href, 3 * (size_t)SIGNED_MAX);
    buf_addf(&href, "../../file/%s/", hex);
    base64url_add(&href, buf_str(&text));
    buf_addf(&href, "/%.*s", STR_ARG(link->file));
    index_page_add(r->to, link, buf_str(&href));
    return 0;
}

int index_fetch_page(struct index_fetch *f, struct str project, struct buf *page, struct err *e)
{
    struct arena arena own_arena = {0};
    struct buf raw own_buf = {0};
    struct get g = {.f = f, .arena = &arena, .page = &raw, .max = PAGE_MAX};
    struct rewriting r = {.f = f, .to = page};
    struct str path = f->index.path;
    struct str name;

    arena_init(&arena, OF_A_REQUEST);
    buf_init(&raw, PAGE_MAX);
    name = package_name(&arena, project);
    if (name.len == 0) {
        return err_set(e, ERR_INVALID, "this is no name of a project");
    }
    while (path.len > 0 && path.p[path.len - 1] == '/') {
        path.len--;
    }
    g.url = f->index;
    g.url.user = STR_EMPTY;
    g.url.path = arena_printf(&arena, "%.*s/%.*s/", STR_ARG(path), STR_ARG(name));
    if (get(&g, e) < 0) {
        return -1;
    }
    index_page_begin(page);
    if (index_page_read(buf_str(&raw), &g.url, add_link, &r, e) < 0) {
        return -1;
    }
    index_page_end(page);
    return page->cut ? err_set(e, ERR_LIMIT, "the index's page of %.*s is too long",
                               STR_ARG(str_head(project, 100)))
                     : 0;
}

/* ---- files -------------------------------------------------------------------------------------- */

static int not_ours(struct err *e)
{
    return err_set(e, ERR_DENIED, "this is no file of a page that was fetched for this install");
}

int index_fetch_file(struct index_fetch *f, struct str signature, struct str word, bool metadata,
                     const struct index_taker *to, struct err *e)
{
    struct arena arena own_arena = {0};
    struct buf text own_buf = {0};
    struct get g = {.f = f, .arena = &arena, .to = to, .max = f->conf->max_file};
    char hex[SHA256_HEX_SIZE];
    struct str url;

    arena_init(&arena, OF_A_REQUEST);
    buf_init(&text, SIGNED_MAX);
    if (base64url_read(word, &text, e) < 0 || text.cut || text.len == 0) {
        return not_ours(e);
    }
    sign(f, buf_str(&text), hex);
    if (signature.len != SHA256_HEX_SIZE - 1 || !secret_eq(signature.p, hex, signature.len) ||
        (metadata && text.p[0] != 'm')) {
        return not_ours(e);
    }
    url = str_skip(buf_str(&text), 1);
    if (metadata) {
        url = arena_printf(&arena, "%.*s.metadata", STR_ARG(url));
    }
    if (index_url_read(url, &g.url, e) < 0) {
        return -1;
    }
    return get(&g, e);
}

/* ---- its life ------------------------------------------------------------------------------------ */

int index_conf_check(const struct index_conf *conf, struct err *e)
{
    struct index_url url;

    if (index_url_read(conf->url, &url, e) < 0) {
        return err_wrap(e, "mirror.pypi_index_url");
    }
    if (str_has(url.path, '?')) {
        return err_set(e, ERR_INVALID, "mirror.pypi_index_url must not have a '?' in it");
    }
    return 0;
}

bool index_conf_is_secret(const struct index_conf *conf)
{
    struct index_url url;
    struct err ignored = {0};

    return index_url_read(conf->url, &url, &ignored) < 0 || url.user.len > 0;
}

struct index_fetch *index_fetch_new(const struct index_conf *conf, const struct ctx *ctx,
                                    struct err *e)
{
    const struct curl_library *lib = curl_library(e);
    struct index_fetch *f;

    if (lib == NULL || index_conf_check(conf, e) < 0) {
        return NULL;
    }
    f = xcalloc(1, sizeof(*f));
    *f = (struct index_fetch){.conf = conf, .ctx = ctx, .lib = lib, .curl = lib->easy_init()};
    (void)!index_url_read(conf->url, &f->index, e);
    id_random(f->key, sizeof(f->key));
    if (f->curl == NULL) {
        (void)err_set(e, ERR_SYSTEM, "libcurl has no memory");
        free(f);
        return NULL;
    }
    return f;
}

void index_fetch_free(struct index_fetch *f)
{
    if (f != NULL) {
        f->lib->easy_cleanup(f->curl);
        free(f);
    }
}
