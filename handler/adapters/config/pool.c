/* config/pool.c - see pool.h. */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gateway_file.h"

#define JSON_DEPTH_MAX 8

/* --- reading gateway.json, as it was before gateway.conf --- */

static int
bad(char *reason, size_t reason_size, const char *file, const char *what)
{
	snprintf(reason, reason_size, "%s: %s", file, what);
	return -EINVAL;
}

static int
read_number(json_object *spare, const char *key, int64_t least, int64_t most, uint64_t *out)
{
	json_object *value;

	if (!json_object_object_get_ex(spare, key, &value) || !json_object_is_type(value, json_type_int))
		return -EINVAL;
	*out = (uint64_t)json_object_get_int64(value);
	return json_object_get_int64(value) < least || json_object_get_int64(value) > most ? -EINVAL : 0;
}

static int
read_spare(json_object *object, struct spare_pool *pool, const char *file, char *reason, size_t reason_size)
{
	struct pool_spare *spare = &pool->spares[pool->count];
	json_object *device = NULL;
	const char *why = "";
	uint64_t block = 0;

	if (!json_object_is_type(object, json_type_object) || json_object_object_length(object) != 3 ||
	    !json_object_object_get_ex(object, "device", &device) ||
	    !json_object_is_type(device, json_type_string))
		return bad(reason, reason_size, file,
			   "each of \"spares\" must be {\"device\", \"size_bytes\", \"block_bytes\"}");
	if (device_address_parse(json_object_get_string(device), &spare->device, &why) != 0) {
		snprintf(reason, reason_size, "%s: spare \"%.300s\": %s", file, json_object_get_string(device), why);
		return -EINVAL;
	}
	if (read_number(object, "size_bytes", (int64_t)LAYOUT_MEMBER_BYTES_MIN, INT64_MAX, &spare->size_bytes) != 0 ||
	    read_number(object, "block_bytes", 512, 4096, &block) != 0 || (block != 512 && block != 4096)) {
		snprintf(reason, reason_size, "%s: spare \"%.300s\": \"size_bytes\" or \"block_bytes\" can't be", file,
			 json_object_get_string(device));
		return -EINVAL;
	}
	for (int i = 0; i < pool->count; i++) {
		if (device_address_same(&pool->spares[i].device, &spare->device))
			return bad(reason, reason_size, file, "a spare is there twice");
	}
	spare->block_bytes = (uint32_t)block;
	pool->count++;
	return 0;
}

static int
read_root(json_object *root, struct spare_pool *pool, const char *file, char *reason, size_t reason_size)
{
	json_object *spares = NULL;
	int error = 0;

	if (!json_object_is_type(root, json_type_object))
		return bad(reason, reason_size, file, "not a JSON object");
	json_object_object_foreach(root, key, value) {
		if (strcmp(key, "spares") != 0) {
			snprintf(reason, reason_size, "%s: unknown key \"%.64s\"", file, key);
			return -EINVAL;
		}
		spares = value;
	}
	if (!spares)
		return 0;
	if (!json_object_is_type(spares, json_type_array))
		return bad(reason, reason_size, file, "\"spares\" must be a list");
	if (json_object_array_length(spares) > SPARE_POOL_MAX)
		return bad(reason, reason_size, file, "\"spares\" has more than 64 entries");
	for (size_t i = 0; i < json_object_array_length(spares) && error == 0; i++)
		error = read_spare(json_object_array_get_idx(spares, i), pool, file, reason, reason_size);
	return error;
}

/* What follows the object may be white space only. */
static bool
only_space(const char *text)
{
	return text[strspn(text, " \t\r\n")] == '\0';
}

int
spare_pool_parse(const char *text, size_t length, const char *file, struct spare_pool *out, char *reason,
		 size_t reason_size)
{
	struct json_tokener *tokener = json_tokener_new_ex(JSON_DEPTH_MAX);
	struct spare_pool *pool = calloc(1, sizeof(*pool));
	json_object *root = NULL;
	int error = -ENOMEM;

	if (tokener && pool) {
		json_tokener_set_flags(tokener, JSON_TOKENER_VALIDATE_UTF8);
		root = json_tokener_parse_ex(tokener, text, (int)length);
		error = root && strlen(text) == length && only_space(text + json_tokener_get_parse_end(tokener))
				? read_root(root, pool, file, reason, reason_size)
				: bad(reason, reason_size, file, "not valid JSON");
	} else {
		snprintf(reason, reason_size, "%s: out of memory", file);
	}
	if (error == 0)
		*out = *pool;
	json_object_put(root);
	free(pool);
	if (tokener)
		json_tokener_free(tokener);
	return error;
}

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

static int
find(const struct spare_pool *pool, const struct device_address *device)
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
	if (error >= 0 && find(pool, &spare->device) >= 0) {
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
		index = find(pool, device);
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
