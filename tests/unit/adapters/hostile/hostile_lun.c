/* hostile_lun.c - see hostile_lun.h. */
#include "hostile_lun.h"

#include <stdbool.h>
#include <string.h>

#include "adapters/base/big_endian.h"
#include "hostile_target.h"
#include "pure/layout.h"

#define DATA_BYTE 0x11
#define ANSWER_BYTES 512

uint8_t lun_places[LUN_PLACES][LUN_PLACE_BYTES];
static const uint64_t places_at[LUN_PLACES] = { LAYOUT_SUPERBLOCK_A_OFFSET,
						LAYOUT_SUPERBLOCK_B_OFFSET };

static uint32_t
inquiry(const uint8_t *cdb, uint8_t *out)
{
	if (!(cdb[1] & 1)) {
		out[2] = 6;
		out[3] = 2;
		out[4] = 91;
		memset(out + 8, ' ', 28);
		memcpy(out + 8, "HOSTILE", 7);
		return 96;
	}
	out[1] = cdb[2];
	switch (cdb[2]) {
	case 0x80:
		out[3] = 8;
		memcpy(out + 4, "12345678", 8);
		return 12;
	case 0x83:
		out[3] = 12;
		out[4] = 1;
		out[5] = 3;
		out[7] = 8;
		out[8] = 0x60;
		return 16;
	case 0xb0:
		put_be16(out + 2, 60);
		put_be32(out + 8, 64);	/* blocks of a transfer */
		put_be64(out + 36, 65); /* of WRITE SAME */
		return 64;
	case 0xb2:
		out[3] = 4;
		out[5] = 0xe4;
		return 8;
	default:
		return 4;
	}
}

static uint32_t
capacity(bool ten, uint8_t *out)
{
	if (ten) {
		put_be32(out, hostile.blocks - 1);
		put_be32(out + 4, hostile.block_bytes);
		return 8;
	}
	put_be64(out, hostile.blocks - 1);
	put_be32(out + 8, hostile.block_bytes);
	out[14] = hostile.thin ? 0xc0 : 0;
	return 32;
}

static uint32_t
reservation(uint8_t *out)
{
	put_be32(out, 1);
	if (hostile.holder_key == 0)
		return 8;
	put_be32(out + 4, 16);
	put_be64(out + 8, hostile.holder_key);
	out[21] = 5;
	return 24;
}

static uint32_t
short_answer(const uint8_t *cdb, uint8_t *out)
{
	switch (cdb[0]) {
	case 0x12:
		return inquiry(cdb, out);
	case 0x25:
		return capacity(true, out);
	case 0x9e:
		return capacity(false, out);
	case 0x1a: /* MODE SENSE: FUA, a write cache */
		out[0] = 23;
		out[2] = 0x10;
		out[4] = 8;
		out[5] = 18;
		out[6] = 4;
		return 24;
	case 0x5e:
		return reservation(out);
	case 0xa0: /* LUNs 0 and 1 */
		put_be32(out, 16);
		out[17] = 1;
		return 24;
	default:
		return 0;
	}
}

static bool
is_read(uint8_t opcode)
{
	return opcode == 0x28 || opcode == 0x88;
}

static bool
is_write(uint8_t opcode)
{
	return opcode == 0x2a || opcode == 0x8a;
}

static uint64_t
start_of(const uint8_t *cdb)
{
	uint64_t block = cdb[0] >> 5 == 4 ? get_be64(cdb + 2) : get_be32(cdb + 2);

	return block * hostile.block_bytes;
}

/* The part of a place that a piece of the LUN has in common with it: where in the piece and in the
 * place, and how long; 0: none.
 */
static uint32_t
common(uint64_t start, uint32_t length, int place, uint32_t *in_piece, uint32_t *in_place)
{
	uint64_t begin = start > places_at[place] ? start : places_at[place];
	uint64_t end = places_at[place] + LUN_PLACE_BYTES;

	if (start + length < end)
		end = start + length;
	if (begin >= end)
		return 0;
	*in_piece = (uint32_t)(begin - start);
	*in_place = (uint32_t)(begin - places_at[place]);
	return (uint32_t)(end - begin);
}

static void
read_lun(uint64_t start, uint8_t *out, uint32_t length)
{
	uint32_t in_piece = 0, in_place = 0;

	memset(out, DATA_BYTE, length);
	for (int i = 0; i < LUN_PLACES; i++) {
		uint32_t part = common(start, length, i, &in_piece, &in_place);

		memcpy(out + in_piece, lun_places[i] + in_place, part);
	}
}

uint32_t
lun_answer(const uint8_t header[48], uint8_t *out, uint32_t room)
{
	uint32_t expected = get_be32(header + 20), length;
	uint8_t answer[ANSWER_BYTES] = { 0 };

	if (expected > room)
		expected = room;
	if (is_read(header[32])) {
		if (out != NULL)
			read_lun(start_of(header + 32), out, expected);
		return expected;
	}
	length = short_answer(header + 32, answer);
	if (length > expected)
		length = expected;
	if (out != NULL)
		memcpy(out, answer, length);
	return length;
}

static void
reserve(uint8_t action, const uint8_t *data)
{
	switch (action) {
	case 1: /* RESERVE, PREEMPT, PREEMPT AND ABORT */
	case 4:
	case 5:
		hostile.holder_key = get_be64(data);
		return;
	case 2: /* RELEASE, CLEAR */
	case 3:
		hostile.holder_key = 0;
		return;
	default:
		return;
	}
}

void
lun_sent(const uint8_t header[48], uint32_t offset, const uint8_t *data, uint32_t length)
{
	const uint8_t *cdb = header + 32;
	uint32_t in_piece = 0, in_place = 0;

	if (cdb[0] == 0x5f && length >= 24)
		reserve(cdb[1] & 0x1f, data);
	for (int i = 0; i < LUN_PLACES && is_write(cdb[0]); i++) {
		uint32_t part = common(start_of(cdb) + offset, length, i, &in_piece, &in_place);

		memcpy(lun_places[i] + in_place, data + in_piece, part);
	}
}
