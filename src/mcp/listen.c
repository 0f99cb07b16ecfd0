/*
 * listen.c - subscriptions.
 *
 * All of them are in mcp->listeners, and what is sent for one is sent with listeners_lock
 * held: so the acknowledgement comes first, and nothing follows the end. The lock is taken
 * before those of a transport, and never together with peer->lock. Peers are let go (which
 * may free them) after it was given back.
 */
#include "mcp/listen.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "json/js.h"
#include "mcp/mcp.h"
#include "mcp/observe.h"
#include "mcp/offer.h"
#include "tools/resource.h"

#define METHOD_TOOLS     "notifications/tools/list_changed"
#define METHOD_PROMPTS   "notifications/prompts/list_changed"
#define METHOD_RESOURCES "notifications/resources/list_changed"
#define METHOD_RESOURCE  "notifications/resources/updated"

struct listener {
    struct list link; /* mcp.listeners; guarded by mcp->listeners_lock */
    struct peer *peer;
    char *raw_id; /* NULL: a subscription of 2025-11-25 or older */
    char *id;     /* decoded, when it is a string */
    unsigned kinds;
    json_t *uris;    /* array of strings; never changed */
    char **versions; /* what was last heard of each; NULL: nothing yet; guarded like link */
};

static const struct {
    enum change what;
    const char *wanted; /* in the filter of subscriptions/listen */
    const char *method;
} kinds[] = {
    {CHANGED_TOOLS, "toolsListChanged", METHOD_TOOLS},
    {CHANGED_PROMPTS, "promptsListChanged", METHOD_PROMPTS},
    {CHANGED_RESOURCES, "resourcesListChanged", METHOD_RESOURCES},
    {CHANGED_RESOURCE, NULL, METHOD_RESOURCE},
};

static void hold(struct peer *p)
{
    if (p->ops->hold != NULL) {
        p->ops->hold(p);
    }
}

static void free_listener(struct listener *l)
{
    struct peer *p = l->peer;

    for (size_t i = 0; i < json_array_size(l->uris); i++) {
        free(l->versions[i]);
    }
    free(l->versions);
    json_decref(l->uris);
    free(l->raw_id);
    free(l->id);
    free(l);
    if (p->ops->release != NULL) {
        p->ops->release(p);
    }
}

/* Can it be subscribed to? */
static bool can_change(struct str uri)
{
    struct str values[RESOURCE_VALUES];
    const struct resource *r = resource_find(uri, values);

    return r != NULL && r->changes;
}

/* ---- what is sent ------------------------------------------------------------------------ */

static void add_tag(struct buf *out, const struct listener *l)
{
    buf_addf(out, "\"_meta\":{\"" RPC_META_SUBSCRIPTION "\":%s}", l->raw_id);
}

static void send_ack(const struct listener *l)
{
    struct buf out own_buf = {0};
    const char *before = "";

    buf_init(&out, MCP_MESSAGE_MAX);
    buf_add(&out, S("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\","
                    "\"params\":{"));
    add_tag(&out, l);
    buf_add(&out, S(",\"notifications\":{"));
    for (size_t i = 0; i < COUNTOF(kinds); i++) {
        if (kinds[i].wanted != NULL && (l->kinds & (unsigned)kinds[i].what) != 0) {
            buf_addf(&out, "%s\"%s\":true", before, kinds[i].wanted);
            before = ",";
        }
    }
    if (json_array_size(l->uris) > 0) {
        buf_addf(&out, "%s\"resourceSubscriptions\":", before);
        js_dump(l->uris, &out);
    }
    buf_add(&out, S("}}}"));
    l->peer->ops->send(l->peer, buf_str(&out), SEND_MESSAGE);
}

/* Where all answers share a stream the end is told twice, since the specification asks for
 * both. */
static void send_end(const struct listener *l, const char *reason)
{
    struct buf out own_buf = {0};

    buf_init(&out, MCP_MESSAGE_MAX);
    rpc_begin_result(&out, str_from(l->raw_id));
    buf_add(&out, S("{\"resultType\":\"complete\","));
    add_tag(&out, l);
    buf_add(&out, S("}}"));
    l->peer->ops->send(l->peer, buf_str(&out), SEND_ANSWER);
    if (!l->peer->ops->one_stream) {
        return;
    }
    buf_clear(&out);
    buf_addf(&out,
             "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
             "\"requestId\":%s,\"reason\":\"%s\"}}",
             l->raw_id, reason);
    l->peer->ops->send(l->peer, buf_str(&out), SEND_MESSAGE);
}

static void send_change(const struct listener *l, const char *method, struct str uri)
{
    struct buf out own_buf = {0};

    buf_init(&out, MCP_MESSAGE_MAX);
    buf_addf(&out, "{\"jsonrpc\":\"2.0\",\"method\":\"%s\",\"params\":{", method);
    if (l->raw_id != NULL) {
        add_tag(&out, l);
    }
    if (uri.len > 0) {
        buf_addf(&out, "%s\"uri\":", l->raw_id != NULL ? "," : "");
        rpc_add_string(&out, uri);
    }
    buf_add(&out, S("}}"));
    l->peer->ops->send(l->peer, buf_str(&out), SEND_MESSAGE);
}

static bool has_uri(const struct listener *l, struct str uri)
{
    for (size_t i = 0; i < json_array_size(l->uris); i++) {
        if (str_eq(js_str(json_array_get(l->uris, i)), uri)) {
            return true;
        }
    }
    return false;
}

void listen_publish(struct mcp *m, enum change what, struct str uri)
{
    const char *method = METHOD_RESOURCE;
    struct list *pos;

    for (size_t i = 0; i < COUNTOF(kinds); i++) {
        if (kinds[i].what == what) {
            method = kinds[i].method;
        }
    }
    LOCKED(&m->listeners_lock);
    list_each (pos, &m->listeners) {
        const struct listener *l = list_entry(pos, struct listener, link);

        if (what == CHANGED_RESOURCE ? has_uri(l, uri) : (l->kinds & (unsigned)what) != 0) {
            send_change(l, method, what == CHANGED_RESOURCE ? uri : STR_EMPTY);
        }
    }
}

/* ---- what was looked at ------------------------------------------------------------------- */

void listen_each_uri(struct mcp *m, listen_uri_fn *each, void *arg)
{
    struct list *pos;

    LOCKED(&m->listeners_lock);
    list_each (pos, &m->listeners) {
        const struct listener *l = list_entry(pos, struct listener, link);

        for (size_t i = 0; i < json_array_size(l->uris); i++) {
            each(arg, l->peer->scope, js_str(json_array_get(l->uris, i)));
        }
    }
}

static void compare(struct listener *l, size_t i, struct str uri, const char *version)
{
    bool is_news = l->versions[i] != NULL;

    if (is_news && strcmp(l->versions[i], version) == 0) {
        return;
    }
    free(l->versions[i]);
    l->versions[i] = xmemdup(version, strlen(version));
    if (is_news) {
        send_change(l, METHOD_RESOURCE, uri);
    }
}

void listen_version(struct mcp *m, struct str owner, struct str uri, const char *version)
{
    struct list *pos;

    LOCKED(&m->listeners_lock);
    list_each (pos, &m->listeners) {
        struct listener *l = list_entry(pos, struct listener, link);

        for (size_t i = 0; i < json_array_size(l->uris); i++) {
            if (str_eq(l->peer->scope->owner, owner) &&
                str_eq(js_str(json_array_get(l->uris, i)), uri)) {
                compare(l, i, uri, version);
            }
        }
    }
}

/* ---- beginning --------------------------------------------------------------------------- */

static unsigned read_kinds(const json_t *filter)
{
    unsigned wanted = 0;

    for (size_t i = 0; i < COUNTOF(kinds); i++) {
        if (kinds[i].wanted != NULL && json_is_true(js_get(filter, kinds[i].wanted))) {
            wanted |= (unsigned)kinds[i].what;
        }
    }
    return wanted & offers_changes();
}

/* A new array of those that exist and can change. */
static json_t *read_uris(const json_t *filter)
{
    const json_t *wanted = js_get(filter, "resourceSubscriptions");
    json_t *uris = json_array();

    for (size_t i = 0; i < json_array_size(wanted); i++) {
        struct str uri = js_str(json_array_get(wanted, i));

        if (can_change(uri)) {
            (void)json_array_append_new(uris, js_string(uri));
        }
    }
    return uris;
}

static struct listener *new_listener(struct peer *p, unsigned wanted, json_t *uris)
{
    struct listener *l = xcalloc(1, sizeof(*l));

    hold(p);
    l->peer = p;
    l->kinds = wanted;
    l->uris = uris;
    l->versions = xcalloc(json_array_size(uris) + 1, sizeof(*l->versions));
    /* From now on, not from the first look on: what changes in between is told. */
    for (size_t i = 0; i < json_array_size(uris); i++) {
        l->versions[i] = observe_now(p->mcp, p->scope, js_str(json_array_get(uris, i)));
    }
    return l;
}

static bool add_listener(struct mcp *m, struct listener *l)
{
    if (m->n_listeners == LISTENERS_MAX) {
        return false;
    }
    m->n_listeners++;
    list_add_tail(&m->listeners, &l->link);
    if (json_array_size(l->uris) > 0) {
        observer_wake(m->observer);
    }
    return true;
}

/* What nothing can be honoured of is acknowledged as empty and ended at once. */
void listen_start(const struct exchange *x)
{
    const json_t *filter = js_get(x->msg->params, "notifications");
    struct mcp *m = x->peer->mcp;
    struct listener *l;
    bool is_full = false;
    bool stays;

    if (!json_is_object(filter)) {
        exchange_error(x, RPC_INVALID_PARAMS,
                       "subscriptions/listen needs \"notifications\", an object that names the "
                       "kinds of notifications wanted.");
        return;
    }
    l = new_listener(x->peer, read_kinds(filter), read_uris(filter));
    l->raw_id = xmemdup(x->msg->raw_id.p, x->msg->raw_id.len);
    l->id = xmemdup(js_str(x->msg->id).p, js_str(x->msg->id).len);
    lock(&m->listeners_lock);
    stays = l->kinds != 0 || json_array_size(l->uris) > 0;
    if (stays) {
        is_full = !add_listener(m, l);
    }
    if (!is_full) {
        send_ack(l);
    }
    unlock(&m->listeners_lock);
    if (is_full) {
        exchange_error(x, RPC_INTERNAL_ERROR,
                       "There are %d subscriptions already; end some and try again.",
                       LISTENERS_MAX);
    } else if (!stays) {
        send_end(l, "nothing to subscribe to");
    }
    if (!stays || is_full) {
        free_listener(l);
    }
}

/* ---- up to 2025-11-25: one address at a time ---------------------------------------------- */

static bool check_uri(const struct exchange *x, struct str *uri)
{
    *uri = js_str(js_get(x->msg->params, "uri"));
    if (can_change(*uri)) {
        return true;
    }
    exchange_error(x, RPC_RESOURCE_NOT_FOUND,
                   "There is no resource \"%.*s\" that can be subscribed to; resources/list shows "
                   "the resources.",
                   STR_ARG(str_head(*uri, 100)));
    return false;
}

/* The listener of this peer for that address, taken out; NULL: none. */
static struct listener *take_one(struct peer *p, struct str uri)
{
    struct list *pos;

    LOCKED(&p->mcp->listeners_lock);
    list_each (pos, &p->mcp->listeners) {
        struct listener *l = list_entry(pos, struct listener, link);

        if (l->peer == p && l->raw_id == NULL && has_uri(l, uri)) {
            list_del(&l->link);
            p->mcp->n_listeners--;
            return l;
        }
    }
    return NULL;
}

static void drop_one(struct peer *p, struct str uri)
{
    struct listener *l = take_one(p, uri);

    if (l != NULL) {
        free_listener(l);
    }
}

/* Over HTTP the stream of this request ends with its answer: who is there to be told is
 * known only of a connection that stays. */
void listen_subscribe(const struct exchange *x)
{
    struct str uri;
    bool added = true;

    if (!check_uri(x, &uri)) {
        return;
    }
    drop_one(x->peer, uri);
    if (x->peer->ops->one_stream) {
        struct listener *l = new_listener(x->peer, 0, json_pack("[o]", js_string(uri)));

        lock(&x->peer->mcp->listeners_lock);
        added = add_listener(x->peer->mcp, l);
        unlock(&x->peer->mcp->listeners_lock);
        if (!added) {
            free_listener(l);
        }
    }
    if (!added) {
        exchange_error(x, RPC_INTERNAL_ERROR,
                       "There are %d subscriptions already; end some and try again.",
                       LISTENERS_MAX);
        return;
    }
    exchange_result(x, S("{}"));
}

void listen_unsubscribe(const struct exchange *x)
{
    struct str uri;

    if (!check_uri(x, &uri)) {
        return;
    }
    drop_one(x->peer, uri);
    exchange_result(x, S("{}"));
}

/* ---- the end ------------------------------------------------------------------------------- */

static bool is_meant(const struct listener *l, const json_t *id, struct str raw_id)
{
    if (l->raw_id == NULL || raw_id.len == 0) {
        return false;
    }
    return str_eq(str_from(l->raw_id), raw_id) ||
           (raw_id.p[0] == '"' && l->raw_id[0] == '"' && str_eq(str_from(l->id), js_str(id)));
}

/* Moves the peer's listeners, or only those of an id, to `ended`. */
static void take(struct peer *p, const json_t *id, struct str raw_id, struct list *ended)
{
    struct list *pos = p->mcp->listeners.next;

    while (pos != &p->mcp->listeners) {
        struct listener *l = list_entry(pos, struct listener, link);

        pos = pos->next;
        if (l->peer == p && (id == NULL || is_meant(l, id, raw_id))) {
            list_del(&l->link);
            list_add_tail(ended, &l->link);
            p->mcp->n_listeners--;
        }
    }
}

static void end_all(struct peer *p, const json_t *id, struct str raw_id, const char *reason)
{
    struct list ended;

    list_init(&ended);
    lock(&p->mcp->listeners_lock);
    take(p, id, raw_id, &ended);
    unlock(&p->mcp->listeners_lock);
    while (!list_empty(&ended)) {
        struct listener *l = list_entry(ended.next, struct listener, link);

        list_del(&l->link);
        if (reason != NULL && l->raw_id != NULL) {
            send_end(l, reason);
        }
        free_listener(l);
    }
}

void listen_cancel(struct peer *p, const json_t *id, struct str raw_id)
{
    end_all(p, id, raw_id, NULL);
}

void listen_close(struct peer *p)
{
    end_all(p, NULL, STR_EMPTY, "the server is leaving");
}

void listen_forget(struct peer *p)
{
    end_all(p, NULL, STR_EMPTY, NULL);
}
