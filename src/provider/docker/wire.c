/* wire.c - connections to an engine: see http.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "provider/curl.h"
#include "provider/docker/http.h"

#define CONNECT_MS 10000

/* ---- sockets of our own ------------------------------------------------------------- */

static int refused(const struct where *to, int errnum, struct err *e)
{
    switch (errnum) {
    case ENOENT:
        err_set(e, ERR_UNREACHABLE,
                "no container engine listens at %.*s: install one (sudo apt-get install "
                "docker.io), start it (sudo systemctl start docker), or name its address in "
                "docker.host or DOCKER_HOST",
                STR_ARG(to->shown));
        break;
    case ECONNREFUSED:
        err_set(e, ERR_UNREACHABLE,
                "nobody answers at %.*s: the container engine is not running; start it (sudo "
                "systemctl start docker)",
                STR_ARG(to->shown));
        break;
    case EACCES:
    case EPERM:
        err_set(e, ERR_DENIED,
                "no permission to use the container engine at %.*s: become a member of its group "
                "(sudo usermod -aG docker \"$USER\", then log in anew; it is as good as root), or "
                "use a rootless engine",
                STR_ARG(to->shown));
        break;
    case ENOTSOCK:
    case ENOTDIR:
        err_set(e, ERR_UNREACHABLE,
                "%.*s is not the socket of a container engine: name another one "
                "in docker.host or DOCKER_HOST",
                STR_ARG(to->shown));
        break;
    default:
        err_set(e, ERR_UNREACHABLE, "cannot reach the container engine at %.*s: %s",
                STR_ARG(to->shown), strerror(errnum));
        break;
    }
    e->sys = errnum;
    return -1;
}

/* Until the connection is there, or is known not to be. */
static int finish_connect(int fd, const struct where *to, const struct ctx *ctx, struct err *e)
{
    struct pollfd wait = {.fd = fd, .events = POLLOUT};
    int errnum = 0;
    socklen_t len = sizeof(errnum);
    int n = ctx_wait(ctx, &wait, 1, clock_mono_ms() + CONNECT_MS, e);

    if (n < 0) {
        return -1;
    }
    if (n == 0) {
        return refused(to, ETIMEDOUT, e);
    }
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &errnum, &len) < 0) {
        errnum = errno;
    }
    return errnum == 0 ? 0 : refused(to, errnum, e);
}

static int connect_to(const struct sockaddr *at, socklen_t len, const struct where *to,
                      const struct ctx *ctx, struct err *e)
{
    int64_t until_ms = clock_mono_ms() + CONNECT_MS;
    int fd own_fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0) {
        return err_sys(e, errno, "cannot make a socket");
    }
    while (connect(fd, at, len) < 0) {
        if (errno == EINPROGRESS) {
            return finish_connect(fd, to, ctx, e) < 0 ? -1 : take_fd(&fd);
        }
        /* A unix socket whose queue is full says EAGAIN and tells nobody when it has room. */
        if (errno != EAGAIN && errno != EINTR) {
            return refused(to, errno, e);
        }
        if (clock_mono_ms() >= until_ms) {
            return refused(to, ETIMEDOUT, e);
        }
        if (ctx_wait(ctx, NULL, 0, clock_mono_ms() + 10, e) < 0) {
            return -1;
        }
    }
    return take_fd(&fd);
}

static int connect_unix(const struct where *to, const struct ctx *ctx, struct err *e)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    if (strlen(to->path) >= sizeof(at.sun_path)) {
        return err_set(e, ERR_INVALID,
                       "the path of the container engine's socket is too long: %.*s has %zu bytes "
                       "and the kernel takes %zu; make a shorter link to it",
                       STR_ARG(to->shown), strlen(to->path), sizeof(at.sun_path) - 1);
    }
    memcpy(at.sun_path, to->path, strlen(to->path) + 1);
    return connect_to((const struct sockaddr *)&at, sizeof(at), to, ctx, e);
}

/* ---- TCP and TLS, by libcurl ---------------------------------------------------------- */

static void set_up(const struct curl_library *lib, CURL *curl, const struct where *to,
                   const struct ctx *ctx, const char *url)
{
    (void)lib->easy_setopt(curl, CURLOPT_URL, url);
    (void)lib->easy_setopt(curl, CURLOPT_CONNECT_ONLY, 1L);
    (void)lib->easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)lib->easy_setopt(curl, CURLOPT_PROXY, "");
    (void)lib->easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)lib->easy_setopt(curl, CURLOPT_SSL_ENABLE_ALPN, 0L);
    (void)lib->easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    (void)lib->easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    (void)lib->easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, curl_is_cancelled);
    (void)lib->easy_setopt(curl, CURLOPT_XFERINFODATA, ctx);
    (void)lib->easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, to->insecure ? 0L : 1L);
    (void)lib->easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, to->insecure ? 0L : 2L);
    if (to->ca != NULL) {
        (void)lib->easy_setopt(curl, CURLOPT_CAINFO, to->ca);
    }
    if (to->cert != NULL) {
        (void)lib->easy_setopt(curl, CURLOPT_SSLCERT, to->cert);
        (void)lib->easy_setopt(curl, CURLOPT_SSLKEY, to->key);
    }
}

static int curl_failed(const struct curl_library *lib, CURLcode code, const struct where *to,
                       const char *why, struct err *e)
{
    bool is_trust = code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE;
    bool is_cert = code == CURLE_SSL_CERTPROBLEM;

    return err_set(e, is_trust || is_cert ? ERR_DENIED : ERR_UNREACHABLE,
                   "cannot reach the container engine at %.*s: %s%s", STR_ARG(to->shown),
                   why[0] != '\0' ? why : lib->easy_strerror(code),
                   is_trust  ? "; its certificate is not signed by ca.pem in DOCKER_CERT_PATH"
                   : is_cert ? "; cert.pem or key.pem in DOCKER_CERT_PATH cannot be used"
                             : "");
}

static int open_curl(struct wire *w, const struct where *to, const struct ctx *ctx, struct err *e)
{
    const struct curl_library *lib = curl_library(e);
    char why[CURL_ERROR_SIZE] = "";
    char url[300];
    curl_socket_t fd = CURL_SOCKET_BAD;

    if (lib == NULL) {
        return -1;
    }
    CURL *curl = lib->easy_init();
    if (curl == NULL) {
        return err_set(e, ERR_SYSTEM, "libcurl cannot be used");
    }
    w->curl = curl;
    const char *brackets = strchr(to->host, ':') != NULL ? "[]" : "";
    (void)snprintf(url, sizeof(url), "%s://%.1s%s%s:%u/", to->kind == WHERE_TLS ? "https" : "http",
                   brackets, to->host, brackets[0] != '\0' ? "]" : "", to->port);
    set_up(lib, curl, to, ctx, url);
    (void)lib->easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
    CURLcode code = lib->easy_perform(curl);
    (void)lib->easy_setopt(curl, CURLOPT_ERRORBUFFER, NULL);
    if (code == CURLE_OK) {
        code = lib->easy_getinfo(curl, CURLINFO_ACTIVESOCKET, &fd);
    }
    if (code != CURLE_OK || fd == CURL_SOCKET_BAD) {
        wire_close(w);
        return ctx_check(ctx, e) < 0 ? -1 : curl_failed(lib, code, to, why, e);
    }
    w->fd = fd;
    return 0;
}

/* ---- both --------------------------------------------------------------------------- */

int wire_open(struct wire *w, const struct where *to, const struct ctx *ctx, struct err *e)
{
    *w = WIRE_NONE;
    if (to->kind != WHERE_UNIX) {
        return open_curl(w, to, ctx, e);
    }
    w->fd = connect_unix(to, ctx, e);
    return w->fd < 0 ? -1 : 0;
}

void wire_close(struct wire *w)
{
    struct err ignored;
    const struct curl_library *lib = w->curl != NULL ? curl_library(&ignored) : NULL;

    if (lib != NULL) {
        lib->easy_cleanup(w->curl);
    } else if (w->fd >= 0) {
        (void)close(w->fd);
    }
    *w = WIRE_NONE;
}

/* Without an errno it is the end of the stream. */
static int lost(struct err *e, int errnum)
{
    if (errnum != 0) {
        err_set(e, ERR_UNREACHABLE, "the connection to the container engine was lost: %s",
                strerror(errnum));
    } else {
        err_set(e, ERR_UNREACHABLE, "the container engine closed the connection");
    }
    e->sys = errnum;
    return -1;
}

static ssize_t curl_result(CURLcode code, size_t n, struct err *e)
{
    if (code == CURLE_OK) {
        return n > 0 ? (ssize_t)n : lost(e, 0);
    }
    return code == CURLE_AGAIN ? 0 : lost(e, ECONNRESET);
}

ssize_t wire_send(struct wire *w, struct str bytes, struct err *e)
{
    const struct curl_library *lib;
    size_t sent = 0;
    ssize_t n;

    if (w->curl != NULL) {
        lib = curl_library(e);
        if (lib == NULL) {
            return -1;
        }
        CURLcode code = lib->easy_send(w->curl, bytes.p, bytes.len, &sent);
        return curl_result(code, sent, e);
    }
    do {
        n = send(w->fd, bytes.p, bytes.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return errno == EAGAIN ? 0 : lost(e, errno);
    }
    return n;
}

ssize_t wire_recv(struct wire *w, char *to, size_t cap, struct err *e)
{
    const struct curl_library *lib;
    size_t got = 0;
    ssize_t n;

    if (w->curl != NULL) {
        lib = curl_library(e);
        if (lib == NULL) {
            return -1;
        }
        CURLcode code = lib->easy_recv(w->curl, to, cap, &got);
        n = curl_result(code, got, e);
        w->has_more = n > 0;
        return n;
    }
    do {
        n = recv(w->fd, to, cap, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return errno == EAGAIN ? 0 : lost(e, errno);
    }
    return n > 0 ? n : lost(e, 0);
}
