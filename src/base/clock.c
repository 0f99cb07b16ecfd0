#include "base/clock.h"

#include <stdio.h>
#include <time.h>

#define DAY_S 86400

static int64_t now_ms(clockid_t clock)
{
    struct timespec now = {0};

    (void)clock_gettime(clock, &now); /* cannot fail for the clocks below */
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t clock_mono_ms(void)
{
    return now_ms(CLOCK_MONOTONIC);
}

int64_t clock_mono_us(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t clock_boot_ms(void)
{
    return now_ms(CLOCK_BOOTTIME);
}

int64_t clock_wall_ms(void)
{
    return now_ms(CLOCK_REALTIME);
}

static int64_t days_in_year(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0 ? 366 : 365;
}

static int64_t days_in_month(int64_t year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    return days[month] + (month == 1 && days_in_year(year) == 366);
}

/* By hand, because gmtime_r() may read the time zone files of a root folder that is
 * not to be trusted. Times outside 1970..9999 are moved to the nearest of these. */
char *clock_rfc3339(int64_t wall_ms, char to[CLOCK_RFC3339_SIZE])
{
    const int64_t last_s = 253402300799; /* 9999-12-31T23:59:59Z */
    int64_t s = wall_ms < 0 ? 0 : wall_ms / 1000;
    int64_t year = 1970;
    int month = 0;
    int64_t day, rest;

    if (s > last_s) {
        s = last_s;
    }
    day = s / DAY_S;
    rest = s % DAY_S;
    while (day >= days_in_year(year)) {
        day -= days_in_year(year++);
    }
    while (day >= days_in_month(year, month)) {
        day -= days_in_month(year, month++);
    }
    /* All are in range; "% 100" says so to compilers, which else see a text that does not fit. */
    (void)snprintf(to, CLOCK_RFC3339_SIZE, "%04u-%02u-%02uT%02u:%02u:%02uZ", (unsigned)year % 10000,
                   (unsigned)(month + 1) % 100, (unsigned)(day + 1) % 100,
                   (unsigned)(rest / 3600) % 100, (unsigned)(rest / 60 % 60) % 100,
                   (unsigned)(rest % 60) % 100);
    return to;
}
