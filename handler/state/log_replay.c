/* log_replay.c - see log_replay.h. */
#include "log_replay.h"

#include <stdlib.h>

#include "pure/mutant.h"

static int
by_sequence(const void *a, const void *b)
{
	const uint64_t left = ((const struct log_copy *)a)->header.sequence;
	const uint64_t right = ((const struct log_copy *)b)->header.sequence;

	return (left > right) - (left < right);
}

/* Index of the first copy of this record, or of one behind it. */
static size_t
first_copy(const struct log_copy *copies, size_t count, uint64_t sequence)
{
	size_t begin = 0, end = count;

	while (begin < end) {
		size_t middle = begin + (end - begin) / 2;

		if (copies[middle].header.sequence < sequence)
			begin = middle + 1;
		else
			end = middle;
	}
	return begin;
}

const struct log_copy *
log_replay_copy(const struct log_copy *copies, size_t count, uint64_t sequence,
		const uint32_t *predecessor)
{
	for (size_t i = first_copy(copies, count, sequence);
	     i < count && copies[i].header.sequence == sequence; i++)
		if ((copies[i].whole || MUTANT(REPLAY_TORN)) &&
		    (predecessor == NULL || copies[i].header.predecessor == *predecessor ||
		     MUTANT(REPLAY_UNCHAINED)))
			return &copies[i];
	return NULL;
}

/* The run before the one that this one followed; 0: there is none. */
static uint64_t
epoch_below(const struct log_copy *copies, size_t count, uint64_t epoch)
{
	uint64_t below = 0;

	for (size_t i = 0; i < count; i++)
		if (copies[i].header.epoch < epoch && copies[i].header.epoch > below)
			below = copies[i].header.epoch;
	return below;
}

size_t
log_replay_drop_stale(struct log_copy *copies, size_t count)
{
	uint64_t first = UINT64_MAX; /* of the runs that were looked at */

	if (MUTANT(REPLAY_STALE))
		return count;
	for (uint64_t epoch = UINT64_MAX; (epoch = epoch_below(copies, count, epoch)) != 0;) {
		uint64_t run_first = first;
		size_t kept = 0;

		for (size_t i = 0; i < count; i++) {
			const struct log_header *header = &copies[i].header;

			/* Also one that is stale itself says when its run began. */
			if (header->epoch == epoch && header->run_first < run_first)
				run_first = header->run_first;
			if (header->epoch != epoch || header->sequence < first)
				copies[kept++] = copies[i];
		}
		first = run_first;
		count = kept;
	}
	return count;
}

uint64_t
log_replay_known_tail(const struct log_copy *copies, size_t count, int members)
{
	uint64_t tails[IRAID_MEMBERS_MAX] = { 0 }, known = 1;

	for (size_t i = 0; i < count; i++)
		if (copies[i].header.tail > tails[copies[i].role])
			tails[copies[i].role] = copies[i].header.tail;
	for (int role = 0; role < IRAID_MEMBERS_MAX; role++) {
		int knowing = 0;

		for (int other = 0; other < IRAID_MEMBERS_MAX; other++)
			knowing += tails[other] >= tails[role];
		if (tails[role] > known && (knowing >= members || MUTANT(TAIL_OF_ONE)))
			known = tails[role];
	}
	return known;
}

void
log_replay_decide(struct log_copy *copies, size_t count, bool may_hide, struct log_replay *out)
{
	uint64_t tail = 1, durable = 0;
	const uint32_t *predecessor = NULL;
	const struct log_copy *copy;

	/* What a header says was true when it was written, whatever became of the record. */
	for (size_t i = 0; i < count; i++) {
		if (copies[i].header.tail > tail && !MUTANT(REPLAY_BEFORE_TAIL))
			tail = copies[i].header.tail;
		if (copies[i].header.durable > durable)
			durable = copies[i].header.durable;
	}
	if (count > 0)
		qsort(copies, count, sizeof(*copies), by_sequence);
	*out = (struct log_replay){ .first = tail, .end = tail };
	while ((copy = log_replay_copy(copies, count, out->end, predecessor)) != NULL) {
		predecessor = &copy->digest;
		out->end++;
	}
	/* No record names the newest one that was durable. */
	if (may_hide && durable < out->end && !MUTANT(REPLAY_NEWEST_UNASKED))
		durable = out->end;
	if (durable < out->end || MUTANT(REPLAY_HOLE_UNSEEN))
		return;
	out->missing_from = out->end;
	out->missing_to = durable;
	if (!MUTANT(REPLAY_BEFORE_HOLE))
		out->end = out->first;
}
