#include "mcp/caps.h"

#include "json/js.h"

static unsigned elicitation(const json_t *v, enum revision rev)
{
    bool url = json_is_object(js_get(v, "url"));
    unsigned can = 0;

    if (!json_is_object(v) || !revision_has(rev, REV_ELICITATION)) {
        return 0;
    }
    /* {} is how it was said before there were two ways. */
    if (json_is_object(js_get(v, "form")) || !url) {
        can |= CAN_FORM;
    }
    if (url && revision_has(rev, REV_URL_MODE)) {
        can |= CAN_URL;
    }
    return can;
}

unsigned caps_read(const json_t *capabilities, enum revision rev)
{
    unsigned can = elicitation(js_get(capabilities, "elicitation"), rev);

    if (json_is_object(js_get(capabilities, "sampling"))) {
        can |= CAN_SAMPLE;
    }
    if (json_is_object(js_get(capabilities, "roots"))) {
        can |= CAN_ROOTS;
    }
    return can;
}

const char *caps_method(enum client_can kind)
{
    switch (kind) {
    case CAN_FORM:
    case CAN_URL: return "elicitation/create";
    case CAN_SAMPLE: return "sampling/createMessage";
    case CAN_ROOTS: return "roots/list";
    }
    return "";
}

void caps_add(struct buf *out, unsigned can)
{
    static const struct {
        unsigned bit;
        const char *text;
    } words[] = {
        {CAN_FORM, "\"elicitation\":{}"},
        {CAN_URL, "\"elicitation\":{\"url\":{}}"},
        {CAN_SAMPLE, "\"sampling\":{}"},
        {CAN_ROOTS, "\"roots\":{}"},
    };
    char before = '{';

    for (size_t i = 0; i < COUNTOF(words); i++) {
        if ((can & words[i].bit) != 0) {
            buf_addf(out, "%c%s", before, words[i].text);
            before = ',';
        }
    }
    if (before == '{') {
        buf_addc(out, '{');
    }
    buf_addc(out, '}');
}
