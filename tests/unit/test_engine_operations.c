/* test_engine_operations.c - what reads, writes and zeros promise when members fail in the midst of them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../simulation/rig.h"

#define CHUNK 16384u
#define CHUNK_SECTORS (CHUNK / RIG_SECTOR)
#define DATA_OFFSET (4u << 20)
#define LOAD_BYTES (2u << 20)

/* The whole load is written, all parity is proven, nothing is under way. */
static void
begin(struct rig *rig, int level, int count, uint64_t seed)
{
	rig_init(rig, level, count, CHUNK, LOAD_BYTES, seed);
	rig_start_active(rig);
	rig_submit(rig, REQUEST_WRITE, 0, rig->sectors, true);
	rig_drain(rig);
	rig_wait_for_resync(rig);
}

static void
end(struct rig *rig)
{
	rig_verify(rig);
	rig_stop(rig);
	rig_free(rig);
}

/* A medium error says that data is lost for good.  While one member refuses to read, and nothing else is wrong with it, its
 * data is not, even if another that it could be made from has a bad sector.
 */
static void
test_what_a_member_refuses_to_read_is_not_called_lost(void **state)
{
	static const struct { int level, count; } volumes[] = { { 5, 4 }, { 1, 2 } };

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
		end(&rig);
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
		end(&rig);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_a_member_refuses_to_read_is_not_called_lost),
		cmocka_unit_test(test_a_write_that_needs_what_is_refused_is_not_told_of_a_loss),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
