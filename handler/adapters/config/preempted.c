/* config/preempted.c - see preempted.h.  A file for each member, preempted/UUID.NUMBER under
 * state_dir(), the number made of the member's target and LUN, for portals may be
 * written in another order:
 *
 *	KEY - - -			who it was is not known
 *	KEY GROUP ISID INITIATOR	log in as that one, by that portal group, and its session has ended
 */
#include "preempted.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "config.h"
#include "adapters/base/files.h"

#define TEXT_BYTES_MAX (SCSI_INITIATOR_MAX + 64)

static int
make_folder(char folder[PATH_MAX])
{
	return snprintf(folder, PATH_MAX, "%s/preempted", state_dir()) >= PATH_MAX ? -ENAMETOOLONG
										   : 0;
}

static void
make_name(const uint8_t uuid[16], const struct member_address *member, char *out, size_t size)
{
	uint64_t hash = hash_bytes(HASH_BEGIN, member->iqn, strlen(member->iqn));
	char text[UUID_STR_LEN];

	hash = hash_bytes(hash, &member->lun, sizeof(member->lun));
	uuid_unparse_lower(uuid, text);
	snprintf(out, size, "%s.%016" PRIx64, text, hash);
}

int
preempted_record(const uint8_t uuid[16], const struct member_address *member,
		 const struct scsi_preempted *preempted)
{
	const struct scsi_nexus *nexus = &preempted->nexus;
	char folder[PATH_MAX], name[64], text[TEXT_BYTES_MAX];
	int error = make_folder(folder);

	if (error != 0)
		return error;
	make_name(uuid, member, name, sizeof(name));
	if (preempted->key == 0) {
		error = file_remove(folder, name);
		return error == -ENOENT ? 0 : error;
	}
	if (preempted->followable)
		snprintf(text, sizeof(text), "%016" PRIx64 " %u %02x%02x%02x%02x%02x%02x %s\n",
			 preempted->key, preempted->portal_group, nexus->isid[0], nexus->isid[1],
			 nexus->isid[2], nexus->isid[3], nexus->isid[4], nexus->isid[5],
			 nexus->initiator);
	else
		snprintf(text, sizeof(text), "%016" PRIx64 " - - -\n", preempted->key);
	return file_replace(folder, name, text, strlen(text), 0600);
}

static bool
parse(const char *text, struct scsi_preempted *out)
{
	unsigned int isid[6];
	int end = 0;

	if (sscanf(text, "%16" SCNx64 " - - -%n", &out->key, &end) == 1 && end > 0 &&
	    strcmp(text + end, "\n") == 0)
		return out->key != 0;
	if (sscanf(text, "%16" SCNx64 " %u %2x%2x%2x%2x%2x%2x %n", &out->key, &out->portal_group,
		   &isid[0], &isid[1], &isid[2], &isid[3], &isid[4], &isid[5], &end) != 8 ||
	    end == 0)
		return false;
	for (int i = 0; i < 6; i++)
		out->nexus.isid[i] = (uint8_t)isid[i];
	snprintf(out->nexus.initiator, sizeof(out->nexus.initiator), "%.*s",
		 (int)strcspn(text + end, " \n"), text + end);
	out->followable = true;
	return out->key != 0 && out->nexus.initiator[0] != '\0';
}

int
preempted_recall(const uint8_t uuid[16], const struct member_address *member,
		 struct scsi_preempted *out)
{
	char folder[PATH_MAX], name[64], path[PATH_MAX];
	char *text;
	size_t length;
	int error = make_folder(folder);

	*out = (struct scsi_preempted){ .key = 0 };
	if (error != 0)
		return error;
	make_name(uuid, member, name, sizeof(name));
	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	error = file_read(path, TEXT_BYTES_MAX, &text, &length);
	if (error != 0)
		return error == -ENOENT ? 0 : error;
	if (!parse(text, out)) {
		*out = (struct scsi_preempted){ .key = 0 };
		error = -EINVAL;
	}
	free(text);
	return error;
}

int
preempted_forget(const uint8_t uuid[16])
{
	char folder[PATH_MAX], prefix[UUID_STR_LEN];
	const struct dirent *entry;
	int error = make_folder(folder);
	DIR *dir = error == 0 ? opendir(folder) : NULL;

	if (dir == NULL)
		return error != 0 ? error : errno == ENOENT ? 0 : -errno;
	uuid_unparse_lower(uuid, prefix);
	while (error == 0 && (entry = readdir(dir)) != NULL)
		if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
			error = file_remove(folder, entry->d_name);
	closedir(dir);
	return error;
}
