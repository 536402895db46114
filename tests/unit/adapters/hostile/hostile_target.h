/* hostile_target.h - a target for fuzzers, at the other end of a socketpair.  It understands what it
 * is asked, so that a session gets far, and answers rightly or bent, as the fuzzer's bytes say.
 *
 * A byte of 0 always means the sane thing: an input that has ended is a target that behaves.
 *
 * Linked with --wrap of what would leave the process: a connection to any portal ends here, time is
 * hostile.now_ms, names of portals are not looked up, and no program is started.
 */
#ifndef IRAID_TEST_HOSTILE_TARGET_H
#define IRAID_TEST_HOSTILE_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "adapters/iscsi/address.h"

/* No answer has this byte in its data: it stands where nothing came. */
#define HOSTILE_POISON 0x5a
#define HOSTILE_QUESTIONS_MAX 96
#define HOSTILE_OUT_BYTES (1u << 20)

struct question { /* a PDU of ours that waits for an answer */
	uint8_t header[48];
	uint32_t data_bytes; /* that came with it and after it */
	uint32_t moved_bytes, sequence;
	bool asks_method, asks_challenge, proves; /* a log-in */
	bool asks_targets;			  /* a text */
};

struct hostile_target {
	const uint8_t *input, *end;
	uint64_t now_ms;
	uint32_t blocks, block_bytes;
	bool thin, initial_r2t, immediate_data, header_digest, data_digest; /* what it offers */

	/* the connection */
	int fd; /* its end; -1: none */
	int connections;
	bool full_feature; /* digests hold from here on */
	uint32_t stat_sn;
	uint8_t in[1 << 18];
	size_t in_bytes;
	uint8_t out[HOSTILE_OUT_BYTES];
	size_t out_start, out_end;
	struct question questions[HOSTILE_QUESTIONS_MAX];
	int question_count;
	uint64_t holder_key;  /* of its reservation */
	uint32_t bent;	      /* answers */
	uint32_t flood_bytes; /* of data, with the PDU that is said now */
	bool garbled;	      /* headers may pass for data */
};

extern struct hostile_target hostile;

/* Another life: of the input, with what its first bytes say. */
void hostile_start(const uint8_t *input, size_t size);
void hostile_end(void);
uint8_t hostile_next(void);
bool hostile_has_input(void);

/* Take in what was sent to it. */
void hostile_listen(void);
/* Answer one of its questions; which, and how, the input says.  honest: rightly, and the oldest.
 * False: there is none.
 */
bool hostile_answer(bool honest);
/* Rightly, and the newest: the others wait. */
bool hostile_answer_newest(void);
/* Something that nobody asked for: a PDU or mere bytes. */
void hostile_speak(void);
/* Put what it has said into the socket; a part of it: up to where the input says. */
void hostile_send(bool all);
/* It closes the connection. */
void hostile_hang_up(void);

void hostile_credentials(struct iscsi_credentials *out, bool secret);

#endif
