#include "base/host.h"

#include <string.h>

#include "base/attr.h"

#define HOST_MAX  255
#define USER_MAX  64
#define SHOWN     40
#define JUMPS_MAX 8

static bool is_word(struct str s, const char *others)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.p[i];
        bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

        if (!plain && (c == '\0' || strchr(others, c) == NULL)) {
            return false;
        }
    }
    return true;
}

/* The text without what could disturb a terminal or a log. */
static struct str shown(struct str s, char to[SHOWN])
{
    size_t n = s.len < SHOWN ? s.len : SHOWN;

    for (size_t i = 0; i < n; i++) {
        to[i] = '?';
        if (s.p[i] >= ' ' && s.p[i] <= '~') {
            to[i] = s.p[i];
        }
    }
    return (struct str){to, n};
}

int host_check(struct str host, struct err *e)
{
    char text[SHOWN];

    if (host.len >= 1 && host.len <= HOST_MAX && host.p[0] != '-' && host.p[0] != '.' &&
        is_word(host, ".-_:%")) {
        return 0;
    }
    return err_set(e, ERR_INVALID,
                   "\"%.*s\" is no name or address of a host: 1 to %d letters, digits, '.', '-', "
                   "'_', ':' and '%%', not beginning with '-' or '.'",
                   STR_ARG(shown(host, text)), HOST_MAX);
}

int host_check_user(struct str user, struct err *e)
{
    char text[SHOWN];

    if (user.len >= 1 && user.len <= USER_MAX && user.p[0] != '-' && is_word(user, "._-+@")) {
        return 0;
    }
    return err_set(e, ERR_INVALID,
                   "\"%.*s\" is no name of a user: 1 to %d letters, digits, '.', '_', '-', '+' "
                   "and '@', not beginning with '-'",
                   STR_ARG(shown(user, text)), USER_MAX);
}

static int check_port(struct str port, struct err *e)
{
    int64_t ignored;

    return str_to_i64(port, 1, 65535, &ignored, e);
}

/* "host", "host:port", "[::1]", "[::1]:port" */
static int check_place(struct str place, struct err *e)
{
    struct str port;
    struct str host;

    if (!str_starts(place, S("["))) {
        host = str_cut(place, ':', &port);
        return host_check(host, e) < 0 || (port.p != NULL && check_port(port, e) < 0) ? -1 : 0;
    }
    host = str_cut(str_skip(place, 1), ']', &port);
    if (host_check(host, e) < 0) {
        return -1;
    }
    if (port.len == 0) {
        return 0;
    }
    if (port.p[0] != ':') {
        return err_set(e, ERR_INVALID, "behind \"]\" comes nothing or a port, as in [::1]:22");
    }
    return check_port(str_skip(port, 1), e);
}

static int check_one_jump(struct str one, struct err *e)
{
    struct str place = one;

    for (size_t i = one.len; i > 0; i--) {
        if (one.p[i - 1] == '@') {
            if (host_check_user(str_head(one, i - 1), e) < 0) {
                return -1;
            }
            place = str_skip(one, i);
            break;
        }
    }
    return check_place(place, e);
}

int host_check_jump(struct str jump, struct err *e)
{
    int n = 0;

    do {
        if (check_one_jump(str_trim(str_cut(jump, ',', &jump)), e) < 0) {
            return err_wrap(e, "proxy_jump is [user@]host[:port], with commas between several");
        }
        n++;
    } while (jump.p != NULL && n < JUMPS_MAX);
    return jump.p == NULL ? 0
                          : err_set(e, ERR_LIMIT, "proxy_jump has more than %d hosts", JUMPS_MAX);
}
