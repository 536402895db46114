/* Feeds arbitrary bytes to what decodes a record of the write log.
 *
 * Input: one byte that says how, then the header.  With bit 0 its CRC is made right first, or nothing
 * behind it would ever be reached; the other bits choose the volume.
 */
#include "../fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "pure/layout.h"
#include "pure/log_record.h"

static const uint8_t volume_uuid[16] = { 7, 7, 7 };
#define KEY 0x1122334455667788ull

static void
seal(uint8_t *block)
{
	uint32_t crc;

	memcpy(block, "IRAID-LG", 8);
	memset(block + 8, 0, 4);
	memcpy(block + 12, &(uint32_t){ 1 }, 4);
	memcpy(block + 16, volume_uuid, sizeof(volume_uuid));
	memcpy(block + 32, &(uint64_t){ KEY }, 8);
	crc = crc32c(0, block, LOG_BLOCK_BYTES);
	for (int i = 0; i < 4; i++)
		block[8 + i] = (uint8_t)(crc >> (8 * i));
}

static void
volume_of(uint8_t how, struct geometry *geometry)
{
	static const int levels[] = { 5, 6, 1, 10 };

	fuzz_require(geometry_init(geometry, levels[how >> 1 & 3], 4, 65536, how & 8 ? 4096 : 512,
				   64u << 20) == 0,
		     "no volume");
}

static bool
are_equal(const struct log_piece *a, const struct log_piece *b, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		if (a[i].row != b[i].row || a[i].column_bytes != b[i].column_bytes ||
		    a[i].length_bytes != b[i].length_bytes || a[i].role != b[i].role ||
		    a[i].kind != b[i].kind)
			return false;
	return true;
}

/* Whatever is accepted can be written and read again. */
static void
check_accepted(const struct log_header *header, const struct log_piece *pieces,
	       const struct geometry *geometry)
{
	uint8_t *payload = calloc(header->payload_blocks + 1u, LOG_BLOCK_BYTES);
	uint8_t *again = malloc(LOG_BLOCK_BYTES);
	struct iovec iov = { payload, 0 };
	struct log_piece read[LOG_PIECES_MAX];
	struct log_header decoded;
	uint32_t written, found;

	fuzz_require(payload && again, "no memory");
	for (unsigned int i = 0; i < header->piece_count; i++)
		iov.iov_len += pieces[i].length_bytes;
	fuzz_require(log_fault(header, pieces, geometry) == NULL, "accepted with a fault");
	written = log_encode(header, pieces, geometry, &iov, 1, again);
	fuzz_require(log_decode(again, volume_uuid, KEY, geometry, &decoded, read, &found) ==
			     LOG_RECORD,
		     "does not read back");
	fuzz_require(found == written && decoded.sequence == header->sequence &&
			     are_equal(read, pieces, header->piece_count),
		     "reads back changed");
	fuzz_require(log_payload_is_whole(again, payload), "its payload is not its own");
	free(payload);
	free(again);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *block = calloc(1, LOG_BLOCK_BYTES); /* on the heap: ASan sees its end */
	struct log_piece pieces[LOG_PIECES_MAX];
	struct log_header header;
	struct geometry geometry;
	uint32_t digest;

	fuzz_require(block, "no memory");
	if (size > 0) {
		const uint8_t how = data[0];

		volume_of(how, &geometry);
		memcpy(block, data + 1,
		       size - 1 < LOG_BLOCK_BYTES ? size - 1 : (size_t)LOG_BLOCK_BYTES);
		if (how & 1)
			seal(block);
		if (log_decode(block, volume_uuid, KEY, &geometry, &header, pieces, &digest) ==
		    LOG_RECORD)
			check_accepted(&header, pieces, &geometry);
	}
	free(block);
	return 0;
}

/* --- inputs --- */

static struct log_piece
make_zero_rows(const struct geometry *geometry)
{
	const uint32_t row = fuzz_below((uint32_t)geometry->rows);
	const uint32_t most = (uint32_t)geometry->rows - row;

	return (struct log_piece){
		.row = row,
		.column_bytes = 1 + fuzz_below(fuzz_below(4) && most > 9 ? 9 : most),
		.kind = LOG_PIECE_ZERO_ROWS,
	};
}

static struct log_piece
make_piece(const struct geometry *geometry)
{
	const uint32_t block = geometry->block_bytes, blocks = geometry->chunk_bytes / block;
	struct log_piece piece = {
		.row = fuzz_below((uint32_t)geometry->rows),
		.column_bytes = fuzz_below(blocks) * block,
		.kind = LOG_PIECE_WRITTEN,
	};
	const uint8_t position = (uint8_t)fuzz_below(geometry->width);

	piece.role = geometry_role(geometry, piece.row, position);
	piece.length_bytes = block * (1 + fuzz_below(blocks - piece.column_bytes / block));
	if (position < geometry->data_chunks && fuzz_below(3) == 0)
		piece.kind = LOG_PIECE_PENDING;
	return piece;
}

static void
make_record(const struct geometry *geometry, uint8_t *out)
{
	static uint8_t memory[LOG_PAYLOAD_BLOCKS_MAX * LOG_BLOCK_BYTES];
	struct log_piece pieces[LOG_PIECES_MAX];
	struct log_header header = {
		.key = KEY,
		.sequence = 1 + fuzz_below(1000),
		.copies = 1 + fuzz_below(15),
	};
	uint64_t bytes = 0;

	memcpy(header.volume_uuid, volume_uuid, sizeof(volume_uuid));
	header.tail = 1 + fuzz_below((uint32_t)header.sequence);
	header.durable =
		header.tail - 1 + fuzz_below((uint32_t)(header.sequence - header.tail + 1));
	header.epoch = fuzz_random();
	header.run_first = 1 + fuzz_below((uint32_t)header.sequence);
	header.predecessor = header.sequence > 1 ? (uint32_t)fuzz_random() : 0;
	for (uint32_t wanted = fuzz_below(LOG_PIECES_MAX + 1); wanted > 0; wanted--) {
		struct log_piece piece =
			fuzz_below(4) ? make_piece(geometry) : make_zero_rows(geometry);

		if (bytes + piece.length_bytes > sizeof(memory))
			break;
		pieces[header.piece_count++] = piece;
		header.payload_blocks = (uint16_t)log_payload_blocks(bytes + piece.length_bytes);
		if (log_fault(&header, pieces, geometry) == NULL)
			bytes += piece.length_bytes;
		else /* it contradicts another one */
			header.piece_count--;
	}
	header.payload_blocks = (uint16_t)log_payload_blocks(bytes);
	(void)log_encode(&header, pieces, geometry, &(struct iovec){ memory, bytes }, 1, out);
}

/* Most edits go where fields are. */
static void
mutate(uint8_t *bytes)
{
	static const uint8_t edges[] = { 0, 1, 2, 3, 0x7f, 0x80, 0xff };

	for (uint32_t edits = fuzz_below(4); edits > 0; edits--) {
		const uint32_t at = fuzz_below(fuzz_below(8) ? 256 : LOG_BLOCK_BYTES);

		bytes[at] =
			fuzz_below(2) ? edges[fuzz_below(sizeof(edges))] : (uint8_t)fuzz_below(256);
	}
}

size_t
fuzz_make(uint8_t *input)
{
	struct geometry geometry;

	input[0] = (uint8_t)fuzz_below(256);
	volume_of(input[0], &geometry);
	make_record(&geometry, input + 1);
	mutate(input + 1);
	return 1 + (fuzz_below(8) ? LOG_BLOCK_BYTES : fuzz_below(LOG_BLOCK_BYTES));
}
