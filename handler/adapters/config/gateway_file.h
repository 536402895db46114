/* config/gateway_file.h - the gateway's own file, config_dir()/gateway.conf: defaults for all
 * volumes, shared spares, whom to tell of events, where the exporter listens.  All of it is
 * optional, and so is the file.
 */
#ifndef IRAID_GATEWAY_CONFIG_H
#define IRAID_GATEWAY_CONFIG_H

#include "text.h"
#include "pool.h"

#define GATEWAY_KEYS_MAX 24 /* as CONFIG_KEYS_MAX */
#define GATEWAY_MAILS_MAX 8
#define GATEWAY_MAIL_MAX 255
#define EXPORTER_PORT_DEFAULT 9723u

struct gateway_config {
	struct volume_config volumes; /* what volumes have whose own file says nothing */
	struct spare_pool pool;
	int mail_count;
	char mail[GATEWAY_MAILS_MAX][GATEWAY_MAIL_MAX + 1];
	char command[PATH_MAX]; /* empty: none */
	uint32_t severity;	/* the least that is told; a syslog priority */
	char exporter_address[64];
	uint32_t exporter_port;
};

struct gateway_file {
	struct gateway_config config;
	/* by volume_keys[]: where [volumes] has it; 0: it has not */
	int volume_lines[GATEWAY_KEYS_MAX];
	int lines[GATEWAY_KEYS_MAX]; /* by gateway_keys[] */
	int spare_lines[SPARE_POOL_MAX];
	char path[PATH_MAX];
	char *text; /* malloc'ed; NULL if there is no file */
};

/* What has a fault keeps its default.  No file: all defaults, no fault.  0; -errno (with a fault)
 * if it can't be read.
 */
int gateway_file_read(struct gateway_file *out, struct config_faults *faults);
int gateway_file_parse(const char *text, size_t length, struct gateway_file *out,
		       struct config_faults *faults);
void gateway_file_free(struct gateway_file *file);

/* Have the file list these spares; nothing else in it changes. */
int gateway_spares_write(const struct spare_pool *pool, struct fault *fault);

/* Text of a new file: every key as a comment. */
char *gateway_template(void);

#endif
