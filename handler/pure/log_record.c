/* log_record.c - see log_record.h; docs/design/format.md has the table of fields. */
#include "log_record.h"

#include <assert.h>
#include <string.h>

#include "bytes.h"
#include "layout.h"

/* offsets */
enum {
	AT_MAGIC = 0,
	AT_CRC = 8,
	AT_VERSION = 12,
	AT_VOLUME_UUID = 16,
	AT_KEY = 32,
	AT_SEQUENCE = 40,
	AT_TAIL = 48,
	AT_DURABLE = 56,
	AT_PREDECESSOR = 64,
	AT_COPIES = 68,
	AT_PIECE_COUNT = 72,
	AT_PAYLOAD_BLOCKS = 74,
	AT_EPOCH = 80,
	AT_RUN_FIRST = 88,
	AT_PIECES = 128,
	AT_SUMS = 2048,
	/* in a piece */
	PIECE_BYTES = 24,
	PIECE_AT_COLUMN = 8,
	PIECE_AT_LENGTH = 12,
	PIECE_AT_ROLE = 16,
	PIECE_AT_KIND = 17,
};

#define MAGIC "IRAID-LG"
#define MAGIC_BYTES 8u
#define VERSION 1u

_Static_assert(AT_PIECES + PIECE_BYTES * LOG_PIECES_MAX <= AT_SUMS, "pieces fit");
_Static_assert(AT_SUMS + 4 * LOG_PAYLOAD_BLOCKS_MAX <= LOG_BLOCK_BYTES, "checksums fit");

static uint32_t
block_crc(const uint8_t *block)
{
	static const uint8_t zero[4];
	uint32_t crc = crc32c(0, block, AT_CRC);

	crc = crc32c(crc, zero, sizeof(zero));
	return crc32c(crc, block + AT_VERSION, LOG_BLOCK_BYTES - AT_VERSION);
}

uint32_t
log_segment_bytes(uint64_t log_bytes)
{
	const uint64_t bytes = log_bytes / 16;

	if (bytes < LOG_SEGMENT_BYTES_MIN)
		return LOG_SEGMENT_BYTES_MIN;
	return (uint32_t)(bytes < LOG_SEGMENT_BYTES_MAX ? bytes / LOG_BLOCK_BYTES * LOG_BLOCK_BYTES
							: LOG_SEGMENT_BYTES_MAX);
}

uint32_t
log_payload_blocks(uint64_t payload_bytes)
{
	return (uint32_t)divide_up(payload_bytes, LOG_BLOCK_BYTES);
}

/* --- what makes sense --- */

static uint64_t
bytes_of(const struct log_piece *pieces, unsigned int count)
{
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < count; i++)
		bytes += pieces[i].length_bytes;
	return bytes;
}

static const char *
zero_rows_fault(const struct log_piece *piece, const struct geometry *geometry)
{
	if (piece->column_bytes == 0 || piece->row >= geometry->rows ||
	    piece->column_bytes > geometry->rows - piece->row)
		return "rows of zeros lie behind the last row, or are none";
	if (piece->length_bytes != 0 || piece->role != 0)
		return "rows of zeros are for one role";
	return NULL;
}

static const char *
piece_fault(const struct log_piece *piece, const struct geometry *geometry)
{
	int position;

	if (piece->kind == LOG_PIECE_ZERO_ROWS)
		return zero_rows_fault(piece, geometry);
	if (piece->kind != LOG_PIECE_WRITTEN && piece->kind != LOG_PIECE_PENDING)
		return "a piece is of no known kind";
	if (piece->row >= geometry->rows)
		return "a piece lies behind the last row";
	if (piece->length_bytes == 0 || piece->length_bytes > geometry->chunk_bytes ||
	    piece->column_bytes > geometry->chunk_bytes - piece->length_bytes)
		return "a piece leaves its chunk";
	if (piece->column_bytes % geometry->block_bytes != 0 ||
	    piece->length_bytes % geometry->block_bytes != 0)
		return "a piece is not made of whole blocks";
	if (piece->role >= geometry->members)
		return "a piece is for a role that the volume does not have";
	position = geometry_position(geometry, piece->row, piece->role);
	if (position < 0)
		return "a piece is for a role that has no part in its row";
	if (piece->kind == LOG_PIECE_PENDING && position >= geometry->data_chunks)
		return "a piece says what redundancy is to be";
	return NULL;
}

static uint64_t
end_row(const struct log_piece *piece)
{
	return piece->row + (piece->kind == LOG_PIECE_ZERO_ROWS ? piece->column_bytes : 1);
}

/* Two pieces of one record say something of the same bytes, or of one row in two ways. */
static bool
contradict(const struct log_piece *a, const struct log_piece *b)
{
	if (a->row >= end_row(b) || b->row >= end_row(a))
		return false;
	if (a->kind == LOG_PIECE_ZERO_ROWS)
		return true;
	return a->kind != b->kind ||
	       (a->role == b->role && a->column_bytes < b->column_bytes + b->length_bytes &&
		b->column_bytes < a->column_bytes + a->length_bytes);
}

static const char *
pieces_fault(const struct log_piece *pieces, unsigned int count, const struct geometry *geometry)
{
	for (unsigned int i = 0; i < count; i++) {
		const char *fault = piece_fault(&pieces[i], geometry);

		if (fault != NULL)
			return fault;
		for (unsigned int j = 0; j < i; j++)
			if (contradict(&pieces[i], &pieces[j]))
				return "two pieces contradict each other";
	}
	return NULL;
}

const char *
log_fault(const struct log_header *header, const struct log_piece *pieces,
	  const struct geometry *geometry)
{
	const char *fault;

	if (header->key == 0)
		return "its opening has no key";
	/* With the next one: sequence and tail are at least 1, and the tail is not behind it. */
	if (header->durable >= header->sequence)
		return "it says of itself that it is durable";
	if (header->tail == 0 || header->durable < header->tail - 1)
		return "it says that records are in their rows that were not durable";
	if (header->run_first == 0 || header->run_first > header->sequence)
		return "its run began behind it";
	if (header->copies == 0 || (header->copies & ~geometry_lowest(geometry->members)) != 0)
		return "it is on no member, or on one that the volume does not have";
	if (header->sequence == 1 && header->predecessor != 0)
		return "it is the first and has a predecessor";
	if (header->piece_count > LOG_PIECES_MAX)
		return "it has too many pieces";
	if (header->payload_blocks > LOG_PAYLOAD_BLOCKS_MAX)
		return "its payload is too long";
	fault = pieces_fault(pieces, header->piece_count, geometry);
	if (fault == NULL &&
	    header->payload_blocks != log_payload_blocks(bytes_of(pieces, header->piece_count)))
		fault = "its payload is not as long as its pieces";
	return fault;
}

/* --- the payload's checksums, one for each block --- */

struct summing {
	uint8_t *out; /* where the next one goes */
	uint32_t crc;
	uint32_t filled_bytes; /* of its block */
};

static void
sum(struct summing *summing, const uint8_t *bytes, size_t length_bytes)
{
	while (length_bytes > 0) {
		size_t step = LOG_BLOCK_BYTES - summing->filled_bytes;

		if (step > length_bytes)
			step = length_bytes;
		summing->crc = crc32c(summing->crc, bytes, step);
		summing->filled_bytes += (uint32_t)step;
		bytes += step;
		length_bytes -= step;
		if (summing->filled_bytes < LOG_BLOCK_BYTES)
			continue;
		put_u32(summing->out, summing->crc);
		summing->out += 4;
		summing->crc = summing->filled_bytes = 0;
	}
}

static void
sum_payload(const struct iovec *payload, int count, uint64_t payload_bytes, uint8_t *out)
{
	static const uint8_t zeros[LOG_BLOCK_BYTES];
	struct summing summing = { .out = out };

	for (int i = 0; i < count; i++) {
		assert(payload[i].iov_len <= payload_bytes);
		payload_bytes -= payload[i].iov_len;
		sum(&summing, payload[i].iov_base, payload[i].iov_len);
	}
	assert(payload_bytes == 0);
	if (summing.filled_bytes > 0)
		sum(&summing, zeros, LOG_BLOCK_BYTES - summing.filled_bytes);
}

bool
log_payload_is_whole(const uint8_t *in, const uint8_t *payload)
{
	const uint32_t blocks = (uint32_t)get_le(in + AT_PAYLOAD_BLOCKS, 2);

	for (uint32_t i = 0; i < blocks; i++)
		if (crc32c(0, payload + (uint64_t)i * LOG_BLOCK_BYTES, LOG_BLOCK_BYTES) !=
		    get_u32(in + AT_SUMS + 4 * i))
			return false;
	return true;
}

/* --- the header --- */

static void
put_piece(uint8_t *out, const struct log_piece *piece)
{
	put_u64(out, piece->row);
	put_u32(out + PIECE_AT_COLUMN, piece->column_bytes);
	put_u32(out + PIECE_AT_LENGTH, piece->length_bytes);
	out[PIECE_AT_ROLE] = piece->role;
	out[PIECE_AT_KIND] = piece->kind;
}

static struct log_piece
get_piece(const uint8_t *in)
{
	return (struct log_piece){
		.row = get_u64(in),
		.column_bytes = get_u32(in + PIECE_AT_COLUMN),
		.length_bytes = get_u32(in + PIECE_AT_LENGTH),
		.role = in[PIECE_AT_ROLE],
		.kind = in[PIECE_AT_KIND],
	};
}

uint32_t
log_encode(const struct log_header *header, const struct log_piece *pieces,
	   const struct geometry *geometry, const struct iovec *payload, int count, uint8_t *out)
{
	uint32_t digest;

	assert(log_fault(header, pieces, geometry) == NULL);
	memset(out, 0, LOG_BLOCK_BYTES);
	memcpy(out + AT_MAGIC, MAGIC, MAGIC_BYTES);
	put_u32(out + AT_VERSION, VERSION);
	memcpy(out + AT_VOLUME_UUID, header->volume_uuid, UUID_BYTES);
	put_u64(out + AT_KEY, header->key);
	put_u64(out + AT_SEQUENCE, header->sequence);
	put_u64(out + AT_TAIL, header->tail);
	put_u64(out + AT_DURABLE, header->durable);
	put_u32(out + AT_PREDECESSOR, header->predecessor);
	put_u32(out + AT_COPIES, header->copies);
	put_le(out + AT_PIECE_COUNT, header->piece_count, 2);
	put_le(out + AT_PAYLOAD_BLOCKS, header->payload_blocks, 2);
	put_u64(out + AT_EPOCH, header->epoch);
	put_u64(out + AT_RUN_FIRST, header->run_first);
	for (unsigned int i = 0; i < header->piece_count; i++)
		put_piece(out + AT_PIECES + PIECE_BYTES * i, &pieces[i]);
	sum_payload(payload, count, bytes_of(pieces, header->piece_count), out + AT_SUMS);
	digest = block_crc(out);
	put_u32(out + AT_CRC, digest);
	return digest;
}

enum log_verdict
log_decode(const uint8_t *in, const uint8_t volume_uuid[16], uint64_t key,
	   const struct geometry *geometry, struct log_header *header, struct log_piece *pieces,
	   uint32_t *digest)
{
	struct log_header found = {
		.key = get_u64(in + AT_KEY),
		.sequence = get_u64(in + AT_SEQUENCE),
		.tail = get_u64(in + AT_TAIL),
		.durable = get_u64(in + AT_DURABLE),
		.predecessor = get_u32(in + AT_PREDECESSOR),
		.copies = get_u32(in + AT_COPIES),
		.piece_count = (uint16_t)get_le(in + AT_PIECE_COUNT, 2),
		.payload_blocks = (uint16_t)get_le(in + AT_PAYLOAD_BLOCKS, 2),
		.epoch = get_u64(in + AT_EPOCH),
		.run_first = get_u64(in + AT_RUN_FIRST),
	};
	struct log_piece read[LOG_PIECES_MAX];

	if (memcmp(in + AT_MAGIC, MAGIC, MAGIC_BYTES) != 0 || found.key != key ||
	    memcmp(in + AT_VOLUME_UUID, volume_uuid, UUID_BYTES) != 0)
		return LOG_NOTHING;
	if (get_u32(in + AT_CRC) != block_crc(in))
		return LOG_BROKEN;
	if (get_u32(in + AT_VERSION) > VERSION)
		return LOG_UNSUPPORTED;
	if (get_u32(in + AT_VERSION) == 0 || found.piece_count > LOG_PIECES_MAX)
		return LOG_BROKEN;
	memcpy(found.volume_uuid, volume_uuid, UUID_BYTES);
	for (unsigned int i = 0; i < found.piece_count; i++)
		read[i] = get_piece(in + AT_PIECES + PIECE_BYTES * i);
	if (log_fault(&found, read, geometry) != NULL)
		return LOG_BROKEN;
	*header = found;
	memcpy(pieces, read, found.piece_count * sizeof(*read));
	*digest = get_u32(in + AT_CRC);
	return LOG_RECORD;
}
