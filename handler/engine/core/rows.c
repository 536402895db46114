/* rows.c - see rows.h.  A hash table of the rows that are claimed now; entries are recycled.
 *
 * A row that is claimed has an entry, so as many entries as there are claims always suffice.
 * row_table_reserve() sees to that number before an operation claims its rows, beside some for
 * background work.
 */
#include "rows.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define BUCKETS 1024u	       /* power of two; about the rows in flight at queue depth 512 */
#define BACKGROUND_CLAIMS 256u /* of resync, rebuild, scrub and repair: 32 each */

struct row_entry {
	struct row_entry *next; /* in its bucket, or in the free list */
	struct list claims;	/* of row_claim.in_row, in order of arrival */
	uint64_t row;
};

struct row_table {
	struct row_entry *buckets[BUCKETS];
	struct row_entry *free;
	uint64_t entries; /* free or not */
	uint64_t claims;
	bool rows_exclusive;
};

static struct row_entry **
bucket_of(struct row_table *table, uint64_t row)
{
	return &table->buckets[(row * 0x9E3779B97F4A7C15ull) >> 54];
}

static struct row_entry *
find_entry(struct row_table *table, uint64_t row)
{
	struct row_entry *entry = *bucket_of(table, row);

	while (entry != NULL && entry->row != row)
		entry = entry->next;
	return entry;
}

static struct row_entry *
add_entry(struct row_table *table, uint64_t row)
{
	struct row_entry **bucket = bucket_of(table, row);
	struct row_entry *entry = table->free;

	assert(entry != NULL); /* it was reserved */
	table->free = entry->next;
	list_init(&entry->claims);
	entry->row = row;
	entry->next = *bucket;
	*bucket = entry;
	return entry;
}

static void
drop_entry(struct row_table *table, struct row_entry *entry)
{
	struct row_entry **link = bucket_of(table, entry->row);

	while (*link != entry)
		link = &(*link)->next;
	*link = entry->next;
	entry->next = table->free;
	table->free = entry;
}

struct row_table *
row_table_create(bool rows_exclusive)
{
	struct row_table *table = calloc(1, sizeof(*table));

	if (table == NULL)
		return NULL;
	table->rows_exclusive = rows_exclusive;
	if (row_table_reserve(table, 0) == 0)
		return table;
	row_table_destroy(table);
	return NULL;
}

int
row_table_reserve(struct row_table *table, uint32_t claims)
{
	while (table->entries < table->claims + claims + BACKGROUND_CLAIMS) {
		struct row_entry *entry = malloc(sizeof(*entry));

		if (entry == NULL)
			return -ENOMEM;
		entry->next = table->free;
		table->free = entry;
		table->entries++;
	}
	return 0;
}

void
row_table_destroy(struct row_table *table)
{
	struct row_entry *entry;

	if (table == NULL)
		return;
	for (unsigned int i = 0; i < BUCKETS; i++)
		assert(table->buckets[i] == NULL);
	while ((entry = table->free) != NULL) {
		table->free = entry->next;
		free(entry);
	}
	free(table);
}

static bool
overlap(const struct row_claim *a, const struct row_claim *b)
{
	return a->begin_bytes < b->end_bytes && b->begin_bytes < a->end_bytes;
}

static bool
conflict(const struct row_table *table, const struct row_claim *a, const struct row_claim *b)
{
	if (a->kind != CLAIM_WRITE && b->kind != CLAIM_WRITE)
		return false;
	if (a->kind == CLAIM_REBUILD_READ || b->kind == CLAIM_REBUILD_READ)
		return true;
	if (a->kind == CLAIM_WRITE && b->kind == CLAIM_WRITE && table->rows_exclusive)
		return true;
	return overlap(a, b);
}

static bool
may_grant(const struct row_table *table, const struct row_claim *claim)
{
	const struct list *node;

	for (node = claim->in_row.prev; node != &claim->entry->claims; node = node->prev)
		if (conflict(table, list_entry(node, struct row_claim, in_row), claim))
			return false;
	return true;
}

static void
tell_first(struct row_table *table, const struct row_entry *entry, struct row_claim *claim)
{
	struct claim_holder *first =
		list_entry(entry->claims.next, struct row_claim, in_row)->holder;

	if (first->awaited != NULL && !may_grant(table, claim))
		first->awaited(first);
}

void
row_claim(struct row_table *table, uint64_t row, struct row_claim *claim)
{
	struct row_entry *entry = find_entry(table, row);

	if (entry == NULL)
		entry = add_entry(table, row);
	table->claims++;
	claim->entry = entry;
	claim->in_row.prev = entry->claims.prev; /* for may_grant() */
	if (!list_empty(&entry->claims))
		tell_first(table, entry, claim);
	list_append(&entry->claims, &claim->in_row);
	claim->granted = may_grant(table, claim);
	if (!claim->granted)
		claim->holder->waiting++;
}

void
row_claim_before(struct row_table *table, struct row_claim *claim, struct row_claim *before)
{
	claim->entry = before->entry;
	table->claims++;
	list_append(&before->in_row, &claim->in_row);
	claim->granted = may_grant(table, claim);
	if (!claim->granted)
		claim->holder->waiting++;
}

void
row_release(struct row_table *table, struct row_claim *claim)
{
	struct row_entry *entry = claim->entry;
	struct list *node;

	assert(entry != NULL);
	if (!claim->granted)
		claim->holder->waiting--;
	claim->entry = NULL;
	table->claims--;
	list_remove(&claim->in_row);
	if (list_empty(&entry->claims)) {
		drop_entry(table, entry);
		return;
	}
	for (node = entry->claims.next; node != &entry->claims; node = node->next) {
		struct row_claim *later = list_entry(node, struct row_claim, in_row);

		if (later->granted || !may_grant(table, later))
			continue;
		later->granted = true;
		if (--later->holder->waiting == 0)
			later->holder->granted(later->holder);
	}
}

struct row_claim *
row_tail(struct row_table *table, uint64_t row)
{
	struct row_entry *entry = find_entry(table, row);

	return entry == NULL ? NULL : list_entry(entry->claims.prev, struct row_claim, in_row);
}

struct row_claim *
row_head(struct row_table *table, uint64_t row)
{
	struct row_entry *entry = find_entry(table, row);

	return entry == NULL ? NULL : list_entry(entry->claims.next, struct row_claim, in_row);
}

bool
row_is_awaited(const struct row_claim *claim)
{
	for (const struct list *node = claim->in_row.next; node != &claim->entry->claims;
	     node = node->next)
		if (!list_entry(node, struct row_claim, in_row)->granted)
			return true;
	return false;
}

bool
row_widen(struct row_table *table, struct row_claim *claim, uint64_t begin_bytes,
	  uint64_t end_bytes)
{
	const uint64_t begin_before = claim->begin_bytes;
	const uint64_t end_before = claim->end_bytes;

	assert(begin_bytes <= begin_before && end_bytes >= end_before);
	if (claim->in_row.next != &claim->entry->claims)
		return false;
	claim->begin_bytes = begin_bytes;
	claim->end_bytes = end_bytes;
	if (!claim->granted || may_grant(table, claim))
		return true;
	claim->begin_bytes = begin_before;
	claim->end_bytes = end_before;
	return false;
}
