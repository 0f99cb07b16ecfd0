/* anybox sync: makes a folder here and one in a box the same, in one direction. */
#include <fcntl.h>

#include "base/fd.h"
#include "cli_sync.h"

#define EXCLUDE_FILE_MAX (1u << 20)
#define LINES_MAX        10000

struct options {
    bool delete, dry_run, checksum, gitignore, legacy;
    struct str exclude_from, owner;
    struct cli_env excludes;
};

static int read_excludes(struct session *s, const struct options *o, struct sync_job *job,
                         struct err *e)
{
    struct str *lines = arena_alloc(&s->arena, LINES_MAX + CLI_ENV_MAX, sizeof(*lines));
    struct str text = STR_EMPTY;
    size_t n = 0;

    if (o->exclude_from.len > 0 && fd_read_file(AT_FDCWD, arena_cstr(&s->arena, o->exclude_from),
                                                EXCLUDE_FILE_MAX, &s->arena, &text, e) < 0) {
        return err_wrap(e, "--exclude-from");
    }
    while (text.len > 0) {
        if (n == LINES_MAX) {
            return err_set(e, ERR_LIMIT, "--exclude-from: there are more than %d lines", LINES_MAX);
        }
        lines[n++] = str_cut(text, '\n', &text);
    }
    for (size_t i = 0; i < o->excludes.n; i++) {
        lines[n++] = o->excludes.items[i];
    }
    job->excludes = lines;
    job->n_excludes = n;
    return 0;
}

static int sync_places(const struct cli *cli, struct session *s, const struct options *o,
                       const struct place *from, const struct place *to)
{
    bool up = to->box.len > 0;
    const struct place *far = up ? to : from;
    struct sync_job job = {
        .direction = up ? SYNC_UP : SYNC_DOWN,
        .remote = far->path.len > 0 ? far->path : S("."),
        .delete_extras = o->delete,
        .checksum = o->checksum,
        .gitignore = o->gitignore,
        .legacy_style = o->legacy,
    };
    struct err e;
    struct box *box CLEANUP(box_unref_p) = NULL;

    if (read_excludes(s, o, &job, &e) < 0 ||
        cli_local(s, up ? from->path : to->path, &job.local, &e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    box = cli_find(s, far->box, &e);
    if (box == NULL) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    return cli_sync(cli, s, box, &job, o->dry_run);
}

int cmd_sync(struct cli *cli, int argc, char **argv)
{
    struct options o = {0};
    const struct opt opts[] = {
        {"--delete", OPT_FLAG, &o.delete},
        {"--dry-run", OPT_FLAG, &o.dry_run},
        {"--checksum", OPT_FLAG, &o.checksum},
        {"--gitignore", OPT_FLAG, &o.gitignore},
        {"--legacy", OPT_FLAG, &o.legacy},
        {"--exclude", OPT_WORDS, &o.excludes},
        {"--exclude-from", OPT_TEXT, &o.exclude_from},
        {"--owner", OPT_TEXT, &o.owner},
    };
    struct place from;
    struct place to;
    int status = EXIT_SUCCESS;
    struct err e;
    int at = cli_options(cli, opts, COUNTOF(opts), argc, argv, &status);

    if (at < 0) {
        return status;
    }
    if (argc - at != 2) {
        return cli_misused(cli, "it takes a source and a target, one of them as BOX:PATH");
    }
    status = cli_places(cli, (const char *const[]){argv[at], argv[at + 1]}, &from, &to);
    if (status != EXIT_SUCCESS) {
        return status;
    }
    struct session session own_session = {0};

    if (session_open(&session, cli, o.owner, &e) < 0) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    return sync_places(cli, &session, &o, &from, &to);
}
