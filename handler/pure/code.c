/* code.c - what the chunks of a row make of each other.
 *
 * Every chunk of a row that bears its losses is a linear combination, over GF(2^8), of the chunks
 * that are there.  So all of levels 5 and 6 is one thing: a `recipe`, which is a row of factors
 * for each wanted chunk, worked out on paper below and done by isa-l in one pass over the sources.
 *
 * With data chunks x (and y) absent, and p, q what P and Q lack when the data that is there is
 * taken out:
 *
 *	x alone, P there:	Dx = p
 *	x alone, Q there:	Dx = g^-x q
 *	x and y:		Dx = (q + g^y p) / (g^x + g^y), and Dy alike
 *
 * P and Q themselves follow from the data, the absent part of which is replaced by its own recipe.
 * A level 6 row is an MDS code, so no factor comes out 0 and exactly data_chunks sources are read.
 *
 * Which routine: P and Q of aligned data, the full stripe, go to pq_gen; what is mere XOR goes to
 * parity_xor; the rest to ec_encode_data, which takes any address and length.  Recipes and isa-l's
 * tables live on the stack (3 KiB).
 */
#include "code.h"

#include <assert.h>
#include <isa-l/erasure_code.h>
#include <isa-l/raid.h>
#include <limits.h>
#include <string.h>

#define OUTPUTS_MAX 3	/* the copies of level 1; P and Q, and lost data, are two at most */
#define TABLE_BYTES 32	/* of isa-l, for one factor */
#define ALIGN_BYTES 64u /* as in parity.c */
#define STEP_BYTES_MAX ((size_t)INT_MAX + 1 - ALIGN_BYTES) /* isa-l's lengths are int */

struct factors {
	uint8_t of[IRAID_MEMBERS_MAX]; /* by position */
};

struct recipe {
	uint8_t output[OUTPUTS_MAX];	   /* positions */
	uint8_t source[IRAID_MEMBERS_MAX]; /* positions, rising */
	int outputs;
	int sources;
	bool is_xor;					  /* every factor is 1: copies and P */
	bool is_pq;					  /* P and Q of all data */
	bool has_tables;				  /* they are made when they are needed */
	uint8_t factors[OUTPUTS_MAX * IRAID_MEMBERS_MAX]; /* outputs x sources */
	uint8_t tables[OUTPUTS_MAX * IRAID_MEMBERS_MAX * TABLE_BYTES];
};

static bool
has(uint32_t positions, int position)
{
	return (positions >> position & 1) != 0;
}

static bool
is_copies(const struct geometry *geometry)
{
	return geometry->level == 1 || geometry->level == 10;
}

static uint8_t
power_of_g(int exponent)
{
	uint8_t power = 1;

	while (exponent-- > 0)
		power = gf_mul(power, 2);
	return power;
}

/* p_factor P + q_factor Q, with all data but `absent` taken out. */
static void
remainder_of(const struct geometry *geometry, uint32_t absent, uint8_t p_factor, uint8_t q_factor,
	     struct factors *out)
{
	uint8_t power = 1;

	memset(out, 0, sizeof(*out));
	for (int k = 0; k < geometry->data_chunks; k++) {
		if (!has(absent, k))
			out->of[k] = p_factor ^ gf_mul(q_factor, power);
		power = gf_mul(power, 2);
	}
	out->of[geometry->data_chunks] = p_factor;
	if (q_factor != 0)
		out->of[geometry->data_chunks + 1] = q_factor;
}

/* Of an absent data chunk. */
static void
data_factors(const struct geometry *geometry, int chunk, uint32_t absent, struct factors *out)
{
	uint32_t others = absent & geometry_data_positions(geometry) & ~(1u << chunk);

	if (others != 0) {
		uint8_t g_other = power_of_g(__builtin_ctz(others));
		uint8_t divisor = gf_inv(power_of_g(chunk) ^ g_other);

		remainder_of(geometry, absent, gf_mul(g_other, divisor), divisor, out);
	} else if (!has(absent, geometry->data_chunks)) {
		remainder_of(geometry, absent, 1, 0, out);
	} else {
		remainder_of(geometry, absent, 0, gf_inv(power_of_g(chunk)), out);
	}
}

static void
position_factors(const struct geometry *geometry, int position, uint32_t absent,
		 struct factors *out)
{
	struct factors row;
	const uint8_t g = position == geometry->data_chunks ? 1 : 2;
	uint8_t power = 1;

	if (position < geometry->data_chunks) {
		data_factors(geometry, position, absent, out);
		return;
	}
	memset(out, 0, sizeof(*out));
	for (int k = 0; k < geometry->data_chunks; k++) {
		if (has(absent, k)) {
			data_factors(geometry, k, absent, &row);
			for (int i = 0; i < geometry->width; i++)
				out->of[i] ^= gf_mul(power, row.of[i]);
		} else {
			out->of[k] ^= power;
		}
		power = gf_mul(power, g);
	}
}

/* Factors for every wanted position; returns the positions that are read, 0 if it can't be made. */
static uint32_t
work_out(const struct geometry *geometry, uint32_t wanted, uint32_t absent, struct factors *rows)
{
	uint32_t sources = 0;
	int outputs = 0;

	assert(((wanted | absent) & ~geometry_lowest(geometry->width)) == 0);
	absent |= wanted;
	if (wanted == 0 || !code_bears(geometry, absent))
		return 0;
	for (int position = 0; position < geometry->width; position++) {
		if (!has(wanted, position))
			continue;
		struct factors *row = &rows[outputs++];

		if (is_copies(geometry)) {
			memset(row, 0, sizeof(*row));
			row->of[__builtin_ctz(~absent)] = 1;
		} else {
			position_factors(geometry, position, absent, row);
		}
		for (int i = 0; i < geometry->width; i++)
			sources |= (row->of[i] != 0 ? 1u : 0u) << i;
	}
	return sources;
}

bool
code_bears(const struct geometry *geometry, uint32_t absent)
{
	return __builtin_popcount(absent & geometry_lowest(geometry->width)) <=
	       geometry->redundancy;
}

uint32_t
code_sources(const struct geometry *geometry, uint32_t wanted, uint32_t absent)
{
	struct factors rows[OUTPUTS_MAX];

	return work_out(geometry, wanted, absent, rows);
}

static void
recipe_init(const struct geometry *geometry, uint32_t wanted, uint32_t absent,
	    struct recipe *recipe)
{
	const uint32_t data = geometry_data_positions(geometry);
	struct factors rows[OUTPUTS_MAX];
	uint32_t sources = work_out(geometry, wanted, absent, rows);
	int used = 0;

	assert(sources != 0 && "these chunks can't be made; ask code_sources() first");
	recipe->sources = recipe->outputs = 0;
	for (int position = 0; position < geometry->width; position++) {
		if (has(sources, position))
			recipe->source[recipe->sources++] = (uint8_t)position;
		if (has(wanted, position))
			recipe->output[recipe->outputs++] = (uint8_t)position;
	}
	recipe->is_xor = true;
	for (int output = 0; output < recipe->outputs; output++) {
		for (int i = 0; i < recipe->sources; i++) {
			uint8_t factor = rows[output].of[recipe->source[i]];

			recipe->factors[used++] = factor;
			recipe->is_xor = recipe->is_xor && factor == 1;
		}
	}
	recipe->is_pq = geometry->level == 6 && sources == data && recipe->outputs == 2;
	recipe->has_tables = false;
}

static bool
all_aligned(void *const *pointers, int count)
{
	uintptr_t bits = 0;

	for (int i = 0; i < count; i++)
		bits |= (uintptr_t)pointers[i];
	return bits % ALIGN_BYTES == 0;
}

/* pointers: sources, then outputs.  Returns how much was done, from the start on. */
static size_t
try_pq_gen(const struct recipe *recipe, void **pointers, size_t length_bytes)
{
	int vectors = recipe->sources + recipe->outputs;
	size_t done = length_bytes - length_bytes % ALIGN_BYTES;

	if (!recipe->is_pq || done == 0 || !all_aligned(pointers, vectors))
		return 0;
	int failed = pq_gen(vectors, (int)done, pointers);
	assert(failed == 0);
	(void)failed;
	return done;
}

/* At most STEP_BYTES_MAX. */
static void
make_step(struct recipe *recipe, void **pointers, size_t length_bytes)
{
	unsigned char *bytes[IRAID_MEMBERS_MAX + OUTPUTS_MAX];
	size_t done = try_pq_gen(recipe, pointers, length_bytes);

	if (done == length_bytes)
		return;
	if (!recipe->has_tables)
		ec_init_tables(recipe->sources, recipe->outputs, recipe->factors, recipe->tables);
	recipe->has_tables = true;
	for (int i = 0; i < recipe->sources + recipe->outputs; i++)
		bytes[i] = (unsigned char *)pointers[i] + done;
	ec_encode_data((int)(length_bytes - done), recipe->sources, recipe->outputs, recipe->tables,
		       bytes, bytes + recipe->sources);
}

/* pointers: sources, then outputs; advanced by length_bytes. */
static void
recipe_apply(struct recipe *recipe, void **pointers, size_t length_bytes)
{
	int vectors = recipe->sources + recipe->outputs;

	for (size_t left = length_bytes; left > 0;) {
		size_t step = left < STEP_BYTES_MAX ? left : STEP_BYTES_MAX;

		if (recipe->is_xor) {
			for (int i = recipe->sources; i < vectors; i++)
				parity_xor(pointers[i], (const void *const *)pointers,
					   recipe->sources, step);
		} else {
			make_step(recipe, pointers, step);
		}
		for (int i = 0; i < vectors; i++)
			pointers[i] = (uint8_t *)pointers[i] + step;
		left -= step;
	}
}

void
code_make(const struct geometry *geometry, uint32_t wanted, uint32_t absent, void *const *chunks,
	  size_t length_bytes)
{
	struct recipe recipe;
	void *pointers[IRAID_MEMBERS_MAX + OUTPUTS_MAX];

	recipe_init(geometry, wanted, absent, &recipe);
	for (int i = 0; i < recipe.sources; i++)
		pointers[i] = chunks[recipe.source[i]];
	for (int i = 0; i < recipe.outputs; i++)
		pointers[recipe.sources + i] = chunks[recipe.output[i]];
	recipe_apply(&recipe, pointers, length_bytes);
}

/* Each turn takes what is contiguous in all runs, so nothing is copied. */
void
code_make_runs(const struct geometry *geometry, uint32_t wanted, uint32_t absent,
	       const struct iov_run *runs, size_t length_bytes)
{
	struct recipe recipe;
	struct iov_run cursors[IRAID_MEMBERS_MAX + OUTPUTS_MAX];
	void *pointers[IRAID_MEMBERS_MAX + OUTPUTS_MAX];
	int vectors;

	recipe_init(geometry, wanted, absent, &recipe);
	vectors = recipe.sources + recipe.outputs;
	for (int i = 0; i < recipe.sources; i++)
		cursors[i] = runs[recipe.source[i]];
	for (int i = 0; i < recipe.outputs; i++)
		cursors[recipe.sources + i] = runs[recipe.output[i]];

	while (length_bytes > 0) {
		size_t step = length_bytes;

		for (int i = 0; i < vectors; i++) {
			size_t held = iov_run_settle(&cursors[i]);

			assert(held > 0 && "a run is shorter than length_bytes");
			pointers[i] = (uint8_t *)cursors[i].iov->iov_base + cursors[i].skip_bytes;
			step = held < step ? held : step;
		}
		recipe_apply(&recipe, pointers, step);
		for (int i = 0; i < vectors; i++)
			cursors[i].skip_bytes += step;
		length_bytes -= step;
	}
}

/* Make what should stand behind the data, but for `absent`, in scratch; made: by position. */
static void
make_apart(const struct geometry *geometry, uint32_t absent, void *const *chunks, void *scratch,
	   size_t length_bytes, void **made)
{
	uint32_t redundant = geometry_redundant_positions(geometry);

	for (int position = 0; position < geometry->width; position++) {
		int behind = position - geometry->data_chunks;

		made[position] = behind < 0 ? chunks[position]
					    : (uint8_t *)scratch + (size_t)behind * length_bytes;
	}
	code_make(geometry, redundant & ~absent, redundant, made, length_bytes);
}

uint32_t
code_check(const struct geometry *geometry, uint32_t absent, void *const *chunks, void *scratch,
	   size_t length_bytes)
{
	const uint32_t there = geometry_redundant_positions(geometry) & ~absent;
	uint32_t wrong = 0;
	void *made[IRAID_MEMBERS_MAX];

	assert((absent & geometry_data_positions(geometry)) == 0);
	if (length_bytes == 0 || there == 0)
		return 0;
	if (is_copies(geometry))
		for (int position = 1; position < geometry->width; position++)
			made[position] = chunks[0];
	else
		make_apart(geometry, absent, chunks, scratch, length_bytes, made);
	for (int position = geometry->data_chunks; position < geometry->width; position++) {
		if (!has(there, position) ||
		    memcmp(made[position], chunks[position], length_bytes) == 0)
			continue;
		memcpy(chunks[position], made[position], length_bytes);
		wrong |= 1u << position;
	}
	return wrong;
}

static bool
is_zero(const uint8_t *bytes, size_t length_bytes)
{
	return bytes[0] == 0 && memcmp(bytes, bytes + 1, length_bytes - 1) == 0;
}

/* to ^= factor * from */
static void
add_multiple(uint8_t *to, uint8_t factor, uint8_t *from, size_t length_bytes)
{
	unsigned char table[TABLE_BYTES];

	ec_init_tables(1, 1, &factor, table);
	for (size_t done = 0; done < length_bytes;) {
		size_t left = length_bytes - done;
		size_t step = left < STEP_BYTES_MAX ? left : STEP_BYTES_MAX;
		unsigned char *target = to + done;

		ec_encode_data_update((int)step, 1, 1, 0, table, from + done, &target);
		done += step;
	}
}

/* A majority of one against all the others, which agree. */
static int
blame_copy(const struct geometry *geometry, void *const *chunks, size_t length_bytes)
{
	uint32_t differ = 0; /* from the first */

	for (int position = 1; position < geometry->width; position++)
		if (memcmp(chunks[0], chunks[position], length_bytes) != 0)
			differ |= 1u << position;
	if (__builtin_popcount(differ) == 1)
		return __builtin_ctz(differ);
	if (__builtin_popcount(differ) != geometry->width - 1)
		return -1;
	for (int position = 2; position < geometry->width; position++)
		if (memcmp(chunks[1], chunks[position], length_bytes) != 0)
			return -1;
	return 0;
}

/* p and q are by how much P and Q are off.  Data chunk z alone, off by e, makes them e and g^z e: z
 * follows from any byte where p is not zero, and must then be true of all bytes.
 */
static int
blame_data(const struct geometry *geometry, uint8_t *p, uint8_t *q, size_t length_bytes)
{
	size_t at = 0;
	uint8_t power = 1;
	int chunk = 0;

	while (p[at] == 0)
		at++;
	while (chunk < geometry->data_chunks && gf_mul(power, p[at]) != q[at]) {
		power = gf_mul(power, 2);
		chunk++;
	}
	if (chunk == geometry->data_chunks)
		return -1;
	add_multiple(q, power, p, length_bytes);
	return is_zero(q, length_bytes) ? chunk : -1;
}

int
code_blame(const struct geometry *geometry, void *const *chunks, void *scratch, size_t length_bytes)
{
	const int p_position = geometry->data_chunks;
	void *made[IRAID_MEMBERS_MAX];

	if (length_bytes == 0)
		return -1;
	if (geometry->level == 1 && geometry->width > 2)
		return blame_copy(geometry, chunks, length_bytes);
	if (geometry->level != 6)
		return -1;

	make_apart(geometry, 0, chunks, scratch, length_bytes, made);
	for (int position = p_position; position < geometry->width; position++) {
		const void *both[2] = { made[position], chunks[position] };

		parity_xor(made[position], both, 2, length_bytes);
	}
	bool p_fits = is_zero(made[p_position], length_bytes);
	bool q_fits = is_zero(made[p_position + 1], length_bytes);

	if (p_fits && q_fits)
		return -1;
	if (q_fits)
		return p_position;
	if (p_fits)
		return p_position + 1;
	return blame_data(geometry, made[p_position], made[p_position + 1], length_bytes);
}

void
code_update(const struct geometry *geometry, uint8_t chunk, void *old_then_delta,
	    struct iov_run new_data, void *const redundancy[2], size_t length_bytes)
{
	struct iovec old = { old_then_delta, length_bytes };
	const struct iov_run both[2] = { { &old, 1, 0 }, new_data };

	assert(geometry->level == 5 || geometry->level == 6);
	assert(chunk < geometry->data_chunks);
	assert(redundancy[1] == NULL || geometry->level == 6);
	parity_xor_runs(both[0], both, 2, length_bytes);
	if (redundancy[0] != NULL) {
		const void *sources[2] = { redundancy[0], old_then_delta };

		parity_xor(redundancy[0], sources, 2, length_bytes);
	}
	if (redundancy[1] != NULL)
		add_multiple(redundancy[1], power_of_g(chunk), old_then_delta, length_bytes);
}
