#include "mcp/offer.h"

#include "mcp/exchange.h"
#include "tools/prompt.h"
#include "tools/resource.h"

unsigned offers(const struct mcp *m)
{
    unsigned all = 0;

    for (size_t i = 0; prompts[i] != NULL; i++) {
        if (m != NULL && !prompt_offered(prompts[i], m->toolsets, m->services->config)) {
            continue;
        }
        all |= OFFER_PROMPTS | (prompts[i]->complete != NULL ? OFFER_COMPLETIONS : 0u);
    }
    for (size_t i = 0; resources[i] != NULL; i++) {
        all |= OFFER_RESOURCES | (resources[i]->changes ? OFFER_SUBSCRIBE : 0u) |
               (resources[i]->complete != NULL ? OFFER_COMPLETIONS : 0u);
    }
    for (size_t i = 0; tools[i] != NULL; i++) {
        all |= tools[i]->logs ? OFFER_LOGGING : 0u;
    }
    return all;
}

unsigned offers_changes(void)
{
    unsigned all = 0;

    for (size_t i = 0; tools[i] != NULL; i++) {
        all |= tools[i]->changes;
    }
    return all;
}

static void add_group(struct buf *out, const char *name, bool lists, bool subscribe)
{
    buf_addf(out, "%s\"%s\":{", out->p[out->len - 1] == '{' ? "" : ",", name);
    if (subscribe) {
        buf_add(out, S("\"subscribe\":true"));
    }
    if (lists) {
        buf_addf(out, "%s\"listChanged\":true", subscribe ? "," : "");
    }
    buf_addc(out, '}');
}

void offers_add(const struct mcp *m, struct buf *out, enum revision rev)
{
    unsigned all = offers(m);
    /* Older clients would have to be told unasked, on a stream that is always open. */
    unsigned changes = revision_has(rev, REV_MODERN) ? offers_changes() : 0;

    buf_add(out, S("\"capabilities\":{"));
    add_group(out, "tools", (changes & CHANGED_TOOLS) != 0, false);
    if ((all & OFFER_PROMPTS) != 0) {
        add_group(out, "prompts", (changes & CHANGED_PROMPTS) != 0, false);
    }
    if ((all & OFFER_RESOURCES) != 0) {
        add_group(out, "resources", (changes & CHANGED_RESOURCES) != 0,
                  (all & OFFER_SUBSCRIBE) != 0);
    }
    if ((all & OFFER_COMPLETIONS) != 0 && revision_has(rev, REV_COMPLETIONS)) {
        add_group(out, "completions", false, false);
    }
    if ((all & OFFER_LOGGING) != 0) {
        add_group(out, "logging", false, false);
    }
    buf_addc(out, '}');
}
