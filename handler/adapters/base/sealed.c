/* base/sealed.c - ChaCha20 (RFC 8439) with a key of this process.  Nobody can change the
 * ciphertext who could not change the code, so there is no authentication.
 */
#include <limits.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "adapters/base/sealed.h"

#define KEY_BYTES 32

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint8_t *key; /* NULL: none could be made */

void *
secret_memory(size_t length_bytes)
{
	void *memory = mmap(NULL, length_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	if (madvise(memory, length_bytes, MADV_DONTDUMP) != 0) {
		munmap(memory, length_bytes);
		return NULL;
	}
	mlock(memory, length_bytes); /* as far as it goes */
	return memory;
}

void
secret_memory_free(void *memory, size_t length_bytes)
{
	if (memory == NULL)
		return;
	explicit_bzero(memory, length_bytes);
	munmap(memory, length_bytes);
}

static void
make_key(void)
{
	key = secret_memory(KEY_BYTES);
	if (key != NULL && RAND_priv_bytes(key, KEY_BYTES) != 1) {
		secret_memory_free(key, KEY_BYTES);
		key = NULL;
	}
}

/* The same both ways. */
static bool
chacha20(const uint8_t nonce[16], const uint8_t *from, uint8_t *to, size_t length_bytes)
{
	EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
	int done = 0;
	bool good = context != NULL && length_bytes <= INT_MAX &&
		    EVP_EncryptInit_ex(context, EVP_chacha20(), NULL, key, nonce) == 1 &&
		    EVP_EncryptUpdate(context, to, &done, from, (int)length_bytes) == 1;

	EVP_CIPHER_CTX_free(context); /* wipes it */
	return good;
}

bool
sealed_put(struct sealed *sealed, const void *bytes, size_t length_bytes)
{
	struct sealed made = { .bytes = malloc(length_bytes), .length_bytes = length_bytes };

	pthread_once(&once, make_key);
	if (made.bytes == NULL || key == NULL || RAND_bytes(made.nonce, sizeof(made.nonce)) != 1 ||
	    !chacha20(made.nonce, bytes, made.bytes, length_bytes)) {
		free(made.bytes);
		return false;
	}
	sealed_free(sealed);
	*sealed = made;
	return true;
}

bool
sealed_open(const struct sealed *sealed, void *out)
{
	return sealed->bytes != NULL &&
	       chacha20(sealed->nonce, sealed->bytes, out, sealed->length_bytes);
}

void
sealed_free(struct sealed *sealed)
{
	free(sealed->bytes);
	*sealed = (struct sealed){ 0 };
}
