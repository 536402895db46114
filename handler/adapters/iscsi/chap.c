/* iscsi/chap.c - challenges and answers of CHAP.  Digests are OpenSSL's, which wipes what it made
 * of a secret.
 */
#include "chap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

static const char hex_digits[] = "0123456789abcdef";

enum chap_algorithm
chap_algorithm_parse(const char *text)
{
	if (strlen(text) != 1 || text[0] < '0' + CHAP_MD5 || text[0] > '0' + CHAP_SHA3_256)
		return CHAP_NONE;
	return (enum chap_algorithm)(text[0] - '0');
}

static int
hex_value(char digit)
{
	const char *at;

	if (digit >= 'A' && digit <= 'F')
		digit = (char)(digit - 'A' + 'a');
	at = digit != '\0' ? strchr(hex_digits, digit) : NULL;
	return at != NULL ? (int)(at - hex_digits) : -1;
}

static bool
hex_decode(const char *text, uint8_t *out, size_t most, size_t *length)
{
	size_t digits = strlen(text);

	if (digits == 0 || digits % 2 != 0 || digits / 2 > most)
		return false;
	for (size_t i = 0; i < digits; i += 2) {
		int high = hex_value(text[i]), low = hex_value(text[i + 1]);

		if (high < 0 || low < 0)
			return false;
		out[i / 2] = (uint8_t)(high << 4 | low);
	}
	*length = digits / 2;
	return true;
}

static int
base64_value(char digit)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = digit != '\0' ? strchr(digits, digit) : NULL;

	return at != NULL ? (int)(at - digits) : -1;
}

static bool
base64_decode(const char *text, uint8_t *out, size_t most, size_t *length)
{
	size_t digits = strcspn(text, "="), used = 0;
	uint32_t bits = 0;

	if (digits == 0 || digits % 4 == 1 || digits * 3 / 4 > most ||
	    strspn(text + digits, "=") > 2 || text[digits + strspn(text + digits, "=")] != '\0')
		return false;
	for (size_t i = 0; i < digits; i++) {
		int value = base64_value(text[i]);

		if (value < 0)
			return false;
		bits = bits << 6 | (uint32_t)value;
		if (i % 4 != 0) /* each digit but the first of four completes a byte */
			out[used++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
	}
	*length = used;
	return true;
}

bool
chap_binary_decode(const char *text, uint8_t *out, size_t most, size_t *length)
{
	if (strncmp(text, "0x", 2) == 0 || strncmp(text, "0X", 2) == 0)
		return hex_decode(text + 2, out, most, length);
	if (strncmp(text, "0b", 2) == 0 || strncmp(text, "0B", 2) == 0)
		return base64_decode(text + 2, out, most, length);
	return false;
}

void
chap_binary_encode(const uint8_t *bytes, size_t length, char *out)
{
	*out++ = '0';
	*out++ = 'x';
	for (size_t i = 0; i < length; i++) {
		*out++ = hex_digits[bytes[i] >> 4];
		*out++ = hex_digits[bytes[i] & 15];
	}
	*out = '\0';
}

bool
chap_challenge_parse(const char *number, const char *bytes, struct chap_challenge *out)
{
	char *end;
	bool hex = strncmp(number, "0x", 2) == 0 || strncmp(number, "0X", 2) == 0;
	unsigned long value = strtoul(number, &end, hex ? 16 : 10);
	size_t length;

	if (hex_value(number[0]) < 0 || *end != '\0' || value > 255 ||
	    !chap_binary_decode(bytes, out->bytes, sizeof(out->bytes), &length))
		return false;
	out->number = (uint8_t)value;
	out->length = (uint16_t)length;
	return true;
}

bool
chap_challenge_make(struct chap_challenge *out)
{
	out->length = CHAP_OFFERED_BYTES;
	return getrandom(&out->number, 1, 0) == 1 &&
	       getrandom(out->bytes, out->length, 0) == out->length;
}

static const EVP_MD *
digest_of(enum chap_algorithm algorithm)
{
	switch (algorithm) {
	case CHAP_MD5:
		return EVP_md5();
	case CHAP_SHA1:
		return EVP_sha1();
	case CHAP_SHA256:
		return EVP_sha256();
	case CHAP_SHA3_256:
		return EVP_sha3_256();
	case CHAP_NONE:
		break;
	}
	return NULL;
}

size_t
chap_answer(enum chap_algorithm algorithm, const char *secret,
	    const struct chap_challenge *challenge, uint8_t out[CHAP_ANSWER_BYTES_MAX])
{
	const EVP_MD *digest = digest_of(algorithm);
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	unsigned int length = 0;
	bool computed = context != NULL && digest != NULL &&
			EVP_DigestInit_ex(context, digest, NULL) == 1 &&
			EVP_DigestUpdate(context, &challenge->number, 1) == 1 &&
			EVP_DigestUpdate(context, secret, strlen(secret)) == 1 &&
			EVP_DigestUpdate(context, challenge->bytes, challenge->length) == 1 &&
			EVP_DigestFinal_ex(context, out, &length) == 1;

	EVP_MD_CTX_free(context);
	return computed ? length : 0;
}

bool
chap_proves(enum chap_algorithm algorithm, const char *secret,
	    const struct chap_challenge *challenge, const char *answer)
{
	uint8_t right[CHAP_ANSWER_BYTES_MAX], given[CHAP_ANSWER_BYTES_MAX];
	size_t length, given_length;

	length = chap_answer(algorithm, secret, challenge, right);
	return length > 0 && chap_binary_decode(answer, given, sizeof(given), &given_length) &&
	       given_length == length && CRYPTO_memcmp(right, given, length) == 0;
}
