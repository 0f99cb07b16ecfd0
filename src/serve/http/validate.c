#include "serve/http/validate.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "serve/http/parse.h"

#define SETTLED_S 2 /* a file this old cannot change any more without another time */

struct str validate_etag(int64_t size, int64_t mtime_s, int64_t now_s, char to[VALIDATE_ETAG_SIZE])
{
    (void)snprintf(to, VALIDATE_ETAG_SIZE, "%s\"%llx-%llx\"",
                   mtime_s < now_s - SETTLED_S ? "" : "W/", (unsigned long long)mtime_s,
                   (unsigned long long)size);
    return str_from(to);
}

struct str validate_date(int64_t wall_s, char to[VALIDATE_DATE_SIZE])
{
    static const char days[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t when = (time_t)wall_s;
    struct tm tm = {0};

    /* What has no place in four digits of a year is the beginning of time. */
    if (gmtime_r(&when, &tm) == NULL || tm.tm_year < -1900 || tm.tm_year > 9999 - 1900) {
        when = 0;
        (void)gmtime_r(&when, &tm);
    }
    (void)snprintf(to, VALIDATE_DATE_SIZE, "%s, %02d %s %04d %02d:%02d:%02d GMT", days[tm.tm_wday],
                   tm.tm_mday, months[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min,
                   tm.tm_sec);
    return str_from(to);
}

static struct str without_weak(struct str tag)
{
    return str_starts(tag, S("W/")) ? str_skip(tag, 2) : tag;
}

bool validate_etag_in(struct str list, struct str etag)
{
    struct str rest = list;

    if (str_eq(http_trim(list), S("*"))) {
        return true;
    }
    while (rest.p != NULL) { /* our tags have no commas */
        struct str tag = http_trim(str_cut(rest, ',', &rest));

        if (str_eq(without_weak(tag), without_weak(etag))) {
            return true;
        }
    }
    return false;
}

bool validate_not_since(struct str date, int64_t mtime_s)
{
    char text[VALIDATE_DATE_SIZE];
    char again[VALIDATE_DATE_SIZE];
    struct tm tm = {0};
    const char *end;
    time_t since;

    if (date.len == 0 || date.len >= sizeof(text)) {
        return false;
    }
    memcpy(text, date.p, date.len);
    text[date.len] = '\0';
    end = strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &tm);
    if (end == NULL || *end != '\0') {
        return false;
    }
    since = timegm(&tm);
    /* strptime() takes more than the one form that there is. */
    return str_eq(validate_date(since, again), date) && mtime_s <= since;
}

bool validate_if_range(struct str condition, struct str etag, struct str date)
{
    struct str wanted = http_trim(condition);

    if (str_starts(etag, S("W/"))) {
        return false;
    }
    return str_eq(wanted, etag) || str_eq(wanted, date);
}
