/* intent.c - see intent.h. */
#include "intent.h"

#include "../pure/mutant.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define INTENT_SUSPECT 0x01
#define INTENT_FRESH 0x02
#define INTENT_COPIED 0x04
#define INTENT_FLUSHING 0x08 /* copied before the flush that is under way */
#define INTENT_DEFINED 0x10
#define INTENT_LEANING 0x20 /* defined, with the target */
#define INTENT_RAW 0x40	    /* fresh, and not clean yet: a resync makes its parity */
#define INTENT_TAKEN 0x80   /* written, and suspect since a cache was lost, or before */

/* --- rows of a region, a bit each --- */

#define ROWS_KINDS 3 /* proven, unsure, undecided */

static size_t
row_words(const struct intent *intent)
{
	return (intent->region_rows + 63) / 64;
}

static void
drop_rows(struct intent *intent, uint64_t **rows)
{
	row_bits_give(&intent->bits, *rows);
	*rows = NULL;
}

/* --- the map --- */

int
intent_init(struct intent *intent, uint64_t rows, uint32_t region_rows)
{
	uint32_t regions = (uint32_t)((rows + region_rows - 1) / region_rows);

	*intent = (struct intent){
		.regions = regions,
		.region_rows = region_rows,
		.rows = rows,
		.blocks = (regions + LAYOUT_REGIONS_PER_BLOCK - 1) / LAYOUT_REGIONS_PER_BLOCK,
		.flags = calloc(regions, 1),
		.durable = calloc(regions, 1),
		.traits = calloc(regions, 1),
		.active = calloc(regions, sizeof(*intent->active)),
		.touched = calloc(regions, sizeof(*intent->touched)),
		.doubted = calloc(regions, sizeof(*intent->doubted)),
		.uncopied = calloc(regions, sizeof(*intent->uncopied)),
		.proven = calloc(regions, sizeof(*intent->proven)),
		.unsure = calloc(regions, sizeof(*intent->unsure)),
		.undecided = calloc(regions, sizeof(*intent->undecided)),
		.generation = 2,
		.copying = -1,
	};
	row_bits_init(&intent->bits, row_words(intent));
	intent->block_dirty = calloc(intent->blocks, sizeof(*intent->block_dirty));
	if (intent->flags == NULL || intent->durable == NULL || intent->traits == NULL ||
	    intent->active == NULL || intent->touched == NULL || intent->doubted == NULL ||
	    intent->uncopied == NULL || intent->proven == NULL || intent->unsure == NULL ||
	    intent->undecided == NULL || intent->block_dirty == NULL ||
	    row_bits_reserve(&intent->bits, ROWS_KINDS * (size_t)regions) != 0 ||
	    written_init(&intent->written, regions, region_rows) != 0) {
		intent_destroy(intent);
		return -ENOMEM;
	}
	return 0;
}

void
intent_destroy(struct intent *intent)
{
	for (uint32_t i = 0; i < intent->regions; i++) {
		if (intent->proven != NULL)
			row_bits_give(&intent->bits, intent->proven[i]);
		if (intent->unsure != NULL)
			row_bits_give(&intent->bits, intent->unsure[i]);
		if (intent->undecided != NULL)
			row_bits_give(&intent->bits, intent->undecided[i]);
	}
	row_bits_destroy(&intent->bits);
	free(intent->flags);
	free(intent->durable);
	free(intent->traits);
	free(intent->active);
	free(intent->touched);
	free(intent->doubted);
	free(intent->uncopied);
	free(intent->proven);
	free(intent->unsure);
	free(intent->undecided);
	written_destroy(&intent->written);
	free(intent->block_dirty);
	*intent = (struct intent){ 0 };
}

void
intent_merge(struct intent *intent, const uint8_t *flags, bool first)
{
	for (uint32_t i = 0; i < intent->regions; i++) {
		uint8_t either = (intent->flags[i] | flags[i]) & (REGION_DIRTY | REGION_STALE_ANY);
		uint8_t both = (first ? flags[i] : intent->flags[i] & flags[i]) & REGION_UNWRITTEN;
		if (MUTANT(MERGE_AND) && !first)
			either = intent->flags[i] & flags[i] & (REGION_DIRTY | REGION_STALE_ANY);
		uint8_t all = first ? flags[i] : intent->durable[i] & flags[i];
		uint8_t any = (intent->durable[i] | flags[i]) & REGION_UNWRITTEN;

		intent->flags[i] = either | both;
		intent->durable[i] = (all & (REGION_DIRTY | REGION_STALE_ANY)) | any;
	}
}

void
intent_unread(struct intent *intent, uint32_t first, uint32_t count)
{
	for (uint32_t i = first; i < first + count && i < intent->regions; i++)
		intent->durable[i] = REGION_UNWRITTEN;
}

static void
set_flags(struct intent *intent, uint32_t region, uint8_t flags)
{
	uint8_t before = intent->flags[region];

	if (flags == before)
		return;
	intent->dirty_count += !!(flags & REGION_DIRTY) - !!(before & REGION_DIRTY);
	intent->stale_count += !!(flags & REGION_STALE_ANY) - !!(before & REGION_STALE_ANY);
	for (int set = 0; set < LAYOUT_STALE_SETS; set++)
		intent->stale_in[set] +=
			!!(flags & REGION_STALE(set)) - !!(before & REGION_STALE(set));
	intent->flags[region] = flags;
	intent->block_dirty[region / LAYOUT_REGIONS_PER_BLOCK] = true;
}

static void
set_defined(struct intent *intent, uint32_t region, bool defined)
{
	intent->traits[region] &= (uint8_t)~INTENT_LEANING;
	drop_rows(intent, &intent->undecided[region]);
	if (defined == !!(intent->traits[region] & INTENT_DEFINED))
		return;
	intent->traits[region] ^= INTENT_DEFINED;
	if (defined)
		intent->defined_count++;
	else
		intent->defined_count--;
}

/* Some of its rows are undefined from now on, which the caller adds; the others are what they
 * were.  Without memory, or where the target has a say in what the missing chunks hold, all are.
 */
static void
undefine_rows(struct intent *intent, uint32_t region)
{
	const uint8_t both = INTENT_DEFINED | INTENT_LEANING;
	uint64_t *rows;

	if (intent->undecided[region] != NULL)
		return;
	rows = (intent->traits[region] & both) == INTENT_DEFINED && !MUTANT(UNDEFINED_BY_REGION)
		       ? row_bits_take(&intent->bits)
		       : NULL;
	set_defined(intent, region, false);
	intent->undecided[region] = rows;
}

/* It is made up for when the region is suspect no longer. */
static void
set_taken(struct intent *intent, uint32_t region, bool taken)
{
	if (taken == !!(intent->traits[region] & INTENT_TAKEN))
		return;
	intent->traits[region] ^= INTENT_TAKEN;
	if (taken)
		intent->taken_count++;
	else
		intent->taken_count--;
}

static void
set_suspect(struct intent *intent, uint32_t region, bool suspect)
{
	bool before = intent->traits[region] & INTENT_SUSPECT;

	drop_rows(intent, &intent->proven[region]);
	if (!suspect) {
		drop_rows(intent, &intent->unsure[region]);
		set_taken(intent, region, false);
	}
	set_defined(intent, region, false);
	if (suspect == before)
		return;
	intent->traits[region] ^= INTENT_SUSPECT;
	if (suspect)
		intent->suspect_count++;
	else
		intent->suspect_count--;
}

void
intent_loaded(struct intent *intent)
{
	intent->dirty_count = 0;
	intent->stale_count = 0;
	memset(intent->stale_in, 0, sizeof(intent->stale_in));
	for (uint32_t i = 0; i < intent->regions; i++) {
		intent->dirty_count += !!(intent->flags[i] & REGION_DIRTY);
		intent->stale_count += !!(intent->flags[i] & REGION_STALE_ANY);
		for (int set = 0; set < LAYOUT_STALE_SETS; set++)
			intent->stale_in[set] += !!(intent->flags[i] & REGION_STALE(set));
		if (intent->flags[i] & REGION_UNWRITTEN)
			intent->traits[i] |= intent->flags[i] & REGION_DIRTY
						     ? INTENT_FRESH | INTENT_RAW
						     : INTENT_FRESH;
		set_suspect(intent, i, intent->flags[i] & REGION_DIRTY);
	}
	intent->written.incomplete = true; /* what caches hold of them, nobody knows */
	/* The members' maps may differ from their union: write all of it once. */
	for (uint32_t i = 0; i < intent->blocks; i++)
		intent->block_dirty[i] = true;
}

/* at: where the pointer to the array is. */
static bool
enlarge_array(void *at, size_t before, size_t after, size_t size)
{
	char *array;

	memcpy(&array, at, sizeof(array));
	array = realloc(array, after * size);
	if (array == NULL)
		return false;
	memset(array + before * size, 0, (after - before) * size);
	memcpy(at, &array, sizeof(array));
	return true;
}

int
intent_grow(struct intent *intent, uint64_t rows, bool redundant)
{
	const uint32_t before = intent->regions;
	const uint32_t regions = (uint32_t)((rows + intent->region_rows - 1) / intent->region_rows);
	const uint32_t blocks = (regions + LAYOUT_REGIONS_PER_BLOCK - 1) / LAYOUT_REGIONS_PER_BLOCK;

	assert(rows >= intent->rows);
	if (!enlarge_array(&intent->flags, before, regions, 1) ||
	    !enlarge_array(&intent->durable, before, regions, 1) ||
	    !enlarge_array(&intent->traits, before, regions, 1) ||
	    !enlarge_array(&intent->active, before, regions, sizeof(*intent->active)) ||
	    !enlarge_array(&intent->touched, before, regions, sizeof(*intent->touched)) ||
	    !enlarge_array(&intent->doubted, before, regions, sizeof(*intent->doubted)) ||
	    !enlarge_array(&intent->uncopied, before, regions, sizeof(*intent->uncopied)) ||
	    !enlarge_array(&intent->unsure, before, regions, sizeof(*intent->unsure)) ||
	    !enlarge_array(&intent->undecided, before, regions, sizeof(*intent->undecided)) ||
	    row_bits_reserve(&intent->bits, ROWS_KINDS * (size_t)regions) != 0 ||
	    written_grow(&intent->written, regions) != 0 ||
	    !enlarge_array(&intent->proven, before, regions, sizeof(*intent->proven)) ||
	    !enlarge_array(&intent->block_dirty, intent->blocks, blocks,
			   sizeof(*intent->block_dirty)))
		return -ENOMEM;
	intent->rows = rows;
	intent->regions = regions;
	intent->blocks = blocks;
	/* Who is absent has nothing of it, also of what the last region gained. */
	set_flags(intent, before - 1, intent->flags[before - 1] | intent->absent);
	for (uint32_t i = before; i < regions; i++) {
		intent->block_dirty[i / LAYOUT_REGIONS_PER_BLOCK] = true;
		intent->touched[i] = intent->generation;
		if (!redundant)
			continue;
		set_flags(intent, i,
			  REGION_DIRTY | (MUTANT(GROWN_WRITTEN) ? 0 : REGION_UNWRITTEN) |
				  intent->absent);
		intent->traits[i] |= MUTANT(GROWN_WRITTEN) ? 0 : INTENT_FRESH | INTENT_RAW;
		set_suspect(intent, i, true);
	}
	return 0;
}

void
intent_mark_absent(struct intent *intent)
{
	for (uint32_t i = 0; i < intent->regions; i++)
		if (intent->flags[i] & REGION_DIRTY)
			set_flags(intent, i, intent->flags[i] | intent->absent | intent->target);
}

/* Parity says from now on what its fresh rows hold; the others are as suspect as ever.  The region
 * stays fresh, for that parity may go with a cache; but not without memory.
 */
static void
fresh_defined(struct intent *intent, uint32_t region)
{
	uint64_t *rows = intent->unsure[region];

	set_suspect(intent, region, rows != NULL);
	if (rows == NULL)
		return;
	intent->proven[region] = MUTANT(FRESH_WHILE_SURE) ? NULL : row_bits_take(&intent->bits);
	if (intent->proven[region] == NULL) {
		intent->proven[region] = rows;
		intent->unsure[region] = NULL;
		intent->traits[region] &= (uint8_t)~INTENT_FRESH;
	}
	for (size_t i = 0; i < row_words(intent); i++)
		intent->proven[region][i] = ~rows[i];
}

void
intent_member_lost(struct intent *intent, bool bare)
{
	intent_mark_absent(intent);
	for (uint32_t i = 0; i < intent->regions; i++) {
		const uint8_t traits = intent->traits[i];

		if ((traits & INTENT_FRESH) && bare)
			fresh_defined(intent, i);
		else
			set_defined(intent, i,
				    (traits & INTENT_FRESH) && (traits & INTENT_SUSPECT) &&
					    intent->unsure[i] == NULL);
	}
}

uint32_t
intent_region(const struct intent *intent, uint64_t row)
{
	return (uint32_t)(row / intent->region_rows);
}

bool
intent_row_suspect(const struct intent *intent, uint64_t row)
{
	uint32_t region = intent_region(intent, row);
	uint64_t index = row % intent->region_rows;

	return (intent->traits[region] & INTENT_SUSPECT) &&
	       !row_bits_has(intent->proven[region], index);
}

bool
intent_row_fresh(const struct intent *intent, uint64_t row)
{
	uint32_t region = intent_region(intent, row);

	return (intent->traits[region] & INTENT_FRESH) &&
	       !row_bits_has(intent->unsure[region], row % intent->region_rows);
}

/* Its region was defined, and other rows of it became suspect since. */
static bool
still_defined(const struct intent *intent, uint64_t row)
{
	const uint64_t *undecided = intent->undecided[intent_region(intent, row)];

	return undecided != NULL && !row_bits_has(undecided, row % intent->region_rows);
}

bool
intent_row_losable(const struct intent *intent, uint64_t row)
{
	return intent_row_suspect(intent, row) && !intent_row_fresh(intent, row) &&
	       !still_defined(intent, row);
}

bool
intent_row_defined(const struct intent *intent, uint64_t row)
{
	return (intent->traits[intent_region(intent, row)] & INTENT_DEFINED) ||
	       still_defined(intent, row);
}

bool
intent_row_undoubted_since(const struct intent *intent, uint64_t row, uint32_t doubts)
{
	return intent->doubted[intent_region(intent, row)] <= doubts;
}

/* Where writes fail one after the other, all that is read elsewhere would never come to an end. */
bool
intent_rows_doubted_since(const struct intent *intent, uint64_t first, uint64_t last,
			  uint32_t doubts)
{
	if (intent->doubts == doubts)
		return false;
	if (intent->doubted_all > doubts || MUTANT(DOUBT_ANYWHERE))
		return true;
	for (uint64_t row = first; row <= last; row++)
		if ((!intent_row_undoubted_since(intent, row, doubts) &&
		     intent_row_suspect(intent, row)) ||
		    (intent->uncopied[intent_region(intent, row)] > doubts &&
		     !MUTANT(UNCOPIED_UNSEEN)))
			return true;
	return false;
}

/* Of rows that failed alone the region's other rows know nothing: where writes fail one after the
 * other, what was written there would never be done.
 */
bool
intent_regions_doubted_since(const struct intent *intent, uint64_t first, uint64_t last,
			     uint32_t doubts)
{
	if (intent->doubted_whole <= doubts || MUTANT(WHOLE_DOUBT_FORGOTTEN))
		return false;
	for (uint32_t region = intent_region(intent, first); region <= intent_region(intent, last);
	     region++)
		if (intent->doubted[region] > doubts)
			return true;
	return false;
}

bool
intent_ready(const struct intent *intent, uint32_t region)
{
	return (intent->durable[region] & (REGION_DIRTY | REGION_UNWRITTEN)) == REGION_DIRTY;
}

bool
intent_begin(struct intent *intent, uint32_t region)
{
	uint8_t flags = intent->flags[region] | REGION_DIRTY | intent->absent;

	assert(intent->active[region] < UINT16_MAX);
	intent->active[region]++;
	if ((intent->flags[region] & (REGION_DIRTY | REGION_UNWRITTEN)) != REGION_DIRTY)
		written_begin(&intent->written, region);
	set_flags(intent, region, flags & (uint8_t)~REGION_UNWRITTEN);
	return intent_ready(intent, region);
}

void
intent_keep(struct intent *intent, uint32_t region)
{
	assert(intent->active[region] < UINT16_MAX);
	intent->active[region]++;
}

void
intent_end(struct intent *intent, uint32_t region)
{
	assert(intent->active[region] > 0);
	intent->active[region]--;
	intent->touched[region] = intent->generation;
}

void
intent_note_rows(struct intent *intent, uint64_t first, uint64_t last)
{
	for (uint64_t row = first; row <= last && !MUTANT(ROWS_UNNOTED); row++)
		written_note(&intent->written, row);
}

void
intent_flush_begins(struct intent *intent)
{
	if (!written_flush_begins(&intent->written))
		return;
	for (uint32_t i = 0; i < intent->regions; i++)
		if ((intent->flags[i] & (REGION_DIRTY | REGION_UNWRITTEN)) == REGION_DIRTY)
			written_learn(&intent->written, i);
}

void
intent_flush_ends(struct intent *intent, bool good)
{
	written_flush_ends(&intent->written, good);
}

void
intent_prove(struct intent *intent, uint64_t row)
{
	uint32_t region = intent_region(intent, row);
	uint64_t index = row % intent->region_rows;

	if (!(intent->traits[region] & INTENT_SUSPECT))
		return;
	if (intent->proven[region] == NULL)
		intent->proven[region] = row_bits_take(&intent->bits);
	if (intent->proven[region] == NULL)
		return; /* out of memory only means that the row is looked at once more */
	row_bits_add(intent->proven[region], index);
	row_bits_drop(intent->unsure[region], index);
}

static void
doubt_all(struct intent *intent)
{
	intent->doubted_all = ++intent->doubts;
}

/* What was copied of the region counts for nothing; operations under way may have taken it for what
 * the target holds.  Where a region is tried once a second, all that is read elsewhere would never
 * come to an end.
 */
static void
uncopied(struct intent *intent, uint32_t region)
{
	intent->uncopied[region] = ++intent->doubts;
	if (MUTANT(UNCOPIED_EVERYWHERE))
		intent->doubted_all = intent->doubts;
}

/* The target, and the member that it is copied from, may hold different things of the region. */
static void
doubt_double(struct intent *intent, uint32_t region)
{
	if (intent->target_doubles && !MUTANT(DOUBLE_TRUSTED))
		intent_target_doubted_in(intent, region);
}

void
intent_suspect(struct intent *intent, uint32_t region)
{
	intent->doubted_whole = intent->doubted[region] = ++intent->doubts;
	intent->traits[region] &= (uint8_t)~INTENT_FRESH;
	drop_rows(intent, &intent->unsure[region]);
	written_forget(&intent->written, region);
	set_suspect(intent, region, true);
	doubt_double(intent, region);
}

/* Before rows of it are: that of the others stays as it is.  False: no memory. */
static bool
make_suspect(struct intent *intent, uint32_t region)
{
	uint64_t *rows;

	doubt_double(intent, region);
	if (!(intent->traits[region] & INTENT_SUSPECT)) {
		rows = row_bits_take(&intent->bits);
		if (rows == NULL)
			return false;
		memset(rows, 0xFF, row_words(intent) * sizeof(uint64_t));
		set_suspect(intent, region, true);
		intent->proven[region] = rows;
	}
	if ((intent->traits[region] & INTENT_FRESH) && intent->unsure[region] == NULL)
		intent->unsure[region] = row_bits_take(&intent->bits);
	return !(intent->traits[region] & INTENT_FRESH) || intent->unsure[region] != NULL;
}

void
intent_suspect_rows(struct intent *intent, uint64_t first, uint64_t last)
{
	intent->doubts++;
	for (uint64_t row = first; row <= last; row++) {
		uint32_t region = intent_region(intent, row);

		if ((row == first || row % intent->region_rows == 0) &&
		    (!make_suspect(intent, region) || MUTANT(SUSPECT_BY_REGION))) {
			intent_suspect(intent, region);
			row = ((uint64_t)region + 1) * intent->region_rows - 1;
			continue;
		}
		intent->doubted[region] = intent->doubts;
		undefine_rows(intent, region);
		row_bits_add(intent->undecided[region], row % intent->region_rows);
		row_bits_drop(intent->proven[region], row % intent->region_rows);
		row_bits_add(intent->unsure[region], row % intent->region_rows);
	}
}

/* All its parity may be one that a resync has just made, and nobody noted which: a cache may take
 * it along.  Once it was clean, it was flushed, as that of any other region.
 */
static bool
is_raw(const struct intent *intent, uint32_t region)
{
	const uint8_t both = INTENT_FRESH | (MUTANT(FRESH_IS_RAW) ? 0 : INTENT_RAW);

	return (intent->traits[region] & both) == both && !MUTANT(NEVER_RAW);
}

/* Nobody has written there, so there is nothing to doubt but parity that a resync has just made.
 * missing: what is missing is what the others make of it, as before.  The target of a member that
 * is there is doubted as for any other row: what the members have left may fit once more, and then
 * no resync would correct what the target got before.
 */
static void
suspect_parity(struct intent *intent, uint32_t region, bool missing)
{
	if (!MUTANT(UNWRITTEN_DOUBLE_KEPT))
		doubt_double(intent, region);
	if (intent->traits[region] & INTENT_SUSPECT) {
		drop_rows(intent, &intent->proven[region]);
		return;
	}
	set_suspect(intent, region, true);
	set_defined(intent, region, missing);
}

/* Its place has nobody else, and some of the region is on it, made with parity as that was then. */
static bool
target_counts(const struct intent *intent, uint32_t region)
{
	return intent->target != 0 && !intent->target_doubles && !MUTANT(SETTLED_BESIDE_TARGET) &&
	       (!(intent->flags[region] & intent->target) ||
		(intent->traits[region] & INTENT_COPIED) || intent->copying == region);
}

/* All of it fits, or is defined, and flushes covered what was written: no cache took anything of it
 * along.  To say so takes no memory; without any, all of it would be taken for lost.  False: that
 * is not so.
 */
static bool
suspect_flushed(struct intent *intent, uint32_t region, bool settled)
{
	const uint8_t traits = intent->traits[region];
	const bool settled_before = !(traits & INTENT_SUSPECT) ||
				    ((traits & INTENT_DEFINED) && !(traits & INTENT_LEANING) &&
				     !is_raw(intent, region) && !MUTANT(UNDEFINED_BY_REGION));

	if (!written_known(&intent->written, region) || !settled_before || MUTANT(FLUSHED_NOTED))
		return false;
	for (size_t i = 0; i < row_words(intent); i++)
		if (written_word(&intent->written, region, i) != 0)
			return false;
	if (is_raw(intent, region) && (!settled || target_counts(intent, region))) {
		suspect_parity(intent, region, settled);
		intent->doubted[region] = intent->doubts;
	}
	return true;
}

static bool
suspect_written(struct intent *intent, uint32_t region, bool missing, bool bare)
{
	/* What is missing is what parity makes, whatever that is, but for rows that are suspect.  P
	 * and Q, or two copies, may make two things of it.
	 */
	const bool suspect = intent->traits[region] & INTENT_SUSPECT;
	const bool settled =
		missing && (bare || MUTANT(SETTLED_TWICE)) && !(MUTANT(SETTLED_ONCE) && suspect);
	const bool unfit = !settled || target_counts(intent, region);

	if (suspect_flushed(intent, region, settled))
		return true;
	if (!written_known(&intent->written, region) || !make_suspect(intent, region))
		return false;
	intent->doubted[region] = intent->doubts;
	if (is_raw(intent, region)) {
		/* What was defined is so still: that parity may have gone with a cache once more
		 * tells nothing else of it.
		 */
		if (!settled || !suspect || MUTANT(DEFINED_ONCE))
			set_defined(intent, region, settled && unfit && !suspect);
		if (settled)
			undefine_rows(intent, region);
		if (unfit)
			drop_rows(intent, &intent->proven[region]);
	} else {
		undefine_rows(intent, region);
	}
	for (size_t i = 0; i < row_words(intent); i++) {
		if (intent->proven[region] != NULL)
			intent->proven[region][i] &= ~written_word(&intent->written, region, i);
		if (intent->unsure[region] != NULL)
			intent->unsure[region][i] |= written_word(&intent->written, region, i);
		if (intent->undecided[region] != NULL)
			intent->undecided[region][i] |= written_word(&intent->written, region, i);
	}
	return true;
}

/* Not what is known to have been written since the start: only that of rows that nobody wrote a
 * resync may have made before it.
 */
static bool
suspect_left(struct intent *intent, uint32_t region, bool settled)
{
	if (!written_known(&intent->written, region))
		return false;
	if (!is_raw(intent, region) || (settled && !target_counts(intent, region)))
		return true;
	if (!settled)
		set_suspect(intent, region, true);
	suspect_parity(intent, region, settled);
	intent->doubted[region] = intent->doubts;
	return true;
}

static uint32_t
suspect_dirty(struct intent *intent, bool missing, bool bare, bool left)
{
	uint32_t whole = 0;

	if (MUTANT(FILLED_COUNTED_THERE))
		missing = intent->absent != 0;
	doubt_all(intent);
	for (uint32_t i = 0; i < intent->regions; i++) {
		if (!(intent->flags[i] & REGION_DIRTY))
			continue;
		if (intent->flags[i] & REGION_UNWRITTEN) {
			suspect_parity(intent, i, missing);
		} else if (!(left ? suspect_left(intent, i, missing && bare)
				  : suspect_written(intent, i, missing, bare))) {
			intent_suspect(intent, i);
			whole++;
		}
		/* Nobody has data where nobody wrote. */
		if ((intent->traits[i] & INTENT_SUSPECT) && !(intent->flags[i] & REGION_UNWRITTEN))
			set_taken(intent, i, true);
	}
	return whole;
}

uint32_t
intent_suspect_dirty(struct intent *intent, bool missing, bool bare)
{
	return suspect_dirty(intent, missing, bare, false);
}

uint32_t
intent_suspect_left(struct intent *intent, bool missing, bool bare)
{
	return suspect_dirty(intent, missing, bare, true);
}

void
intent_flushes_void(struct intent *intent)
{
	for (uint32_t i = 0; i < intent->regions; i++)
		written_forget(&intent->written, i);
}

int64_t
intent_next_suspect(const struct intent *intent, uint32_t from)
{
	if (intent->suspect_count == 0)
		return -1;
	for (uint32_t i = from; i < intent->regions; i++)
		if (intent->traits[i] & INTENT_SUSPECT)
			return i;
	return -1;
}

int64_t
intent_next_written_suspect(const struct intent *intent, uint32_t from)
{
	if (intent->suspect_count == 0)
		return -1;
	for (uint32_t i = from; i < intent->regions; i++)
		if ((intent->traits[i] & INTENT_SUSPECT) && !(intent->flags[i] & REGION_UNWRITTEN))
			return i;
	return -1;
}

bool
intent_region_undefined(const struct intent *intent, uint32_t region)
{
	return (intent->traits[region] & (INTENT_SUSPECT | INTENT_DEFINED)) == INTENT_SUSPECT;
}

int64_t
intent_next_undefined(const struct intent *intent, uint32_t from)
{
	if (intent->suspect_count == intent->defined_count)
		return -1;
	for (uint32_t i = from; i < intent->regions; i++)
		if (intent_region_undefined(intent, i))
			return i;
	return -1;
}

void
intent_region_defined(struct intent *intent, uint32_t region)
{
	set_defined(intent, region, true);
}

void
intent_region_leans(struct intent *intent, uint32_t region)
{
	set_defined(intent, region, true);
	intent->traits[region] |= INTENT_LEANING;
}

bool
intent_leans(const struct intent *intent)
{
	for (uint32_t i = 0; i < intent->regions; i++)
		if (intent->traits[i] & INTENT_LEANING)
			return true;
	return false;
}

static bool
has_unknowable_row(const struct intent *intent, uint32_t region)
{
	const uint64_t first = (uint64_t)region * intent->region_rows;

	for (uint64_t row = first; row < first + intent->region_rows && row < intent->rows; row++)
		if (intent_row_suspect(intent, row) && !intent_row_fresh(intent, row))
			return true;
	return false;
}

bool
intent_is_unknowable(const struct intent *intent)
{
	if (intent->suspect_count == 0)
		return false;
	for (uint32_t i = 0; i < intent->regions; i++)
		if ((intent->traits[i] & INTENT_SUSPECT) &&
		    (!(intent->traits[i] & INTENT_FRESH) || intent->unsure[i] != NULL) &&
		    (MUTANT(PROVEN_UNKNOWABLE) || has_unknowable_row(intent, i)))
			return true;
	return false;
}

void
intent_region_proven(struct intent *intent, uint32_t region)
{
	set_suspect(intent, region, false);
	intent->touched[region] = intent->generation;
}

void
intent_all_recorded(struct intent *intent, bool bare)
{
	for (uint32_t i = 0; i < intent->regions; i++) {
		if (!(intent->traits[i] & INTENT_SUSPECT))
			continue;
		if (bare)
			intent_region_proven(intent, i);
		else
			set_defined(intent, i, true);
		/* Who stopped in order had flushed it. */
		if (!(intent->flags[i] & REGION_UNWRITTEN) && !MUTANT(STOP_FLUSHED_UNKNOWN))
			written_begin(&intent->written, i);
	}
}

static bool
cleanable(const struct intent *intent, uint32_t region)
{
	return (intent->flags[region] & REGION_DIRTY) && intent->active[region] == 0 &&
	       !(intent->traits[region] & INTENT_SUSPECT) &&
	       intent->generation - intent->touched[region] >= 2;
}

bool
intent_clean_begin(struct intent *intent)
{
	bool any = intent->copied_count > 0;

	intent->generation++;
	for (uint32_t i = 0; intent->copied_count > 0 && i < intent->regions; i++)
		if (intent->traits[i] & INTENT_COPIED)
			intent->traits[i] |= INTENT_FLUSHING;
	for (uint32_t i = 0; !any && intent->dirty_count > 0 && i < intent->regions; i++)
		any = cleanable(intent, i);
	return any;
}

static void
forget_copied(struct intent *intent, uint32_t region)
{
	if (intent->traits[region] & INTENT_COPIED)
		intent->copied_count--;
	intent->traits[region] &= (uint8_t) ~(INTENT_COPIED | INTENT_FLUSHING);
}

uint32_t
intent_clean_end(struct intent *intent)
{
	return intent_clean_end_without(intent, 0);
}

uint32_t
intent_clean_end_without(struct intent *intent, uint8_t stale)
{
	uint32_t cleaned = 0;

	for (uint32_t i = 0; i < intent->regions; i++) {
		if (intent->traits[i] & INTENT_FLUSHING) {
			forget_copied(intent, i);
			set_flags(intent, i, intent->flags[i] & (uint8_t)~intent->target);
		}
		if (!cleanable(intent, i))
			continue;
		if (stale != 0 && !(intent->flags[i] & stale))
			uncopied(intent, i);
		set_flags(intent, i, (intent->flags[i] & (uint8_t)~REGION_DIRTY) | stale);
		intent->traits[i] &= (uint8_t)~INTENT_RAW;
		written_clean(&intent->written, i);
		cleaned++;
	}
	return cleaned;
}

void
intent_clean_failed(struct intent *intent)
{
	for (uint32_t i = 0; intent->copied_count > 0 && i < intent->regions; i++)
		intent->traits[i] &= (uint8_t)~INTENT_FLUSHING;
}

/* --- the member that is being filled --- */

void
intent_target_begin(struct intent *intent, uint8_t stale, bool all, bool doubles)
{
	assert(intent->target == 0);
	intent->target = stale;
	intent->target_doubles = doubles;
	intent->absent &= (uint8_t)~stale;
	intent->copying = -1;
	for (uint32_t i = 0; all && i < intent->regions; i++)
		set_flags(intent, i, intent->flags[i] | stale);
}

void
intent_target_single(struct intent *intent)
{
	intent->target_doubles = false;
}

/* The target's chunks don't count any more: nobody knows what is missing, nor had whoever was a
 * member before a say in it.
 */
static void
stop_leaning(struct intent *intent, uint32_t region)
{
	if (!(intent->traits[region] & INTENT_LEANING) || MUTANT(LEANS_ON_NOBODY))
		return;
	set_defined(intent, region, false);
	doubt_all(intent);
	intent->doubted_whole = intent->doubted[region] = intent->doubts;
}

void
intent_target_lost(struct intent *intent)
{
	for (uint32_t i = 0; i < intent->regions; i++) {
		stop_leaning(intent, i);
		forget_copied(intent, i);
		if (intent->flags[i] & REGION_DIRTY)
			set_flags(intent, i, intent->flags[i] | intent->target);
	}
	intent->absent |= intent->target;
	intent->target = 0;
	intent->target_doubles = false;
	intent->copying = -1;
}

void
intent_target_doubted_in(struct intent *intent, uint32_t region)
{
	const bool counted = !(intent->flags[region] & intent->target) ||
			     (intent->traits[region] & INTENT_COPIED) || intent->copying == region;

	stop_leaning(intent, region);
	forget_copied(intent, region);
	set_flags(intent, region, intent->flags[region] | intent->target);
	if (intent->copying == region)
		intent->copying = -1;
	if (counted)
		uncopied(intent, region);
	else
		intent->doubts++; /* for what is just being copied there */
}

void
intent_target_doubted(struct intent *intent)
{
	for (uint32_t i = 0; i < intent->regions; i++)
		if (intent->traits[i] & INTENT_SUSPECT)
			intent_target_doubted_in(intent, i);
}

void
intent_target_done(struct intent *intent)
{
	for (uint32_t i = 0; i < intent->regions; i++) {
		forget_copied(intent, i);
		intent->traits[i] &= (uint8_t)~INTENT_LEANING;
	}
	intent->target = 0;
	intent->target_doubles = false;
	intent->copying = -1;
}

bool
intent_row_on_target(const struct intent *intent, uint64_t row)
{
	uint32_t region = intent_region(intent, row);

	if (intent->target == 0)
		return false;
	return !(intent->flags[region] & intent->target) ||
	       (intent->traits[region] & INTENT_COPIED) ||
	       (region == intent->copying && row < intent->copied_until);
}

int64_t
intent_next_stale(const struct intent *intent, uint32_t from)
{
	for (uint32_t i = from; i < intent->regions; i++)
		if ((intent->flags[i] & intent->target) && !(intent->traits[i] & INTENT_COPIED))
			return i;
	return -1;
}

void
intent_row_copied(struct intent *intent, uint64_t row)
{
	uint32_t region = intent_region(intent, row);
	uint64_t end = ((uint64_t)region + 1) * intent->region_rows;

	if (intent->copying != region) {
		intent->copying = region;
		intent->copied_until = (uint64_t)region * intent->region_rows;
	}
	assert(row == intent->copied_until);
	intent->copied_until = row + 1;
	if (row + 1 < end && row + 1 < intent->rows)
		return;
	intent->copying = -1;
	if (!(intent->traits[region] & INTENT_COPIED))
		intent->copied_count++;
	intent->traits[region] |= INTENT_COPIED;
}

void
intent_copy_given_up(struct intent *intent)
{
	if (intent->copying < 0)
		return;
	stop_leaning(intent, (uint32_t)intent->copying);
	uncopied(intent, (uint32_t)intent->copying);
	intent->copying = -1;
}

uint32_t
intent_stale(const struct intent *intent, uint8_t stale)
{
	for (int set = 0; set < LAYOUT_STALE_SETS; set++)
		if (stale == REGION_STALE(set))
			return intent->stale_in[set];
	return 0;
}

uint32_t
intent_to_copy(const struct intent *intent)
{
	return intent_stale(intent, intent->target) - intent->copied_count;
}

void
intent_lacks_all(struct intent *intent, uint8_t stale)
{
	for (uint32_t i = 0; i < intent->regions; i++)
		set_flags(intent, i, intent->flags[i] | stale);
}

void
intent_forget(struct intent *intent, uint8_t stale)
{
	intent->absent &= (uint8_t)~stale;
	for (uint32_t i = 0; stale != 0 && i < intent->regions; i++)
		set_flags(intent, i, intent->flags[i] & (uint8_t)~stale);
}

void
intent_forced(struct intent *intent, uint8_t stale, bool unwritten_known)
{
	const bool known = (unwritten_known || MUTANT(FORCED_UNWRITTEN_ALONE)) &&
			   !MUTANT(FORCED_UNWRITTEN_LOST);

	for (uint32_t i = 0; i < intent->regions; i++) {
		const bool unwritten = known && (intent->flags[i] & REGION_UNWRITTEN);

		if (stale != 0 && !(intent->flags[i] & stale))
			continue;
		set_flags(intent, i,
			  (intent->flags[i] & (uint8_t)~stale & (uint8_t)~REGION_UNWRITTEN) |
				  REGION_DIRTY | (unwritten ? REGION_UNWRITTEN : 0));
		if (!unwritten) {
			intent_suspect(intent, i);
			continue;
		}
		intent->traits[i] |= MUTANT(FORCED_NOT_RAW) ? 0 : INTENT_RAW;
		set_suspect(intent, i, true);
	}
}
