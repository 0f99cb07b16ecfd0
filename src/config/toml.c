/*
 * toml.c - the reader goes through the text once, byte by byte, without recursion:
 * arrays are flat and tables are opened by headers, so nothing in the file can make
 * the stack grow. Every key is looked up among its siblings, which the limit on the
 * number of values keeps cheap.
 */
#include "config/toml.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/utf8.h"
#include "config/toml_reader.h"

struct key {
    struct str parts[TOML_MAX_PARTS];
    struct toml_place at[TOML_MAX_PARTS];
    size_t n;
};

int toml_fail(struct err *e, struct str file, struct toml_place at, const char *fmt, ...)
{
    char text[400];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return err_set(e, ERR_INVALID, "%.*s:%d:%d: %s", STR_ARG(file), at.line, at.column, text);
}

const char *toml_type_name(enum toml_type type)
{
    static const char *const names[] = {
        [TOML_STRING] = "a string",
        [TOML_INTEGER] = "an integer",
        [TOML_FLOAT] = "a float",
        [TOML_BOOLEAN] = "a boolean",
        [TOML_ARRAY] = "an array",
        [TOML_TABLE] = "a table",
        [TOML_TABLES] = "an array of tables",
    };

    return names[type];
}

/* ---- the text ------------------------------------------------------------- */

struct toml_place reader_here(struct reader *r)
{
    struct str more = {r->text.p + r->column_pos, r->pos - r->column_pos};

    r->column += (int)utf8_count(more);
    r->column_pos = r->pos;
    return (struct toml_place){r->line, r->column};
}

static void begin_line(struct reader *r, int line)
{
    r->line = line;
    r->column = 1;
    r->column_pos = r->pos;
}

void reader_skip_blanks(struct reader *r)
{
    while (reader_peek(r) == ' ' || reader_peek(r) == '\t') {
        r->pos++;
    }
}

/* At a "\n" or "\r\n": behind it. False: there is no line end here. */
static bool take_newline(struct reader *r)
{
    size_t n = reader_peek(r) == '\n'                                   ? 1
               : reader_peek(r) == '\r' && reader_peek_at(r, 1) == '\n' ? 2
                                                                        : 0;

    if (n == 0) {
        return false;
    }
    r->pos += n;
    begin_line(r, r->line + 1);
    return true;
}

static int skip_comment(struct reader *r)
{
    if (reader_peek(r) != '#') {
        return 0;
    }
    while (reader_peek(r) >= 0 && reader_peek(r) != '\n' &&
           !(reader_peek(r) == '\r' && reader_peek_at(r, 1) == '\n')) {
        if (reader_is_control(reader_peek(r))) {
            return READER_FAIL(r, "a control character (0x%02x) in a comment",
                               (unsigned)reader_peek(r));
        }
        r->pos++;
    }
    return 0;
}

/* Blanks, comments and line ends: inside an array, and between lines. */
int reader_skip_space(struct reader *r)
{
    do {
        reader_skip_blanks(r);
        if (skip_comment(r) < 0) {
            return -1;
        }
    } while (take_newline(r));
    return 0;
}

static int expect_line_end(struct reader *r)
{
    reader_skip_blanks(r);
    if (skip_comment(r) < 0) {
        return -1;
    }
    if (reader_peek(r) < 0 || take_newline(r)) {
        return 0;
    }
    return READER_FAIL(r, "unexpected text; only a comment may follow on this line");
}

struct toml_value *reader_new_value(struct reader *r, enum toml_type type, struct str key,
                                    struct toml_place key_at)
{
    struct toml_value *v;

    if (r->n_values == TOML_MAX_VALUES) {
        (void)err_set(r->e, ERR_LIMIT, "%.*s:%d: more than %d values in one file", STR_ARG(r->file),
                      r->line, TOML_MAX_VALUES);
        return NULL;
    }
    r->n_values++;
    v = arena_new(r->arena, struct toml_value);
    v->type = type;
    v->key = key;
    v->key_at = key_at;
    v->at = reader_here(r);
    return v;
}

void reader_append(struct toml_value *to, struct toml_value *v)
{
    if (to->last != NULL) {
        to->last->next = v;
    } else {
        to->first = v;
    }
    to->last = v;
}

/* ---- keys and tables ------------------------------------------------------------ */

static bool is_bare(int c)
{
    return reader_is_digit(c) || reader_is_letter(c) || c == '_' || c == '-';
}

static int read_part(struct reader *r, struct str *out)
{
    size_t n = 0;

    if (reader_peek(r) == '"' || reader_peek(r) == '\'') {
        return reader_string(r, out);
    }
    while (is_bare(reader_peek_at(r, n))) {
        n++;
    }
    if (n == 0) {
        return READER_FAIL(
            r, "a key is missing here; a key is made of letters, digits, '_' and '-', or "
               "stands in quotes");
    }
    *out = (struct str){r->text.p + r->pos, n};
    r->pos += n;
    return 0;
}

static int read_key(struct reader *r, struct key *key)
{
    *key = (struct key){0};
    for (;;) {
        reader_skip_blanks(r);
        if (key->n == TOML_MAX_PARTS) {
            return READER_FAIL(r, "a key has at most %d parts", TOML_MAX_PARTS);
        }
        key->at[key->n] = reader_here(r);
        if (read_part(r, &key->parts[key->n]) < 0) {
            return -1;
        }
        key->n++;
        reader_skip_blanks(r);
        if (reader_peek(r) != '.') {
            return 0;
        }
        r->pos++;
    }
}

static struct toml_value *find(struct toml_value *table, struct str key)
{
    for (struct toml_value *v = table->first; v != NULL; v = v->next) {
        if (str_eq(v->key, key)) {
            return v;
        }
    }
    return NULL;
}

static int fail_taken(struct reader *r, const struct key *key, size_t i, const struct toml_value *v)
{
    return toml_fail(r->e, r->file, key->at[i], "\"%.*s\" is already %s, in line %d",
                     STR_ARG(str_head(key->parts[i], 80)), toml_type_name(v->type), v->key_at.line);
}

static struct toml_value *add_table(struct reader *r, struct toml_value *to, const struct key *key,
                                    size_t i, enum toml_made made)
{
    struct toml_value *v = reader_new_value(r, TOML_TABLE, key->parts[i], key->at[i]);

    if (v != NULL) {
        v->made = made;
        reader_append(to, v);
    }
    return v;
}

/* From the root through all but the last part of a header; NULL is an error. */
static struct toml_value *walk_header(struct reader *r, struct toml_value *root,
                                      const struct key *key)
{
    struct toml_value *table = root;

    for (size_t i = 0; i + 1 < key->n; i++) {
        struct toml_value *next = find(table, key->parts[i]);

        if (next == NULL) {
            next = add_table(r, table, key, i, TOML_BY_PATH);
            if (next == NULL) {
                return NULL;
            }
        } else if (next->type == TOML_TABLES) {
            next = next->last;
        } else if (next->type != TOML_TABLE) {
            (void)fail_taken(r, key, i, next);
            return NULL;
        }
        table = next;
    }
    return table;
}

static int open_table(struct reader *r, struct toml_value *root, const struct key *key)
{
    struct toml_value *parent = walk_header(r, root, key);
    struct toml_value *found;

    if (parent == NULL) {
        return -1;
    }
    found = find(parent, key->parts[key->n - 1]);
    if (found == NULL) {
        r->table = add_table(r, parent, key, key->n - 1, TOML_BY_HEADER);
        return r->table != NULL ? 0 : -1;
    }
    if (found->type != TOML_TABLE || found->made != TOML_BY_PATH) {
        return fail_taken(r, key, key->n - 1, found);
    }
    found->made = TOML_BY_HEADER;
    found->key_at = key->at[key->n - 1];
    r->table = found;
    return 0;
}

static int open_item(struct reader *r, struct toml_value *root, const struct key *key)
{
    struct toml_value *parent = walk_header(r, root, key);
    struct toml_value *tables;
    struct toml_value *item;

    if (parent == NULL) {
        return -1;
    }
    tables = find(parent, key->parts[key->n - 1]);
    if (tables == NULL) {
        tables = add_table(r, parent, key, key->n - 1, TOML_BY_HEADER);
        if (tables == NULL) {
            return -1;
        }
        tables->type = TOML_TABLES;
    } else if (tables->type != TOML_TABLES) {
        return fail_taken(r, key, key->n - 1, tables);
    }
    item = reader_new_value(r, TOML_TABLE, STR_EMPTY, key->at[key->n - 1]);
    if (item == NULL) {
        return -1;
    }
    item->made = TOML_BY_HEADER;
    reader_append(tables, item);
    r->table = item;
    return 0;
}

static int read_header(struct reader *r, struct toml_value *root)
{
    bool is_item = reader_peek_at(r, 1) == '[';
    struct key key;

    r->pos += is_item ? 2 : 1;
    if (read_key(r, &key) < 0) {
        return -1;
    }
    if (reader_peek(r) != ']' || (is_item && reader_peek_at(r, 1) != ']')) {
        return READER_FAIL(r, "%s is missing at the end of this header", is_item ? "']]'" : "']'");
    }
    r->pos += is_item ? 2 : 1;
    return is_item ? open_item(r, root, &key) : open_table(r, root, &key);
}

/* The table that a dotted key's last part goes to. */
static struct toml_value *walk_dots(struct reader *r, const struct key *key)
{
    struct toml_value *table = r->table;

    for (size_t i = 0; i + 1 < key->n; i++) {
        struct toml_value *next = find(table, key->parts[i]);

        if (next == NULL) {
            next = add_table(r, table, key, i, TOML_BY_DOTS);
            if (next == NULL) {
                return NULL;
            }
        } else if (next->type != TOML_TABLE || next->made != TOML_BY_DOTS) {
            (void)fail_taken(r, key, i, next);
            return NULL;
        }
        table = next;
    }
    return table;
}

static int read_pair(struct reader *r)
{
    struct key key;
    struct toml_value *table;
    struct toml_value *v;

    if (read_key(r, &key) < 0) {
        return -1;
    }
    if (reader_peek(r) != '=') {
        return READER_FAIL(r, "'=' is missing behind the key \"%.*s\"",
                           STR_ARG(str_head(key.parts[key.n - 1], 80)));
    }
    table = walk_dots(r, &key);
    if (table == NULL) {
        return -1;
    }
    v = find(table, key.parts[key.n - 1]);
    if (v != NULL) {
        return toml_fail(r->e, r->file, key.at[key.n - 1],
                         "the key \"%.*s\" stands here twice, first in line %d",
                         STR_ARG(str_head(v->key, 80)), v->key_at.line);
    }
    v = reader_new_value(r, TOML_STRING, key.parts[key.n - 1], key.at[key.n - 1]);
    if (v == NULL) {
        return -1;
    }
    r->pos++;
    reader_skip_blanks(r);
    if (reader_value(r, v) < 0) {
        return -1;
    }
    reader_append(table, v);
    return 0;
}

static int check_text(struct reader *r)
{
    if (r->text.len > TOML_MAX_BYTES) {
        return err_set(r->e, ERR_LIMIT, "%.*s: longer than %u bytes", STR_ARG(r->file),
                       TOML_MAX_BYTES);
    }
    while (r->pos < r->text.len) {
        uint32_t c;
        size_t n = utf8_decode(str_skip(r->text, r->pos), &c);

        if (n == 0) {
            return READER_FAIL(r, "a byte (0x%02x) that is not UTF-8", (unsigned)reader_peek(r));
        }
        r->pos += n;
        if (c == '\n') {
            begin_line(r, r->line + 1);
        }
    }
    r->pos = str_starts(r->text, S("\xef\xbb\xbf")) ? 3 : 0;
    begin_line(r, 1);
    return 0;
}

struct toml_value *toml_parse(struct arena *a, struct str file, struct str text, struct err *e)
{
    struct reader r = {.arena = a, .file = file, .text = text, .line = 1, .column = 1, .e = e};
    struct toml_value *root = arena_new(a, struct toml_value);

    root->type = TOML_TABLE;
    root->made = TOML_BY_HEADER;
    r.table = root;
    if (check_text(&r) < 0) {
        return NULL;
    }
    for (;;) {
        if (reader_skip_space(&r) < 0) {
            return NULL;
        }
        if (reader_peek(&r) < 0) {
            return root;
        }
        if ((reader_peek(&r) == '[' ? read_header(&r, root) : read_pair(&r)) < 0) {
            return NULL;
        }
        if (expect_line_end(&r) < 0) {
            return NULL;
        }
    }
}
