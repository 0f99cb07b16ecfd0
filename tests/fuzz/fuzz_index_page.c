/* A page of a hostile package index: whatever it says, addresses stay plain. */
#include <stdlib.h>
#include <string.h>

#include "core/index_page.h"
#include "core/package.h"

static void check_plain(struct str s, const char *never)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.p[i] <= ' ' || s.p[i] >= 127 || strchr(never, s.p[i]) != NULL) {
            abort();
        }
    }
}

static int check_link(void *arg, const struct index_link *link, struct err *e)
{
    struct index_url url;
    struct err why = {0};

    (void)e;
    if (index_url_read(link->url, &url, &why) < 0 || url.user.len > 0 || link->file.len == 0) {
        abort();
    }
    check_plain(link->url, "\"<>\\#");
    check_plain(link->file, "\"'<>\\#/?&%");
    check_plain(link->hash, "\"'<>\\#/?&%");
    check_plain(link->metadata, "\"'<>\\#/?&%");
    index_page_add(arg, link, S("../x"));
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct arena a own_arena = {0};
    struct buf page own_buf = {0};
    struct index_url base;
    struct str text = {(const char *)bytes, n};
    struct str name;
    struct err e = {0};

    arena_init(&a, 16u << 20);
    buf_init(&page, 16u << 20);
    if (index_url_read(S("https://host:8443/simple/p/"), &base, &e) < 0) {
        abort();
    }
    (void)!index_page_read(text, &base, check_link, &page, &e);
    if (package_check(&a, text, &name, &e) == 0) {
        check_plain(name, "/\\@;'\"$`(){}|&#");
        if (name.p[0] == '-' || name.p[0] == '.') {
            abort();
        }
    }
    return 0;
}
