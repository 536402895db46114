/* config/pool.c - see pool.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gateway_file.h"

int
spare_pool_read(struct spare_pool *out, struct fault *fault)
{
	struct gateway_file *file = calloc(1, sizeof(*file));
	struct config_faults *faults = calloc(1, sizeof(*faults));
	char text[sizeof(fault->message)];
	int error = file && faults ? gateway_file_read(file, faults) : -ENOMEM;

	/* A fault elsewhere is not the spares' business. */
	for (int i = 0; faults && i < faults->count && error == 0; i++) {
		if (faults->list[i].key[0] != '\0' && strcmp(faults->list[i].key, "spare") != 0)
			continue;
		config_fault_format(&faults->list[i], file->path, text, sizeof(text));
		error = fault_errno(fault, -EINVAL, "%s", text);
	}
	if (error == 0)
		*out = file->config.pool;
	else if (error != -EINVAL)
		fault_errno(fault, error, "%s/gateway.conf: %s", config_dir(), strerror(-error));
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
spare_pool_add(const struct pool_spare *spare, struct fault *fault)
{
	struct spare_pool *pool = malloc(sizeof(*pool));
	int lock = config_lock(SPARES_LOCK, fault), error = lock;

	if (!pool)
		error = -ENOMEM;
	else if (lock >= 0)
		error = spare_pool_read(pool, fault);
	if (error >= 0 && spare_pool_find(pool, &spare->device) >= 0) {
		error = fault_errno(fault, -EEXIST, "%s is already a spare of the gateway",
				    spare->device.address.portal);
	} else if (error >= 0 && pool->count == SPARE_POOL_MAX) {
		error = fault_errno(fault, -ENOSPC,
				    "the gateway has %d spares, which is the maximum",
				    SPARE_POOL_MAX);
	} else if (error >= 0) {
		pool->spares[pool->count++] = *spare;
		error = gateway_spares_write(pool, fault);
	}
	if (lock >= 0)
		close(lock);
	free(pool);
	return error;
}

int
spare_pool_take(const struct device_address *device,
		int (*before)(void *owner, struct fault *fault), void (*undo)(void *owner),
		void *owner, struct fault *fault)
{
	struct spare_pool *pool = malloc(sizeof(*pool));
	int lock = config_lock(SPARES_LOCK, fault), error = lock, index = -1;

	if (!pool)
		error = -ENOMEM;
	else if (lock >= 0)
		error = spare_pool_read(pool, fault);
	if (error >= 0) {
		index = spare_pool_find(pool, device);
		error = index < 0 ? -ENOENT : before ? before(owner, fault) : 0;
	}
	if (error == 0) {
		memmove(&pool->spares[index], &pool->spares[index + 1],
			(size_t)(pool->count - index - 1) * sizeof(pool->spares[0]));
		pool->count--;
		error = gateway_spares_write(pool, fault);
		if (error != 0 && undo)
			undo(owner);
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
