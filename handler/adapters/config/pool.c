/* config/pool.c - see pool.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gateway_file.h"

int
spare_pool_read(struct spare_pool *out, char *reason, size_t reason_size)
{
	struct gateway_file *file = calloc(1, sizeof(*file));
	struct config_faults *faults = calloc(1, sizeof(*faults));
	int error = file && faults ? gateway_file_read(file, faults) : -ENOMEM;

	/* A fault elsewhere is not the spares' business. */
	for (int i = 0; faults && i < faults->count && error == 0; i++) {
		if (faults->list[i].key[0] != '\0' && strcmp(faults->list[i].key, "spare") != 0)
			continue;
		config_fault_format(&faults->list[i], file->path, reason, reason_size);
		error = -EINVAL;
	}
	if (error == 0)
		*out = file->config.pool;
	else if (error != -EINVAL)
		snprintf(reason, reason_size, "%s/gateway.conf: %s", config_dir(), strerror(-error));
	if (file)
		gateway_file_free(file);
	free(faults);
	free(file);
	return error;
}

/* --- changing --- */

int
spare_pool_find(const struct spare_pool *pool, const struct device_address *device)
{
	for (int i = 0; i < pool->count; i++) {
		if (device_address_same(&pool->spares[i].device, device))
			return i;
	}
	return -1;
}

int
spare_pool_add(const struct pool_spare *spare, char *reason, size_t reason_size)
{
	struct spare_pool *pool = malloc(sizeof(*pool));
	int lock = config_lock(SPARES_LOCK, reason, reason_size), error = lock;

	if (!pool)
		error = -ENOMEM;
	else if (lock >= 0)
		error = spare_pool_read(pool, reason, reason_size);
	if (error >= 0 && spare_pool_find(pool, &spare->device) >= 0) {
		snprintf(reason, reason_size, "%s is a spare of the gateway already", spare->device.address.portal);
		error = -EEXIST;
	} else if (error >= 0 && pool->count == SPARE_POOL_MAX) {
		snprintf(reason, reason_size, "the gateway has %d spares, more are not possible", SPARE_POOL_MAX);
		error = -ENOSPC;
	} else if (error >= 0) {
		pool->spares[pool->count++] = *spare;
		error = gateway_spares_write(pool, reason, reason_size);
	}
	if (lock >= 0)
		close(lock);
	free(pool);
	return error;
}

int
spare_pool_take(const struct device_address *device, int (*before)(void *owner), void *owner, char *reason,
		size_t reason_size)
{
	struct spare_pool *pool = malloc(sizeof(*pool));
	int lock = config_lock(SPARES_LOCK, reason, reason_size), error = lock, index = -1;

	if (!pool)
		error = -ENOMEM;
	else if (lock >= 0)
		error = spare_pool_read(pool, reason, reason_size);
	if (error >= 0) {
		index = spare_pool_find(pool, device);
		error = index < 0 ? -ENOENT : before ? before(owner) : 0;
	}
	if (error == 0) {
		memmove(&pool->spares[index], &pool->spares[index + 1],
			(size_t)(pool->count - index - 1) * sizeof(pool->spares[0]));
		pool->count--;
		error = gateway_spares_write(pool, reason, reason_size);
	}
	if (lock >= 0)
		close(lock);
	free(pool);
	return error;
}

int
spare_pool_choose(const struct spare_pool *pool, uint64_t size_bytes, uint32_t block_bytes,
		  const struct device_address *passed, int passed_count)
{
	int best = -1;

	for (int i = 0; i < pool->count; i++) {
		const struct pool_spare *spare = &pool->spares[i];
		bool fits = spare->block_bytes == block_bytes && spare->size_bytes >= size_bytes;

		for (int p = 0; p < passed_count && fits; p++)
			fits = !device_address_same(&passed[p], &spare->device);
		if (fits && (best < 0 || spare->size_bytes < pool->spares[best].size_bytes))
			best = i;
	}
	return best;
}
