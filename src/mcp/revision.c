#include "mcp/revision.h"

#define SINCE_2025_03_26 (REV_ANNOTATIONS | REV_PROGRESS_TEXT | REV_COMPLETIONS | REV_AUDIO)
#define SINCE_2025_06_18 (SINCE_2025_03_26 | REV_TITLES | REV_ELICITATION | REV_LINKS)
#define SINCE_2025_11_25 (SINCE_2025_06_18 | REV_URL_MODE)

static const struct {
    const char *name;
    unsigned traits;
} revisions[REV_COUNT] = {
    [REV_NONE] = {"", 0},
    [REV_2024_11_05] = {"2024-11-05", REV_BATCHES},
    [REV_2025_03_26] = {"2025-03-26", REV_BATCHES | SINCE_2025_03_26},
    [REV_2025_06_18] = {"2025-06-18", SINCE_2025_06_18},
    [REV_2025_11_25] = {"2025-11-25", SINCE_2025_11_25},
    [REV_2026_07_28] = {"2026-07-28",
                        REV_MODERN | REV_RESULT_TYPE | REV_CACHE_HINTS | SINCE_2025_11_25},
};

const char *revision_name(enum revision r)
{
    return revisions[r].name;
}

bool revision_has(enum revision r, enum revision_trait trait)
{
    return (revisions[r].traits & (unsigned)trait) != 0;
}

enum revision revision_find(struct str name)
{
    for (int r = REV_NONE + 1; r < REV_COUNT; r++) {
        if (str_eq(name, str_from(revisions[r].name))) {
            return (enum revision)r;
        }
    }
    return REV_NONE;
}

void revision_add_all(struct buf *out)
{
    for (int r = REV_COUNT - 1; r > REV_NONE; r--) {
        buf_addf(out, "%s\"%s\"", r == REV_COUNT - 1 ? "[" : ",", revisions[r].name);
    }
    buf_addc(out, ']');
}

enum revision revision_agree(struct str wanted)
{
    enum revision r = revision_find(wanted);

    return r != REV_NONE && !revision_has(r, REV_MODERN) ? r : REV_2025_11_25;
}
