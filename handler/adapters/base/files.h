/* base/files.h - small files of the gateway: read whole, replaced whole and durably. */
#ifndef IRAID_FILES_H
#define IRAID_FILES_H

#include <stddef.h>
#include <sys/types.h>

/* Make folder and its parents, as mkdir -p: others may look what is in them.  0 or -errno. */
int folder_make(const char *path);

/* Replace folder/name by data: a crash at any moment leaves the old or the new file, and the
 * new one is durable when 0 is returned.  Else -errno, and the old file is there.
 */
int
file_replace(const char *folder, const char *name, const void *data, size_t length, mode_t mode);

/* As file_replace; a file that is there keeps its mode, owner and group, and a link the file that
 * it leads to gets the data.  `mode` is a new one's.
 */
int
file_rewrite(const char *folder, const char *name, const void *data, size_t length, mode_t mode);

/* As file_replace, but an existing file wins: -EEXIST and it stays. */
int file_create(const char *folder, const char *name, const void *data, size_t length, mode_t mode);

/* Remove folder/name, durably.  0 or -errno. */
int file_remove(const char *folder, const char *name);

/* The whole file, malloc'ed and ended with a NUL that *length doesn't count.
 * 0; -EFBIG if it is longer than length_max; -errno.
 */
int file_read(const char *path, size_t length_max, char **out, size_t *length);

#endif
