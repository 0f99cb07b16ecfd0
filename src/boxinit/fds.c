#include "boxinit/fds.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

int fds_close_others(int *keep, size_t n, struct err *e)
{
    unsigned from = 3;

    qsort(keep, n, sizeof(*keep), by_number);
    for (size_t i = 0; i < n; i++) {
        if (keep[i] < (int)from) {
            continue; /* -1, or the same one twice */
        }
        if ((unsigned)keep[i] > from && close_range(from, (unsigned)keep[i] - 1, 0) < 0) {
            return err_sys(e, errno, "close descriptors");
        }
        from = (unsigned)keep[i] + 1;
    }
    if (close_range(from, ~0u, 0) < 0) {
        return err_sys(e, errno, "close descriptors");
    }
    return 0;
}
