/* sanitizer_first.c - preloaded into nbdkit behind the sanitizer's library, to start it in time.
 *
 * The sanitizer starts with the first malloc(), and looks up a message of dlerror() then.  In
 * nbdkit the first is that of a library's constructor (libp11-kit) inside newlocale(), which holds
 * glibc's lock of locales: the lookup takes it once more, leaves it broken, and the next one to
 * need it, json-c in our plugin, waits for ever.  This constructor runs before all others (-z
 * initfirst).
 */
#include <stdlib.h>

static void *volatile kept;

static void __attribute__((constructor)) allocate_first(void)
{
	kept = malloc(1);
}
