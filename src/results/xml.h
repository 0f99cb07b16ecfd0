/*
 * xml.h - as much of XML as reports are written in: elements, attributes, text, CDATA and the
 * five entities. Comments, declarations and document types are skipped; nothing is ever
 * fetched or expanded. Bad XML ends the reading.
 */
#ifndef RESULTS_XML_H
#define RESULTS_XML_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

enum xml_kind {
    XML_OPEN, /* <name attributes>, also of <name/>, which a XML_CLOSE follows */
    XML_CLOSE,
    XML_TEXT,
    XML_END, /* of the text, or where it is no XML any more */
};

struct xml {
    struct str rest;
    struct str close; /* of "<name/>": is to be closed next */
};

struct xml_event {
    enum xml_kind kind;
    struct str name;       /* of an element */
    struct str attributes; /* raw */
    struct str text;       /* raw */
    bool is_data;          /* text of a CDATA section: as it is */
};

struct xml xml_begin(struct str text);
struct xml_event xml_next(struct xml *x);
/* The value of an attribute, in the arena where it had entities; empty: there is none. */
struct str xml_attribute(struct arena *a, const struct xml_event *e, struct str name);
/* The text of an event, likewise. */
struct str xml_text(struct arena *a, const struct xml_event *e);

#endif
