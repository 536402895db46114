/* test_engine_operations.c - what reads, writes and zeros promise when members fail in the midst of
 * them.
 */
#include "scenario.h"

#define CHUNK 16384u
#define CHUNK_SECTORS (CHUNK / RIG_SECTOR)
#define ROW_SECTORS (3 * CHUNK_SECTORS) /* level 5 of 4 members */
#define DATA_OFFSET (4u << 20)
#define LOAD_BYTES (2u << 20)

/* The whole load is written, all parity is proven, nothing is under way. */
static void
begin(struct rig *rig, int level, int count, uint64_t seed)
{
	rig_init(rig, level, count, CHUNK, LOAD_BYTES, seed);
	set_deadline_of_all(rig, 3000000); /* so that slow ones keep their sessions */
	rig_start_active(rig);
	rig_submit(rig, REQUEST_WRITE, 0, rig->sectors, true);
	rig_drain(rig);
	rig_wait_for_resync(rig);
}

/* A medium error says that data is lost for good.  While one member refuses to read, and nothing
 * else is wrong with it, its data is not, even if another that it could be made from has a bad
 * sector.
 */
static void
test_what_a_member_refuses_to_read_is_not_called_lost(void **state)
{
	static const struct {
		int level, count;
	} volumes[] = { { 5, 4 }, { 1, 2 } };

	for (size_t i = 0; i < sizeof(volumes) / sizeof(volumes[0]); i++) {
		struct rig rig;

		begin(&rig, volumes[i].level, volumes[i].count, 70 + i);
		rig.errors_allowed = true;
		disk_damage(&rig.members[1].disk, DATA_OFFSET);
		rig.members[0].refuse_reads = true;
		rig_submit(&rig, REQUEST_READ, 0, 1, false);
		rig_drain(&rig);
		assert_int_equal(rig.failed, 1);
		assert_int_equal(rig.last_error, -EIO);
		rig.members[0].refuse_reads = false;
		rig.errors_allowed = false;
		finish(&rig);
	}
}

/* The same of what a write has to read. */
static void
test_a_write_that_needs_what_is_refused_is_not_told_of_a_loss(void **state)
{
	for (int refusing = 0; refusing < 2; refusing++) {
		struct rig rig;

		begin(&rig, 5, 5, 72 + (uint64_t)refusing);
		rig.errors_allowed = true;
		disk_damage(&rig.members[1 - refusing].disk, DATA_OFFSET);
		rig.members[refusing].refuse_reads = true;
		rig_submit(&rig, REQUEST_WRITE, 0, 1, false);
		rig_submit(&rig, REQUEST_WRITE, CHUNK_SECTORS, 1, false);
		rig_drain(&rig);
		assert_int_equal(rig.failed, 2);
		assert_int_equal(rig.last_error, -EIO);
		rig.members[refusing].refuse_reads = false;
		rig.errors_allowed = false;
		finish(&rig);
	}
}

/* The columns beside the bad sector: one member refuses, and all others can be read there. */
static void
test_what_is_refused_beside_a_bad_sector_is_made_up_for(void **state)
{
	static const struct {
		int level, count;
	} volumes[] = { { 5, 4 }, { 1, 2 } };

	for (size_t i = 0; i < sizeof(volumes) / sizeof(volumes[0]); i++) {
		struct rig rig;

		begin(&rig, volumes[i].level, volumes[i].count, 74 + i);
		disk_damage(&rig.members[1].disk, DATA_OFFSET);
		rig.members[0].refuse_reads = true;
		rig_submit(&rig, REQUEST_READ, 8, CHUNK_SECTORS - 8, false);
		rig_drain(&rig);
		rig_submit(&rig, REQUEST_WRITE, 8, 8, false);
		rig_submit(&rig, REQUEST_WRITE, 16, 1, false);
		rig_drain(&rig);
		rig.members[0].refuse_reads = false;
		finish(&rig);
	}
}

/* The region of row 0 is marked. */
static void
mark(struct rig *rig)
{
	rig_submit(rig, REQUEST_WRITE, ROW_SECTORS - 1, 1, true);
	rig_drain(rig);
}

static void
lose_member_0(struct rig *rig)
{
	bool degraded;

	fake_member_cut(&rig->members[0], false);
	degraded = rig_wait(rig, VOLUME_DEGRADED, 5000);
	assert_true(degraded);
}

/* Row 0 is written to some members only, and one is missing: what that one had can't be known any
 * more.
 */
static void
fail_half_way(enum request_op op, uint64_t seed)
{
	struct rig rig;

	begin(&rig, 5, 4, seed);
	lose_member_0(&rig);
	mark(&rig);
	rig.errors_allowed = true;
	rig.members[3].refuse_writes = true;
	rig_submit(&rig, op, 0, ROW_SECTORS, false);
	rig_drain(&rig);
	rig.members[3].refuse_writes = false;
	assert_int_equal(rig.failed, 1);
	for (int i = 0; i < 3; i++) {
		rig_submit(&rig, REQUEST_READ, 0, 1, false);
		rig_drain(&rig);
		rig_steps(&rig, 1000);
	}
	assert_int_equal(rig.failed, 4);
	assert_int_equal(rig.last_error, -ENODATA);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_a_write_that_failed_half_way_leaves_nothing_trusted(void **state)
{
	fail_half_way(REQUEST_WRITE, 74);
}

static void
test_zeros_that_failed_half_way_leave_nothing_trusted(void **state)
{
	fail_half_way(REQUEST_ZERO, 75);
}

/* More members lose power than the level bears, while one is yet to answer. */
static void
test_what_went_with_a_cache_is_written_again(void **state)
{
	static const enum request_op ops[] = { REQUEST_WRITE, REQUEST_ZERO };

	for (uint64_t i = 0; i < 8; i++) {
		struct rig rig;

		begin(&rig, 5, 4, 100 + i);
		mark(&rig);
		set_pace(&rig, 2, 1000000);
		rig_submit(&rig, ops[i % 2], 0, ROW_SECTORS, false);
		rig_steps(&rig, 20);
		set_pace(&rig, 2, 200);
		for (int m = 0; m < 2; m++)
			fake_member_power_loss(&rig.members[m], true);
		rig_drain(&rig);
		finish(&rig);
	}
}

/* A member is missing, so what was written of it is only what the others make of it.  A write that
 * fails takes that from its own rows, and from no others: one that was under way there is
 * acknowledged later, so it has to be there.
 */
static void
test_a_write_beside_one_that_failed_is_known(void **state)
{
	struct rig rig;

	begin(&rig, 5, 4, 76);
	lose_member_0(&rig);
	mark(&rig);
	for (int m = 1; m < rig.count; m++)
		set_pace(&rig, m, 200);
	set_pace(&rig, 1, 50000);
	rig_submit(&rig, REQUEST_WRITE, 0, ROW_SECTORS, false);
	engine_run(rig.engine, rig.now_ms);
	set_pace(&rig, 1, 200);
	rig_steps(&rig, 49);
	rig.errors_allowed = true;
	rig.members[3].refuse_writes = true;
	rig_submit(&rig, REQUEST_WRITE, ROW_SECTORS, ROW_SECTORS, false);
	engine_run(rig.engine, rig.now_ms);
	rig_step(&rig); /* both are answered, the one that fails first */
	rig.members[3].refuse_writes = false;
	assert_int_equal(rig.failed, 1);
	rig_drain(&rig);
	assert_int_equal(rig.failed, 1);
	rig.errors_allowed = false;
	rig_submit(&rig, REQUEST_READ, 0, ROW_SECTORS, false);
	rig_drain(&rig);
	rig_stop(&rig);
	rig_free(&rig);
}

static int reads_done;

static void
read_done(struct engine_request *request, int result)
{
	assert_int_equal(result, 0);
	reads_done++;
}

/* Nobody has data there, but what is read once must not be something else the next time. */
static void
test_what_was_never_written_reads_alike_from_all_copies(void **state)
{
	enum { READS = 8 };
	static uint8_t memory[READS][RIG_SECTOR];
	struct engine_request requests[READS];
	struct iovec iov[READS];
	struct rig rig;

	rig_init(&rig, 1, 3, CHUNK, LOAD_BYTES, 77);
	rig.options.resync_rows_max = 0;
	rig_start_active(&rig);
	reads_done = 0;
	for (int i = 0; i < READS; i++) {
		iov[i] = (struct iovec){ memory[i], RIG_SECTOR };
		requests[i] = (struct engine_request){
			.op = REQUEST_READ,
			.offset_bytes = 40 * RIG_SECTOR,
			.length_bytes = RIG_SECTOR,
			.iov = &iov[i],
			.iov_count = 1,
			.done = read_done,
		};
		engine_submit(rig.engine, &requests[i]);
	}
	while (reads_done < READS)
		rig_step(&rig);
	for (int i = 1; i < READS; i++)
		assert_memory_equal(memory[i], memory[0], RIG_SECTOR);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
read_unwritten(struct rig *rig, uint8_t *memory)
{
	struct iovec iov = { memory, RIG_SECTOR };
	struct engine_request request = {
		.op = REQUEST_READ,
		.offset_bytes = 40 * RIG_SECTOR,
		.length_bytes = RIG_SECTOR,
		.iov = &iov,
		.iov_count = 1,
		.done = read_done,
	};

	reads_done = 0;
	engine_submit(rig->engine, &request);
	while (reads_done < 1)
		rig_step(rig);
}

/* The first copy's session is lost for a moment, or all of its answers are late: reads go around
 * it, but for these.
 */
static void
test_what_was_never_written_reads_alike_around_a_member(void **state)
{
	for (int slow = 0; slow < 2; slow++) {
		static uint8_t before[RIG_SECTOR], during[RIG_SECTOR];
		struct rig rig;

		(void)state;
		rig_init(&rig, 1, 2, CHUNK, LOAD_BYTES, 1770 + (uint64_t)slow);
		rig.options.resync_rows_max = 0;
		rig.options.grace_ms = 1000;
		set_deadline_of_all(&rig, 3000000);
		rig_start_active(&rig);
		read_unwritten(&rig, before);
		if (slow)
			set_pace(&rig, 0, 200000);
		else
			fake_member_cut(&rig.members[0], true);
		for (int i = 0; i < 20; i++) {
			read_unwritten(&rig, during);
			assert_memory_equal(during, before, RIG_SECTOR);
		}
		assert_true(all_in_sync(&rig));
		assert_true(rig_status(&rig).members[0].slow == (slow != 0));
		rig_stop(&rig);
		rig_free(&rig);
	}
}

/* Copies are read from this member, for the others have become slow. */
static void
prefer(struct rig *rig, int member)
{
	for (int m = 0; m < rig->count; m++)
		set_pace(rig, m, m == member ? 100 : 20000);
	for (int i = 0; i < 8; i++) {
		rig_submit(rig, REQUEST_READ, 32 * CHUNK_SECTORS + (uint64_t)i, 1, false);
		rig_drain(rig);
	}
}

#define TORN (100 * CHUNK_SECTORS) /* resync, which gives way to a rebuild, comes there late */

/* A write of one sector of three copies, one of them missing, that a crash left on one of the
 * others, perhaps.
 */
static void
tear_copies(struct rig *rig)
{
	fake_member_cut(&rig->members[2], false);
	assert_true(rig_wait(rig, VOLUME_DEGRADED, 5000));
	rig_submit(rig, REQUEST_WRITE, 0, rig->sectors, true);
	rig_drain(rig);
	set_pace(rig, 0, 1000000);
	set_pace(rig, 1, 100);
	rig_submit(rig, REQUEST_WRITE, TORN, 1, false);
	rig_steps(rig, 20);
	rig_crash(rig);
	rig->members[2].reachable = true;
	rig->options.sync_rate_min = rig->options.sync_rate_max = 1000000;
	for (int m = 0; m < rig->count; m++)
		set_pace(rig, m, 100);
}

static bool
alike(const struct rig *rig, int one, int other)
{
	uint8_t copies[2][RIG_SECTOR];

	disk_read(&rig->members[one].disk, DATA_OFFSET + TORN * RIG_SECTOR, copies[0], RIG_SECTOR);
	disk_read(&rig->members[other].disk, DATA_OFFSET + TORN * RIG_SECTOR, copies[1],
		  RIG_SECTOR);
	return memcmp(copies[0], copies[1], RIG_SECTOR) == 0;
}

/* What a read made of copies that differed is on the member that is being filled, too, when that
 * takes its place.
 */
static void
test_what_was_read_of_copies_that_differ_stays_when_a_member_is_filled(void **state)
{
	int differ = 0;

	for (uint64_t seed = 130; seed < 138; seed++) {
		struct rig rig;

		begin(&rig, 1, 3, seed);
		tear_copies(&rig);
		rig_start(&rig);
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 5000));
		for (int i = 0; i < 50000 && !alike(&rig, 0, 2); i++)
			rig_step(&rig);
		differ += !alike(&rig, 0, 1);
		prefer(&rig, 1);
		rig_submit(&rig, REQUEST_READ, TORN, 1, false);
		rig_drain(&rig);
		assert_true(alike(&rig, 0, 1) && alike(&rig, 0, 2));
		assert_int_equal(rig_status(&rig).state, VOLUME_DEGRADED);
		assert_true(rig_wait(&rig, VOLUME_ACTIVE, 50000));
		prefer(&rig, 2);
		rig_submit(&rig, REQUEST_READ, TORN, 1, false);
		rig_drain(&rig);
		finish(&rig);
	}
	assert_true(differ > 0);
}

/* Who has this position of row 0. */
static struct fake_member *
holder(struct rig *rig, int position)
{
	struct geometry geometry;

	geometry_init(&geometry, rig->level, rig->count, CHUNK, 512,
		      rig_superblock(rig, 0).data_bytes);
	return &rig->members[geometry_role(&geometry, 0, (uint8_t)position)];
}

/* A gateway that died left P, and Q, that don't fit their row.  What can't be read there is not
 * made from them.
 */
static void
test_nothing_is_made_from_parity_that_is_suspect(void **state)
{
	static const struct {
		int level, count;
	} volumes[] = { { 5, 4 }, { 6, 5 } };

	for (size_t i = 0; i < sizeof(volumes) / sizeof(volumes[0]); i++) {
		uint8_t rubbish[RIG_SECTOR] = { 1, 2, 3 };
		struct rig rig;

		begin(&rig, volumes[i].level, volumes[i].count, 78 + i);
		mark(&rig);
		rig_crash(&rig);
		for (int position = 3; position < rig.count; position++)
			disk_write(&holder(&rig, position)->disk, DATA_OFFSET, rubbish,
				   sizeof(rubbish), true);
		disk_damage(&holder(&rig, 1)->disk, DATA_OFFSET);
		rig.options.resync_rows_max = 0;
		rig_start_active(&rig);
		assert_int_equal(error_of_read(&rig, CHUNK_SECTORS, 1), -ENODATA);
		rig_stop(&rig);
		rig_free(&rig);
	}
}

/* A missing chunk is made from two that were read before their caches were lost, and one that was
 * read after.
 */
static void
test_nothing_is_made_from_what_was_read_before_caches_were_lost(void **state)
{
	for (uint64_t seed = 110; seed < 122; seed++) {
		struct rig rig;

		begin(&rig, 5, 4, seed);
		lose_member_0(&rig);
		/* P changes with it */
		rig_submit(&rig, REQUEST_WRITE, CHUNK_SECTORS, 1, false);
		rig_drain(&rig);
		set_pace(&rig, 3, 1000000);
		rig_submit(&rig, REQUEST_READ, 0, 1, false);
		rig_steps(&rig, 20);
		set_pace(&rig, 3, 200);
		rig.errors_allowed = true;
		fake_member_power_loss(&rig.members[1], true);
		fake_member_power_loss(&rig.members[3], true);
		rig_drain(&rig);
		rig_crash(&rig);
		rig_free(&rig);
	}
}

/* A member that can't be spared refuses writes, one after the other; elsewhere it reads as ever. */
static int result_noted;

static void
note_result(struct engine_request *request, int result)
{
	(void)request;
	result_noted = result;
}

static bool
some_rows_are_filled(struct rig *rig)
{
	return rig_status(rig).rebuild.done_rows >= 4;
}

static void
check_reads_beside_writes_that_fail(bool replaced)
{
	static uint8_t memory[65536];
	struct iovec iov = { memory, sizeof(memory) };
	char why[256];
	struct rig rig;

	rig_init(&rig, 1, 2, CHUNK, 4ull << 20, 1700);
	rig_start_active(&rig);
	submit_everywhere(&rig, REQUEST_WRITE, 128, 128);
	rig_drain(&rig);
	if (replaced) {
		rig_wait_for_resync(&rig);
		engine_set_rates(rig.engine, 4096, 4096);
		rig_mark_spare(&rig, 2, RIG_MEMBER_BYTES);
		assert_int_equal(engine_attach(rig.engine, &rig.members[2].backend, why), 2);
		rig_steps(&rig, 200);
		assert_int_equal(engine_replace(rig.engine, 0, 2, why), 0);
		wait_until(&rig, some_rows_are_filled);
	}
	fake_member_cut(&rig.members[1], false);
	assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
	rig_steps(&rig, 3000);
	rig.errors_allowed = true;
	rig.step_ms_max = 1;
	set_deadline_of_all(&rig, 2000000);
	set_pace(&rig, 0, 20000);
	rig.members[0].refuse_from_bytes = DATA_OFFSET + 4096 * 512;
	rig.members[0].refuse_to_bytes = DATA_OFFSET + 8192 * 512;
	for (int i = 0; i < 4; i++) {
		struct engine_request read = {
			.op = REQUEST_READ,
			.offset_bytes = 0,
			.length_bytes = sizeof(memory),
			.iov = &iov,
			.iov_count = 1,
			.done = note_result,
		};

		result_noted = 1;
		engine_submit(rig.engine, &read);
		for (int k = 0; k < 5000 && result_noted == 1; k++) {
			if (rig.active_count < 64)
				rig_submit(&rig, REQUEST_WRITE, 4096 + (uint64_t)k % 32 * 32, 8,
					   false);
			rig_step(&rig);
		}
		assert_int_equal(result_noted, 0);
	}
	assert_int_equal(rig_status(&rig).rebuild_slot, replaced ? 2 : -1);
	rig.members[0].refuse_to_bytes = 0;
	rig_drain(&rig);
	rig_stop(&rig);
	rig_free(&rig);
}

static void
test_reads_go_on_beside_writes_that_fail(void **state)
{
	(void)state;
	check_reads_beside_writes_that_fail(false);
}

static void
test_reads_go_on_beside_writes_that_fail_while_a_member_is_replaced(void **state)
{
	(void)state;
	check_reads_beside_writes_that_fail(true);
}

/* Level 6 of twelve with chunks of 1 MiB, new: no row is proven, so each write across two rows
 * takes a third of the arena and more.
 */
static void
test_compare_and_write_keeps_no_memory_from_who_was_before_it(void **state)
{
	const uint64_t row_sectors = 10u << 11;
	uint64_t since_ms;
	struct rig rig;

	(void)state;
	rig_init(&rig, 6, 12, 1u << 20, 8 * row_sectors * RIG_SECTOR, 4711);
	rig.options.resync_rows_max = 0;
	rig.options.queue_limit_ms = 25000;
	rig.options.give_up_ms = 5000;
	rig_start_active(&rig);
	rig_submit(&rig, REQUEST_WRITE, 4 * row_sectors, 1, false);
	rig_submit(&rig, REQUEST_WRITE, 5 * row_sectors, 1, false);
	rig_drain(&rig);
	since_ms = rig.now_ms;
	rig_submit(&rig, REQUEST_WRITE, 1 * row_sectors - 1024, 2048, false);
	rig_submit(&rig, REQUEST_COMPARE_WRITE, 4 * row_sectors, 1, false);
	rig_submit(&rig, REQUEST_WRITE, 3 * row_sectors - 1024, 2048, false);
	rig_submit(&rig, REQUEST_COMPARE_WRITE, 5 * row_sectors, 1, false);
	rig_submit(&rig, REQUEST_WRITE, 7 * row_sectors - 8, 16, false);
	rig_drain(&rig);
	assert_int_equal(rig.failed, 0);
	assert_in_range(rig.now_ms - since_ms, 0, 10000);
	rig_stop(&rig);
	rig_free(&rig);
}

/* Nor do writes and zeros elsewhere begin again without end: one with pieces, zeros in a single
 * one, and a long range of them.
 */
static void
test_requests_of_several_pieces_end_beside_writes_that_fail(void **state)
{
	static const struct {
		enum request_op op;
		uint64_t bytes;
		bool fua;
	} requests[] = {
		{ REQUEST_WRITE, 1 << 20, false },
		{ REQUEST_ZERO, 1 << 18, true },
		{ REQUEST_ZERO, 3 << 19, false },
	};
	static uint8_t memory[1 << 20];
	struct iovec iov = { memory, sizeof(memory) };

	(void)state;
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		struct rig rig;
		struct engine_request request = {
			.op = requests[i].op,
			.offset_bytes = 0,
			.length_bytes = requests[i].bytes,
			.iov = &iov,
			.iov_count = 1,
			.done = note_result,
			.fua = requests[i].fua,
		};

		rig_init(&rig, 1, 2, CHUNK, 4ull << 20, 1710 + i);
		rig_start_active(&rig);
		submit_everywhere(&rig, REQUEST_WRITE, 128, 128);
		rig_drain(&rig);
		fake_member_cut(&rig.members[1], false);
		assert_true(rig_wait(&rig, VOLUME_DEGRADED, 20000));
		rig_steps(&rig, 3000);
		rig.errors_allowed = true;
		rig.step_ms_max = 1;
		set_deadline_of_all(&rig, 2000000);
		set_pace(&rig, 0, 20000);
		rig.members[0].refuse_from_bytes = DATA_OFFSET + 4096 * 512;
		rig.members[0].refuse_to_bytes = DATA_OFFSET + 8192 * 512;
		result_noted = 1;
		engine_submit(rig.engine, &request);
		for (int k = 0; k < 20000 && result_noted == 1; k++) {
			if (rig.active_count < 64)
				rig_submit(&rig, REQUEST_WRITE, 4096 + (uint64_t)k % 32 * 32, 8,
					   false);
			rig_step(&rig);
		}
		assert_int_equal(result_noted, 0);
		rig.members[0].refuse_to_bytes = 0;
		rig_drain(&rig);
		rig_stop(&rig);
		rig_free(&rig);
	}
}

static int reads_counted;

static enum tap_verdict
count_reads(struct tap *tap, const struct backend_io *io)
{
	(void)tap;
	reads_counted += io->op == BACKEND_READ;
	return TAP_PASS;
}

/* One copy refuses every read.  The first attempt meets that, the second finds out in which rows;
 * then nothing more is asked of it.
 */
static void
test_read_of_many_rows_goes_around_a_copy_that_refuses(void **state)
{
	struct rig rig;
	struct tap tap;

	(void)state;
	rig_init(&rig, 1, 3, 4096, 4ull << 20, 1720);
	set_pace_of_all(&rig, 200);
	tap_init(&tap, &rig.members[0]);
	rig_start_active(&rig);
	rig_wait_for_resync(&rig);
	submit_everywhere(&rig, REQUEST_WRITE, 128, 128);
	rig_drain(&rig);
	rig.members[0].refuse_reads = true;
	reads_counted = 0;
	tap.judge = count_reads;
	assert_int_equal(error_of_read(&rig, 256, 256), 0);
	assert_in_range(reads_counted, 1, 2 * 32 / 3 + 1);
	tap.judge = NULL;
	rig.members[0].refuse_reads = false;
	rig_drain(&rig);
	rig_stop(&rig);
	rig_free(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_a_member_refuses_to_read_is_not_called_lost),
		cmocka_unit_test(test_a_write_that_needs_what_is_refused_is_not_told_of_a_loss),
		cmocka_unit_test(test_what_is_refused_beside_a_bad_sector_is_made_up_for),
		cmocka_unit_test(test_a_write_that_failed_half_way_leaves_nothing_trusted),
		cmocka_unit_test(test_zeros_that_failed_half_way_leave_nothing_trusted),
		cmocka_unit_test(test_what_went_with_a_cache_is_written_again),
		cmocka_unit_test(test_a_write_beside_one_that_failed_is_known),
		cmocka_unit_test(test_what_was_never_written_reads_alike_from_all_copies),
		cmocka_unit_test(test_what_was_never_written_reads_alike_around_a_member),
		cmocka_unit_test(
			test_what_was_read_of_copies_that_differ_stays_when_a_member_is_filled),
		cmocka_unit_test(test_nothing_is_made_from_parity_that_is_suspect),
		cmocka_unit_test(test_nothing_is_made_from_what_was_read_before_caches_were_lost),
		cmocka_unit_test(test_reads_go_on_beside_writes_that_fail),
		cmocka_unit_test(
			test_reads_go_on_beside_writes_that_fail_while_a_member_is_replaced),
		cmocka_unit_test(test_compare_and_write_keeps_no_memory_from_who_was_before_it),
		cmocka_unit_test(test_requests_of_several_pieces_end_beside_writes_that_fail),
		cmocka_unit_test(test_read_of_many_rows_goes_around_a_copy_that_refuses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
