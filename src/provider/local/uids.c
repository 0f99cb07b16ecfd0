#include "provider/local/uids.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/own.h"

#define LOCK_DIR   "/run/anybox"
#define LOCK_FILE  "slots"
#define SLOT_TRIES 200
#define FILE_MAX   (1u << 20)

/* linux/capability.h numbers. Both are needed to write another's maps, and no more:
 * root in a container mostly has these, and a sandbox must not have root's own uid. */
enum { NEED_SETGID = 6, NEED_SETUID = 7 };

/* ---- parsers ---------------------------------------------------------------------- */

uint32_t uids_parse_end(struct str text)
{
    int64_t end = 0;
    while (text.len > 0) {
        struct str rest = STR_EMPTY;
        struct str tail = STR_EMPTY;
        struct str line = str_cut(text, '\n', &text);
        (void)str_cut(line, ':', &rest);
        struct str start = str_cut(rest, ':', &tail);
        int64_t from = 0;
        int64_t many = 0;
        struct err ignored;
        if (str_to_i64(start, 0, UINT32_MAX, &from, &ignored) == 0 &&
            str_to_i64(tail, 0, UINT32_MAX, &many, &ignored) == 0 && from + many > end) {
            end = from + many;
        }
    }
    return end < UINT32_MAX ? (uint32_t)end : UINT32_MAX;
}

bool uids_parse_sub(struct str text, struct str name, uint32_t uid, uint32_t *first,
                    uint32_t *count)
{
    char digits[16];
    (void)snprintf(digits, sizeof digits, "%u", uid);
    while (text.len > 0) {
        struct str rest = STR_EMPTY;
        struct str tail = STR_EMPTY;
        struct str line = str_cut(text, '\n', &text);
        struct str who = str_cut(line, ':', &rest);
        struct str start = str_cut(rest, ':', &tail);
        bool mine =
            who.len > 0 && ((name.len > 0 && str_eq(who, name)) || str_eq(who, str_from(digits)));
        int64_t from = 0;
        int64_t many = 0;
        struct err ignored;
        if (!mine || str_to_i64(start, 1, UINT32_MAX - 1, &from, &ignored) < 0 ||
            str_to_i64(tail, UID_RANGE, UINT32_MAX, &many, &ignored) < 0 ||
            from + many > UINT32_MAX) {
            continue;
        }
        *first = (uint32_t)from;
        *count = (uint32_t)many;
        return true;
    }
    return false;
}

/* The next word of a line of numbers in columns. */
static struct str word(struct str *line)
{
    *line = str_trim(*line);
    return str_cut(*line, ' ', line);
}

bool uids_parse_map(struct str text, uint32_t first, uint32_t count)
{
    while (text.len > 0) {
        struct str line = str_cut(text, '\n', &text);
        int64_t inside = 0;
        int64_t many = 0;
        struct err ignored;
        struct str from = word(&line);
        (void)word(&line);
        if (str_to_i64(from, 0, UINT32_MAX, &inside, &ignored) < 0 ||
            str_to_i64(word(&line), 1, UINT32_MAX, &many, &ignored) < 0) {
            continue;
        }
        if (inside <= first && inside + many >= (int64_t)first + count) {
            return true;
        }
    }
    return false;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

uint64_t uids_parse_caps(struct str status)
{
    while (status.len > 0) {
        struct str line = str_cut(status, '\n', &status);
        if (!str_starts(line, S("CapEff:"))) {
            continue;
        }
        struct str hex = str_trim(str_skip(line, sizeof "CapEff:" - 1));
        uint64_t caps = 0;
        for (size_t i = 0; i < hex.len; i++) {
            int digit = hex_digit(hex.p[i]);
            if (digit < 0 || hex.len > 16) {
                return 0;
            }
            caps = caps << 4 | (uint64_t)digit;
        }
        return caps;
    }
    return 0;
}

/* ---- this process ------------------------------------------------------------------- */

/* A file that is not there, or not for us, says nothing. One that cannot be read for want
 * of descriptors or memory must not make a box with fewer uids than it is due. */
static int text_of(struct arena *a, const char *path, struct str *out, struct err *e)
{
    *out = STR_EMPTY;
    if (fd_read_file(AT_FDCWD, path, FILE_MAX, a, out, e) == 0) {
        return 0;
    }
    *out = STR_EMPTY;
    return e->kind == ERR_NOT_FOUND || e->kind == ERR_DENIED ? 0 : -1;
}

/* 1: yes, 0: no. */
static int is_full_root(struct arena *a, struct err *e)
{
    uint64_t need = 1ull << NEED_SETGID | 1ull << NEED_SETUID;
    uint32_t all = UID_SLOTS * UID_RANGE;
    struct str status;
    struct str uids;
    struct str gids;
    if (geteuid() != 0) {
        return 0;
    }
    if (text_of(a, "/proc/self/status", &status, e) < 0 ||
        text_of(a, "/proc/self/uid_map", &uids, e) < 0 ||
        text_of(a, "/proc/self/gid_map", &gids, e) < 0) {
        return -1;
    }
    return (uids_parse_caps(status) & need) == need && uids_parse_map(uids, UID_FIRST, all) &&
           uids_parse_map(gids, UID_FIRST, all);
}

static struct str user_name(struct arena *a)
{
    struct passwd entry;
    struct passwd *found = NULL;
    char *strings = arena_alloc(a, 1, 16384);
    if (getpwuid_r(geteuid(), &entry, strings, 16384, &found) != 0 || found == NULL) {
        return STR_EMPTY;
    }
    return str_from(found->pw_name);
}

bool uids_can_map(void)
{
    return access(NEWUIDMAP, X_OK) == 0 && access(NEWGIDMAP, X_OK) == 0;
}

/* 1: yes, 0: no. */
static int has_subuids(struct arena *a, struct uid_range *out, struct err *e)
{
    struct str uids;
    struct str gids;
    uint32_t many = 0;
    if (geteuid() == 0 || !uids_can_map()) {
        return 0;
    }
    if (text_of(a, "/etc/subuid", &uids, e) < 0 || text_of(a, "/etc/subgid", &gids, e) < 0) {
        return -1;
    }
    struct str name = user_name(a);
    return uids_parse_sub(uids, name, geteuid(), &out->uid, &many) &&
           uids_parse_sub(gids, name, geteuid(), &out->gid, &many);
}

int uids_mode(struct arena *a, struct uid_range *out, struct err *e)
{
    int root = is_full_root(a, e);
    int sub = root == 0 ? has_subuids(a, out, e) : 0;
    if (root < 0 || sub < 0) {
        return err_wrap(e, "cannot tell which user ids the sandbox may have");
    }
    out->mode = root > 0 ? UID_ROOT : sub > 0 ? UID_SUBUIDS : UID_ONE;
    return 0;
}

/* ---- slots ---------------------------------------------------------------------------- */

/* One file for all: a slot is a byte of it. Nothing is written to it. */
static int open_slots(struct err *e)
{
    if (fd_mkdirs(LOCK_DIR, 0700, e) < 0) {
        return -1;
    }
    int fd = open(LOCK_DIR "/" LOCK_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? err_sys(e, errno, "cannot open %s/%s", LOCK_DIR, LOCK_FILE) : fd;
}

/* The lock belongs to the open file: to all who inherit the descriptor, and ends with the
 * last of them. */
static bool lock_slot(int fd, uint32_t slot)
{
    struct flock byte = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)slot, .l_len = 1};
    return fcntl(fd, F_OFD_SETLK, &byte) == 0;
}

static int take_slot(struct uid_range *out, struct err *e)
{
    int fd own_fd = open_slots(e);
    if (fd < 0) {
        return -1;
    }
    for (int i = 0; i < SLOT_TRIES; i++) {
        uint32_t slot = id_below(UID_SLOTS);
        if (lock_slot(fd, slot)) {
            uint32_t first = UID_FIRST + slot * UID_RANGE;
            *out = (struct uid_range){.mode = UID_ROOT,
                                      .uid = first,
                                      .gid = first,
                                      .count = UID_RANGE,
                                      .lock = take_fd(&fd)};
            return 0;
        }
        if (errno != EAGAIN && errno != EACCES) {
            return err_sys(e, errno, "cannot lock a range of user ids in %s/%s", LOCK_DIR,
                           LOCK_FILE);
        }
    }
    return err_set(e, ERR_LIMIT,
                   "no free range of user ids was found in %s/%s; delete sandboxes that are not "
                   "needed",
                   LOCK_DIR, LOCK_FILE);
}

int uids_take(const struct uid_range *from, struct uid_range *out, struct err *e)
{
    struct uid_range range = *from;
    range.lock = -1;
    if (range.mode == UID_ROOT) {
        return take_slot(out, e);
    }
    if (range.mode == UID_SUBUIDS) {
        range.count = UID_RANGE;
    } else {
        range.uid = geteuid();
        range.gid = getegid();
    }
    *out = range;
    return 0;
}
