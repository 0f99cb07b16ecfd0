/* files.c - see files.h. */
#include "tools/files.h"

#include <string.h>

#include "base/path.h"

struct str files_path(struct arena *a, struct str typed)
{
    struct str path = str_trim(typed);
    struct str rest;

    if (!str_eq(path, S("~")) && !str_starts(path, S("~/"))) {
        return path_clean(a, path);
    }
    rest = path_clean(a, path_join(a, S("."), str_skip(path, 2)));
    return str_eq(rest, S(".")) ? S("~") : arena_printf(a, "~/%.*s", STR_ARG(rest));
}

int files_explain(struct call *c, struct box *b, struct str path, enum file_type want,
                  struct err *e)
{
    struct file_info info = {0};
    struct err ignored = {0};

    if (e->kind == ERR_GONE || e->kind == ERR_CANCELLED || e->kind == ERR_UNREACHABLE) {
        return -1;
    }
    if (box_file_stat(b, c->ctx, path, &info, &ignored) < 0) {
        return -1;
    }
    if (want == FILE_DIR && info.type == FILE_REGULAR) {
        return err_set(e, ERR_INVALID, "%.*s is a file, not a folder; read_remote_file reads it",
                       STR_ARG(str_head(path, 256)));
    }
    if (want == FILE_REGULAR && info.type == FILE_DIR) {
        return err_set(e, ERR_INVALID, "%.*s is a folder, not a file; list_remote_files lists it",
                       STR_ARG(str_head(path, 256)));
    }
    return -1;
}

/* "755", "0755" and "0o755". */
int files_mode(struct str text, mode_t *out, struct err *e)
{
    struct str digits = str_trim(text);
    mode_t mode = 0;

    if (digits.len == 0) {
        *out = 0;
        return 0;
    }
    if (str_starts(digits, S("0o"))) {
        digits = str_skip(digits, 2);
    }
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.len > 5 || digits.p[i] < '0' || digits.p[i] > '7') {
            return err_set(e, ERR_INVALID,
                           "mode must be permissions in octal such as \"644\" or \"755\", not "
                           "\"%.*s\"",
                           STR_ARG(str_head(text, 20)));
        }
        mode = mode << 3 | (mode_t)(digits.p[i] - '0');
    }
    if (digits.len == 0 || mode == 0 || mode > 07777) {
        return err_set(e, ERR_INVALID, "mode must be from \"1\" to \"7777\" in octal, not \"%.*s\"",
                       STR_ARG(str_head(text, 20)));
    }
    *out = mode;
    return 0;
}

int files_target(struct call *c, struct str path, struct str *out, struct err *e)
{
    struct str typed = str_trim(path);

    if (typed.len == 0 || str_ends(typed, S("/"))) {
        return err_set(e, ERR_INVALID,
                       "a path must name a file, not \"%.*s\"; give the folder and the file's name",
                       STR_ARG(str_head(typed, 256)));
    }
    if (str_starts(typed, S("output:"))) {
        return err_set(e, ERR_INVALID,
                       "kept outputs can only be read; use \"./%.*s\" for a file "
                       "of that name",
                       STR_ARG(str_head(typed, 256)));
    }
    *out = files_path(c->ctx->arena, typed);
    return 0;
}

struct bytes {
    struct str left;
};

static ssize_t read_bytes(void *arg, char *to, size_t cap, struct err *e)
{
    struct bytes *b = arg;
    struct str piece = str_head(b->left, cap);

    (void)e;
    if (piece.len > 0) {
        memcpy(to, piece.p, piece.len);
    }
    b->left = str_skip(b->left, piece.len);
    return (ssize_t)piece.len;
}

int files_write(struct call *c, struct box *b, struct str path, struct str bytes, mode_t mode,
                enum write_flags flags, int64_t *size, struct err *e)
{
    struct bytes from = {.left = bytes};
    struct source source = {.read = read_bytes, .arg = &from, .fd = -1, .size = (int64_t)bytes.len};
    struct file_info info = {0};

    if (box_file_write(b, c->ctx, path, mode, flags, &source, &info, e) < 0) {
        return -1;
    }
    *size = info.size;
    return 0;
}
