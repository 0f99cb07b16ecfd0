/*
 * list.h - intrusive doubly linked list.
 *
 * A `struct list` is a head or a link inside an element; heads are typed by
 * comment: `struct list calls; // struct call.link`. A link is initialized by
 * being added, and list_del() leaves it pointing at itself, so deleting twice is
 * harmless.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>

#include "base/attr.h"

struct list {
    struct list *next, *prev;
};

static inline void list_init(struct list *l)
{
    l->next = l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
    return l->next == l;
}

static inline void list_add_tail(struct list *head, struct list *link)
{
    link->prev = head->prev;
    link->next = head;
    head->prev->next = link;
    head->prev = link;
}

static inline void list_del(struct list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    list_init(link);
}

#define list_entry(link, type, member) CONTAINER_OF(link, type, member)
#define list_each(pos, head)           for ((pos) = (head)->next; (pos) != (head); (pos) = (pos)->next)
/* `pos` may be deleted inside the loop. */
#define list_each_safe(pos, tmp, head)                                                             \
    for ((pos) = (head)->next, (tmp) = (pos)->next; (pos) != (head);                               \
         (pos) = (tmp), (tmp) = (pos)->next)

#endif
