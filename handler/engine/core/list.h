/* list.h - an intrusive doubly linked list, circular with a head. */
#ifndef IRAID_LIST_H
#define IRAID_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "list_node.h"

#define list_entry(node, type, member) ((type *)((char *)(node)-offsetof(type, member)))

static inline void
list_init(struct list *head)
{
	head->next = head;
	head->prev = head;
}

static inline bool
list_empty(const struct list *head)
{
	return head->next == head;
}

static inline void
list_append(struct list *head, struct list *node)
{
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}

static inline void
list_prepend(struct list *head, struct list *node)
{
	list_append(head->next, node);
}

/* The node is left pointing at itself, so that removing it again does no harm. */
static inline void
list_remove(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

/* First node taken off the list, or NULL. */
static inline struct list *
list_take(struct list *head)
{
	struct list *node = head->next;

	if (node == head)
		return NULL;
	list_remove(node);
	return node;
}

/* Append all of *from to *head and leave *from empty. */
static inline void
list_splice(struct list *head, struct list *from)
{
	if (list_empty(from))
		return;
	from->next->prev = head->prev;
	head->prev->next = from->next;
	from->prev->next = head;
	head->prev = from->prev;
	list_init(from);
}

#endif
