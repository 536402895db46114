/* config/search.h - which volume of this gateway has a device. */
#ifndef IRAID_CONFIG_SEARCH_H
#define IRAID_CONFIG_SEARCH_H

#include "config.h"

/* A volume whose configuration, as far as it can be read, lists the device (by any portal that the
 * two share) or has this UUID (NULL: that is not looked at).  False: none.
 */
bool config_holder(const struct device_address *device, const uint8_t volume_uuid[16],
		   char holder[LAYOUT_NAME_MAX + 1]);

/* There is a volume's file that says nothing of its devices, or not even the list of files can be
 * read (then the name is empty): who has a device may not be known.
 */
bool config_unread(char name[LAYOUT_NAME_MAX + 1]);

/* Another volume's file than that of `name`, as far as it can be read, has this UUID.  False: none.
 */
bool config_copy(const char *name, const uint8_t volume_uuid[16], char copy[LAYOUT_NAME_MAX + 1]);

/* The same LUN of the same target, by at least one common portal. */
bool device_address_overlap(const struct device_address *a, const struct device_address *b);

#endif
