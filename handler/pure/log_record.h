/* log_record.h - a record of the write log: what is about to be written to rows, kept on members so
 * that a crash in the midst of it costs nothing.  Pure codec; docs/design/format.md, "Write log",
 * has every field's offset, docs/design/write-log.md the rules.
 *
 *	segment:  | header | payload ... | header | payload | header | payload ...    | free |
 *		    4 KiB    4 KiB each
 *
 * A segment begins with a record and no record leaves its own.  The payload is the bytes of the
 * record's pieces, one after the other, in whole blocks.
 */
#ifndef IRAID_LOG_RECORD_H
#define IRAID_LOG_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "geometry.h"

#define LOG_BLOCK_BYTES 4096u
#define LOG_SEGMENT_BYTES_MIN (256u << 10) /* a block of each of 32 chunks fits */
#define LOG_SEGMENT_BYTES_MAX (1u << 20)
#define LOG_PIECES_MAX 64u
#define LOG_PAYLOAD_BLOCKS_MAX (LOG_SEGMENT_BYTES_MAX / LOG_BLOCK_BYTES - 1)

/* values are on disk */
enum log_piece_kind {
	/* what the role's chunk is to hold: data, P or Q */
	LOG_PIECE_WRITTEN = 1,
	/* What the role's data chunk is to hold.  Nothing of it is in the row yet: its redundancy is
	 * not made before a later record has it as written.
	 */
	LOG_PIECE_PENDING = 2,
	/* Whole rows of zeros, data, P and Q: column_bytes of them from `row` on (and in no payload);
	 * length and role are 0.
	 */
	LOG_PIECE_ZERO_ROWS = 3,
};

struct log_piece {
	uint64_t row;
	/* Inside the chunk; multiples of the volume's block, and the length is not 0.  But see
	 * LOG_PIECE_ZERO_ROWS.
	 */
	uint32_t column_bytes;
	uint32_t length_bytes;
	uint8_t role;
	uint8_t kind; /* enum log_piece_kind */
};

struct log_header {
	uint8_t volume_uuid[16];
	/* Of this opening of the log: random, so that nothing an initiator writes can be taken for
	 * a record.  Not 0.
	 */
	uint64_t key;
	uint64_t sequence; /* from 1 on; the same on all copies */
	uint64_t tail;	   /* records before this one are in their rows, durably: 1 .. sequence */
	uint64_t durable;  /* records up to this one had all of their copies: below sequence */
	uint32_t predecessor; /* digest of the record before; 0: it is the first */
	uint32_t copies;      /* roles that the record is sent to, bits; not 0 */
	uint16_t piece_count; /* 0: it only says what is in the header */
	uint16_t payload_blocks;
	uint64_t epoch; /* the volume's, when the run began that wrote it; an opening outlives runs */
	uint64_t run_first; /* the first sequence of that run: 1 .. sequence */
};

enum log_verdict {
	LOG_RECORD,  /* of this opening, and as it was written */
	LOG_NOTHING, /* of another volume or opening, or no record at all */
	LOG_BROKEN,  /* of this opening, but torn, rotten or absurd */
	/* of this opening, by a release that knows more: not to be taken for a torn one */
	LOG_UNSUPPORTED,
};

/* Of a member's log area: a sixteenth, but from LOG_SEGMENT_BYTES_MIN to LOG_SEGMENT_BYTES_MAX. */
uint32_t log_segment_bytes(uint64_t log_bytes);

/* Blocks that pieces of so many bytes in all take. */
uint32_t log_payload_blocks(uint64_t payload_bytes);

/* What contradicts itself, a static English text; NULL if nothing. */
const char *log_fault(const struct log_header *header, const struct log_piece *pieces,
		      const struct geometry *geometry);

/* Into out[LOG_BLOCK_BYTES].  payload: what the pieces hold, so many bytes (asserted); the zeros
 * behind it are not in there.  Asserts that log_fault() finds nothing.  Returns the record's digest.
 */
uint32_t
log_encode(const struct log_header *header, const struct log_piece *pieces,
	   const struct geometry *geometry, const struct iovec *payload, int count, uint8_t *out);

/* in: LOG_BLOCK_BYTES.  pieces: room for LOG_PIECES_MAX.  All three only with LOG_RECORD. */
enum log_verdict log_decode(const uint8_t *in, const uint8_t volume_uuid[16], uint64_t key,
			    const struct geometry *geometry, struct log_header *header,
			    struct log_piece *pieces, uint32_t *digest);

/* Is the payload (header's payload_blocks) what the record was written with?  in: the record's
 * first block, decoded before.
 */
bool log_payload_is_whole(const uint8_t *in, const uint8_t *payload);

#endif
