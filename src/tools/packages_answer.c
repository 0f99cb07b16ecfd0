#include "tools/packages_answer.h"

#include "base/plain.h"

/* ---- names -------------------------------------------------------------------------------- */

static bool has(const struct str_list *list, struct str name)
{
    for (size_t i = 0; i < list->n; i++) {
        if (str_eq(list->items[i], name)) {
            return true;
        }
    }
    return false;
}

int packages_names(struct call *c, const struct packages_args *args, struct str_list *out,
                   struct err *e)
{
    size_t n = args->names.n + (args->name.len > 0 ? 1 : 0);
    struct str *items = arena_alloc(c->ctx->arena, n + 1, sizeof(*items));

    *out = (struct str_list){.items = items};
    if (n == 0) {
        return err_set(e, ERR_INVALID,
                       "no package is named; give package_names, such as [\"requests\", "
                       "\"numpy==1.26.4\"]");
    }
    if (n > PACKAGES_MAX) {
        return err_set(e, ERR_LIMIT, "at most %d packages can be named in one call", PACKAGES_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        struct str given = i < args->names.n ? args->names.items[i] : args->name;
        struct str one;

        if (package_check(c->ctx->arena, given, &one, e) < 0) {
            return -1;
        }
        if (!has(out, one)) {
            items[out->n++] = one;
        }
    }
    return 0;
}

/* ---- what became of them ------------------------------------------------------------------ */

struct sorted {
    struct buf there, missing, coming, failed;
};

static void sorted_fini(struct sorted *s)
{
    buf_fini(&s->there);
    buf_fini(&s->missing);
    buf_fini(&s->coming);
    buf_fini(&s->failed);
}

static void add(struct buf *to, const char *name, struct str more, const char *between)
{
    buf_addf(to, "%s%s", to->len > 0 ? ", " : "", name);
    if (more.len > 0) {
        buf_addf(to, "%s", between);
        plain_text(str_head(more, 500), to);
    }
}

static void sort(struct sorted *s, const json_t *report)
{
    const char *name;
    json_t *one;

    json_object_foreach (js_get(report, "packages"), name, one) {
        if (json_is_true(js_get(one, "installing"))) {
            add(&s->coming, name, STR_EMPTY, "");
        } else if (json_is_true(js_get(one, "installed"))) {
            add(&s->there, name, js_str(js_get(one, "version")), " is ");
        } else if (js_get(one, "last_error") != NULL) {
            add(&s->failed, name, js_str(js_get(one, "last_error")), ": ");
        } else {
            add(&s->missing, name, STR_EMPTY, "");
        }
    }
}

static void tell(struct buf *text, const char *what, const struct buf *names)
{
    if (names->len > 0) {
        buf_addf(text, "%s%s: %.*s", text->len > 0 ? "; " : "", what, STR_ARG(buf_str(names)));
    }
}

struct packages_verdict packages_judge(struct call *c, const json_t *report)
{
    struct sorted s CLEANUP(sorted_fini) = {0};
    struct buf text own_buf = {0};
    struct packages_verdict v;

    buf_init(&s.there, 8000);
    buf_init(&s.missing, 8000);
    buf_init(&s.coming, 8000);
    buf_init(&s.failed, 8000);
    buf_init(&text, 40000);
    sort(&s, report);
    tell(&text, "being installed", &s.coming);
    tell(&text, "the last install failed", &s.failed);
    tell(&text, "not installed", &s.missing);
    tell(&text, "installed", &s.there);
    v.status = s.coming.len > 0    ? "installing"
               : s.failed.len > 0  ? "failed"
               : s.missing.len > 0 ? "not_found"
                                   : "success";
    v.message = arena_str(c->ctx->arena, buf_str(&text));
    return v;
}
