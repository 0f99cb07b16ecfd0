#include "base/id.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

/* Without randomness there are no secrets and no unique names: nothing may go on. */
void id_random(void *to, size_t n_bytes)
{
    char *p = to;

    while (n_bytes > 0) {
        ssize_t got = getrandom(p, n_bytes, 0);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            perror("anybox: the kernel gives no random bytes");
            abort();
        }
        p += got;
        n_bytes -= (size_t)got;
    }
}

void id_hex(char *to, size_t n_bytes)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t done = 0; done < n_bytes;) {
        unsigned char bytes[32];
        size_t n = n_bytes - done < sizeof(bytes) ? n_bytes - done : sizeof(bytes);

        id_random(bytes, n);
        for (size_t i = 0; i < n; i++) {
            *to++ = digits[bytes[i] >> 4];
            *to++ = digits[bytes[i] & 15];
        }
        done += n;
    }
    *to = '\0';
}

uint32_t id_below(uint32_t limit)
{
    uint32_t unfair, value;

    if (limit < 2) {
        return 0;
    }
    /* The numbers above the largest multiple of limit would favour small results. */
    unfair = UINT32_MAX - UINT32_MAX % limit;
    do {
        id_random(&value, sizeof(value));
    } while (value >= unfair);
    return value % limit;
}
