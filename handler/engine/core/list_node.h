/* list_node.h - what driver.h needs of list.h: its functions have the names of those that
 * tcmu-runner's headers bring.
 */
#ifndef IRAID_LIST_NODE_H
#define IRAID_LIST_NODE_H

struct list {
	struct list *next;
	struct list *prev;
};

#endif
