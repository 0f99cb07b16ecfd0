/* Hosts that a configuration names, beside boxes that are made. */
#include "base/alloc.h"
#include "core/idle.h"
#include "world.h"

#define HOSTS 10

/* What the hosts do; one per test, as each test's provider looks into it. */
static struct hosts {
    struct provider provider;
    struct {
        const char *name;
        int delay_ms;
        bool dead;
        bool mute; /* answers, but not how busy it is */
        double load;
    } items[HOSTS];
    size_t n;
    atomic_int infos, usages, attached;
} hosts;

static int fixed_list(struct provider *p, const struct ctx *ctx, box_info_fn *each, void *arg,
                      struct err *e)
{
    (void)p;
    (void)ctx;
    for (size_t i = 0; i < hosts.n; i++) {
        const struct box_info info = {
            .ref = str_from(hosts.items[i].name),
            .name = str_from(hosts.items[i].name),
            .state = BOX_UNKNOWN,
            .host = S("10.0.0.1"),
            .user = S("me"),
            .port = 2200 + (int)i,
        };

        if (each(arg, &info, e) < 0) {
            return -1;
        }
    }
    return 0;
}

static size_t host_of(const struct box *b)
{
    size_t i = 0;

    while (!str_eq(str_from(hosts.items[i].name), b->ref)) {
        i++;
    }
    return i;
}

static struct box *fixed_attach(struct provider *p, const struct ctx *ctx, struct str ref,
                                struct err *e)
{
    struct box *b;

    (void)ctx;
    (void)e;
    b = xcalloc(1, sizeof(*b));
    b->provider = p;
    b->ref = (struct str){xmemdup(ref.p, ref.len), ref.len};
    atomic_init(&b->refs, 1);
    atomic_fetch_add(&hosts.attached, 1);
    return b;
}

static void fixed_release(struct box *b)
{
    void *ref;

    memcpy(&ref, &b->ref.p, sizeof(ref));
    free(ref);
    free(b);
    atomic_fetch_sub(&hosts.attached, 1);
}

static int wait_for(struct box *b, const struct ctx *ctx, struct err *e)
{
    size_t i = host_of(b);

    if (hosts.items[i].delay_ms > 0 &&
        ctx_wait(ctx, NULL, 0, clock_mono_ms() + hosts.items[i].delay_ms, e) < 0) {
        return -1;
    }
    return hosts.items[i].dead ? err_set(e, ERR_UNREACHABLE, "no route to it") : 0;
}

static int fixed_info(struct box *b, const struct ctx *ctx, struct box_info *out, struct err *e)
{
    atomic_fetch_add(&hosts.infos, 1);
    if (wait_for(b, ctx, e) < 0) {
        return -1;
    }
    *out = (struct box_info){.ref = b->ref,
                             .name = b->ref,
                             .state = BOX_RUNNING,
                             .host = S("10.0.0.1"),
                             .user = S("me"),
                             .port = 22};
    return 0;
}

static int fixed_usage(struct box *b, const struct ctx *ctx, struct usage *out, struct err *e)
{
    size_t i = host_of(b);

    atomic_fetch_add(&hosts.usages, 1);
    if (wait_for(b, ctx, e) < 0) {
        return -1;
    }
    if (hosts.items[i].mute) {
        return err_set(e, ERR_PROTOCOL, "no POSIX sh");
    }
    *out = (struct usage){
        .load_1m = hosts.items[i].load, .cpus = 4, .memory_used = 0, .memory_total = 1000};
    return 0;
}

static void fixed_close(struct provider *p)
{
    (void)p;
}

static const struct meter_ops fixed_meter = {.usage = fixed_usage};
static const struct provider_ops fixed_ops = {
    .type = "ssh",
    .close = fixed_close,
    .list = fixed_list,
    .attach = fixed_attach,
    .info = fixed_info,
    .release = fixed_release,
    .meter = &fixed_meter,
};

/* A process that knows these hosts, and boxes that are made. */
static void start(struct world *w, struct process *p)
{
    struct provider *both[] = {fake_provider(&w->fake), &hosts.provider};

    hosts.provider = (struct provider){.ops = &fixed_ops, .name = S("ssh")};
    p->store = store_new(str_from(w->state));
    p->boxes = boxes_new_with(&w->config, p->store, both, 2, NULL);
    scope_init(&p->scope, STR_EMPTY, S("/home/me/my project"));
}

static void stop(struct process *p)
{
    process_stop(p);
    assert_int_equal(atomic_load(&hosts.attached), 0);
}

static void name_hosts(size_t n, const char *const *names)
{
    hosts = (struct hosts){.n = n};
    for (size_t i = 0; i < n; i++) {
        hosts.items[i].name = names[i];
    }
}

#define TWO ((const char *const[]){"gpu1", "gpu2"})

static void the_first_host_is_active(void **state)
{
    struct world *w = *state;
    struct process p;
    struct box_want want = {.make_default = true};

    name_hosts(2, TWO);
    start(w, &p);
    assert_str(world_found(w, &p, want), S("ssh:gpu1"));
    assert_str(world_found(w, &p, want), S("ssh:gpu1"));
    assert_str(world_found(w, &p, (struct box_want){.name = S("gpu2")}), S("ssh:gpu2"));
    assert_str(world_found(w, &p, (struct box_want){.id = S("ssh:gpu2")}), S("ssh:gpu2"));
    assert_int_equal(fake_living(&w->fake), 0);
    assert_int_equal(world_rows(&p), 0);
    assert_int_equal(atomic_load(&hosts.infos), 0);
    stop(&p);
}

static void a_selection_is_remembered_as_long_as_it_is_configured(void **state)
{
    struct world *w = *state;
    struct process p;
    struct box_want gpu2 = {.name = S("gpu2")};
    struct box_view view;
    struct err e;

    name_hosts(2, TWO);
    start(w, &p);
    hosts.items[1].dead = true; /* selecting asks nobody */
    assert_ok(boxes_select(p.boxes, &w->ctx, &p.scope, &gpu2, &view, &e), &e);
    assert_int_equal(view.info.port, 2201);
    assert_str(world_found(w, &p, (struct box_want){0}), S("ssh:gpu2"));
    stop(&p);
    start(w, &p);
    assert_str(world_found(w, &p, (struct box_want){0}), S("ssh:gpu2"));
    stop(&p);
    hosts.n = 1;
    start(w, &p);
    assert_str(world_found(w, &p, (struct box_want){0}), S("ssh:gpu1"));
    stop(&p);
}

static void an_unknown_name_lists_hosts_and_boxes(void **state)
{
    struct world *w = *state;
    struct process p;
    struct str id = STR_EMPTY;
    struct err e;

    name_hosts(2, TWO);
    start(w, &p);
    (void)world_create(w, &p, "mine");
    assert_fails(world_find(w, &p, (struct box_want){.name = S("gpu")}, &id, &e), &e, ERR_NOT_FOUND,
                 "existing: gpu1, gpu2, mine");
    stop(&p);
}

static void boxes_are_made_beside_hosts(void **state)
{
    struct world *w = *state;
    struct process p;
    struct box_order order = {.name = S("gpu1")};
    struct box_view view = {0};
    bool reused;
    struct err e;

    name_hosts(2, TWO);
    start(w, &p);
    assert_fails(boxes_create(p.boxes, &w->ctx, &p.scope, &order, &view, &reused, &e), &e,
                 ERR_EXISTS, "name of a host");
    view = world_create(w, &p, "mine");
    assert_true(view.selected);
    assert_str(world_found(w, &p, (struct box_want){0}), view.row.id);
    stop(&p);
}

/* The box was there before the host was configured: the configuration is the newer word. */
static void a_host_comes_before_a_box_of_its_name(void **state)
{
    struct world *w = *state;
    struct process p;
    struct str id = world_create(w, &w->one, "gpu1").row.id;

    name_hosts(2, TWO);
    start(w, &p);
    assert_str(world_found(w, &p, (struct box_want){.id = id}), id);
    assert_str(world_found(w, &p, (struct box_want){.name = S("gpu1")}), S("ssh:gpu1"));
    stop(&p);
}

static void a_host_is_not_deleted_and_does_not_end(void **state)
{
    struct world *w = *state;
    struct process p;
    struct box_want gpu1 = {.name = S("gpu1")};
    struct str id;
    struct str name;
    struct err e;

    name_hosts(2, TWO);
    start(w, &p);
    assert_fails(boxes_delete(p.boxes, &w->ctx, &p.scope, &gpu1, &id, &name, &e), &e,
                 ERR_UNSUPPORTED, "host of the configuration");
    boxes_lost(p.boxes, &w->ctx, S("ssh:gpu1"), S("the connection broke"));
    assert_str(world_found(w, &p, gpu1), S("ssh:gpu1"));
    assert_true(boxes_owns(p.boxes, &w->ctx, &p.scope, S("ssh:gpu1")));
    assert_false(boxes_owns(p.boxes, &w->ctx, &p.scope, S("ssh:gpu9")));

    struct scope other;
    struct str kept = boxes_output_id(&p.scope, S("ssh:gpu1"), &w->arena);

    scope_init(&other, S("key:other"), S("/"));
    assert_int_equal(kept.len, 24);
    assert_true(boxes_owns(p.boxes, &w->ctx, &p.scope, kept));
    assert_false(boxes_owns(p.boxes, &w->ctx, &other, kept));
    scope_fini(&other);
    stop(&p);
}

struct seen {
    struct box_view views[HOSTS + 2];
    size_t n;
};

static int keep_view(void *arg, const struct box_view *view, struct box *box, struct err *e)
{
    struct seen *s = arg;

    (void)box;
    (void)e;
    s->views[s->n++] = *view;
    return 0;
}

static void hosts_are_asked_side_by_side(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    struct world *w = *state;
    struct process p;
    struct seen seen = {0};
    struct err e;
    int64_t began;

    name_hosts(8, names);
    for (size_t i = 0; i < 8; i++) {
        hosts.items[i].delay_ms = 1500;
        hosts.items[i].dead = i != 2;
    }
    start(w, &p);
    (void)world_create(w, &p, "mine");
    began = clock_mono_ms();
    assert_ok(boxes_each_busy(p.boxes, &w->ctx, &p.scope, keep_view, &seen, &e), &e);
    assert_true(clock_mono_ms() - began < 9000); /* of twelve seconds, one after the other */
    assert_int_equal(atomic_load(&hosts.usages), 8);
    assert_int_equal(atomic_load(&hosts.infos), 0); /* one question each */
    assert_int_equal(seen.n, 9);
    for (size_t i = 0; i < 8; i++) {
        assert_str(seen.views[i].row.name, str_from(names[i]));
        assert_int_equal(seen.views[i].alive, i == 2);
        assert_int_equal(seen.views[i].usage != NULL, i == 2);
        assert_str(seen.views[i].info.user, S("me"));
        assert_int_equal(seen.views[i].info.port, 2200 + (int)i);
        if (i != 2) {
            assert_non_null(strstr(seen.views[i].problem.p, "no route to it"));
            assert_non_null(strstr(seen.views[i].usage_problem.p, "no route to it"));
        }
    }
    assert_str(seen.views[8].row.name, S("mine"));
    stop(&p);
}

static void without_the_figures_hosts_are_asked_whether_they_live(void **state)
{
    struct world *w = *state;
    struct process p;
    struct seen seen = {0};
    struct err e;

    name_hosts(2, TWO);
    hosts.items[0].dead = true;
    start(w, &p);
    assert_ok(boxes_each(p.boxes, &w->ctx, &p.scope, keep_view, &seen, &e), &e);
    assert_int_equal(seen.n, 2);
    assert_true(seen.views[0].selected);
    assert_false(seen.views[0].alive);
    assert_int_equal(seen.views[0].info.port, 2200);
    assert_int_equal(seen.views[0].info.state, BOX_UNKNOWN);
    assert_true(seen.views[1].alive);
    assert_int_equal(atomic_load(&hosts.usages), 0);
    seen.n = 0;
    assert_ok(boxes_each_made(p.boxes, &w->ctx, &p.scope, keep_view, &seen, &e), &e);
    assert_int_equal(seen.n, 0);
    stop(&p);
}

static void a_cancelled_list_ends_at_once(void **state)
{
    struct world *w = *state;
    struct process p;
    struct seen seen = {0};
    struct cancel cancel;
    struct ctx ctx = w->ctx;
    struct err e;

    name_hosts(2, TWO);
    hosts.items[0].delay_ms = hosts.items[1].delay_ms = 20000;
    start(w, &p);
    assert_ok(cancel_init(&cancel, &e), &e);
    ctx.cancel = &cancel;
    cancel_fire(&cancel);
    assert_fails(boxes_each(p.boxes, &ctx, &p.scope, keep_view, &seen, &e), &e, ERR_CANCELLED, "");
    cancel_fini(&cancel);
    stop(&p);
}

static void the_idlest_is_found_when_asked_for(void **state)
{
    static const char *const names[] = {"busy", "dead", "mute", "idle", "half"};
    struct world *w = *state;
    struct process p;
    struct box_view view = {0};
    struct err e;

    name_hosts(5, names);
    hosts.items[0].load = 4;
    hosts.items[1].dead = true;
    hosts.items[2].mute = true;
    hosts.items[4].load = 2;
    start(w, &p);
    assert_ok(boxes_select_idlest(p.boxes, &w->ctx, &p.scope, &view, &e), &e);
    assert_str(view.row.id, S("ssh:idle"));
    assert_true(idle_score(view.usage) == 1.0);
    assert_str(world_found(w, &p, (struct box_want){0}), S("ssh:idle"));
    hosts.n = 3;
    hosts.items[0].mute = true;
    assert_fails(boxes_select_idlest(p.boxes, &w->ctx, &p.scope, &view, &e), &e, ERR_NOT_FOUND,
                 "check_resources");
    stop(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_first_host_is_active),
        TEST(a_selection_is_remembered_as_long_as_it_is_configured),
        TEST(an_unknown_name_lists_hosts_and_boxes),
        TEST(boxes_are_made_beside_hosts),
        TEST(a_host_comes_before_a_box_of_its_name),
        TEST(a_host_is_not_deleted_and_does_not_end),
        TEST(hosts_are_asked_side_by_side),
        TEST(without_the_figures_hosts_are_asked_whether_they_live),
        TEST(a_cancelled_list_ends_at_once),
        TEST(the_idlest_is_found_when_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
