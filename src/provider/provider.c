#include "provider/provider.h"

/*
 * The way in. A wrapper refuses what the provider does not have, and says which box
 * it was where the box and not the request is at fault: a sink's own error passes
 * unchanged, and so does what a caller can mend.
 */

#define SHOWN_REF 12 /* digits of a ref that tell boxes apart for a reader */

static int lacks(const struct provider *p, struct err *e, const char *what)
{
    return err_set(e, ERR_UNSUPPORTED, "the provider \"%.*s\" (%s) cannot %s", STR_ARG(p->name),
                   p->ops->type, what);
}

static int name_box(struct str ref, struct err *e)
{
    if (e->kind != ERR_GONE && e->kind != ERR_UNREACHABLE && e->kind != ERR_PROTOCOL) {
        return -1;
    }
    struct str shown = str_head(ref, SHOWN_REF);
    return err_wrap(e, "sandbox %.*s", STR_ARG(shown));
}

static int checked(const struct box *b, int rc, struct err *e)
{
    return rc < 0 ? name_box(b->ref, e) : rc;
}

/* ---- providers ------------------------------------------------------------- */

int provider_list(struct provider *p, const struct ctx *ctx, box_info_fn *each, void *arg,
                  struct err *e)
{
    return p->ops->list(p, ctx, each, arg, e);
}

struct box *provider_attach(struct provider *p, const struct ctx *ctx, struct str ref,
                            struct err *e)
{
    struct box *b = p->ops->attach(p, ctx, ref, e);
    if (b == NULL) {
        (void)name_box(ref, e);
    }
    return b;
}

struct box *provider_create(struct provider *p, const struct ctx *ctx, const struct box_spec *spec,
                            struct err *e)
{
    if (p->ops->factory == NULL) {
        (void)lacks(p, e, "make sandboxes; it only has those that its configuration names");
        return NULL;
    }
    if (spec->gpu && !p->ops->factory->has_gpus) {
        (void)err_set(
            e, ERR_UNSUPPORTED,
            "gpu cannot be given: sandboxes of the provider \"%.*s\" see no devices of the "
            "machine. Leave gpu out, or name a provider that has them (docker, where it is "
            "allowed)",
            STR_ARG(p->name));
        return NULL;
    }
    if ((spec->n_egress > 0 || spec->volumes.len > 0) && !p->ops->factory->takes_more) {
        (void)lacks(p, e, "take network_policy and volumes; leave them out, or use opensandbox");
        return NULL;
    }
    return p->ops->factory->create(p, ctx, spec, e);
}

int provider_doctor(struct provider *p, const struct ctx *ctx, check_fn *each, void *arg,
                    struct err *e)
{
    if (p->ops->doctor == NULL) {
        return lacks(p, e, "examine itself");
    }
    return p->ops->doctor(p, ctx, each, arg, e);
}

int provider_sweep(struct provider *p, const struct ctx *ctx, struct err *e)
{
    if (p->ops->factory == NULL) {
        return 0;
    }
    return p->ops->factory->sweep(p, ctx, e);
}

/* ---- images ---------------------------------------------------------------- */

static const struct image_ops *images_of(const struct provider *p, struct err *e)
{
    if (p->ops->images == NULL) {
        (void)lacks(p, e, "keep images");
    }
    return p->ops->images;
}

int provider_image_list(struct provider *p, const struct ctx *ctx, image_info_fn *each, void *arg,
                        struct err *e)
{
    const struct image_ops *images = images_of(p, e);
    return images ? images->list(p, ctx, each, arg, e) : -1;
}

int provider_image_make(struct provider *p, const struct ctx *ctx, const struct image_order *order,
                        image_phase_fn *phase, void *arg, struct err *e)
{
    const struct image_ops *images = images_of(p, e);
    if (images == NULL) {
        return -1;
    }
    return images->make != NULL ? images->make(p, ctx, order, phase, arg, e)
                                : lacks(p, e, "make images");
}

int provider_image_remove(struct provider *p, const struct ctx *ctx, struct str name, struct err *e)
{
    const struct image_ops *images = images_of(p, e);
    return images ? images->remove(p, ctx, name, e) : -1;
}

int provider_image_pull(struct provider *p, const struct ctx *ctx, struct str name,
                        image_phase_fn *phase, void *arg, struct err *e)
{
    const struct image_ops *images = images_of(p, e);

    if (images == NULL) {
        return -1;
    }
    return images->pull != NULL ? images->pull(p, ctx, name, phase, arg, e)
                                : lacks(p, e, "pull images: make one with anybox image make");
}

/* ---- boxes ----------------------------------------------------------------- */

int box_info(struct box *b, const struct ctx *ctx, struct box_info *out, struct err *e)
{
    return checked(b, b->provider->ops->info(b, ctx, out, e), e);
}

int box_destroy(struct box *b, const struct ctx *ctx, struct err *e)
{
    const struct factory_ops *factory = b->provider->ops->factory;
    if (factory == NULL) {
        return lacks(b->provider, e, "delete sandboxes; take it out of the configuration instead");
    }
    return checked(b, factory->destroy(b, ctx, e), e);
}

int box_extend(struct box *b, const struct ctx *ctx, int32_t lifetime_s, struct err *e)
{
    const struct factory_ops *factory = b->provider->ops->factory;
    if (factory == NULL) {
        return lacks(b->provider, e, "change a sandbox's lifetime; its sandboxes have no end");
    }
    return checked(b, factory->extend(b, ctx, lifetime_s, e), e);
}

int box_pause(struct box *b, const struct ctx *ctx, struct err *e)
{
    const struct factory_ops *factory = b->provider->ops->factory;
    if (factory == NULL || factory->pause == NULL) {
        return lacks(b->provider, e, "pause a sandbox; containers can be paused");
    }
    return checked(b, factory->pause(b, ctx, e), e);
}

int box_resume(struct box *b, const struct ctx *ctx, struct err *e)
{
    const struct factory_ops *factory = b->provider->ops->factory;
    if (factory == NULL || factory->resume == NULL) {
        return lacks(b->provider, e, "resume a sandbox, because none is ever paused there");
    }
    return checked(b, factory->resume(b, ctx, e), e);
}

int box_exec(struct box *b, const struct ctx *ctx, const struct exec_req *req,
             const struct sink *output, struct exec_result *out, struct err *e)
{
    return checked(b, b->provider->ops->exec(b, ctx, req, output, out, e), e);
}

/* ---- tasks ----------------------------------------------------------------- */

int box_task_attach(struct box *b, const struct ctx *ctx, const struct attach_req *req,
                    const struct sink *output, struct exec_result *out, struct err *e)
{
    const struct task_ops *tasks = b->provider->ops->tasks;
    if (tasks == NULL) {
        return lacks(b->provider, e, "follow a command after the call that started it");
    }
    return checked(b, tasks->attach(b, ctx, req, output, out, e), e);
}

int box_task_state(struct box *b, const struct ctx *ctx, struct str id, task_state_fn *each,
                   void *arg, struct err *e)
{
    const struct task_ops *tasks = b->provider->ops->tasks;
    if (tasks == NULL) {
        return lacks(b->provider, e, "tell the state of running commands");
    }
    return checked(b, tasks->state(b, ctx, id, each, arg, e), e);
}

int box_task_kill(struct box *b, const struct ctx *ctx, struct str id, int32_t grace_ms,
                  struct err *e)
{
    const struct task_ops *tasks = b->provider->ops->tasks;
    if (tasks == NULL) {
        return lacks(b->provider, e, "stop a command of another call");
    }
    return checked(b, tasks->kill(b, ctx, id, grace_ms, e), e);
}

/* ---- files ----------------------------------------------------------------- */

static const struct file_ops *files_of(const struct box *b, struct err *e)
{
    if (b->provider->ops->files == NULL) {
        (void)lacks(b->provider, e, "read or write files");
    }
    return b->provider->ops->files;
}

int box_file_stat(struct box *b, const struct ctx *ctx, struct str path, struct file_info *out,
                  struct err *e)
{
    const struct file_ops *files = files_of(b, e);
    return files ? checked(b, files->stat(b, ctx, path, out, e), e) : -1;
}

int box_file_list(struct box *b, const struct ctx *ctx, const struct list_req *req,
                  file_info_fn *each, void *arg, bool *more, struct err *e)
{
    const struct file_ops *files = files_of(b, e);
    return files ? checked(b, files->list(b, ctx, req, each, arg, more, e), e) : -1;
}

int box_file_read(struct box *b, const struct ctx *ctx, struct str path, int64_t from, int64_t max,
                  const struct sink *to, struct file_info *out, struct err *e)
{
    const struct file_ops *files = files_of(b, e);
    return files ? checked(b, files->read(b, ctx, path, from, max, to, out, e), e) : -1;
}

int box_file_write(struct box *b, const struct ctx *ctx, struct str path, mode_t mode,
                   enum write_flags flags, const struct source *from, struct file_info *out,
                   struct err *e)
{
    const struct file_ops *files = files_of(b, e);
    return files ? checked(b, files->write(b, ctx, path, mode, flags, from, out, e), e) : -1;
}

int box_file_mkdir(struct box *b, const struct ctx *ctx, struct str path, struct err *e)
{
    const struct file_ops *files = files_of(b, e);
    return files ? checked(b, files->mkdir(b, ctx, path, e), e) : -1;
}

int box_file_remove(struct box *b, const struct ctx *ctx, struct str path, struct err *e)
{
    const struct file_ops *files = files_of(b, e);
    return files ? checked(b, files->remove(b, ctx, path, e), e) : -1;
}

/* ---- whole trees, ports --------------------------------------------------------- */

static const struct tree_ops *trees_of(const struct box *b, struct err *e)
{
    const struct tree_ops *trees = b->provider->ops->trees;
    if (trees == NULL) {
        (void)lacks(b->provider, e, "move whole folders");
    }
    return trees;
}

int box_tree_list(struct box *b, const struct ctx *ctx, const struct tree_req *req,
                  tree_entry_fn *each, void *arg, struct tree_facts *out, struct err *e)
{
    const struct tree_ops *trees = trees_of(b, e);
    return trees == NULL ? -1 : checked(b, trees->list(b, ctx, req, each, arg, out, e), e);
}

bool box_tree_splits(struct box *b, uint64_t bytes)
{
    const struct tree_ops *trees = b->provider->ops->trees;
    return trees != NULL && trees->splits != NULL && trees->splits(b, bytes);
}

int box_tree_put(struct box *b, const struct ctx *ctx, struct str root,
                 const struct tree_source *from, struct put_result *out, struct err *e)
{
    const struct tree_ops *trees = trees_of(b, e);
    return trees == NULL ? -1 : checked(b, trees->put(b, ctx, root, from, out, e), e);
}

int box_tree_get(struct box *b, const struct ctx *ctx, struct str root, const struct str *paths,
                 size_t n, const struct tree_sink *to, struct err *e)
{
    const struct tree_ops *trees = trees_of(b, e);
    return trees == NULL ? -1 : checked(b, trees->get(b, ctx, root, paths, n, to, e), e);
}

int box_tree_prune(struct box *b, const struct ctx *ctx, struct str root, const struct str *paths,
                   size_t n, struct prune_result *out, struct err *e)
{
    const struct tree_ops *trees = trees_of(b, e);
    return trees == NULL ? -1 : checked(b, trees->prune(b, ctx, root, paths, n, out, e), e);
}

int box_port_dial(struct box *b, const struct ctx *ctx, uint16_t port, struct err *e)
{
    const struct port_ops *ports = b->provider->ops->ports;
    if (ports == NULL) {
        return lacks(b->provider, e, "reach a port of a sandbox");
    }
    return checked(b, ports->dial(b, ctx, port, e), e);
}

int box_unix_dial(struct box *b, const struct ctx *ctx, struct str path, struct err *e)
{
    const struct port_ops *ports = b->provider->ops->ports;
    if (ports == NULL || ports->dial_unix == NULL) {
        return lacks(b->provider, e, "reach a socket of a sandbox");
    }
    return checked(b, ports->dial_unix(b, ctx, path, e), e);
}

/* ---- looking, and references ------------------------------------------------- */

int box_usage(struct box *b, const struct ctx *ctx, struct usage *out, struct err *e)
{
    const struct meter_ops *meter = b->provider->ops->meter;
    if (meter == NULL) {
        return lacks(b->provider, e, "measure what a sandbox uses");
    }
    return checked(b, meter->usage(b, ctx, out, e), e);
}

struct box *box_ref(struct box *b)
{
    (void)atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

void box_unref(struct box *b)
{
    if (b == NULL) {
        return;
    }
    if (atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) == 1) {
        b->provider->ops->release(b);
    }
}
