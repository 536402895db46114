/* config/pool.h - spares that all volumes of the gateway share: [spares] in
 * config_dir()/gateway.conf.  Whoever changes it locks it, so that of all processes of a gateway
 * exactly one takes a spare out.
 */
#ifndef IRAID_SPARE_POOL_H
#define IRAID_SPARE_POOL_H

#include "config.h"

#define SPARE_POOL_MAX 64

struct pool_spare {
	struct device_address device;
	uint64_t size_bytes;
	uint32_t block_bytes;
};

struct spare_pool {
	int count;
	struct pool_spare spares[SPARE_POOL_MAX];
};

/* 0, and an empty pool if there is no file; -EINVAL and other -errno with the fault "file: what is
 * wrong".
 */
int spare_pool_read(struct spare_pool *out, struct fault *fault);

/* -EEXIST; -ENOSPC when the pool is full. */
int spare_pool_add(const struct pool_spare *spare, struct fault *fault);

/* Take it out; before() is called under the pool's lock when it is still there, and nothing is
 * taken unless it returns 0 (before NULL: always).  undo(): it did, and the pool can't be written.
 * -ENOENT: it is not there (any more).
 */
int spare_pool_take(const struct device_address *device,
		    int (*before)(void *owner, struct fault *fault), void (*undo)(void *owner),
		    void *owner, struct fault *fault);

/* Where the pool has the device; -1: nowhere. */
int spare_pool_find(const struct spare_pool *pool, const struct device_address *device);

/* The smallest of the pool that holds size_bytes in blocks of block_bytes and is not among passed[0
 * .. passed_count); -1: none.
 */
int spare_pool_choose(const struct spare_pool *pool, uint64_t size_bytes, uint32_t block_bytes,
		      const struct device_address *passed, int passed_count);

#endif
