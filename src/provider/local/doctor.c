/* What works here and what does not, each with the command that mends it. The proof is
 * a trial box that runs a command, and it comes first: a setting that looks wrong is none
 * where a box works. The other lines explain why it fails, or is weaker than it could be. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/own.h"
#include "provider/local/image.h"
#include "provider/local/local.h"
#include "provider/local/obstacle.h"

#define TRIAL_MS    20000
#define SUBUIDS_MAX (4u << 20)

/* What came of the trial box. */
struct trial {
    bool works;
    struct str tier;
    int64_t took_ms;
    struct err why; /* it does not work */
};

struct exam {
    struct local *local;
    const struct ctx *ctx;
    check_fn *each;
    void *arg;
    struct uid_range subuids;
    enum uid_mode mode;
    struct facts facts;
    struct trial trial;
};

static int tell(const struct exam *x, enum check_state state, const char *what, struct str found,
                struct str fix, struct err *e)
{
    struct check check = {.state = state, .what = str_from(what), .found = found, .fix = fix};
    return x->each(x->arg, &check, e);
}

/* ---- the lines ------------------------------------------------------------------------- */

static int exam_boxinit(const struct exam *x, struct err *e)
{
    const char *path = NULL;
    struct err why = {0};
    if (local_find_boxinit(x->local, x->ctx->arena, &path, &why) < 0) {
        struct str found = arena_str(x->ctx->arena, str_from(why.msg));
        return tell(x, CHECK_FAIL, "boxinit", found, S("make, or make install"), e);
    }
    return tell(x, CHECK_OK, "boxinit", str_from(path), STR_EMPTY, e);
}

static int exam_state(const struct exam *x, struct err *e)
{
    struct arena *a = x->ctx->arena;
    struct err why = {0};
    int dir own_fd = local_open_dir(x->local->boxes_dir, &why);
    if (dir < 0 || faccessat(dir, ".", W_OK | X_OK, AT_EACCESS) < 0) {
        struct str found = arena_printf(a, "%s cannot be written", x->local->state_dir);
        return tell(x, CHECK_FAIL, "state folder", found,
                    S("set ANYBOX_HOME to a folder that you may write to"), e);
    }
    return tell(x, CHECK_OK, "state folder", str_from(x->local->state_dir), STR_EMPTY, e);
}

static int exam_userns(const struct exam *x, struct err *e)
{
    struct obstacle o;
    bool expected = obstacle_expected(&x->facts, x->ctx->arena, &o);
    if (x->trial.works) {
        /* A profile for boxinit, most likely: the setting itself says no. */
        return tell(x, CHECK_OK, "user namespaces",
                    expected ? S("allowed to boxinit") : S("allowed"), STR_EMPTY, e);
    }
    if (expected) {
        return tell(x, CHECK_FAIL, "user namespaces", o.found, o.fix, e);
    }
    return tell(x, CHECK_OK, "user namespaces", S("no setting of the kernel forbids them"),
                STR_EMPTY, e);
}

/* For a range that nobody has; where useradd begins, if nobody has any. */
static struct str subuids_fix(struct arena *a)
{
    static const char *const files[] = {"/etc/subuid", "/etc/subgid"};
    uint32_t first = 100000;
    for (size_t i = 0; i < COUNTOF(files); i++) {
        struct str text;
        struct err ignored;
        if (fd_read_file(AT_FDCWD, files[i], SUBUIDS_MAX, a, &text, &ignored) == 0) {
            uint32_t end = uids_parse_end(text);
            first = end > first ? end : first;
        }
    }
    if (first >= UID_FIRST - UID_RANGE) {
        return S("give the user 65,536 free ids in /etc/subuid and in /etc/subgid");
    }
    uint32_t last = first + UID_RANGE - 1;
    return arena_printf(a, "sudo usermod --add-subuids %u-%u --add-subgids %u-%u \"$USER\"", first,
                        last, first, last);
}

static int exam_uids(const struct exam *x, struct err *e)
{
    if (x->mode == UID_ROOT) {
        return tell(x, CHECK_OK, "user ids", S("each sandbox gets 65,536 of its own (root)"),
                    STR_EMPTY, e);
    }
    if (x->mode == UID_SUBUIDS) {
        struct str found = arena_printf(
            x->ctx->arena, "a range from /etc/subuid, %u on, by newuidmap", x->subuids.uid);
        return tell(x, CHECK_OK, "user ids", found, STR_EMPTY, e);
    }
    if (x->facts.root) {
        return tell(x, CHECK_WARN, "user ids",
                    S("one, shared by sandbox and init: root has too few ids here"),
                    S("run anybox as an ordinary user with a range in /etc/subuid"), e);
    }
    if (!uids_can_map()) {
        return tell(x, CHECK_WARN, "user ids",
                    S("one, shared by sandbox and init: newuidmap is missing"),
                    S("sudo apt-get install uidmap"), e);
    }
    return tell(x, CHECK_WARN, "user ids",
                S("one, shared by sandbox and init: no range in /etc/subuid and /etc/subgid"),
                subuids_fix(x->ctx->arena), e);
}

/* Makes an empty set of cgroups with all three limits, and removes it. */
static void try_cgroups(const struct ctx *ctx, struct cgroup_set *set)
{
    const struct limits want = {.memory_bytes = 64 << 20, .cpu_millis = 1000, .pids = 64};
    char id[BOX_ID_SIZE];
    id_hex(id, (BOX_ID_SIZE - 1) / 2);
    struct cgroup_host host;
    cgroup_host_read(ctx->arena, &host);
    cgroup_plan(ctx->arena, &host, str_from(id), &want, set);
    if (set->manager.dir.len > 0) {
        if (scope_works(ctx, &set->manager, str_from(id), &want)) {
            return;
        }
        cgroup_host_refused(&host);
        cgroup_plan(ctx->arena, &host, str_from(id), &want, set);
    }
    cgroup_make(ctx->arena, &want, set);
    for (size_t i = 0; i < set->n_dirs; i++) {
        struct err ignored;
        (void)!cgroup_remove(ctx, set->dirs[i], &ignored);
    }
}

static int exam_cgroups(const struct exam *x, struct err *e)
{
    static const char *const names[CONTROLS] = {
        [CONTROL_MEMORY] = "memory", [CONTROL_CPU] = "cpu", [CONTROL_PIDS] = "pids"};
    struct arena *a = x->ctx->arena;
    struct cgroup_set set;
    try_cgroups(x->ctx, &set);
    struct buf found own_buf = {0};
    buf_init(&found, 400);
    bool all = true;
    for (int c = 0; c < CONTROLS; c++) {
        const char *how = set.version[c] == 0 ? "no" : set.version[c] == 1 ? "v1" : "v2";
        buf_addf(&found, "%s%s %s", c > 0 ? ", " : "", names[c], how);
        all = all && set.version[c] != 0;
    }
    if (!all) {
        buf_addf(&found, " (rlimits instead: memory per process, cpu not limited)");
    }
    if (set.manager.dir.len > 0) {
        buf_addf(&found, " (by systemd --user: sandboxes end with your last login, unless you "
                         "linger)");
    }
    return tell(x, all ? CHECK_OK : CHECK_WARN, "cgroups", arena_str(a, buf_str(&found)),
                all ? STR_EMPTY : obstacle_cgroups_fix(&x->facts, a), e);
}

static int exam_kernel(const struct exam *x, struct err *e)
{
    bool seccomp = access("/proc/sys/kernel/seccomp/actions_avail", F_OK) == 0;
    if (tell(x, seccomp ? CHECK_OK : CHECK_FAIL, "seccomp",
             seccomp ? S("filters available") : S("this kernel has no filters"),
             seccomp ? STR_EMPTY : S("use a kernel with CONFIG_SECCOMP_FILTER"), e) < 0) {
        return -1;
    }
    int abi = facts_landlock();
    if (abi >= LANDLOCK_ABI_SCOPES) {
        return tell(x, CHECK_OK, "landlock",
                    arena_printf(x->ctx->arena, "ABI %d: scopes abstract sockets and signals", abi),
                    STR_EMPTY, e);
    }
    if (abi > 0) {
        return tell(x, CHECK_WARN, "landlock",
                    arena_printf(x->ctx->arena,
                                 "ABI %d: too old to scope sockets and signals, so no network host",
                                 abi),
                    S("use Linux 6.12 or later"), e);
    }
    return tell(x, CHECK_WARN, "landlock", S("not available, so no network host"),
                S("use Linux 6.12 or later, with landlock in the kernel's lsm= parameter"), e);
}

static int exam_program(const struct exam *x, const char *name, enum check_state missing,
                        struct str fix, struct err *e)
{
    static const char *const dirs[] = {"/usr/local/bin", "/usr/bin", "/bin"};
    for (size_t i = 0; i < COUNTOF(dirs); i++) {
        struct str path = arena_printf(x->ctx->arena, "%s/%s", dirs[i], name);
        if (access(path.p, X_OK) == 0) {
            return tell(x, CHECK_OK, name, path, STR_EMPTY, e);
        }
    }
    return tell(x, missing, name, S("not on this machine, so not in its sandboxes"), fix, e);
}

/* What else there is, for the line about "internet". */
static const char *host_network(const struct exam *x)
{
    bool has = x->local->host_network && facts_landlock() >= LANDLOCK_ABI_SCOPES;
    return has ? ", or host" : "";
}

static int exam_network(const struct exam *x, struct err *e)
{
    struct arena *a = x->ctx->arena;
    const char *host = host_network(x);
    struct str program;
    if (!network_find(a, &program)) {
        return tell(x, CHECK_WARN, "network",
                    arena_printf(a, "none%s: " NETWORK_PROGRAM " is missing", host), S(NETWORK_FIX),
                    e);
    }
    struct stat is;
    if (stat("/dev/net/tun", &is) < 0) {
        return tell(x, CHECK_WARN, "network",
                    arena_printf(a, "none%s: there is no /dev/net/tun", host),
                    S("sudo modprobe tun; in a container, give it the device"), e);
    }
    /* By a uid of the sandbox, also where we are root. */
    if ((is.st_mode & (S_IROTH | S_IWOTH)) != (S_IROTH | S_IWOTH)) {
        return tell(x, CHECK_WARN, "network",
                    arena_printf(a, "none%s: /dev/net/tun is not open to everyone", host),
                    S("sudo chmod 666 /dev/net/tun"), e);
    }
    return tell(x, CHECK_OK, "network",
                arena_printf(a, "none, or internet by %.*s%s", STR_ARG(program), host), STR_EMPTY,
                e);
}

/* ---- the proof --------------------------------------------------------------------------- */

static int run_true(struct box *b, const struct ctx *ctx, struct err *e)
{
    const struct exec_req req = {.shell = SHELL_SH, .command = S("true")};
    struct exec_result result;
    if (box_exec(b, ctx, &req, NULL, &result, e) < 0) {
        return -1;
    }
    if (result.end != EXEC_EXITED || result.code != 0) {
        return err_set(e, ERR_SYSTEM, "the command true ended with %d", result.code);
    }
    return 0;
}

static int trial(const struct exam *x, struct str *tier, int64_t *took_ms, struct err *e)
{
    char id[BOX_ID_SIZE];
    id_hex(id, (BOX_ID_SIZE - 1) / 2);
    struct ctx ctx = *x->ctx;
    int64_t until_ms = clock_mono_ms() + TRIAL_MS;
    if (ctx.deadline_ms == 0 || ctx.deadline_ms > until_ms) {
        ctx.deadline_ms = until_ms;
    }
    const struct box_spec spec = {
        .id = str_from(id), .name = S("doctor"), .limits = {.lifetime_s = 60}};
    int64_t began_ms = clock_mono_ms();
    struct box *b CLEANUP(box_unref_p) = local_create(&x->local->provider, &ctx, &spec, e);
    if (b == NULL) {
        return -1;
    }
    struct box_info info = {0};
    int rc = run_true(b, &ctx, e);
    if (rc == 0) {
        rc = box_info(b, &ctx, &info, e);
    }
    struct err late = {0};
    int destroyed = box_destroy(b, &ctx, &late);
    if (rc == 0 && destroyed < 0) {
        *e = late;
    }
    *tier = info.tier;
    *took_ms = clock_mono_ms() - began_ms;
    return rc < 0 || destroyed < 0 ? -1 : 0;
}

static void try(struct exam *x)
{
    x->trial.works = trial(x, &x->trial.tier, &x->trial.took_ms, &x->trial.why) == 0;
}

static int exam_trial(const struct exam *x, struct err *e)
{
    struct arena *a = x->ctx->arena;
    if (!x->trial.works) {
        struct str found = arena_str(a, str_from(x->trial.why.msg));
        const char *fix = strstr(found.p, OBSTACLE_FIX);
        if (fix != NULL) {
            found.len = (size_t)(fix - found.p);
        }
        return tell(x, CHECK_FAIL, "trial sandbox", found,
                    fix != NULL ? str_from(fix + strlen(OBSTACLE_FIX))
                                : S("mend the lines above that are not ok"),
                    e);
    }
    struct str found = arena_printf(a, "made, used and deleted in %lld ms (%.*s)",
                                    (long long)x->trial.took_ms, STR_ARG(x->trial.tier));
    return tell(x, CHECK_OK, "trial sandbox", found, STR_EMPTY, e);
}

static int exam_images(const struct exam *x, struct err *e)
{
    struct arena *a = x->ctx->arena;
    struct uid_range who = {.lock = -1};
    struct err why = {0};
    size_t n = image_count(x->local, a);
    if (image_uids(a, &who, &why) < 0) {
        return tell(x, CHECK_WARN, "images", S("none can be used: a range of user ids is needed"),
                    S(IMAGE_UIDS_FIX), e);
    }
    if (image_can_make(&why) < 0) {
        return tell(x, CHECK_WARN, "images",
                    arena_printf(a, "%zu; none can be made: debootstrap is missing", n),
                    S(IMAGE_MAKE_FIX), e);
    }
    struct str have =
        n > 0 ? arena_printf(a, "%zu", n) : S("none yet; anybox image make makes one");
    return tell(x, CHECK_OK, "images", have, STR_EMPTY, e);
}

int local_doctor(struct provider *p, const struct ctx *ctx, check_fn *each, void *arg,
                 struct err *e)
{
    struct exam x = {.local = local_of(p), .ctx = ctx, .each = each, .arg = arg};
    if (uids_mode(ctx->arena, &x.subuids, e) < 0) {
        return -1;
    }
    x.mode = x.subuids.mode;
    const char *boxinit = NULL;
    struct err missing = {0};
    (void)!local_find_boxinit(x.local, ctx->arena, &boxinit, &missing);
    facts_read(ctx->arena, boxinit, &x.facts);
    try(&x);
    if (exam_boxinit(&x, e) < 0 || exam_state(&x, e) < 0 || exam_userns(&x, e) < 0 ||
        exam_uids(&x, e) < 0 || exam_cgroups(&x, e) < 0 || exam_kernel(&x, e) < 0 ||
        exam_network(&x, e) < 0 || exam_images(&x, e) < 0 ||
        exam_program(&x, "bash", CHECK_FAIL, S("sudo apt-get install bash"), e) < 0 ||
        exam_program(&x, "python3", CHECK_WARN, S("sudo apt-get install python3"), e) < 0) {
        return -1;
    }
    return exam_trial(&x, e);
}
