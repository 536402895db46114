/* config/epoch_file.h - the epochs of one volume that this gateway has on record: a file of fixed
 * size in state_dir()/epochs, which is overwritten in place.  So a disk that became full since it
 * was made refuses nothing.
 */
#ifndef IRAID_EPOCH_FILE_H
#define IRAID_EPOCH_FILE_H

#include <stdint.h>

struct epochs_kept {
	uint64_t given; /* the highest that members had, durably; 0: none */
	uint64_t meant; /* the highest that they were about to get */
};

struct epoch_file;

/* Nothing is opened yet.  NULL: no memory. */
struct epoch_file *epoch_file_create(const uint8_t uuid[16]);
void epoch_file_free(struct epoch_file *file);

/* What is on record is at least that, durably, when it returns 0; an epoch never goes down.  Blocks
 * as long as the disk does.  -EINVAL: what is there is damaged, and stays.
 */
int epoch_file_raise(struct epoch_file *file, const struct epochs_kept *to);

/* 0, with zeros if nothing is known; -EINVAL: what is there is damaged; -errno. */
int epoch_file_read(const uint8_t uuid[16], struct epochs_kept *out);
/* 0, also if there is none. */
int epoch_file_remove(const uint8_t uuid[16]);

#endif
