/* drivers/alua.h - tells the kernel by which gateway of a pair initiators should come, as the roles of
 * the volumes say.
 */
#ifndef IRAID_ALUA_H
#define IRAID_ALUA_H

#include "adapters/volume/host.h"
#include "lio.h"

struct alua;

/* Begin, with a thread.  folder: LIO_FOLDER.  NULL: no thread or memory. */
struct alua *alua_begin(struct volume_host *host, const char *folder);
/* How the kernel has the storage object of `config`, "iraid/v0", just now; false: it is no pair's.
 * From a LUN's command thread: waits 500 ms at most, and then tells what was known before.
 */
bool alua_find(struct alua *alua, const char *config, struct lio_pair *out);
/* Is it a pair's, as the last look found it?  Any thread may ask: waits for nothing. */
bool alua_is_pair(struct alua *alua, const char *config);
/* Before the host goes.  States stay as they are. */
void alua_end(struct alua *alua);

#endif
