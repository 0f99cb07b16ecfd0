/*
 * prepare.c - an image of somebody becomes one that boxes are made of: see docker.h.
 *
 * A container of it is made and never started, so nothing of the image runs. What it gets comes in
 * one archive, which the engine unpacks inside the container's root. Links of the image cannot lead
 * anywhere else, and a folder of the image is never replaced by something else.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "agent/proto.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "base/percent.h"
#include "base/sha256.h"
#include "base/thread.h"
#include "provider/docker/docker.h"

#define AGENT_MAX   (16u << 20)
#define ARCHIVE_MAX (24u << 20)
#define FILE_MAX    (1u << 20) /* of /etc/passwd */
#define UID_MOST    2000000    /* that the archive's format holds */

/* ---- the agent -------------------------------------------------------------------------- */

/* As uname has it. */
static struct str processor_of(struct str machine)
{
    if (str_eq(machine, S("amd64"))) {
        return S("x86_64");
    }
    return str_eq(machine, S("arm64")) ? S("aarch64") : machine;
}

static int load_agent(struct docker *d, struct arena *a, const struct image *of, struct str *out,
                      struct err *e)
{
    static const char *const places[] = {"", "/../libexec/anybox"};
    struct utsname here;
    struct str processor = processor_of(of->machine);
    bool is_ours =
        processor.len == 0 || (uname(&here) == 0 && str_eq(processor, str_from(here.machine)));
    const char *name = is_ours ? "boxinit" : arena_printf(a, "boxinit-%.*s", STR_ARG(processor)).p;
    struct err ignored;

    for (size_t i = 0; i < COUNTOF(places) && !str_has(processor, '/'); i++) {
        struct str path = arena_printf(a, "%s%s/%s", d->program_dir, places[i], name);

        if (fd_read_file(AT_FDCWD, path.p, AGENT_MAX, a, out, &ignored) == 0) {
            return 0;
        }
    }
    return err_set(e, ERR_UNSUPPORTED,
                   "the image \"%.*s\" is for %.*s, and the agent for it (%s) is not beside this "
                   "anybox: use an image for this machine, or build the agent with make agents",
                   STR_ARG(str_head(of->ref, 100)), STR_ARG(str_head(of->machine, 20)), name);
}

static void add_hash(struct sha256 *h, struct str s)
{
    sha256_add(h, s);
    sha256_add(h, (struct str){"", 1});
}

/* The hash of our own agent is kept: it is 2 MB, and does not change while we run. */
static int agent_hash(struct docker *d, const struct ctx *ctx, const struct image *of,
                      char out[DOCKER_ID_SIZE], struct err *e)
{
    struct arena scratch own_arena = {0};
    unsigned char hash[SHA256_SIZE];
    char hex[SHA256_HEX_SIZE];
    struct str agent = STR_EMPTY;

    (void)ctx;
    lock(&d->lock);
    memcpy(out, d->agent_hash, DOCKER_ID_SIZE);
    unlock(&d->lock);
    if (out[0] != '\0') {
        return 0;
    }
    arena_init(&scratch, (size_t)2 * AGENT_MAX);
    if (load_agent(d, &scratch, of, &agent, e) < 0) {
        return -1;
    }
    sha256_of(agent, hash);
    memcpy(out, sha256_hex(hash, hex), DOCKER_ID_SIZE - 1);
    out[DOCKER_ID_SIZE - 1] = '\0';
    LOCKED(&d->lock);
    memcpy(d->agent_hash, out, DOCKER_ID_SIZE);
    return 0;
}

int prepared_name(struct docker *d, const struct ctx *ctx, const struct image *of, bool is_plain,
                  struct str *out, struct err *e)
{
    unsigned char hash[SHA256_SIZE];
    char hex[SHA256_HEX_SIZE];
    char agent[DOCKER_ID_SIZE] = "none";
    struct sha256 h;

    if (!is_plain && agent_hash(d, ctx, of, agent, e) < 0) {
        return -1;
    }
    sha256_init(&h);
    add_hash(&h, S("1")); /* of what image_prepare() does */
    add_hash(&h, of->id);
    add_hash(&h, of->machine);
    add_hash(&h, str_from(agent));
    add_hash(&h, d->conf.work_dir);
    add_hash(&h, d->conf.user);
    sha256_end(&h, hash);
    *out = arena_printf(ctx->arena, PREPARED_REPO ":%.32s", sha256_hex(hash, hex));
    return 0;
}

int prepared_choose(struct docker *d, const struct ctx *ctx, const struct image *of,
                    struct prepared *out, struct err *e)
{
    struct prepared p = {0};
    struct str machine = str_head(of->machine, 20);

    if (d->conf.no_agent) {
        p.no_agent = S("docker.agent is false");
    } else if (prepared_name(d, ctx, of, false, &p.name, e) < 0) {
        if (e->kind != ERR_UNSUPPORTED) {
            return -1;
        }
        p.no_agent =
            arena_printf(ctx->arena, "none for %.*s is beside this anybox", STR_ARG(machine));
    } else {
        LOCKED(&d->lock);

        if (str_eq(p.name, str_from(d->refused))) {
            p.no_agent = arena_str(ctx->arena, str_from(d->refused_why));
        }
    }
    p.is_plain = p.no_agent.len > 0;
    if (p.is_plain && prepared_name(d, ctx, of, true, &p.name, e) < 0) {
        return -1;
    }
    *out = p;
    return 0;
}

bool prepared_is(struct str tag)
{
    static const char *const before[] = {"", "docker.io/", "localhost/"};

    for (size_t i = 0; i < COUNTOF(before); i++) {
        struct str registry = str_from(before[i]);

        if (str_starts(tag, registry) &&
            str_starts(str_skip(tag, registry.len), S(PREPARED_REPO ":"))) {
            return true;
        }
    }
    return false;
}

/* ---- who code is ------------------------------------------------------------------------- */

struct person {
    uint32_t uid, gid;
    struct str name, home;
    bool is_known; /* the image has an entry for the uid */
};

static bool read_uid(struct str text, uint32_t *out)
{
    struct err ignored;
    int64_t n = 0;

    if (text.len == 0 || str_to_i64(text, 0, UID_MOST, &n, &ignored) < 0) {
        return false;
    }
    *out = (uint32_t)n;
    return true;
}

/* The line of passwd with this name or, where that is empty, this uid. */
static bool find_person(struct str passwd, struct str name, uint32_t uid, struct person *out)
{
    while (passwd.len > 0) {
        struct str line = str_cut(passwd, '\n', &passwd);
        struct str fields[7] = {STR_EMPTY};
        uint32_t line_uid = 0;

        for (size_t i = 0; i < COUNTOF(fields); i++) {
            fields[i] = str_cut(line, ':', &line);
        }
        if (!read_uid(fields[2], &line_uid) ||
            (name.len > 0 ? !str_eq(fields[0], name) : line_uid != uid)) {
            continue;
        }
        *out = (struct person){
            .uid = line_uid, .name = fields[0], .home = fields[5], .is_known = true};
        (void)read_uid(fields[3], &out->gid);
        return true;
    }
    return false;
}

static bool is_home(struct str home)
{
    return str_starts(home, S("/home/")) && home.len > 6 && home.len < 90;
}

/* What the operator says; else the image's own user, unless that is root; else uid 1000. */
static struct person choose_person(const struct docker *d, const struct image *of,
                                   struct str passwd)
{
    struct str group;
    struct str user = str_cut(d->conf.user.len > 0 ? d->conf.user : of->user, ':', &group);
    struct person p = {.uid = BOX_UID, .gid = BOX_UID};
    struct person found = {0};
    bool is_number = read_uid(user, &p.uid);
    bool by_operator = d->conf.user.len > 0;

    if (user.len > 0 && !is_number && find_person(passwd, user, 0, &found)) {
        p = found;
    }
    if (p.uid == 0 && !by_operator) {
        p = (struct person){.uid = BOX_UID, .gid = BOX_UID};
        group = STR_EMPTY;
    }
    if (!p.is_known && find_person(passwd, STR_EMPTY, p.uid, &found)) {
        p = found;
    } else if (!p.is_known) {
        p.gid = p.uid;
    }
    (void)read_uid(group, &p.gid);
    p.name = p.name.len > 0 && p.name.len < 64 ? p.name : S(BOX_USER);
    p.home = is_home(p.home) ? p.home : S(BOX_HOME);
    return p;
}

/* ---- what it is given ---------------------------------------------------------------------- */

struct preparing {
    struct docker *d;
    const struct ctx *ctx;
    const struct image *of;
    const struct prepared *as;
    struct str cid; /* of the container */
    struct str passwd, group;
    struct person person;
};

/* A file of the image; empty where there is none. */
static int get_file(const struct preparing *p, const char *path, struct str *out, struct err *e)
{
    struct http_req req = {.method = "GET",
                           .path = arena_printf(p->ctx->arena, "/containers/%.*s/archive?path=%s",
                                                STR_ARG(p->cid), path),
                           .max = FILE_MAX};
    struct http_answer answer;

    *out = STR_EMPTY;
    if (engine_call(p->d, p->ctx, &req, &answer, e) < 0) {
        return -1;
    }
    if (answer.status == 200) {
        (void)archive_first_file(answer.body, out);
        return 0;
    }
    return answer.status == 404 ? 0
                                : engine_fail(&answer, p->ctx->arena, "cannot read the image", e);
}

/* Does the image have something there? */
static int has_path(const struct preparing *p, const char *path, bool *out, struct err *e)
{
    struct http_req req = {.method = "HEAD",
                           .path = arena_printf(p->ctx->arena, "/containers/%.*s/archive?path=%s",
                                                STR_ARG(p->cid), path)};
    struct http_answer answer;

    if (engine_call(p->d, p->ctx, &req, &answer, e) < 0) {
        return -1;
    }
    *out = answer.status == 200;
    return 0;
}

static void add_folder(struct buf *to, struct str path, unsigned mode, uint32_t uid, uint32_t gid)
{
    struct archive_entry folder = {str_skip(path, 1), '5', mode, uid, gid, STR_EMPTY};

    archive_add(to, &folder);
}

static void add_file(struct buf *to, struct str path, unsigned mode, struct str bytes)
{
    struct archive_entry file = {str_skip(path, 1), '0', mode, 0, 0, bytes};

    archive_add(to, &file);
}

static void add_users(const struct preparing *p, struct buf *to)
{
    struct arena *a = p->ctx->arena;
    struct str users = p->passwd.len > 0 ? p->passwd : S("root:x:0:0:root:/root:/bin/sh\n");
    struct str groups = p->group.len > 0 ? p->group : S("root:x:0:\n");
    const struct person *who = &p->person;

    if (who->is_known) {
        return;
    }
    add_file(to, S("/etc/passwd"), 0644,
             arena_printf(a, "%.*s%s%.*s:x:%u:%u::%.*s:/bin/sh\n", STR_ARG(users),
                          str_ends(users, S("\n")) ? "" : "\n", STR_ARG(who->name), who->uid,
                          who->gid, STR_ARG(who->home)));
    add_file(to, S("/etc/group"), 0644,
             arena_printf(a, "%.*s%s%.*s:x:%u:\n", STR_ARG(groups),
                          str_ends(groups, S("\n")) ? "" : "\n", STR_ARG(who->name), who->gid));
}

/* /workspace and /app/results are the same folder, whichever is the work folder. */
static int add_links(const struct preparing *p, struct buf *to, struct err *e)
{
    static const char *const names[] = {BOX_WORK_DIR, BOX_WORK_TOO};
    struct str work = p->d->conf.work_dir;

    for (size_t i = 0; i < COUNTOF(names); i++) {
        struct str name = str_from(names[i]);
        bool is_there = true;

        if (str_eq(name, work) || str_starts(work, name) || str_starts(name, work) ||
            work.len >= 100) {
            continue;
        }
        if (has_path(p, names[i], &is_there, e) < 0) {
            return -1;
        }
        if (!is_there) {
            struct archive_entry entry = {str_skip(name, 1), '2', 0777, 0, 0, work};

            archive_add(to, &entry);
        }
    }
    return 0;
}

static int fill_archive(const struct preparing *p, struct buf *to, struct err *e)
{
    const struct person *who = &p->person;
    struct str agent = STR_EMPTY;
    bool has_tmp = true;

    if ((!p->as->is_plain && load_agent(p->d, p->ctx->arena, p->of, &agent, e) < 0) ||
        add_links(p, to, e) < 0 || has_path(p, "/tmp", &has_tmp, e) < 0) {
        return -1;
    }
    /* Not to be read by its own user: so it can neither be traced nor dumped from its first
     * instruction on, though commands run as the same user. */
    add_folder(to, S(AGENT_DIR), 0755, 0, 0);
    if (!p->as->is_plain) {
        add_file(to, S(AGENT_DIR "/boxinit"), 0711, agent);
    }
    add_folder(to, S(AGENT_DIR "/run"), 0700, who->uid, who->gid);
    add_folder(to, p->d->conf.work_dir, 0755, who->uid, who->gid);
    add_folder(to, who->home, 0755, who->uid, who->gid);
    if (!has_tmp) {
        add_folder(to, S("/tmp"), 01777, 0, 0);
    }
    add_users(p, to);
    archive_end(to);
    return to->cut ? err_set(e, ERR_LIMIT, "the agent is too large to be sent") : 0;
}

static int send_archive(const struct preparing *p, struct err *e)
{
    struct buf archive own_buf = {0};
    struct http_answer answer;

    buf_init(&archive, ARCHIVE_MAX);
    if (fill_archive(p, &archive, e) < 0) {
        return -1;
    }
    struct http_req req = {
        .method = "PUT",
        .path =
            arena_printf(p->ctx->arena, "/containers/%.*s/archive?path=/&noOverwriteDirNonDir=true",
                         STR_ARG(p->cid)),
        .type = "application/x-tar",
        .body = buf_str(&archive),
    };
    if (engine_call(p->d, p->ctx, &req, &answer, e) < 0) {
        return -1;
    }
    return answer.status == 200
               ? 0
               : engine_fail(&answer, p->ctx->arena, "cannot put the agent into the image", e);
}

/* ---- the image ------------------------------------------------------------------------------ */

/* What the new image says of itself, beside what the image said: members of an object. */
static void write_config(const struct preparing *p, struct buf *to)
{
    const struct person *who = &p->person;

    buf_addf(to, "\"User\":\"%u:%u\"", who->uid, who->gid);
    buf_add(to,
            S(",\"StopSignal\":\"SIGTERM\",\"Healthcheck\":{\"Test\":[\"NONE\"]},\"WorkingDir\":"));
    value_quote(to, p->d->conf.work_dir);
    buf_add(to, S(",\"Env\":[\"TERM=dumb\",\"LANG=C.UTF-8\","));
    value_quote(to, arena_printf(p->ctx->arena, "HOME=%.*s", STR_ARG(who->home)));
    buf_addc(to, ',');
    value_quote(to, arena_printf(p->ctx->arena, "USER=%.*s", STR_ARG(who->name)));
    buf_addc(to, ']');
}

static struct str via_of(const struct preparing *p)
{
    return p->as->is_plain ? S(VIA_EXEC) : STR_EMPTY;
}

/* PID 1's program. */
static struct str entry_of(const struct preparing *p)
{
    return p->as->is_plain ? S("\"Entrypoint\":[\"/bin/sh\"],\"Cmd\":[],")
                           : S("\"Entrypoint\":[\"" AGENT_DIR "/boxinit\"],\"Cmd\":[],");
}

static void write_labels(const struct preparing *p, struct buf *to)
{
    buf_add(to, S("\"" LABEL_IMAGE "\":"));
    value_quote(to, p->of->ref);
    buf_add(to, S(",\"" LABEL_HOME "\":"));
    value_quote(to, p->person.home);
    buf_add(to, S(",\"" LABEL_USER "\":"));
    value_quote(to, p->person.name);
    buf_add(to, S(",\"" LABEL_WORK "\":"));
    value_quote(to, p->d->conf.work_dir);
    buf_add(to, S(",\"" LABEL_VIA "\":"));
    value_quote(to, via_of(p));
}

/* Once it is known who code is, the container can be all that the image is to be. */
static int make_helper(struct preparing *p, bool is_whole, struct err *e)
{
    char instance[DOCKER_ID_SIZE];
    struct buf body own_buf = {0};
    struct value *v = NULL;

    if (docker_instance(p->d, true, instance, e) < 0) {
        return -1;
    }
    buf_init(&body, 64u << 10);
    buf_add(&body, S("{\"Image\":"));
    value_quote(&body, p->of->id);
    buf_addc(&body, ',');
    buf_add(&body, entry_of(p));
    if (is_whole) {
        write_config(p, &body);
        buf_addc(&body, ',');
    } else {
        buf_add(&body, S("\"User\":\"0:0\",")); /* the image's may be one that it does not know */
    }
    buf_addf(&body, "\"Labels\":{\"" LABEL_INSTANCE "\":\"%s\",\"" LABEL_HELPER "\":\"1\"",
             instance);
    if (is_whole) {
        buf_addc(&body, ',');
        write_labels(p, &body);
    }
    buf_add(&body, S("},\"HostConfig\":{\"NetworkMode\":\"none\"}}"));
    struct http_req req = {.method = "POST",
                           .path = S("/containers/create"),
                           .type = "application/json",
                           .body = buf_str(&body)};
    if (engine_ask(p->d, p->ctx, &req, &v, e) < 0) {
        return -1;
    }
    p->cid = value_text(v, "Id");
    return p->cid.len == DOCKER_CID_SIZE - 1
               ? 0
               : err_set(e, ERR_PROTOCOL, "the engine tells no id of a new container");
}

static int commit(const struct preparing *p, struct str name, struct err *e)
{
    struct str tag;
    struct str repo = str_cut(name, ':', &tag);
    struct buf body own_buf = {0};
    struct value *v = NULL;

    buf_init(&body, 64u << 10);
    buf_addc(&body, '{');
    buf_add(&body, entry_of(p));
    write_config(p, &body);
    buf_add(&body, S(",\"Labels\":{\"" LABEL_HELPER "\":\"\",\"" LABEL_INSTANCE "\":\"\","));
    write_labels(p, &body);
    buf_add(&body, S("}}"));
    struct http_req req = {
        .method = "POST",
        .path = arena_printf(p->ctx->arena, "/commit?container=%.*s&repo=%.*s&tag=%.*s&pause=0",
                             STR_ARG(p->cid), STR_ARG(repo), STR_ARG(tag)),
        .type = "application/json",
        .body = buf_str(&body),
        .silent_ms = 300000,
    };
    return engine_ask(p->d, p->ctx, &req, &v, e);
}

/* Prepared images of the same name and way that are not the one of now. Whoever still runs of one keeps it. */
static void drop_old(const struct preparing *p, struct str name)
{
    struct buf path own_buf = {0};
    struct value *v = NULL;
    struct err ignored;

    buf_init(&path, 4096);
    buf_add(&path, S("/images/json?filters="));
    percent_add(
        &path,
        arena_printf(p->ctx->arena, "{\"label\":[\"" LABEL_IMAGE "=%.*s\"]}", STR_ARG(p->of->ref)),
        false);
    struct http_req req = {.method = "GET", .path = buf_str(&path)};
    if (engine_ask(p->d, p->ctx, &req, &v, &ignored) < 0) {
        return;
    }
    for (const struct value *image = v->first; image != NULL; image = image->next) {
        const struct value *tags = value_at(image, "RepoTags");

        if (!str_eq(value_member(value_at(image, "Labels"), S(LABEL_VIA)), via_of(p))) {
            continue;
        }
        for (const struct value *t = tags != NULL ? tags->first : NULL; t != NULL; t = t->next) {
            struct http_answer answer;

            if (!prepared_is(t->text) || str_ends(t->text, name) ||
                image_check(t->text, &ignored) < 0) {
                continue;
            }
            req = (struct http_req){
                .method = "DELETE",
                .path = arena_printf(p->ctx->arena, "/images/%.*s", STR_ARG(t->text))};
            (void)!engine_call(p->d, p->ctx, &req, &answer, &ignored);
        }
    }
}

static int read_users(struct preparing *p, struct err *e)
{
    if (get_file(p, "/etc/passwd", &p->passwd, e) < 0 ||
        get_file(p, "/etc/group", &p->group, e) < 0) {
        return -1;
    }
    p->person = choose_person(p->d, p->of, p->passwd);
    return 0;
}

/* Podman takes the image's configuration from the container and looks at no other: so another container, which is
 * all of that, takes the first one's place. */
static int make_whole(struct preparing *p, struct err *e)
{
    struct engine_facts facts;

    if (engine_facts(p->d, p->ctx, &facts, e) < 0) {
        return -1;
    }
    if (!facts.is_podman) {
        return 0;
    }
    return container_remove(p->d, p->ctx, p->cid, e) < 0 ? -1 : make_helper(p, true, e);
}

int image_prepare(struct docker *d, const struct ctx *ctx, const struct image *of,
                  const struct prepared *as, struct err *e)
{
    struct preparing p = {.d = d, .ctx = ctx, .of = of, .as = as};
    struct err ignored;
    int rc = -1;

    if (make_helper(&p, false, e) == 0 && read_users(&p, e) == 0 && make_whole(&p, e) == 0 &&
        send_archive(&p, e) == 0) {
        rc = commit(&p, as->name, e);
    }
    /* Also after a cancel: it would stay until the next sweep. */
    struct ctx last = {.arena = ctx->arena};
    if (p.cid.len > 0) {
        (void)!container_remove(d, rc < 0 ? &last : ctx, p.cid, &ignored);
    }
    if (rc < 0) {
        return err_wrap(e, "cannot prepare the image \"%.*s\"", STR_ARG(str_head(of->ref, 100)));
    }
    drop_old(&p, as->name);
    return 0;
}
