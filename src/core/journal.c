#include "core/journal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/list.h"
#include "base/thread.h"

struct page {
    struct list link; /* journal.pages, the one that was used last at the end */
    char *key;
    size_t key_len;
    uint64_t count;
    struct buf text;
};

struct journal {
    pthread_mutex_t lock; /* guards all of it */
    struct list pages;
    size_t n;
};

struct journal *journal_new(void)
{
    struct journal *j = xcalloc(1, sizeof(*j));

    (void)pthread_mutex_init(&j->lock, NULL);
    list_init(&j->pages);
    return j;
}

static void drop(struct journal *j, struct page *p)
{
    list_del(&p->link);
    j->n--;
    buf_fini(&p->text);
    free(p->key);
    free(p);
}

void journal_free(struct journal *j)
{
    if (j == NULL) {
        return;
    }
    while (!list_empty(&j->pages)) {
        drop(j, list_entry(j->pages.next, struct page, link));
    }
    (void)pthread_mutex_destroy(&j->lock);
    free(j);
}

static struct page *find(struct journal *j, struct str key)
{
    struct list *pos;

    list_each (pos, &j->pages) {
        struct page *p = list_entry(pos, struct page, link);

        if (str_eq((struct str){p->key, p->key_len}, key)) {
            return p;
        }
    }
    return NULL;
}

static struct page *add_page(struct journal *j, struct str key)
{
    struct page *p = xcalloc(1, sizeof(*p));

    if (j->n == JOURNAL_BOXES) {
        drop(j, list_entry(j->pages.next, struct page, link));
    }
    p->key = xmemdup(key.p, key.len);
    p->key_len = key.len;
    buf_init(&p->text, JOURNAL_BYTES);
    list_add_tail(&j->pages, &p->link);
    j->n++;
    return p;
}

/* So that whole lines are left, half of the room is made free at a time. */
static void make_room(struct buf *text, size_t n)
{
    size_t at = text->len / 2 > n ? text->len / 2 : n;
    const char *end = at < text->len ? memchr(text->p + at, '\n', text->len - at) : NULL;

    buf_drop(text, end != NULL ? (size_t)(end - text->p) + 1 : text->len);
}

/* The page of the box, which is then the last that was used. */
static struct page *use_page(struct journal *j, struct str key)
{
    struct page *p = find(j, key);

    if (p == NULL) {
        return add_page(j, key);
    }
    list_del(&p->link);
    list_add_tail(&j->pages, &p->link);
    return p;
}

void journal_add(struct journal *j, struct str key, struct str text)
{
    struct page *p;

    if (text.len > JOURNAL_BYTES / 2) {
        text = str_skip(text, text.len - JOURNAL_BYTES / 2);
    }
    LOCKED(&j->lock);
    p = use_page(j, key);
    if (p->text.len + text.len > JOURNAL_BYTES) {
        make_room(&p->text, p->text.len + text.len - JOURNAL_BYTES);
    }
    buf_add(&p->text, text);
    p->count++;
}

void journal_put(struct journal *j, struct str key, struct str text)
{
    struct page *p;

    LOCKED(&j->lock);
    p = use_page(j, key);
    buf_clear(&p->text);
    buf_add(&p->text, text);
    p->count++;
}

static struct str last_lines(struct str s, size_t lines)
{
    size_t at = s.len;

    while (at > 0 && lines > 0) {
        at--;
        while (at > 0 && s.p[at - 1] != '\n') {
            at--;
        }
        lines--;
    }
    return str_skip(s, at);
}

void journal_tail(struct journal *j, struct str key, size_t lines, struct buf *to)
{
    const struct page *p;

    LOCKED(&j->lock);
    p = find(j, key);
    if (p != NULL) {
        buf_add(to, last_lines(buf_str(&p->text), lines));
    }
}

uint64_t journal_count(struct journal *j, struct str key)
{
    const struct page *p;

    LOCKED(&j->lock);
    p = find(j, key);
    return p != NULL ? p->count : 0;
}
