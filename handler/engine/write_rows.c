/* write_rows.c - the rows of a write: plans, memory layout, parity, commands.
 *
 * Memory of one row, from buffer_offset on, every part as long as its columns:
 *
 *	| parity on the hull | old data of chunk a | old data of chunk b | ... | rebuilt chunk |
 *
 * The new data itself stays where the initiator's command has it, and goes from there to the socket.
 */
#include "gather.h"
#include "write_op.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static uint32_t
columns_bytes(struct columns columns)
{
	return columns.end - columns.begin;
}

static const struct geometry *
geometry_of(const struct write_op *op)
{
	return &op->op.engine->geometry;
}

/* --- data --- */

/* What parts of rows that become zeros are written with. */
#define ZEROS_BYTES 65536u
static const uint8_t zeros[ZEROS_BYTES];

static int
reserve_data(struct write_op *op, int wanted)
{
	struct iovec *grown;
	int capacity = op->data_capacity ? op->data_capacity : 64;

	while (capacity < wanted)
		capacity *= 2;
	if (capacity == op->data_capacity)
		return 0;
	grown = realloc(op->data, (size_t)capacity * sizeof(*grown));
	if (grown == NULL)
		return -ENOMEM;
	op->data = grown;
	op->data_capacity = capacity;
	return 0;
}

static int
describe_zeros(struct write_op *op, uint64_t length_bytes)
{
	if (reserve_data(op, op->data_count + (int)(length_bytes / ZEROS_BYTES) + 1) != 0)
		return -ENOMEM;
	while (length_bytes > 0) {
		size_t part = length_bytes < ZEROS_BYTES ? (size_t)length_bytes : ZEROS_BYTES;

		op->data[op->data_count++] = (struct iovec){ (void *)zeros, part };
		length_bytes -= part;
	}
	return 0;
}

int
write_rows_describe_data(struct write_op *op)
{
	op->data_count = 0;
	for (const struct piece *piece = op->pieces; piece != NULL; piece = piece->next) {
		const struct engine_request *request = piece->request;
		int count;

		if (request->op == REQUEST_ZERO) {
			if (describe_zeros(op, piece->end_bytes - piece->begin_bytes) != 0)
				return -ENOMEM;
			continue;
		}
		if (reserve_data(op, op->data_count + request->iov_count) != 0)
			return -ENOMEM;
		count = iov_slice(request->iov, request->iov_count,
				  piece->begin_bytes - request->offset_bytes,
				  piece->end_bytes - piece->begin_bytes, op->data + op->data_count,
				  request->iov_count);
		assert(count > 0);
		op->data_count += count;
	}
	return 0;
}

/* New data of `chunk` of `row` from column `begin` on. */
static struct iov_run
new_data(const struct write_op *op, uint64_t row, int chunk, uint32_t begin)
{
	const struct geometry *geometry = geometry_of(op);

	return (struct iov_run){
		.iov = op->data,
		.count = op->data_count,
		.skip_bytes = (size_t)(row * geometry_row_bytes(geometry) +
				       (uint64_t)chunk * geometry->chunk_bytes + begin -
				       op->begin_bytes),
	};
}

/* --- plans and memory --- */

static size_t
row_buffer_bytes(const struct write_op *op, const struct row_plan *plan)
{
	size_t bytes = 0;

	if (plan->read_parity || plan->write_parity)
		bytes += columns_bytes(plan->hull);
	for (int chunk = 0; chunk < geometry_of(op)->data_chunks; chunk++)
		bytes += columns_bytes(plan->read[chunk]);
	if (plan->way == PLAN_READ_ALL)
		bytes += columns_bytes(plan->hull);
	return bytes;
}

/* Old bytes of `chunk`, as read. */
static uint8_t *
old_data(const struct write_op *op, const struct write_row *row, int chunk)
{
	uint8_t *at = op->buffer + row->buffer_offset;

	if (row->plan.read_parity || row->plan.write_parity)
		at += columns_bytes(row->plan.hull);
	for (int i = 0; i < chunk; i++)
		at += columns_bytes(row->plan.read[i]);
	return at;
}

static uint8_t *
parity_buffer(const struct write_op *op, const struct write_row *row)
{
	return op->buffer + row->buffer_offset;
}

static int
plan_row(struct write_op *op, uint64_t number, struct write_row *row)
{
	struct engine *engine = op->op.engine;
	const struct geometry *geometry = &engine->geometry;
	int missing = engine_missing(engine, number);
	bool suspect = geometry->parities > 0 && intent_row_suspect(&engine->intent, number) &&
		       !MUTANT(RMW_ON_SUSPECT);

	if (missing < 0 && op->avoid >= 0) {
		/* Old data (or parity) of this member can't be read, but it can be written. */
		if (op->avoid == geometry_parity_member(geometry, number))
			suspect = true;
		else if (!suspect)
			missing = op->avoid;
		/* Else nothing makes up for it: read as it stands; it may have been another row's. */
	}
	return plan_row_write(geometry, number, row->claim.begin_bytes, row->claim.end_bytes, missing,
			      suspect, &row->plan);
}

int
write_rows_plan(struct write_op *op)
{
	op->buffer_bytes = 0;
	for (uint64_t number = write_first_row(op); number <= write_last_row(op); number++) {
		struct write_row *row = write_row(op, number);
		int error = plan_row(op, number, row);

		if (error != 0)
			return error;
		row->buffer_offset = op->buffer_bytes;
		op->buffer_bytes += row_buffer_bytes(op, &row->plan);
	}
	return 0;
}

void
write_rows_count(struct write_op *op)
{
	struct engine_status *counters = &op->op.engine->counters;

	for (uint64_t number = write_first_row(op); number <= write_last_row(op); number++) {
		switch (write_row(op, number)->plan.way) {
		case PLAN_FULL:
			counters->rows_full++;
			break;
		case PLAN_RMW:
			counters->rows_rmw++;
			break;
		case PLAN_RECONSTRUCT:
			counters->rows_reconstruct++;
			break;
		case PLAN_READ_ALL:
			counters->rows_read_all++;
			break;
		case PLAN_DATA_ONLY:
			counters->rows_data_only++;
			break;
		}
	}
}

/* --- commands --- */

void
write_rows_read(struct write_op *op, void (*done)(struct member_io *mio, int result))
{
	const struct geometry *geometry = geometry_of(op);
	struct gather gather = { .engine = op->op.engine, .op = BACKEND_READ, .done = done,
				 .owner = op, .pending = &op->pending };

	for (uint64_t number = write_first_row(op); number <= write_last_row(op); number++) {
		const struct write_row *row = write_row(op, number);
		const struct row_plan *plan = &row->plan;
		uint64_t start = number * geometry->chunk_bytes;

		for (int chunk = 0; chunk < geometry->data_chunks; chunk++)
			if (columns_bytes(plan->read[chunk]) > 0)
				gather_add_buffer(&gather,
						  engine_holder(op->op.engine, number,
								geometry_data_member(geometry, number,
										     (uint8_t)chunk)),
						  start + plan->read[chunk].begin,
						  old_data(op, row, chunk),
						  columns_bytes(plan->read[chunk]));
		if (plan->read_parity)
			gather_add_buffer(&gather,
					  engine_holder(op->op.engine, number,
							geometry_parity_member(geometry, number)),
					  start + plan->hull.begin, parity_buffer(op, row),
					  columns_bytes(plan->hull));
	}
	gather_submit(&gather);
}

static void
gather_new_data(struct write_op *op, struct gather *gather, uint64_t number, int chunk,
		struct member *member)
{
	const struct row_plan *plan = &write_row(op, number)->plan;
	struct iov_run run = new_data(op, number, chunk, plan->write[chunk].begin);
	struct iovec *slice = scratch_reserve(op->op.engine, run.count);
	int count = iov_slice(run.iov, run.count, run.skip_bytes, columns_bytes(plan->write[chunk]),
			      slice, run.count);

	assert(count > 0);
	gather_add(gather, member,
		   number * geometry_of(op)->chunk_bytes + plan->write[chunk].begin, slice, count);
}

/* Row by row, so that the chunks of a member come in ascending order and join. */
void
write_rows_write(struct write_op *op, void (*done)(struct member_io *mio, int result))
{
	const struct geometry *geometry = geometry_of(op);
	struct engine *engine = op->op.engine;
	struct gather gather = { .engine = engine, .op = BACKEND_WRITE, .done = done,
				 .owner = op, .pending = &op->pending };
	struct member *writers[2];

	for (uint64_t number = write_first_row(op); number <= write_last_row(op); number++) {
		const struct write_row *row = write_row(op, number);

		for (int chunk = 0; chunk < geometry->data_chunks; chunk++) {
			int role = geometry_data_member(geometry, number, (uint8_t)chunk);
			int count = columns_bytes(row->plan.write[chunk]) > 0
					    ? engine_writers(engine, number, role, writers) : 0;

			for (int i = 0; i < count; i++)
				gather_new_data(op, &gather, number, chunk, writers[i]);
		}
		if (row->plan.write_parity) {
			int count = engine_writers(engine, number,
						   geometry_parity_member(geometry, number), writers);

			for (int i = 0; i < count; i++)
				gather_add_buffer(&gather, writers[i],
						  number * geometry->chunk_bytes + row->plan.hull.begin,
						  parity_buffer(op, row), columns_bytes(row->plan.hull));
		}
	}
	gather_submit(&gather);
}

/* --- parity --- */

static void
compute_rmw(struct write_op *op, uint64_t number, const struct write_row *row)
{
	const struct row_plan *plan = &row->plan;

	for (int chunk = 0; chunk < geometry_of(op)->data_chunks; chunk++) {
		struct columns columns = plan->write[chunk];
		struct iovec parity, old;

		if (columns_bytes(columns) == 0)
			continue;
		parity = (struct iovec){ parity_buffer(op, row) + columns.begin - plan->hull.begin,
					 columns_bytes(columns) };
		old = (struct iovec){ old_data(op, row, chunk), columns_bytes(columns) };
		parity_xor_runs((struct iov_run){ &parity, 1, 0 },
				(const struct iov_run[]){ { &parity, 1, 0 }, { &old, 1, 0 },
							  new_data(op, number, chunk, columns.begin) },
				3, columns_bytes(columns));
	}
}

/* The missing chunk's old data on the hull, from all others and parity. */
static void
rebuild_missing(struct write_op *op, const struct write_row *row, int missing_chunk)
{
	const struct row_plan *plan = &row->plan;
	const void *sources[IRAID_MEMBERS_MAX];
	int count = 0;

	sources[count++] = parity_buffer(op, row);
	for (int chunk = 0; chunk < geometry_of(op)->data_chunks; chunk++)
		if (chunk != missing_chunk)
			sources[count++] = old_data(op, row, chunk);
	/* Behind the last chunk that was read. */
	parity_xor(old_data(op, row, geometry_of(op)->data_chunks), sources, count,
		   columns_bytes(plan->hull));
}

/* Iovecs of what `chunk` will hold on the hull: new data where it is written, old elsewhere.
 * old: where column old_begin stands.  Returns the number of entries added to out.
 */
static int
compose_chunk(struct write_op *op, uint64_t number, int chunk, uint8_t *old, uint32_t old_begin,
	      struct iovec *out, int out_max)
{
	const struct row_plan *plan = &write_row(op, number)->plan;
	const struct columns new = plan->write[chunk];
	uint32_t at = plan->hull.begin;
	int count = 0;

	while (at < plan->hull.end) {
		uint32_t end = plan->hull.end;

		if (columns_bytes(new) > 0 && at >= new.begin && at < new.end) {
			struct iov_run run = new_data(op, number, chunk, at);
			int added = iov_slice(run.iov, run.count, run.skip_bytes, new.end - at,
					      out + count, out_max - count);

			assert(added > 0);
			count += added;
			at = new.end;
			continue;
		}
		if (columns_bytes(new) > 0 && at < new.begin)
			end = new.begin;
		out[count++] = (struct iovec){ old + at - old_begin, end - at };
		at = end;
	}
	return count;
}

/* Parity on the hull from all data chunks (FULL, RECONSTRUCT, READ_ALL). */
static void
compute_from_data(struct write_op *op, uint64_t number, const struct write_row *row)
{
	const struct geometry *geometry = geometry_of(op);
	const struct row_plan *plan = &row->plan;
	struct iovec *entries = scratch_reserve(op->op.engine,
						op->data_count + 3 * geometry->data_chunks + 1);
	struct iovec parity = { parity_buffer(op, row), columns_bytes(plan->hull) };
	struct iov_run sources[IRAID_MEMBERS_MAX];
	int room = op->op.engine->scratch_capacity;
	int missing_chunk = -1;

	if (plan->way == PLAN_READ_ALL) {
		for (int chunk = 0; chunk < geometry->data_chunks; chunk++)
			if (columns_bytes(plan->read[chunk]) == 0)
				missing_chunk = chunk;
		assert(missing_chunk >= 0);
		rebuild_missing(op, row, missing_chunk);
	}
	for (int chunk = 0; chunk < geometry->data_chunks; chunk++) {
		bool rebuilt = chunk == missing_chunk;
		uint8_t *old = old_data(op, row, rebuilt ? geometry->data_chunks : chunk);
		uint32_t old_begin = rebuilt ? plan->hull.begin : plan->read[chunk].begin;
		int count = compose_chunk(op, number, chunk, old, old_begin, entries, room);

		sources[chunk] = (struct iov_run){ entries, count, 0 };
		entries += count;
		room -= count;
	}
	parity_xor_runs((struct iov_run){ &parity, 1, 0 }, sources, geometry->data_chunks,
			columns_bytes(plan->hull));
}

void
write_rows_compute(struct write_op *op)
{
	for (uint64_t number = write_first_row(op); number <= write_last_row(op); number++) {
		const struct write_row *row = write_row(op, number);

		if (!row->plan.write_parity)
			continue;
		if (row->plan.way == PLAN_RMW)
			compute_rmw(op, number, row);
		else
			compute_from_data(op, number, row);
	}
}
