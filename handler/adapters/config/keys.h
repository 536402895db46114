/* config/keys.h - every key of a gateway's files: type, bounds, default, when a change takes
 * effect, meaning.  One table for reading, writing, checking, printing, and for the test that
 * compares it with iraid.conf(5).
 */
#ifndef IRAID_CONFIG_KEYS_H
#define IRAID_CONFIG_KEYS_H

#include "adapters/base/json.h"
#include "text.h"
#include "gateway_file.h"

enum config_kind {
	CONFIG_UUID,
	CONFIG_DEVICES, /* devices[] and device_count of a volume; a line for each */
	CONFIG_INITIATOR,
	CONFIG_PATH,	     /* char[PATH_MAX]; empty: none */
	CONFIG_SECONDS,	     /* uint32_t */
	CONFIG_MILLISECONDS, /* uint32_t */
	CONFIG_RATE,	     /* uint64_t, bytes a second */
	CONFIG_NUMBER,	     /* uint32_t */
	CONFIG_BOOL,
	CONFIG_LOG,	  /* enum log_mode */
	CONFIG_DIGEST,	  /* enum iscsi_digest */
	CONFIG_REDIRECTS, /* enum redirects */
	CONFIG_SPARES,	  /* the gateway's pool; a line for each */
	CONFIG_MAILS,	  /* mail[] and mail_count of a gateway; a line for each */
	CONFIG_SEVERITY,  /* uint32_t, a syslog priority */
	CONFIG_ADDRESS,	  /* char[], where to listen */
};

enum config_effect {
	EFFECT_NOW,	/* with iraid config reload */
	EFFECT_LOGIN,	/* the same, at the next login to each member */
	EFFECT_START,	/* when the volume is started the next time */
	EFFECT_COMMAND, /* of members: commands change them */
	EFFECT_UNIT,	/* when the unit that reads it is restarted */
};

struct config_key {
	const char *section, *name;
	enum config_kind kind;
	enum config_effect effect;
	bool required;
	/* of a volume: [volumes] of gateway.conf has it as well, as the default of all */
	bool common;
	uint64_t min, max;
	size_t offset;	     /* in struct volume_config or struct gateway_config */
	const char *meaning; /* sentences for the comment above it */
};

extern const struct config_key volume_keys[];
extern const int volume_key_count;
extern const struct config_key gateway_keys[];
extern const int gateway_key_count;

#define CONFIG_KEYS_MAX 24 /* of one table */
#define CONFIG_TABLES 2
#define CONFIG_VALUE_MAX PATH_MAX /* bytes of any value as text */

bool config_key_repeated(const struct config_key *key);
const char *config_effect_name(enum config_effect effect);

/* value.c */
/* A bound as it would be written. */
void config_bound_format(const struct config_key *key, uint64_t bound, char *out, size_t size);
/* Read a value into its place; a repeated one is added.  False: what is wrong and the remedy are in
 * *fault.
 */
bool config_value_read(const struct config_key *key, const char *text, void *base,
		       struct config_fault *fault);
/* As it is written into a file; "none" of a path that is empty.  Not for a repeated one. */
void
config_value_format(const struct config_key *key, const void *base, char out[CONFIG_VALUE_MAX]);
bool config_value_same(const struct config_key *key, const void *a, const void *b);
void config_value_copy(const struct config_key *key, void *to, const void *from);
json_object *config_value_json(const struct config_key *key, const void *base);
void config_spare_format(const struct pool_spare *spare, char out[DEVICE_TEXT_MAX + 64]);

/* Where a file's values go.  find() says which key an item is, NULL if none; *base is then where it
 * is read into.
 */
struct config_sink {
	const struct config_key *(*find)(const struct config_item *item, void *owner, void **base);
	const char *sections; /* for the remedy of an unknown one: "[volume]" */
	void *owner;
	struct {
		const struct config_key *keys;
		int count;
		int *lines; /* by key: where it is; 0: it is not there */
	} tables[CONFIG_TABLES];
};

/* keys.c */
/* All items of a file.  A key that is there twice, or is not known, or has a bad value is a fault,
 * and is left out.
 */
void config_items_read(const struct config_text *text, struct config_sink *sink,
		       struct config_faults *faults);

json_object *config_keys_json(void); /* the table, for --print-config-keys */

#endif
