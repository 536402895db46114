/* The on-disk codec: what is written reads back, what is damaged or absurd is refused, and the
 * bytes are at the offsets that docs/design/format.md promises.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pure/layout.h"

#define MIB (1024ull * 1024)
#define BLOCK_BYTES LAYOUT_MAP_BLOCK_BYTES

static struct superblock
sample(void)
{
	struct superblock superblock;

	memset(&superblock, 0, sizeof(superblock));
	superblock.write_count = 41;
	strcpy(superblock.name, "vol0");
	strcpy(superblock.owner, "gateway-a pid 123 (tcmu-runner)");
	superblock.level = 5;
	superblock.member_count = 4;
	superblock.role = 2;
	superblock.chunk_bytes = 65536;
	superblock.block_bytes = 512;
	superblock.member_bytes = 64 * MIB;
	superblock.epoch = 7;
	superblock.event = 0x0102030405060708ull;
	superblock.created_s = 1700000000;
	superblock.updated_s = 1700000001;
	superblock.resync_row = 3;
	superblock.rebuild_row = 4;
	superblock.scrub_row = 5;
	superblock.scrub_mode = SCRUB_REPAIR;
	superblock.scrub_running = true;
	superblock.scrub_mismatches = 0x1122334455667788ull;
	for (int i = 0; i < 16; i++)
		superblock.volume_uuid[i] = (uint8_t)(0xf0 + i);
	for (int i = 0; i < 4; i++) {
		memset(superblock.member_uuids[i], 0x10 + i, 16);
		superblock.member_states[i] = (uint8_t)(1 + i % 3);
	}
	memcpy(superblock.member_uuid, superblock.member_uuids[2], 16);
	superblock.tracked[1] = (struct tracked_member){ .role = 1, .state = MEMBER_OUT_OF_DATE };
	memcpy(superblock.tracked[1].member_uuid, superblock.member_uuids[1], 16);
	superblock.tracked[3] = (struct tracked_member){ .role = 2, .state = MEMBER_REBUILDING };
	memset(superblock.tracked[3].member_uuid, 0x77, 16);
	assert_int_equal(layout_compute(64 * MIB, 65536, superblock.areas, &superblock.data_bytes,
					&superblock.region_rows),
			 0);
	return superblock;
}

static void
reseal(uint8_t *bytes)
{
	memset(bytes + 8, 0, 4);
	uint32_t crc = crc32c(0, bytes, LAYOUT_SUPERBLOCK_BYTES);
	for (int i = 0; i < 4; i++)
		bytes[8 + i] = (uint8_t)(crc >> (8 * i));
}

static void
test_crc32c_has_the_published_check_values(void **state)
{
	uint8_t zeros[32] = { 0 };

	assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283u);
	assert_int_equal(crc32c(0, zeros, 32), 0x8a9136aau); /* RFC 7143, appendix A.4 */
	assert_int_equal(crc32c(0, "", 0), 0);
	assert_int_equal(crc32c(crc32c(0, "1234", 4), "56789", 5), 0xe3069283u);
}

static void
test_superblock_reads_back_as_written(void **state)
{
	struct superblock written = sample(), read;
	uint8_t bytes[LAYOUT_SUPERBLOCK_BYTES];
	const char *reason;

	superblock_encode(&written, bytes);
	assert_int_equal(superblock_decode(bytes, &read, &reason), SUPERBLOCK_OK);
	assert_string_equal(reason, "");
	assert_memory_equal(&read, &written, sizeof(read));

	written.clean = true;
	memset(written.owner, 0, sizeof(written.owner));
	written.features_compat = 0x8000000000000001ull; /* carried along */
	superblock_encode(&written, bytes);
	assert_int_equal(superblock_decode(bytes, &read, NULL), SUPERBLOCK_OK);
	assert_memory_equal(&read, &written, sizeof(read));
}

/* The numbers here are those of format.md; a change of them is a change of the format. */
static void
test_fields_stand_where_the_reference_says(void **state)
{
	static const uint8_t zeros[LAYOUT_SUPERBLOCK_BYTES - 1696];
	struct superblock superblock = sample();
	uint8_t bytes[LAYOUT_SUPERBLOCK_BYTES];

	superblock.write_counts[2] = 0x1234;
	superblock.tracked[3].write_count = 0x56;
	superblock_encode(&superblock, bytes);
	assert_memory_equal(bytes, "IRAID-SB", 8);
	assert_memory_equal(bytes + 12, "\x01\0\0\0", 4);
	assert_memory_equal(bytes + 40, "\x29\0\0\0\0\0\0\0", 8);
	assert_memory_equal(bytes + 48, superblock.volume_uuid, 16);
	assert_string_equal((char *)bytes + 80, "vol0");
	assert_memory_equal(bytes + 144, "\x05\x04\x02\x00\x00\x00\x01\x00", 8);
	assert_memory_equal(bytes + 184, "\x08\x07\x06\x05\x04\x03\x02\x01", 8);
	assert_string_equal((char *)bytes + 256, superblock.owner);
	assert_memory_equal(bytes + 384 + 3 * 24, "\x04\0\0\0\0\0\0\0\0\0\x40\0\0\0\0\0", 16);
	assert_memory_equal(bytes + 768, superblock.member_uuids, 64);
	assert_memory_equal(bytes + 1280, superblock.member_states, 4);
	assert_memory_equal(bytes + 232, "\x02\x01\0\0\0\0\0\0\x88\x77\x66\x55\x44\x33\x22\x11",
			    16);
	assert_memory_equal(bytes + 1312, zeros, 24);
	assert_memory_equal(bytes + 1336, superblock.member_uuids[1], 16);
	assert_memory_equal(bytes + 1352, "\x01\x05\0\0\0\0\0\0", 8);
	assert_memory_equal(bytes + 1360, zeros, 24);
	assert_memory_equal(bytes + 1384, superblock.tracked[3].member_uuid, 16);
	assert_memory_equal(bytes + 1400, "\x02\x04\0\0\0\0\0\0", 8);
	assert_memory_equal(bytes + 1408, zeros, 16);
	assert_memory_equal(bytes + 1408 + 16, "\x34\x12\0\0\0\0\0\0", 8);
	assert_memory_equal(bytes + 1432, zeros, 232 + 24);
	assert_memory_equal(bytes + 1664 + 24, "\x56\0\0\0\0\0\0\0", 8);
	assert_memory_equal(bytes + 1696, zeros, sizeof(zeros));
}

/* One that is being filled has not got its place yet: it is known by its set. */
static void
test_a_target_of_a_rebuild_has_a_superblock_of_its_own(void **state)
{
	struct superblock target = sample(), read;
	uint8_t bytes[LAYOUT_SUPERBLOCK_BYTES];

	memcpy(target.member_uuid, target.tracked[3].member_uuid, 16);
	assert_null(superblock_fault(&target));
	superblock_encode(&target, bytes);
	assert_int_equal(superblock_decode(bytes, &read, NULL), SUPERBLOCK_OK);
	assert_memory_equal(&read, &target, sizeof(read));
	/* tracked for another role, or no more: nobody knows it */
	target.role = 1;
	assert_non_null(superblock_fault(&target));
	target.role = 2;
	target.tracked[3].state = 0;
	assert_non_null(superblock_fault(&target));
}

/* What stands in a set that is free means nothing, and is not carried along. */
static void
test_free_sets_read_as_zeros(void **state)
{
	struct superblock superblock = sample(), read;
	uint8_t bytes[LAYOUT_SUPERBLOCK_BYTES];

	superblock_encode(&superblock, bytes);
	memset(bytes + 1312, 0xee, 17);
	reseal(bytes);
	assert_int_equal(superblock_decode(bytes, &read, NULL), SUPERBLOCK_OK);
	assert_memory_equal(&read, &superblock, sizeof(read));
	memset(superblock.tracked[0].member_uuid, 0xee, 16);
	superblock_encode(&superblock, bytes);
	assert_int_equal(bytes[1312], 0);
}

static void
test_every_flipped_bit_is_found(void **state)
{
	struct superblock superblock = sample(), read;
	uint8_t bytes[LAYOUT_SUPERBLOCK_BYTES];

	superblock_encode(&superblock, bytes);
	for (unsigned int bit = 0; bit < 8 * LAYOUT_SUPERBLOCK_BYTES; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		enum superblock_verdict verdict = superblock_decode(bytes, &read, NULL);
		if (verdict != (bit < 64 ? SUPERBLOCK_ABSENT : SUPERBLOCK_CORRUPT))
			fail_msg("bit %u flipped: verdict %d", bit, verdict);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

static void
test_decode_reads_nothing_beyond_its_block(void **state)
{
	long page = sysconf(_SC_PAGESIZE);
	uint8_t *pages = mmap(NULL, 2 * (size_t)page, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct superblock superblock = sample(), read;
	uint8_t flags[8];

	assert_ptr_not_equal(pages, MAP_FAILED);
	assert_int_equal(mprotect(pages + page, (size_t)page, PROT_NONE), 0);
	uint8_t *block = pages + page - LAYOUT_SUPERBLOCK_BYTES;
	superblock_encode(&superblock, block);
	assert_int_equal(superblock_decode(block, &read, NULL), SUPERBLOCK_OK);
	map_block_encode(flags, 8, 0, 1, superblock.volume_uuid, block);
	assert_int_equal(map_block_decode(block, 8, 0, superblock.volume_uuid, flags), 0);
	munmap(pages, 2 * (size_t)page);
}

#define FAULTS(X)                                                                                  \
	X(level, level = 4)                                                                        \
	X(too_few_members, member_count = 2)                                                       \
	X(no_members, member_count = 0)                                                            \
	X(too_many_members, member_count = 33)                                                     \
	X(role, role = 4)                                                                          \
	X(chunk, chunk_bytes = 65535)                                                              \
	X(chunk_too_large, chunk_bytes = 2 << 20)                                                  \
	X(chunk_zero, chunk_bytes = 0)                                                             \
	X(block, block_bytes = 1024)                                                               \
	X(region_rows_zero, region_rows = 0)                                                       \
	X(region_rows_odd, region_rows = 96)                                                       \
	X(member_small, member_bytes = 8 * MIB)                                                    \
	X(member_smaller_than_areas, member_bytes = 63 * MIB)                                      \
	X(member_huge, member_bytes = UINT64_MAX)                                                  \
	X(data_uneven, data_bytes -= 512)                                                          \
	X(data_zero, data_bytes = 0)                                                               \
	X(data_beyond_area, data_bytes += 65536)                                                   \
	X(data_huge, data_bytes = UINT64_MAX - 65535)                                              \
	X(resync_row, resync_row = 961)                                                            \
	X(rebuild_row, rebuild_row = UINT64_MAX)                                                   \
	X(scrub_row, scrub_row = 961)                                                              \
	X(scrub_mode, scrub_mode = 3)                                                              \
	X(tracked_state, tracked[0].state = MEMBER_IN_SYNC)                                        \
	X(tracked_missing, tracked[1].state = MEMBER_MISSING)                                      \
	X(tracked_spare, tracked[1].state = MEMBER_SPARE)                                          \
	X(tracked_unknown, tracked[3].state = 0xff)                                                \
	X(tracked_role, tracked[3].role = 4)                                                       \
	X(tracked_in_another_place, tracked[1].role = 0)                                           \
	X(name_empty, name[0] = '\0')                                                              \
	X(name_control, name[1] = '\n')                                                            \
	X(name_high, name[1] = (char)0xe4)                                                         \
	X(owner_control, owner[0] = 0x1b)                                                          \
	X(uuid_of_another_role, member_uuid[0] ^= 1)                                               \
	X(state_zero, member_states[3] = 0)                                                        \
	X(state_unknown, member_states[0] = 4)                                                     \
	X(area_type, areas[1].type = 9)                                                            \
	X(area_type_twice, areas[1].type = AREA_MAP)                                               \
	X(map_moved, areas[0].offset_bytes = 0)                                                    \
	X(map_short, areas[0].length_bytes = 4096)                                                 \
	X(log_over_map, areas[1].offset_bytes = MIB)                                               \
	X(log_unaligned, areas[1].offset_bytes += 512)                                             \
	X(log_empty, areas[1].length_bytes = 0)                                                    \
	X(log_uneven, areas[1].length_bytes = 512)                                                 \
	X(checksums_over_log, areas[2].offset_bytes = 2 * MIB)                                     \
	X(checksums_short, areas[2].length_bytes = 61439)                                          \
	X(data_over_checksums, areas[3].offset_bytes = 3 * MIB)                                    \
	X(data_beyond_member, areas[3].length_bytes += 1)                                          \
	X(data_offset_wraps, areas[3].offset_bytes = 0 - MIB)                                      \
	X(data_length_wraps, areas[3].length_bytes = UINT64_MAX)                                   \
	X(more_checksums_in_data, areas[4] = ((struct area){ AREA_MORE_CHECKSUMS, 4 * MIB, MIB })) \
	X(more_checksums_beyond_member,                                                            \
	  areas[4] = ((struct area){ AREA_MORE_CHECKSUMS, 64 * MIB, MIB }))                        \
	X(more_checksums_empty, areas[4] = ((struct area){ AREA_MORE_CHECKSUMS, 64 * MIB, 0 }))    \
	X(fifth_of_another_type, areas[4] = ((struct area){ 6, 64 * MIB, MIB }))                   \
	X(log_unflagged, log_key = 1)                                                              \
	X(log_roles, log_roles = 1)                                                                \
	X(log_proven, log_proven = true)                                                           \
	X(log_unkeyed, features_incompat = LAYOUT_INCOMPAT_LOG)                                    \
	X(ro_compat, features_ro_compat = 1)                                                       \
	X(incompat, features_incompat = 1ull << 63)

static void
test_absurd_superblocks_have_a_fault(void **state)
{
	struct superblock superblock = sample();

	assert_null(superblock_fault(&superblock));
#define CHECK_FAULT(what, change)                                                                  \
	superblock = sample();                                                                     \
	superblock.change;                                                                         \
	if (!superblock_fault(&superblock))                                                        \
		fail_msg("%s was not found", #what);
	FAULTS(CHECK_FAULT)

	superblock = sample();
	superblock.log_key = 1;
	superblock.features_incompat = LAYOUT_INCOMPAT_LOG;
	superblock.clean = false;
	assert_null(superblock_fault(&superblock));
	superblock.clean = true;
	assert_non_null(superblock_fault(&superblock));
	superblock.clean = false;
	superblock.level = 10;
	assert_non_null(superblock_fault(&superblock));
	superblock = sample();
	memset(superblock.name, 'x', sizeof(superblock.name));
	assert_non_null(superblock_fault(&superblock));
	superblock = sample();
	memset(superblock.owner, 'x', sizeof(superblock.owner));
	assert_non_null(superblock_fault(&superblock));
	superblock = sample();
	memcpy(superblock.member_uuids[0], superblock.member_uuids[1], 16);
	assert_non_null(superblock_fault(&superblock));
	superblock = sample();
	superblock.tracked[0] = superblock.tracked[1];
	assert_string_equal(superblock_fault(&superblock), "a member is tracked twice");
	superblock.tracked[1].state = 0;
	assert_null(superblock_fault(&superblock));
	/* whatever stands behind the last UUID is no member's */
	superblock = sample();
	superblock.role = superblock.member_count;
	memset(superblock.member_uuid, 0, sizeof(superblock.member_uuid));
	assert_string_equal(superblock_fault(&superblock),
			    "the member's role is not below the number of members");
	/* chunk 4 KiB: 4 Mi regions of 64 rows */
	superblock = sample();
	superblock.chunk_bytes = 4096;
	superblock.member_bytes = 2ull << 40;
	superblock.data_bytes = 1ull << 40;
	superblock.areas[2].length_bytes = 1024 * MIB;
	superblock.areas[3].offset_bytes = 2048 * MIB;
	superblock.areas[3].length_bytes = 1ull << 40;
	assert_string_equal(superblock_fault(&superblock),
			    "there are more regions than the map can hold");
	superblock.region_rows = 1024;
	assert_null(superblock_fault(&superblock));
	/* regions of any power of two of rows, as long as the map holds them */
	superblock = sample();
	for (superblock.region_rows = 1; superblock.region_rows < 1u << 31;
	     superblock.region_rows *= 2)
		assert_null(superblock_fault(&superblock));
}

/* With a right CRC: a bug of a writer, or somebody's work. */
static void
test_sealed_but_absurd_bytes_are_refused(void **state)
{
	static const struct {
		size_t at;
		uint8_t value;
		enum superblock_verdict verdict;
	} changes[] = {
		{ 12, 0, SUPERBLOCK_CORRUPT }, /* version 0 */
		{ 12, 2, SUPERBLOCK_UNSUPPORTED },
		{ 15, 1, SUPERBLOCK_UNSUPPORTED },
		{ 16, 1, SUPERBLOCK_OK },	      /* compat */
		{ 24, 1, SUPERBLOCK_UNSUPPORTED },    /* ro_compat */
		{ 39, 0x80, SUPERBLOCK_UNSUPPORTED }, /* incompat */
		{ 143, 'x', SUPERBLOCK_OK },	      /* behind the name's NUL */
		{ 145, 200, SUPERBLOCK_CORRUPT },
		{ 147, 2, SUPERBLOCK_CORRUPT }, /* unknown volume flag */
		{ 151, 0x80, SUPERBLOCK_CORRUPT },
		{ 232, 3, SUPERBLOCK_CORRUPT }, /* kind of scrub */
		{ 233, 2, SUPERBLOCK_CORRUPT },
		{ 234, 1, SUPERBLOCK_OK },	/* reserved */
		{ 320, 5, SUPERBLOCK_CORRUPT }, /* areas */
		{ 384, 2, SUPERBLOCK_CORRUPT },
		{ 1283, 0, SUPERBLOCK_CORRUPT },
		{ 1290, 0x77, SUPERBLOCK_OK },	 /* state of a member that isn't there */
		{ 1312 + 17, 4, SUPERBLOCK_OK }, /* a set: UUID 0 is as good as any */
		{ 1312 + 17, 7, SUPERBLOCK_CORRUPT },
		{ 1336 + 16, 0, SUPERBLOCK_CORRUPT }, /* role 1's member, for role 0 */
		{ 1336 + 18, 9, SUPERBLOCK_OK },      /* reserved */
		{ 4095, 1, SUPERBLOCK_OK },	      /* reserved */
	};
	struct superblock superblock = sample(), read, before;
	uint8_t bytes[LAYOUT_SUPERBLOCK_BYTES];
	const char *reason;

	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		superblock_encode(&superblock, bytes);
		bytes[changes[i].at] = changes[i].value;
		reseal(bytes);
		memset(&read, 0x5a, sizeof(read));
		before = read;
		enum superblock_verdict verdict = superblock_decode(bytes, &read, &reason);
		if (verdict != changes[i].verdict)
			fail_msg("byte %zu = %u: verdict %d (%s)", changes[i].at, changes[i].value,
				 verdict, reason);
		if (verdict != SUPERBLOCK_OK) {
			assert_memory_equal(&read, &before, sizeof(read));
			assert_true(reason[0] != '\0');
		} else {
			assert_int_equal(read.member_states[10], 0);
		}
	}
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(superblock_decode(bytes, &read, &reason), SUPERBLOCK_ABSENT);
}

static void
test_newer_valid_copy_is_chosen(void **state)
{
	struct superblock superblock = sample(), chosen;
	uint8_t older[LAYOUT_SUPERBLOCK_BYTES], newer[LAYOUT_SUPERBLOCK_BYTES];
	uint8_t zeros[LAYOUT_SUPERBLOCK_BYTES] = { 0 };
	const char *reason;

	superblock_encode(&superblock, older);
	superblock.write_count = 42;
	superblock_encode(&superblock, newer);

	assert_int_equal(superblock_choose(older, newer, &chosen, &reason), SUPERBLOCK_OK);
	assert_int_equal(chosen.write_count, 42);
	assert_int_equal(superblock_choose(newer, older, &chosen, NULL), SUPERBLOCK_OK);
	assert_int_equal(chosen.write_count, 42);

	assert_int_equal(superblock_choose(older, zeros, &chosen, NULL), SUPERBLOCK_OK);
	assert_int_equal(chosen.write_count, 41);
	newer[2000] ^= 1; /* torn */
	assert_int_equal(superblock_choose(newer, older, &chosen, NULL), SUPERBLOCK_OK);
	assert_int_equal(chosen.write_count, 41);

	assert_int_equal(superblock_choose(newer, newer, &chosen, &reason), SUPERBLOCK_CORRUPT);
	assert_int_equal(superblock_choose(newer, zeros, &chosen, &reason), SUPERBLOCK_CORRUPT);
	assert_int_equal(superblock_choose(zeros, newer, &chosen, &reason), SUPERBLOCK_CORRUPT);
	assert_string_equal(reason, "the checksum is wrong");
	assert_int_equal(superblock_choose(zeros, zeros, &chosen, &reason), SUPERBLOCK_ABSENT);
}

static void
test_copies_that_contradict_are_not_guessed_at(void **state)
{
	struct superblock superblock = sample(), chosen;
	uint8_t ours[LAYOUT_SUPERBLOCK_BYTES], other[LAYOUT_SUPERBLOCK_BYTES];
	const char *reason;

	superblock_encode(&superblock, ours);
	superblock.volume_uuid[0] ^= 1;
	superblock_encode(&superblock, other);
	assert_int_equal(superblock_choose(ours, other, &chosen, &reason), SUPERBLOCK_CORRUPT);

	superblock = sample();
	superblock.role = 1;
	memcpy(superblock.member_uuid, superblock.member_uuids[1], 16);
	superblock_encode(&superblock, other);
	assert_int_equal(superblock_choose(ours, other, &chosen, &reason), SUPERBLOCK_CORRUPT);

	superblock_encode(&superblock, other);
	other[32] = 2; /* an incompatible feature was switched on in the newer copy */
	reseal(other);
	assert_int_equal(superblock_choose(ours, other, &chosen, &reason), SUPERBLOCK_UNSUPPORTED);
	assert_int_equal(superblock_choose(other, ours, &chosen, &reason), SUPERBLOCK_UNSUPPORTED);
}

static void
test_copies_alternate(void **state)
{
	assert_int_equal(superblock_offset(0), 8192);
	assert_int_equal(superblock_offset(1), 524288);
	assert_int_equal(superblock_offset(2), 8192);
	assert_int_equal(superblock_offset(UINT64_MAX), 524288);
}

static void
test_areas_are_as_large_as_worked_out_by_hand(void **state)
{
	static const struct {
		uint64_t member_mib, log_mib, checksums_mib, data_mib;
		uint32_t chunk_bytes, region_rows;
	} known[] = {
		{ 16, 1, 1, 12, 65536, 64 },
		{ 64, 1, 1, 60, 65536, 64 },
		{ 1024, 4, 1, 1017, 4096, 64 },
		{ 1024 * 1024, 256, 1023, 1047295, 65536, 128 },
		{ 16 * 1024 * 1024, 256, 16368, 16760590, 65536, 2048 },
	};
	struct area areas[LAYOUT_AREAS];
	uint64_t data_bytes;
	uint32_t region_rows;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		assert_int_equal(layout_compute(known[i].member_mib * MIB, known[i].chunk_bytes,
						areas, &data_bytes, &region_rows),
				 0);
		assert_int_equal(areas[AREA_MAP - 1].offset_bytes, MIB);
		assert_int_equal(areas[AREA_LOG - 1].length_bytes / MIB, known[i].log_mib);
		assert_int_equal(areas[AREA_CHECKSUMS - 1].length_bytes / MIB,
				 known[i].checksums_mib);
		assert_int_equal(areas[AREA_DATA - 1].length_bytes / MIB, known[i].data_mib);
		assert_int_equal(data_bytes, areas[AREA_DATA - 1].length_bytes);
		assert_int_equal(region_rows, known[i].region_rows);
	}
	/* 131072 regions of 64 rows are what a new volume may have; one row more needs larger ones
	 */
	assert_int_equal(layout_compute(32931 * MIB, 4096, areas, &data_bytes, &region_rows), 0);
	assert_int_equal(data_bytes / 4096, 131072 * 64);
	assert_int_equal(region_rows, 64);
	assert_int_equal(layout_compute(32931 * MIB + 4096, 4096, areas, &data_bytes, &region_rows),
			 0);
	assert_int_equal(data_bytes / 4096, 131072 * 64 + 1);
	assert_int_equal(region_rows, 128);
	assert_int_equal(layout_compute(16 * MIB - 1, 65536, areas, &data_bytes, &region_rows),
			 -ENOSPC);
	assert_int_equal(layout_compute(0, 65536, areas, &data_bytes, &region_rows), -ENOSPC);
}

/* The largest volume that members can make: 32 of them, of the largest size and the smallest chunk.
 */
static void
test_regions_of_any_volume_fit_the_map(void **state)
{
	struct area areas[LAYOUT_AREAS];
	struct geometry geometry;
	uint64_t data_bytes;
	uint32_t region_rows;

	assert_int_equal(layout_compute(INT64_MAX, 4096, areas, &data_bytes, &region_rows), 0);
	assert_int_equal(geometry_init(&geometry, 10, 32, 4096, 512, data_bytes), 0);
	region_rows = layout_region_rows(geometry.rows, 0);
	assert_true(region_rows > 0);
	assert_true(geometry.rows / region_rows < LAYOUT_REGIONS_MAX);
}

static void
test_grown_areas_are_as_large_as_worked_out_by_hand(void **state)
{
	static const struct {
		uint64_t before_mib, after_mib, data_mib, more_offset_mib, more_mib;
	} known[] = {
		{ 64, 64, 60, 0, 0 },
		{ 64, 1024, 1020, 0, 0 }, /* the first MiB of checksums is of 1 GiB of data */
		{ 64, 1028, 1024, 0, 0 },
		{ 64, 1029, 1024, 0, 0 }, /* not a MiB for one of checksums */
		{ 64, 1030, 1025, 1029, 1 },
		{ 64, 1024 * 1024, 1047550, 1047554, 1022 },
		{ 1024, 2048, 2040, 2047, 1 },
	};
	struct area before[LAYOUT_AREAS], after[LAYOUT_AREAS], again[LAYOUT_AREAS];
	uint64_t data_bytes;
	uint32_t region_rows;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		layout_compute(known[i].before_mib * MIB, 65536, before, &data_bytes, &region_rows);
		layout_grow(before, known[i].after_mib * MIB, 65536, UINT64_MAX, after,
			    &data_bytes);
		assert_memory_equal(before, after, AREA_CHECKSUMS * sizeof(struct area));
		assert_int_equal(after[AREA_DATA - 1].offset_bytes,
				 before[AREA_DATA - 1].offset_bytes);
		assert_int_equal(after[AREA_DATA - 1].length_bytes, data_bytes);
		assert_int_equal(data_bytes / MIB, known[i].data_mib);
		assert_int_equal(after[AREA_MORE_CHECKSUMS - 1].offset_bytes / MIB,
				 known[i].more_offset_mib);
		assert_int_equal(after[AREA_MORE_CHECKSUMS - 1].length_bytes / MIB,
				 known[i].more_mib);
		/* What it was before does not matter: again gives the same. */
		layout_grow(after, known[i].after_mib * MIB, 65536, UINT64_MAX, again, &data_bytes);
		assert_memory_equal(after, again, sizeof(after));
	}
	layout_grow(before, 4096 * MIB, 65536, 100, after, &data_bytes);
	assert_int_equal(data_bytes, 100 * 65536);
	layout_grow(before, 4 * MIB, 65536, UINT64_MAX, after, &data_bytes);
	assert_int_equal(data_bytes, 0);
}

static void
test_rows_per_region_are_as_wanted_if_the_map_holds_them(void **state)
{
	static const struct {
		uint64_t rows;
		uint32_t wanted, expected;
	} known[] = {
		{ 1, 1, 1 },
		{ 960, 0, 64 },
		{ 960, 1, 1 },
		{ 960, 3, 4 },
		{ 960, 64, 64 },
		{ 960, 65, 128 },
		{ 960, 1u << 31, 1u << 31 },
		{ 960, UINT32_MAX, 1u << 31 },
		{ 131072, 1, 1 },
		{ 131073, 1, 2 },
		{ 262144, 2, 2 },
		{ 262145, 2, 4 },
		{ 1ull << 46, 1, 1u << 29 },
		{ (1ull << 46) + 1, 0, 1u << 30 },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		assert_int_equal(layout_region_rows(known[i].rows, known[i].wanted),
				 known[i].expected);
}

static void
test_map_reads_back_and_keeps_blocks_apart(void **state)
{
	enum { REGIONS = 2 * LAYOUT_REGIONS_PER_BLOCK + 777 };
	static uint8_t written[REGIONS], read[REGIONS];
	const uint8_t uuid[16] = { 1, 2, 3 };
	uint8_t block[BLOCK_BYTES];

	for (int i = 0; i < REGIONS; i++)
		written[i] = (uint8_t)(i * 7 % 64);
	memset(read, 0xee, sizeof(read));
	for (uint32_t b = 0; b < 3; b++) {
		map_block_encode(written, REGIONS, b, 5, uuid, block);
		assert_int_equal(map_block_decode(block, REGIONS, b, uuid, read), 0);
		uint32_t done = (b + 1) * LAYOUT_REGIONS_PER_BLOCK;
		if (done < REGIONS)
			assert_int_equal(read[done], 0xee);
	}
	assert_memory_equal(read, written, REGIONS);
	assert_memory_equal(block + 4, "\x05\0\0\0\0\0\0\0", 8);
	assert_int_equal(block[1 * 512 + 12 + 276], written[2 * LAYOUT_REGIONS_PER_BLOCK + 776]);
	assert_int_equal(block[1 * 512 + 12 + 277], 0);
}

static void
test_damaged_granules_count_as_dirty_and_stale(void **state)
{
	static uint8_t written[LAYOUT_REGIONS_PER_BLOCK], read[LAYOUT_REGIONS_PER_BLOCK];
	const uint8_t uuid[16] = { 1 }, other_uuid[16] = { 2 };
	uint8_t block[BLOCK_BYTES];

	map_block_encode(written, LAYOUT_REGIONS_PER_BLOCK, 0, 5, uuid, block);
	for (unsigned int bit = 0; bit < 8 * LAYOUT_GRANULE_BYTES; bit += 3) {
		block[512 + bit / 8] ^= (uint8_t)(1 << bit % 8);
		memset(read, 0xee, sizeof(read));
		assert_int_equal(map_block_decode(block, sizeof(read), 0, uuid, read), 1);
		assert_false(map_granule_valid(block + 512, 1, uuid));
		assert_true(map_granule_valid(block + 1024, 2, uuid));
		for (uint32_t i = 0; i < LAYOUT_REGIONS_PER_BLOCK; i++)
			assert_int_equal(read[i], i / LAYOUT_GRANULE_REGIONS == 1
							  ? REGION_DIRTY | REGION_STALE_ANY
							  : 0);
		block[512 + bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	/* of another volume, of another place, never written */
	assert_int_equal(map_block_decode(block, LAYOUT_REGIONS_PER_BLOCK, 0, other_uuid, read), 8);
	assert_int_equal(map_block_decode(block, 600, 0, other_uuid, read), 2);
	static uint8_t map[2 * LAYOUT_REGIONS_PER_BLOCK];
	assert_int_equal(map_block_decode(block, sizeof(map), 1, uuid, map), 8);
	memset(block, 0, sizeof(block));
	assert_int_equal(map_block_decode(block, LAYOUT_REGIONS_PER_BLOCK, 0, uuid, read), 8);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_crc32c_has_the_published_check_values),
		cmocka_unit_test(test_superblock_reads_back_as_written),
		cmocka_unit_test(test_fields_stand_where_the_reference_says),
		cmocka_unit_test(test_a_target_of_a_rebuild_has_a_superblock_of_its_own),
		cmocka_unit_test(test_free_sets_read_as_zeros),
		cmocka_unit_test(test_every_flipped_bit_is_found),
		cmocka_unit_test(test_decode_reads_nothing_beyond_its_block),
		cmocka_unit_test(test_absurd_superblocks_have_a_fault),
		cmocka_unit_test(test_sealed_but_absurd_bytes_are_refused),
		cmocka_unit_test(test_newer_valid_copy_is_chosen),
		cmocka_unit_test(test_copies_that_contradict_are_not_guessed_at),
		cmocka_unit_test(test_copies_alternate),
		cmocka_unit_test(test_areas_are_as_large_as_worked_out_by_hand),
		cmocka_unit_test(test_regions_of_any_volume_fit_the_map),
		cmocka_unit_test(test_grown_areas_are_as_large_as_worked_out_by_hand),
		cmocka_unit_test(test_rows_per_region_are_as_wanted_if_the_map_holds_them),
		cmocka_unit_test(test_map_reads_back_and_keeps_blocks_apart),
		cmocka_unit_test(test_damaged_granules_count_as_dirty_and_stale),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
