/* iscsi/chap.h - CHAP (RFC 1994) as iSCSI speaks it (RFC 7143, 12.1.3): one side sends a number and
 * a challenge, the other answers with a digest of number, secret and challenge.
 */
#ifndef IRAID_ISCSI_CHAP_H
#define IRAID_ISCSI_CHAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHAP_CHALLENGE_BYTES_MAX 1024 /* RFC 7143, 12.1.3 */
#define CHAP_ANSWER_BYTES_MAX 32
#define CHAP_OFFERED_BYTES 32 /* a challenge of ours */

/* As IANA numbers them. */
enum chap_algorithm {
	CHAP_NONE = 0,
	CHAP_MD5 = 5,
	CHAP_SHA1 = 6,
	CHAP_SHA256 = 7,
	CHAP_SHA3_256 = 8,
};
/* What we offer; the target takes the first it knows.  The strongest first, but 7 last: tgt and its
 * kin take 7 for SHA-1, as a draft of the standard had it, and would refuse a right answer.
 */
#define CHAP_ALGORITHMS "8,6,5,7"

struct chap_challenge {
	uint8_t number;
	uint16_t length;
	uint8_t bytes[CHAP_CHALLENGE_BYTES_MAX];
};

/* One of CHAP_ALGORITHMS, or CHAP_NONE. */
enum chap_algorithm chap_algorithm_parse(const char *text);

/* CHAP_I and CHAP_C of the target.  False: not a number of a byte, or no binary value. */
bool chap_challenge_parse(const char *number, const char *bytes, struct chap_challenge *out);

/* A number and a challenge that nobody can foresee.  False: no random numbers. */
bool chap_challenge_make(struct chap_challenge *out);

/* Returns the length of the answer, or 0: this machine does not compute that digest (FIPS mode). */
size_t chap_answer(enum chap_algorithm algorithm, const char *secret,
		   const struct chap_challenge *challenge, uint8_t out[CHAP_ANSWER_BYTES_MAX]);

/* CHAP_R of the other side: has it our secret?  Takes as long for every wrong one. */
bool chap_proves(enum chap_algorithm algorithm, const char *secret,
		 const struct chap_challenge *challenge, const char *answer);

/* A binary value, "0x..." or "0b..." (base64); at most `most` bytes.  False: it is none. */
bool chap_binary_decode(const char *text, uint8_t *out, size_t most, size_t *length);
/* As "0x..."; out has room for 3 + 2 * length characters. */
void chap_binary_encode(const uint8_t *bytes, size_t length, char *out);

#endif
