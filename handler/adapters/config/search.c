/* config/search.c - see search.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "search.h"
#include "volume_file.h"

#define VOLUMES_MAX 1024

static const char *
portal_of(const struct device_address *device, int index)
{
	return index == 0 ? device->address.portal : device->more_portals[index - 1];
}

bool
device_address_overlap(const struct device_address *a, const struct device_address *b)
{
	if (a->address.lun != b->address.lun || strcmp(a->address.iqn, b->address.iqn) != 0)
		return false;
	for (int i = 0; i <= a->more; i++) {
		for (int j = 0; j <= b->more; j++) {
			if (strcmp(portal_of(a, i), portal_of(b, j)) == 0)
				return true;
		}
	}
	return false;
}

/* The first volume but `except` that has the device or the UUID; any of these may be NULL. */
static bool
find_volume(const struct device_address *device, const uint8_t *volume_uuid, const char *except,
	    char out[LAYOUT_NAME_MAX + 1])
{
	char(*names)[LAYOUT_NAME_MAX + 1] = calloc(VOLUMES_MAX, sizeof(*names));
	struct volume_file *file = malloc(sizeof(*file));
	struct config_faults *faults = malloc(sizeof(*faults));
	int count = names && file && faults ? volume_config_list(names, VOLUMES_MAX) : 0;
	bool found = false;

	for (int i = 0; i < count && !found; i++) {
		const struct volume_config *config = &file->config;

		if (except && strcmp(names[i], except) == 0)
			continue;
		/* Its members are its own also while there is a fault in its file: what can be read
		 * of it counts.
		 */
		faults->count = faults->passed_over = 0;
		if (volume_file_read(names[i], file, faults) == 0)
			volume_file_free(file);
		found = volume_uuid && memcmp(config->uuid, volume_uuid, sizeof(config->uuid)) == 0;
		for (int d = 0; device && d < config->device_count && !found; d++)
			found = device_address_overlap(&config->devices[d], device);
		if (found)
			memcpy(out, names[i], sizeof(names[i]));
	}
	free(faults);
	free(file);
	free(names);
	return found;
}

bool
config_holder(const struct device_address *device, const uint8_t volume_uuid[16],
	      char holder[LAYOUT_NAME_MAX + 1])
{
	return find_volume(device, volume_uuid, NULL, holder);
}

bool
config_unread(char name[LAYOUT_NAME_MAX + 1])
{
	char(*names)[LAYOUT_NAME_MAX + 1] = calloc(VOLUMES_MAX, sizeof(*names));
	struct volume_file *file = malloc(sizeof(*file));
	struct config_faults *faults = malloc(sizeof(*faults));
	int count = names && file && faults ? volume_config_list(names, VOLUMES_MAX) : -ENOMEM;
	bool unread = count < 0;
	int error;

	name[0] = '\0';
	for (int i = 0; i < count && !unread; i++) {
		faults->count = faults->passed_over = 0;
		error = volume_file_read(names[i], file, faults);
		if (error == 0)
			volume_file_free(file);
		unread = error != -ENOENT && file->config.device_count == 0;
		if (unread)
			memcpy(name, names[i], sizeof(names[i]));
	}
	free(faults);
	free(file);
	free(names);
	return unread;
}

bool
config_copy(const char *name, const uint8_t volume_uuid[16], char copy[LAYOUT_NAME_MAX + 1])
{
	return find_volume(NULL, volume_uuid, name, copy);
}
