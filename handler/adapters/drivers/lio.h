/* drivers/lio.h - LIO by configfs: what it has already, and the target port groups (ALUA) of a
 * volume that two gateways have.  `iraid export --pair` makes those (python/iraid/lio/pair.py).
 */
#ifndef IRAID_LIO_H
#define IRAID_LIO_H

#include <limits.h>
#include <stdbool.h>

#define LIO_FOLDER "/sys/kernel/config/target"
#define LIO_CONFIG_MAX 255

/* Asymmetric access states, as SPC-4 and the kernel number them. */
#define LIO_OPTIMIZED 0
#define LIO_STANDBY 2

struct lio_pair {
	char storage[PATH_MAX];		 /* folder of the storage object */
	char config[LIO_CONFIG_MAX + 1]; /* "iraid/v0" */
	int here;			 /* which gateway of the pair this is, 1 or 2 */
	int access[2];			 /* states, by number of gateway */
};

/* A storage object of tcmu is made of `config`, as "iraid/v0".  folder: LIO_FOLDER */
bool lio_has(const char *folder, const char *config);

/* Storage objects of tcmu that are a pair's, one by one.  fn returns false to see no more. */
typedef bool lio_pair_function(void *owner, const struct lio_pair *pair);
void lio_each_pair(const char *folder, lio_pair_function *fn, void *owner);

/* The state of the group of gateway `number`.  0 or -errno: -EINVAL if the kernel refuses it.  May
 * wait for another change of the same group.
 */
int lio_set_access(const struct lio_pair *pair, int number, int state);

#endif
