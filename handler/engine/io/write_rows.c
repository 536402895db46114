/* write_rows.c - the rows of a write: plans, memory layout, parity, commands.
 *
 * Memory of one row, from buffer_offset on, every part as long as its columns:
 *
 *	| P on the hull | Q | old data of chunk a | old data of chunk b | ... | made chunks, on the hull |
 *
 * Of a row that is kept (row_cache.h) the cache has all but the last: whole chunks, read whole.
 *
 * The new data itself stays where the initiator's command has it, and goes from there to the
 * socket.
 */
#include "plug.h"
#include "engine/link/gather.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static uint32_t
columns_bytes(struct columns columns)
{
	return columns.end - columns.begin;
}

static const struct geometry *
geometry_of_write(const struct write_op *op)
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
	/* For all that is done with it later. */
	return scratch_reserve(op->op.engine,
			       op->data_count + 3 * geometry_of_write(op)->data_chunks + 1) != NULL
		       ? 0
		       : -ENOMEM;
}

/* New data of `chunk` of `row` from column `begin` on. */
static struct iov_run
new_data(const struct write_op *op, uint64_t row, int chunk, uint32_t begin)
{
	const struct geometry *geometry = geometry_of_write(op);

	return (struct iov_run){
		.iov = op->data,
		.count = op->data_count,
		.skip_bytes =
			(size_t)(row * geometry_row_bytes(geometry) +
				 (uint64_t)chunk * geometry->chunk_bytes + begin - op->begin_bytes),
	};
}

/* --- plans and memory --- */

/* P and Q; copies are written from the initiator's memory. */
static uint32_t
buffered_redundancy(const struct write_op *op, const struct row_plan *plan)
{
	return engine_has_parity(op->op.engine) ? plan->read_redundancy | plan->write_redundancy
						: 0;
}

static size_t
row_buffer_bytes(const struct write_op *op, const struct write_row *row)
{
	const struct row_plan *plan = &row->plan;
	const size_t hull = columns_bytes(plan->hull);
	size_t bytes = hull * (size_t)(__builtin_popcount(buffered_redundancy(op, plan)) +
				       __builtin_popcount(plan->make));

	if (row->cached != NULL)
		return 0;
	for (int chunk = 0; chunk < geometry_of_write(op)->data_chunks; chunk++)
		bytes += columns_bytes(plan->read[chunk]);
	return bytes;
}

/* P's or Q's bytes on the hull. */
static uint8_t *
redundancy_buffer(const struct write_op *op, const struct write_row *row, int position)
{
	uint32_t before = buffered_redundancy(op, &row->plan) & (ROLE(position) - 1);

	if (row->cached != NULL)
		return row_cache_chunk(op->op.engine, row->cached, position) + row->plan.hull.begin;
	if (op->buffer == NULL) /* nothing is buffered, and nobody looks there */
		return NULL;
	return op->buffer + row->buffer_offset +
	       (size_t)__builtin_popcount(before) * columns_bytes(row->plan.hull);
}

/* Old bytes of `chunk`: as read, or on the whole hull if it is made. */
static uint8_t *
old_data(const struct write_op *op, const struct write_row *row, int chunk)
{
	const struct row_plan *plan = &row->plan;
	const size_t hull = columns_bytes(plan->hull);
	uint8_t *at;

	if (row->cached != NULL)
		return row_cache_chunk(op->op.engine, row->cached, chunk) + plan->read[chunk].begin;
	if (op->buffer == NULL) /* nothing is buffered, and nobody looks there */
		return NULL;
	at = op->buffer + row->buffer_offset +
	     hull * (size_t)__builtin_popcount(buffered_redundancy(op, plan));
	if (plan->make & ROLE(chunk)) {
		at += hull * (size_t)__builtin_popcount(plan->make & (ROLE(chunk) - 1));
		chunk = geometry_of_write(op)->data_chunks;
	}
	for (int i = 0; i < chunk; i++)
		at += columns_bytes(plan->read[i]);
	return at;
}

/* Positions of the row that can't be read, although somebody holds them and they can be written.
 * In a row that proves nothing, nothing makes up for them: it is read as it stands; what could not
 * be read may have been another's.
 */
static uint32_t
unreadable(const struct write_op *op, uint64_t number)
{
	const struct engine *engine = op->op.engine;

	if (op->avoid == 0 || !engine_has_parity(engine) ||
	    intent_row_suspect(&engine->intent, number))
		return 0;
	return geometry_positions(&engine->geometry, number, op->avoid) &
	       ~engine_absent(engine, number);
}

/* What it holds can be told from what is read and written. */
static bool
may_be_kept(const struct write_op *op, uint64_t number)
{
	const struct engine *engine = op->op.engine;

	return engine->out == 0 && op->avoid == 0 && !op->uncached &&
	       !op->pieces->request->claimed && engine_trust(engine, number) == ROW_PROVEN;
}

/* Only data is written there, and whoever takes some of it may go: the level bears one more loss,
 * or it is nobody in sync, at most a device that is being filled.
 */
static bool
is_unheld(const struct write_op *op, uint64_t number, const struct row_plan *plan)
{
	const struct engine *engine = op->op.engine;
	const uint32_t missing =
		MUTANT(DATA_ON_TARGET_ALONE)
			? engine_absent(engine, number)
			: geometry_positions(&engine->geometry, number, engine->missing);

	if (plan->way != PLAN_DATA_ONLY || !engine_has_parity(engine))
		return false;
	if (__builtin_popcount(missing) < engine->geometry.redundancy && !MUTANT(DATA_ONLY_SPARED))
		return true;
	for (int chunk = 0; chunk < engine->geometry.data_chunks; chunk++)
		if ((missing & ROLE(chunk)) && columns_bytes(plan->write[chunk]) > 0)
			return true;
	return false;
}

/* P and Q are written beyond the columns of the data: those are another's, who writes the same row
 * now.
 */
static bool
takes_others_columns(const struct write_op *op, const struct row_plan *plan)
{
	struct columns own = { UINT32_MAX, 0 };

	if (!op->pieces->request->beside_others || MUTANT(RUNS_SHARE_PARITY))
		return false;
	for (int chunk = 0; chunk < geometry_of_write(op)->data_chunks; chunk++) {
		const struct columns new = plan->write[chunk];

		if (columns_bytes(new) == 0)
			continue;
		own.begin = new.begin < own.begin ? new.begin : own.begin;
		own.end = new.end > own.end ? new.end : own.end;
	}
	return plan->hull.begin < own.begin || plan->hull.end > own.end;
}

static int
plan_row(struct write_op *op, uint64_t number, struct write_row *row)
{
	struct engine *engine = op->op.engine;
	const struct geometry *geometry = &engine->geometry;
	const uint32_t data = geometry_data_positions(geometry);
	const uint32_t unread = unreadable(op, number);
	enum row_trust trust = MUTANT(RMW_ON_SUSPECT) ? ROW_PROVEN : engine_trust(engine, number);
	int error;

	row->absent = engine_absent(engine, number) | (unread & data);
	if ((unread & ~data) != 0) {
		/* P or Q is made anew, from all data. */
		trust = ROW_DEFINED;
		if ((row->absent & data) != 0)
			row->absent |= unread;
	}
	error = plan_row_write(geometry, row->claim.begin_bytes, row->claim.end_bytes, row->absent,
			       trust,
			       may_be_kept(op, number) ? row_cache_known(engine, number) : NULL,
			       &row->plan);
	if (error == 0 && is_unheld(op, number, &row->plan))
		error = -ENODATA;
	if (error == 0 && takes_others_columns(op, &row->plan))
		error = -EBUSY;
	if (error == 0 && row->plan.way != PLAN_DATA_ONLY)
		row->plan.write_redundancy |= unread & ~data;
	if (error == 0 && may_be_kept(op, number) &&
	    (row->plan.way == PLAN_RMW || row->plan.way == PLAN_RECONSTRUCT))
		row->cached = row_cache_take(engine, number, plug_in_stream(op));
	return error;
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
		op->buffer_bytes += row_buffer_bytes(op, row);
	}
	return 0;
}

static uint64_t
reads_saved(const struct write_op *op, const struct row_plan *plan)
{
	uint32_t needed = plan->read_redundancy;

	for (int chunk = 0; chunk < geometry_of_write(op)->data_chunks; chunk++)
		if (columns_bytes(plan->read[chunk]) > 0)
			needed |= ROLE(chunk);
	return (uint64_t)__builtin_popcount(needed & ~plan->fetch);
}

void
write_rows_count(struct write_op *op)
{
	struct counters *counters = &op->op.engine->counters;

	for (uint64_t number = write_first_row(op); number <= write_last_row(op); number++) {
		counters->reads_saved += reads_saved(op, &write_row(op, number)->plan);
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

/* --- rows that are kept --- */

/* New data, P and Q are in their places then, beside what was read. */
static void
keep_in_cache(struct write_op *op, uint64_t number)
{
	const struct geometry *geometry = geometry_of_write(op);
	struct write_row *row = write_row(op, number);
	const struct row_plan *plan = &row->plan;

	for (int position = 0; position < geometry->width; position++) {
		const struct columns new = plan->write[position];

		if (plan->fetch & ROLE(position))
			row_cache_learn(row->cached, position,
					(struct columns){ 0, geometry->chunk_bytes });
		if (plan->write_redundancy & ROLE(position))
			row_cache_learn(row->cached, position, plan->hull);
		if (columns_bytes(new) == 0)
			continue;
		struct iovec place = { row_cache_chunk(op->op.engine, row->cached, position) +
					       new.begin,
				       columns_bytes(new) };
		struct iov_run run = new_data(op, number, position, new.begin);

		/* one source: a copy */
		parity_xor_runs((struct iov_run){ &place, 1, 0 }, &run, 1, place.iov_len);
		row_cache_learn(row->cached, position, new);
	}
}

void
write_rows_give_back(struct write_op *op, bool good)
{
	for (uint64_t number = write_first_row(op); number <= write_last_row(op); number++) {
		struct write_row *row = write_row(op, number);

		if (row->cached == NULL)
			continue;
		if (good)
			keep_in_cache(op, number);
		row_cache_give_back(op->op.engine, row->cached, good);
		row->cached = NULL;
	}
}

/* --- commands --- */

static void
read_position(const struct write_op *op, struct gather *gather, uint64_t number, int position,
	      struct columns columns, uint8_t *into)
{
	const struct geometry *geometry = geometry_of_write(op);
	const struct cached_row *cached = op->rows[number % OP_ROWS_MAX].cached;
	uint8_t role = geometry_role(geometry, number, (uint8_t)position);

	if (cached != NULL) {
		columns = (struct columns){ 0, geometry->chunk_bytes };
		into = row_cache_chunk(op->op.engine, cached, position);
	}
	gather_add_buffer(gather, engine_holder(op->op.engine, number, role),
			  geometry_offset(geometry, number, role) + columns.begin, into,
			  columns_bytes(columns));
}

void
write_rows_read(struct write_op *op, void (*done)(struct member_io *mio, int result))
{
	const struct geometry *geometry = geometry_of_write(op);
	struct gather gather = { .engine = op->op.engine,
				 .op = BACKEND_READ,
				 .done = done,
				 .since_ms = op->op.since_ms,
				 .owner = op,
				 .pending = &op->pending };

	for (uint64_t number = write_first_row(op); number <= write_last_row(op); number++) {
		const struct write_row *row = write_row(op, number);
		const struct row_plan *plan = &row->plan;

		for (int chunk = 0; chunk < geometry->data_chunks; chunk++)
			if (plan->fetch & ROLE(chunk))
				read_position(op, &gather, number, chunk, plan->read[chunk],
					      old_data(op, row, chunk));
		for (int position = geometry->data_chunks; position < geometry->width; position++)
			if (plan->fetch & ROLE(position))
				read_position(op, &gather, number, position, plan->hull,
					      redundancy_buffer(op, row, position));
	}
	if (gather_submit(&gather) != 0)
		op->error = -ENOMEM;
}

static void
gather_new_data(struct write_op *op, struct gather *gather, uint64_t number, int chunk, int role,
		struct member *member)
{
	const struct row_plan *plan = &write_row(op, number)->plan;
	struct iov_run run = new_data(op, number, chunk, plan->write[chunk].begin);
	struct iovec *slice = scratch_reserve(op->op.engine, run.count);
	int count = iov_slice(run.iov, run.count, run.skip_bytes, columns_bytes(plan->write[chunk]),
			      slice, run.count);

	assert(count > 0);
	gather_add(gather, member,
		   geometry_offset(geometry_of_write(op), number, (uint8_t)role) +
			   plan->write[chunk].begin,
		   slice, count);
}

static void
write_position(struct write_op *op, struct gather *gather, uint64_t number, int position)
{
	const struct geometry *geometry = geometry_of_write(op);
	const struct write_row *row = write_row(op, number);
	const bool is_data = position < geometry->data_chunks;
	const bool is_copy = !is_data && !engine_has_parity(op->op.engine);
	const uint8_t role = geometry_role(geometry, number, (uint8_t)position);
	struct member *writers[2];
	int count;

	if (is_data ? columns_bytes(row->plan.write[position]) == 0
		    : !(row->plan.write_redundancy & ROLE(position)))
		return;
	count = engine_writers(op->op.engine, number, role, writers);
	for (int i = 0; i < count; i++)
		if (is_data || is_copy)
			gather_new_data(op, gather, number, is_copy ? 0 : position, role,
					writers[i]);
		else
			gather_add_buffer(gather, writers[i],
					  geometry_offset(geometry, number, role) +
						  row->plan.hull.begin,
					  redundancy_buffer(op, row, position),
					  columns_bytes(row->plan.hull));
}

/* Row by row, so that the chunks of a member come in ascending order and join. */
void
write_rows_write(struct write_op *op, void (*done)(struct member_io *mio, int result))
{
	struct gather gather = { .engine = op->op.engine,
				 .op = BACKEND_WRITE,
				 .done = done,
				 .since_ms = op->op.since_ms,
				 .owner = op,
				 .pending = &op->pending };

	for (uint64_t number = write_first_row(op); number <= write_last_row(op); number++)
		for (int position = 0; position < geometry_of_write(op)->width; position++)
			write_position(op, &gather, number, position);
	if (gather_submit(&gather) != 0)
		op->error = -ENOMEM;
	else
		op->sent = true;
}

/* --- parity --- */

static void
compute_rmw(struct write_op *op, uint64_t number, const struct write_row *row)
{
	const struct geometry *geometry = geometry_of_write(op);
	const struct row_plan *plan = &row->plan;

	for (int chunk = 0; chunk < geometry->data_chunks; chunk++) {
		struct columns columns = plan->write[chunk];
		void *redundancy[2] = { NULL, NULL };

		if (columns_bytes(columns) == 0)
			continue;
		for (int i = 0; i < geometry->redundancy; i++)
			if (plan->write_redundancy & ROLE(geometry->data_chunks + i))
				redundancy[i] =
					redundancy_buffer(op, row, geometry->data_chunks + i) +
					columns.begin - plan->hull.begin;
		code_update(geometry, MUTANT(Q_MISWEIGHED) ? 0 : (uint8_t)chunk,
			    old_data(op, row, chunk), new_data(op, number, chunk, columns.begin),
			    redundancy, columns_bytes(columns));
	}
}

/* Old data on the hull that nobody could be asked for. */
static void
make_missing(struct write_op *op, const struct write_row *row)
{
	const struct geometry *geometry = geometry_of_write(op);
	const struct row_plan *plan = &row->plan;
	void *chunks[IRAID_MEMBERS_MAX] = { NULL };

	for (int position = 0; position < geometry->width; position++)
		if (position < geometry->data_chunks)
			chunks[position] = old_data(op, row, position);
		else if (plan->read_redundancy & ROLE(position))
			chunks[position] = redundancy_buffer(op, row, position);
	code_make(geometry, plan->make, row->absent, chunks, columns_bytes(plan->hull));
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

/* P and Q on the hull from all data chunks (FULL, RECONSTRUCT, READ_ALL). */
static void
compute_from_data(struct write_op *op, uint64_t number, const struct write_row *row)
{
	const struct geometry *geometry = geometry_of_write(op);
	const struct row_plan *plan = &row->plan;
	struct iovec *entries =
		scratch_reserve(op->op.engine, op->data_count + 3 * geometry->data_chunks + 1);
	const uint32_t redundancy = geometry_redundant_positions(geometry);
	struct iov_run runs[IRAID_MEMBERS_MAX];
	struct iovec buffers[2];
	int room = op->op.engine->scratch.capacity;

	if (plan->make != 0)
		make_missing(op, row);
	for (int chunk = 0; chunk < geometry->data_chunks; chunk++) {
		bool made = plan->make & ROLE(chunk);
		int count = compose_chunk(op, number, chunk, old_data(op, row, chunk),
					  made ? plan->hull.begin : plan->read[chunk].begin,
					  entries, room);

		runs[chunk] = (struct iov_run){ entries, count, 0 };
		entries += count;
		room -= count;
	}
	for (int i = 0; i < geometry->redundancy; i++) {
		int position = geometry->data_chunks + i;

		if (!(plan->write_redundancy & ROLE(position)))
			continue;
		buffers[i] = (struct iovec){ redundancy_buffer(op, row, position),
					     columns_bytes(plan->hull) };
		runs[position] = (struct iov_run){ &buffers[i], 1, 0 };
	}
	code_make_runs(geometry, plan->write_redundancy, redundancy, runs,
		       columns_bytes(plan->hull));
}

/* --- for the write log --- */

/* What a position holds of these columns afterwards, if anything of them is written. */
static int
log_position(struct write_op *op, uint64_t number, int position, struct columns part, bool *begins)
{
	const struct geometry *geometry = geometry_of_write(op);
	const struct write_row *row = write_row(op, number);
	const bool is_data = position < geometry->data_chunks;
	const uint8_t role = geometry_role(geometry, number, (uint8_t)position);
	struct columns columns = is_data ? row->plan.write[position] : row->plan.hull;
	struct log_piece piece = { .row = number, .role = role, .kind = LOG_PIECE_WRITTEN };
	struct iov_run bytes;
	int error;

	if (columns.begin < part.begin)
		columns.begin = part.begin;
	if (columns.end > part.end)
		columns.end = part.end;
	/* Who is out has what follows from the others; but a start has to know that it takes the
	 * place of what was acknowledged before.
	 */
	if (columns.begin >= columns.end ||
	    ((op->op.engine->missing & ROLE(role)) &&
	     !(is_data && write_log_had_pending(op->op.engine))) ||
	    (!is_data && !(row->plan.write_redundancy & ROLE(position))))
		return 0;
	piece.column_bytes = columns.begin;
	piece.length_bytes = columns_bytes(columns);
	if (is_data)
		bytes = new_data(op, number, position, columns.begin);
	else
		bytes = (struct iov_run){
			&op->redundancy[number % OP_ROWS_MAX][position - geometry->data_chunks], 1,
			columns.begin - row->plan.hull.begin
		};
	error = logged_add(&op->logged, &piece, bytes, *begins);
	*begins = MUTANT(LOGGED_APART);
	return error;
}

/* P and the data of the same columns are in one record: so much of each that it fits. */
static uint32_t
part_columns(const struct write_op *op)
{
	const struct geometry *geometry = geometry_of_write(op);
	const uint32_t bytes = write_log_part_bytes(op->op.engine) / geometry->width;

	return bytes / geometry->block_bytes * geometry->block_bytes;
}

/* All columns of which something is written. */
static struct columns
written_columns(const struct write_op *op, const struct row_plan *plan)
{
	struct columns all = plan->hull;

	for (int chunk = 0; chunk < geometry_of_write(op)->data_chunks; chunk++) {
		const struct columns new = plan->write[chunk];

		if (columns_bytes(new) == 0)
			continue;
		if (columns_bytes(all) == 0)
			all = new;
		if (new.begin < all.begin)
			all.begin = new.begin;
		if (new.end > all.end)
			all.end = new.end;
	}
	return all;
}

/* Also if it has no redundancy: while a record of it is live, nothing passes the log by. */
static int
log_row(struct write_op *op, uint64_t number)
{
	const struct geometry *geometry = geometry_of_write(op);
	const struct write_row *row = write_row(op, number);
	const struct columns all = written_columns(op, &row->plan);
	const uint32_t most = part_columns(op);
	struct columns part = { all.begin, all.begin };

	if (row->plan.write_redundancy == 0 && MUTANT(DATA_BESIDE_LOG))
		return 0;

	for (int i = 0; i < geometry->redundancy; i++)
		if (row->plan.write_redundancy & ROLE(geometry->data_chunks + i))
			op->redundancy[number % OP_ROWS_MAX][i] =
				(struct iovec){ redundancy_buffer(op, row,
								  geometry->data_chunks + i),
						columns_bytes(row->plan.hull) };
	while (part.end < all.end) {
		bool begins = true;

		part.begin = part.end;
		part.end = all.end - part.begin < most ? all.end : part.begin + most;
		for (int position = 0; position < geometry->width; position++)
			if (log_position(op, number, position, part, &begins) != 0)
				return -ENOMEM;
	}
	return 0;
}

int
write_rows_log(struct write_op *op)
{
	int error = 0;

	logged_begin(&op->logged);
	for (uint64_t number = write_first_row(op); number <= write_last_row(op) && error == 0;
	     number++)
		error = log_row(op, number);
	return error;
}

void
write_rows_compute(struct write_op *op)
{
	for (uint64_t number = write_first_row(op); number <= write_last_row(op); number++) {
		const struct write_row *row = write_row(op, number);

		if (row->plan.write_redundancy == 0 || !engine_has_parity(op->op.engine))
			continue;
		if (row->plan.way == PLAN_RMW)
			compute_rmw(op, number, row);
		else
			compute_from_data(op, number, row);
	}
}
