/* What the chunks of a row make of each other, against a slow GF(2^8) of the test's own.  isa-l's
 * assembler is not seen by sanitizers, so every chunk stands between two pages that can't be
 * touched, at the one or at the other; chunks that must not be looked at are NULL.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pure/code.h"

#define PAGE 4096u
#define SPAN_BYTES (3 * PAGE) /* what a chunk or the scratch memory has room for */
#define SLOTS (IRAID_MEMBERS_MAX + 1)
#define SCRATCH IRAID_MEMBERS_MAX
#define MARGIN 0xc3u /* around chunks and pieces */
#define PIECES_MAX 24

enum place { AT_START, AT_END };

/* A row in memory; right[] is what it should hold. */
struct row {
	struct geometry geometry;
	size_t length;
	void *chunks[IRAID_MEMBERS_MAX];
	void *scratch;
	uint8_t right[IRAID_MEMBERS_MAX][SPAN_BYTES];
};

static uint8_t *slots[SLOTS];
static struct row row;
static uint64_t random_state = 88172645463325252u;

static uint32_t
random_number(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 16);
}

static uint8_t
random_but_zero(void)
{
	return (uint8_t)(1 + random_number() % 255);
}

static uint8_t
slow_multiply(uint8_t a, uint8_t b)
{
	unsigned int product = 0;

	for (int bit = 0; bit < 8; bit++)
		if (b >> bit & 1)
			product ^= (unsigned int)a << bit;
	for (int bit = 14; bit >= 8; bit--)
		if (product >> bit & 1)
			product ^= 0x11du << (bit - 8);
	return (uint8_t)product;
}

static uint8_t products[256][256];

static uint8_t
slow_power(int exponent)
{
	uint8_t power = 1;

	for (int i = 0; i < exponent; i++)
		power = slow_multiply(power, 2);
	return power;
}

static int
set_up_once(void **state)
{
	for (int a = 0; a < 256; a++)
		for (int b = 0; b < 256; b++)
			products[a][b] = slow_multiply((uint8_t)a, (uint8_t)b);
	for (int i = 0; i < SLOTS; i++) {
		uint8_t *base = mmap(NULL, SPAN_BYTES + 2 * PAGE, PROT_NONE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (base == MAP_FAILED)
			return -1;
		slots[i] = base + PAGE;
		if (mprotect(slots[i], SPAN_BYTES, PROT_READ | PROT_WRITE) != 0)
			return -1;
	}
	return 0;
}

static void
encode_slowly(struct row *r)
{
	const int data = r->geometry.data_chunks;
	const int level = r->geometry.level;

	for (int position = data; position < r->geometry.width; position++) {
		uint8_t *out = r->right[position];

		memset(out, 0, r->length);
		for (int k = 0; k < data; k++) {
			uint8_t factor = level == 6 && position == data + 1 ? slow_power(k) : 1;

			for (size_t at = 0; at < r->length; at++)
				out[at] ^= products[factor][r->right[k][at]];
		}
	}
}

static void
set_up(int level, int members, size_t length, enum place place)
{
	assert_int_equal(geometry_init(&row.geometry, level, members, PAGE, 512, 4 * PAGE), 0);
	row.length = length;
	for (int i = 0; i < row.geometry.width; i++) {
		memset(slots[i], MARGIN, SPAN_BYTES);
		row.chunks[i] = slots[i] + (place == AT_END ? SPAN_BYTES - length : 0);
	}
	row.scratch = slots[SCRATCH];
	if (place == AT_END)
		row.scratch = slots[SCRATCH] + SPAN_BYTES - length * row.geometry.redundancy;
	for (int k = 0; k < row.geometry.data_chunks; k++)
		for (size_t at = 0; at < length; at++)
			row.right[k][at] = (uint8_t)random_number();
	encode_slowly(&row);
	for (int i = 0; i < row.geometry.width; i++)
		memcpy(row.chunks[i], row.right[i], length);
}

static uint32_t
all(void)
{
	return UINT32_MAX >> (32 - row.geometry.width);
}

static uint32_t
behind_data(void)
{
	return all() & ~(UINT32_MAX >> (32 - row.geometry.data_chunks));
}

/* Writes beside the chunk, on its pages. */
static void
assert_margins_untouched(int position)
{
	const uint8_t *chunk = row.chunks[position], *slot = slots[position];

	for (const uint8_t *at = slot; at < slot + SPAN_BYTES; at++)
		if ((at < chunk || at >= chunk + row.length) && *at != MARGIN)
			fail_msg("level %d, width %d, %zu bytes: written beside chunk %d, at %td",
				 row.geometry.level, row.geometry.width, row.length, position,
				 at - chunk);
}

static void
assert_right(uint32_t positions, const char *what, uint32_t set)
{
	for (int i = 0; i < row.geometry.width; i++)
		if ((positions >> i & 1) && memcmp(row.chunks[i], row.right[i], row.length) != 0)
			fail_msg("%s: level %d, width %d, %zu bytes, set %x: chunk %d is wrong",
				 what, row.geometry.level, row.geometry.width, row.length, set, i);
}

/* Positions that are neither read nor written become NULL, the wanted ones rubbish. */
static void
hide(uint32_t wanted, uint32_t sources, void **visible)
{
	for (int i = 0; i < row.geometry.width; i++) {
		if (wanted >> i & 1)
			memset(row.chunks[i], 0xa5, row.length);
		visible[i] = (wanted | sources) >> i & 1 ? row.chunks[i] : NULL;
	}
}

static void
make_and_compare(uint32_t wanted, uint32_t absent)
{
	void *visible[IRAID_MEMBERS_MAX];
	uint32_t sources = code_sources(&row.geometry, wanted, absent);

	assert_true(sources != 0);
	hide(wanted, sources, visible);
	code_make(&row.geometry, wanted, absent, visible, row.length);
	assert_right(all(), "made", absent);
	for (int i = 0; i < row.geometry.width; i++)
		if (wanted >> i & 1)
			assert_margins_untouched(i);
}

static const struct shape {
	int level, members_min, members_max;
} shapes[] = { { 0, 2, 10 }, { 1, 2, 4 }, { 5, 3, 10 }, { 6, 4, 10 }, { 10, 3, 4 } };

#define FOR_EACH_SHAPE(shape, members)                                                             \
	for (const struct shape *shape = shapes;                                                   \
	     shape < shapes + sizeof(shapes) / sizeof(shapes[0]); shape++)                         \
		for (int members = shape->members_min; members <= shape->members_max; members++)

/* 80h g = 1Dh, 80h g^2 = 3Ah. */
static void
test_q_has_the_factors_of_the_header(void **state)
{
	set_up(6, 5, 1, AT_START);
	*(uint8_t *)row.chunks[0] = 0x01;
	*(uint8_t *)row.chunks[1] = 0x01;
	*(uint8_t *)row.chunks[2] = 0x80;
	code_make(&row.geometry, 0x18, 0x18, row.chunks, 1);
	assert_int_equal(*(uint8_t *)row.chunks[3], 0x80);
	assert_int_equal(*(uint8_t *)row.chunks[4], 0x01 ^ 0x02 ^ 0x3a);
}

static void
test_everything_absent_that_is_borne_can_be_made(void **state)
{
	static const size_t lengths[] = { 1, 7, 31, 32, 63, 64, 65, 127, 160, 512, 1025, 4096 };

	FOR_EACH_SHAPE(shape, members)
	for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
		set_up(shape->level, members, lengths[l], l % 2 == 0 ? AT_END : AT_START);
		for (uint32_t absent = 1; absent <= all(); absent++) {
			if (!code_bears(&row.geometry, absent)) {
				assert_true(__builtin_popcount(absent) > row.geometry.redundancy);
				continue;
			}
			assert_true(__builtin_popcount(absent) <= row.geometry.redundancy);
			for (uint32_t wanted = absent; wanted != 0; wanted = (wanted - 1) & absent)
				make_and_compare(wanted, absent);
		}
	}
}

static void
test_the_widest_rows_are_made_too(void **state)
{
	for (int i = 0; i < 32; i++) {
		set_up(5, 32, 100, AT_END);
		make_and_compare(1u << i, 1u << i);
		for (int j = 0; j <= i; j++) {
			uint32_t absent = 1u << i | 1u << j;

			set_up(6, 32, j % 2 ? 99 : 192, j % 2 ? AT_END : AT_START);
			make_and_compare(absent, absent);
			make_and_compare(1u << i, absent);
		}
	}
}

static void
test_long_chunks_of_any_alignment_are_made(void **state)
{
	for (int off = 0; off < 2; off++)
		for (uint32_t absent = 3; absent < 64; absent++) {
			set_up(6, 6, SPAN_BYTES - 37 * (size_t)off, AT_END);
			if (code_bears(&row.geometry, absent))
				make_and_compare(absent, absent);
		}
}

static void
test_what_was_not_said_to_be_absent_but_is_wanted_is_not_read(void **state)
{
	set_up(6, 6, 64, AT_START);
	assert_int_equal(code_sources(&row.geometry, 0x30, 0), 0xf);
	make_and_compare(0x30, 0);
	assert_int_equal(code_sources(&row.geometry, 0x02, 0x10), 0x2d);
	make_and_compare(0x02, 0);
}

static void
test_no_more_is_read_than_needed(void **state)
{
	FOR_EACH_SHAPE(shape, members)
	{
		set_up(shape->level, members, 1, AT_START);
		const uint32_t p = 1u << row.geometry.data_chunks, data = p - 1;

		for (uint32_t absent = 1; absent <= all(); absent++)
			for (uint32_t wanted = absent; wanted != 0;
			     wanted = (wanted - 1) & absent) {
				uint32_t sources = code_sources(&row.geometry, wanted, absent);

				if (!code_bears(&row.geometry, absent)) {
					assert_int_equal(sources, 0);
					continue;
				}
				assert_int_equal(sources & absent, 0);
				/* so many unknowns are there, and any so many chunks are
				 * independent
				 */
				assert_int_equal(__builtin_popcount(sources),
						 row.geometry.data_chunks);
				if (shape->level == 1 || shape->level == 10)
					assert_int_equal(sources, ~absent & (absent + 1));
				else if (__builtin_popcount(absent & data) == 1 && !(absent & p))
					assert_int_equal(sources, (data & ~absent) | p);
				else if ((absent & data) == 0)
					assert_int_equal(sources, data);
			}
		assert_int_equal(code_sources(&row.geometry, 0, 0), 0);
	}
}

/* Memory in pieces of random length, some empty, which lie apart from each other. */
struct pieces {
	struct iovec iov[PIECES_MAX];
	int count;
	size_t skip;
	uint8_t memory[PAGE + 16 * PIECES_MAX];
};

static struct iov_run
scatter(const void *bytes, size_t length, struct pieces *out)
{
	size_t done = 0, at = 0;

	memset(out->memory, MARGIN, sizeof(out->memory));
	out->skip = random_number() % 3 == 0 ? random_number() % 5 : 0;
	out->iov[0] = (struct iovec){ out->memory, out->skip };
	for (out->count = 1; done < length; out->count++) {
		size_t piece = random_number() % 4 == 0 ? 0 : random_number() % (1 + length / 5);

		if (out->count == PIECES_MAX - 1 || piece > length - done)
			piece = length - done;
		at += 5 + random_number() % 8;
		out->iov[out->count] = (struct iovec){ out->memory + at, piece };
		memcpy(out->memory + at, (const uint8_t *)bytes + done, piece);
		at += piece;
		done += piece;
	}
	return (struct iov_run){ out->iov, out->count, out->skip };
}

/* Bring the pieces back; what is between them must be as it was. */
static void
gather(struct pieces *from, void *bytes)
{
	uint8_t *to = bytes;

	for (int i = 1; i < from->count; i++) {
		memcpy(to, from->iov[i].iov_base, from->iov[i].iov_len);
		memset(from->iov[i].iov_base, MARGIN, from->iov[i].iov_len);
		to += from->iov[i].iov_len;
	}
	for (size_t at = 0; at < sizeof(from->memory); at++)
		assert_int_equal(from->memory[at], MARGIN);
}

static void
test_scattered_chunks_are_made_the_same(void **state)
{
	static struct pieces pieces[IRAID_MEMBERS_MAX];

	FOR_EACH_SHAPE(shape, members)
	for (uint32_t absent = 1; absent < 1u << members; absent++) {
		struct iov_run runs[IRAID_MEMBERS_MAX];
		void *visible[IRAID_MEMBERS_MAX];

		set_up(shape->level, members, 1 + random_number() % 900, AT_END);
		if (absent > all() || !code_bears(&row.geometry, absent))
			continue;
		hide(absent, code_sources(&row.geometry, absent, absent), visible);
		memset(runs, 0, sizeof(runs));
		for (int i = 0; i < row.geometry.width; i++)
			if (visible[i] != NULL)
				runs[i] = scatter(visible[i], row.length, &pieces[i]);
		code_make_runs(&row.geometry, absent, absent, runs, row.length);
		for (int i = 0; i < row.geometry.width; i++)
			if (visible[i] != NULL)
				gather(&pieces[i], visible[i]);
		assert_right(all(), "made of pieces", absent);
	}
}

static void
test_check_finds_and_corrects_what_does_not_fit(void **state)
{
	static const size_t lengths[] = { 1, 33, 64, 500, 4096 };

	FOR_EACH_SHAPE(shape, members)
	for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
		set_up(shape->level, members, lengths[l], l % 2 ? AT_START : AT_END);
		for (uint32_t absent = behind_data();; absent = (absent - 1) & behind_data()) {
			uint32_t there = behind_data() & ~absent;
			void *visible[IRAID_MEMBERS_MAX];

			hide(0, all() & ~absent, visible);
			for (uint32_t wrong = there;; wrong = (wrong - 1) & there) {
				for (int i = 0; i < row.geometry.width; i++)
					if (wrong >> i & 1)
						((uint8_t *)row.chunks[i])[lengths[l] - 1] ^= 0x40;
				assert_int_equal(code_check(&row.geometry, absent, visible,
							    row.scratch, lengths[l]),
						 wrong);
				assert_right(all(), "checked", wrong);
				if (wrong == 0)
					break;
			}
			if (absent == 0)
				break;
		}
	}
}

static int
blame(void)
{
	static uint8_t before[IRAID_MEMBERS_MAX][SPAN_BYTES];

	for (int i = 0; i < row.geometry.width; i++)
		memcpy(before[i], row.chunks[i], row.length);
	int culprit = code_blame(&row.geometry, row.chunks, row.scratch, row.length);

	for (int i = 0; i < row.geometry.width; i++)
		assert_memory_equal(before[i], row.chunks[i], row.length);
	return culprit;
}

static bool
can_tell(void)
{
	return row.geometry.level == 6 || (row.geometry.level == 1 && row.geometry.width >= 3);
}

static void
spoil(int position, size_t from, size_t count)
{
	for (size_t at = from; at < from + count; at++)
		((uint8_t *)row.chunks[position])[at] ^= random_but_zero();
}

static void
restore(void)
{
	for (int i = 0; i < row.geometry.width; i++)
		memcpy(row.chunks[i], row.right[i], row.length);
}

static void
test_the_one_wrong_chunk_is_blamed(void **state)
{
	static const size_t lengths[] = { 1, 40, 64, 129, 512 };

	FOR_EACH_SHAPE(shape, members)
	for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
		const size_t length = lengths[l];

		set_up(shape->level, members, length, l % 2 ? AT_START : AT_END);
		assert_int_equal(blame(), -1);
		for (int i = 0; i < row.geometry.width; i++) {
			int expected = can_tell() ? i : -1;

			spoil(i, 0, length);
			assert_int_equal(blame(), expected);
			restore();
			spoil(i, length - 1, 1);
			assert_int_equal(blame(), expected);
			restore();
			spoil(i, length / 2, (length + 3) / 4);
			assert_int_equal(blame(), expected);
			restore();
		}
	}
	for (int i = 0; i < 32; i++) {
		set_up(6, 32, 77, AT_END);
		spoil(i, 5, 9);
		assert_int_equal(blame(), i);
	}
}

/* Nine bytes of random differences: that two chunks look like a third has odds of 2^-64. */
static void
test_two_wrong_chunks_are_not_blamed_on_one(void **state)
{
	FOR_EACH_SHAPE(shape, members)
	{
		set_up(shape->level, members, 200, AT_END);
		for (int i = 0; i < row.geometry.width; i++)
			for (int j = 0; j < i; j++) {
				int odd_one = -1;

				spoil(i, 100, 9); /* on the same bytes */
				spoil(j, 100, 9);
				assert_int_equal(blame(), -1);
				restore();
				spoil(i, 0, 1); /* and each for itself */
				spoil(j, 199, 1);
				assert_int_equal(blame(), -1);
				restore();
				/* copies wrong in the same way: of three, the right one stands
				 * alone
				 */
				((uint8_t *)row.chunks[i])[7] ^= 1;
				((uint8_t *)row.chunks[j])[7] ^= 1;
				if (row.geometry.level == 1 && row.geometry.width == 3)
					odd_one = 3 - i - j;
				if (row.geometry.level == 1)
					assert_int_equal(blame(), odd_one);
				restore();
			}
	}
}

static void
test_update_equals_encoding_anew(void **state)
{
	static const size_t lengths[] = { 1, 16, 31, 64, 100, 512, 4095, 4096 };
	static struct pieces pieces;

	for (int level = 5; level <= 6; level++)
		for (int members = level - 2; members <= 32; members += members < 10 ? 1 : 22)
			for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
				set_up(level, members, lengths[l], l % 2 ? AT_START : AT_END);
				const int data = row.geometry.data_chunks;

				for (int k = 0; k < data; k++)
					for (unsigned int kept = 0;
					     kept < 1u << row.geometry.redundancy; kept++) {
						uint8_t fresh[PAGE], delta[PAGE];
						void *redundancy[2] = { NULL, NULL };

						for (size_t at = 0; at < lengths[l]; at++) {
							fresh[at] = (uint8_t)random_number();
							delta[at] = fresh[at] ^ row.right[k][at];
						}
						memcpy(row.right[k], fresh, lengths[l]);
						for (int i = 0; i < 2; i++)
							if (kept >> i & 1)
								redundancy[i] =
									row.chunks[data + i];
						code_update(&row.geometry, (uint8_t)k,
							    row.chunks[k],
							    scatter(fresh, lengths[l], &pieces),
							    redundancy, lengths[l]);
						assert_memory_equal(row.chunks[k], delta,
								    lengths[l]);
						memcpy(row.chunks[k], fresh, lengths[l]);
						encode_slowly(&row);
						assert_right(kept << data, "updated", kept);
						restore();
					}
			}
}

static void
test_nothing_is_touched_for_no_bytes(void **state)
{
	void *none[IRAID_MEMBERS_MAX] = { NULL };

	set_up(6, 6, 64, AT_START);
	code_make(&row.geometry, 0x30, 0x30, none, 0);
	assert_int_equal(code_check(&row.geometry, 0, none, NULL, 0), 0);
	assert_int_equal(code_blame(&row.geometry, none, NULL, 0), -1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_q_has_the_factors_of_the_header),
		cmocka_unit_test(test_everything_absent_that_is_borne_can_be_made),
		cmocka_unit_test(test_the_widest_rows_are_made_too),
		cmocka_unit_test(test_long_chunks_of_any_alignment_are_made),
		cmocka_unit_test(test_what_was_not_said_to_be_absent_but_is_wanted_is_not_read),
		cmocka_unit_test(test_no_more_is_read_than_needed),
		cmocka_unit_test(test_scattered_chunks_are_made_the_same),
		cmocka_unit_test(test_check_finds_and_corrects_what_does_not_fit),
		cmocka_unit_test(test_the_one_wrong_chunk_is_blamed),
		cmocka_unit_test(test_two_wrong_chunks_are_not_blamed_on_one),
		cmocka_unit_test(test_update_equals_encoding_anew),
		cmocka_unit_test(test_nothing_is_touched_for_no_bytes),
	};
	return cmocka_run_group_tests(tests, set_up_once, NULL);
}
