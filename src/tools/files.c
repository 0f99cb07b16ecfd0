/* files.c - see files.h. */
#include "tools/files.h"

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
