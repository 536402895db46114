/* config/volume_file.h - a volume's file, NAME.conf. */
#ifndef IRAID_CONFIG_VOLUME_H
#define IRAID_CONFIG_VOLUME_H

#include <stdio.h>

#include "config.h"
#include "keys.h"

#define VOLUME_SUFFIX ".conf"

struct volume_file {
	struct volume_config config;
	char path[PATH_MAX];
	char *text;		    /* malloc'ed */
	int lines[CONFIG_KEYS_MAX]; /* by volume_keys[] */
	int device_lines[SLOTS_MAX];
};

/* 0; -ENOENT, -EINVAL and other -errno with at least one fault; out->path is set in any case. */
int volume_file_read(const char *name, struct volume_file *out, struct config_faults *faults);
/* text[length] of a NAME.conf.  What has a fault is as it was in *defaults. */
int volume_file_parse(const char *text, size_t length, const struct volume_config *defaults,
		      struct volume_file *out, struct config_faults *faults);
void volume_file_free(struct volume_file *file);

bool volume_config_same(const struct volume_config *a, const struct volume_config *b);

/* For templates: a comment of several lines, the bounds, and "key = value". */
void
config_template_key(FILE *out, const struct config_key *key, const void *base, bool as_comment);

/* Replace folder/name by text, as file_rewrite() does. */
int config_file_replace(const char *folder, const char *name, const char *text);

#endif
