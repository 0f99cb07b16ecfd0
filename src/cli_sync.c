#include "cli_sync.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/path.h"
#include "sync/danger.h"
#include "sync/roots.h"

#define OUTPUT_MAX  (64u << 20)
#define WARNED_MAX  20
#define PRINT_BYTES (1u << 20)

struct place cli_place(struct str typed)
{
    struct str path;
    struct str box = str_cut(typed, ':', &path);

    if (box.len == 0 || !path.p || str_has(box, '/')) {
        return (struct place){.path = typed};
    }
    return (struct place){.box = box, .path = path};
}

int cli_places(const struct cli *cli, const char *const typed[2], struct place *from,
               struct place *to)
{
    *from = cli_place(str_from(typed[0]));
    *to = cli_place(str_from(typed[1]));
    if ((from->box.len > 0) == (to->box.len > 0)) {
        return cli_misused(cli, "exactly one of source and target is BOX:PATH; a local name with "
                                "a colon is written ./a:b");
    }
    return EXIT_SUCCESS;
}

/* A person may use every folder: the roots are for agents. */
int cli_local(struct session *s, struct str typed, struct str *out, struct err *e)
{
    static const struct str everything[] = {{"/", 1}};
    const struct config *config = s->services.config;
    struct roots roots = {.paths = everything, .n = 1, .state_dir = config->state_dir};
    char *cwd own_mem = getcwd(NULL, 0);

    if (roots_resolve(&roots, &s->arena, str_from(cwd), config->home, typed, out, e) < 0) {
        return -1;
    }
    if (str_ends(typed, S("/")) && !str_ends(*out, S("/"))) {
        *out = arena_printf(&s->arena, "%.*s/", STR_ARG(*out));
    }
    return 0;
}

/* ---- a dry run -------------------------------------------------------------------------- */

static int print_step(void *arg, enum sync_action action, const struct tree_entry *entry,
                      struct err *e)
{
    static const char *const words[] = {"folder ", "new    ", "changed", "mode   ", "delete "};
    struct buf *out = arg;

    (void)e;
    buf_addf(out, "%s  ", words[action]);
    cli_plain(out, entry->path.len > 0 ? entry->path : S("."));
    buf_addc(out, '\n');
    return 0;
}

static int print_plan(const struct cli *cli, struct session *s, const struct sync_plan *p)
{
    const struct sync_counts *n = sync_plan_counts(p);
    struct buf out own_buf = {0};
    struct err never;

    buf_init(&out, OUTPUT_MAX);
    (void)!sync_plan_each(p, print_step, &out, &never);
    buf_addf(&out,
             "%llu files to send (%.*s), %llu folders to make, %llu unchanged, %llu files and %llu "
             "folders to delete; nothing was changed\n",
             (unsigned long long)n->files + n->links,
             STR_ARG(cli_size(&s->arena, (int64_t)n->bytes)), (unsigned long long)n->dirs,
             (unsigned long long)n->unchanged, (unsigned long long)n->delete_files,
             (unsigned long long)n->delete_dirs);
    return cli_print(cli, &out);
}

/* ---- the real one ----------------------------------------------------------------------- */

struct moving {
    struct session *session;
    struct bar bar;
};

static int show(void *arg, const struct sync_progress *now, struct err *e)
{
    struct moving *m = arg;

    bar_show(&m->bar, now);
    return ctx_check(&m->session->ctx, e);
}

static void warn(const struct cli *cli, const char *what, struct str text)
{
    struct buf line own_buf = {0};

    buf_init(&line, 4096);
    cli_plain(&line, text);
    (void)cli_fail(cli, EXIT_SUCCESS, "%s%.*s", what, STR_ARG(buf_str(&line)));
}

struct warning {
    const struct cli *cli;
    struct session *session;
    const struct sync_plan *plan;
    int n;
};

/* What this machine would run by itself. */
static int warn_step(void *arg, enum sync_action action, const struct tree_entry *entry,
                     struct err *e)
{
    struct warning *w = arg;
    struct str whole = path_join(&w->session->arena, sync_plan_local(w->plan), entry->path);
    const char *why = danger_of(sync_plan_is_file(w->plan) ? sync_plan_local(w->plan) : whole);

    (void)e;
    if (entry->type == TREE_LINK && why == NULL && danger_leads_out(entry->path, entry->target)) {
        why = "it is a link that leads out of the folder";
    }
    if ((action != SYNC_SEND_NEW && action != SYNC_SEND_CHANGED) || why == NULL ||
        w->n++ >= WARNED_MAX) {
        return 0;
    }
    warn(w->cli, "look at this before you use it: ",
         arena_printf(&w->session->arena, "%.*s (%s)", STR_ARG(entry->path), why));
    return 0;
}

static int say_done(const struct cli *cli, struct session *s, const struct sync_plan *p,
                    const struct sync_job *job, const struct sync_result *r, int64_t ms)
{
    struct warning w = {.cli = cli, .session = s, .plan = p};
    struct buf out own_buf = {0};
    struct err never;

    if (job->direction == SYNC_DOWN) {
        (void)!sync_plan_each(p, warn_step, &w, &never);
    }
    if (sync_plan_unreadable(p).len > 0) {
        warn(cli, "left out, it cannot be read: ", sync_plan_unreadable(p));
    }
    if (sync_plan_held(p).len > 0) {
        warn(cli, "", sync_plan_held(p));
    }
    if (r->failed > 0) {
        warn(cli, "",
             arena_printf(&s->arena, "%llu files failed, the first: %.*s",
                          (unsigned long long)r->failed, STR_ARG(r->first_failed)));
    }
    buf_init(&out, PRINT_BYTES);
    buf_addf(&out, "%llu files %s (%.*s), %llu unchanged",
             (unsigned long long)r->done.files + r->done.links,
             job->direction == SYNC_UP ? "sent" : "fetched",
             STR_ARG(cli_size(&s->arena, (int64_t)r->done.bytes)),
             (unsigned long long)r->done.unchanged);
    if (job->delete_extras) {
        buf_addf(&out, ", %llu files and %llu folders deleted",
                 (unsigned long long)r->done.delete_files, (unsigned long long)r->done.delete_dirs);
    }
    buf_addf(&out, " in %.1f s\n", (double)ms / 1000);
    (void)cli_print(cli, &out);
    return r->failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int cli_sync(const struct cli *cli, struct session *s, struct box *box, struct sync_job *job,
             bool dry_run)
{
    struct moving m = {.session = s};
    struct sync_result result;
    struct sync_plan *p;
    struct err e;
    int status;

    job->home = s->services.config->home;
    job->state_dir = s->services.config->state_dir;
    p = sync_look(box, &s->ctx, job, &e);
    if (p == NULL) {
        return cli_fail(cli, EXIT_FAILURE, "%s", e.msg);
    }
    bar_init(&m.bar);
    if (dry_run) {
        status = print_plan(cli, s, p);
    } else if (sync_apply(p, box, &s->ctx, show, &m, &result, &e) < 0) {
        bar_clear(&m.bar);
        status =
            cli_fail(cli, EXIT_FAILURE,
                     "%s; %llu of %llu files are there, and the same command goes on from here",
                     e.msg, (unsigned long long)result.done.files + result.done.links,
                     (unsigned long long)sync_plan_counts(p)->files + sync_plan_counts(p)->links);
    } else {
        bar_clear(&m.bar);
        status = say_done(cli, s, p, job, &result, clock_mono_ms() - m.bar.started_ms);
    }
    sync_plan_free(p);
    return status;
}
