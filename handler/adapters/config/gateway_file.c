/* config/gateway_file.c - see gateway_file.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <syslog.h>

#include "volume_file.h"
#include "adapters/base/files.h"

#define COMMON "volumes"
#define SPARES "spares"
#define SPARE "spare"

static const char gateway_name[] = "gateway.conf";

/* --- reading --- */

static const struct config_key *
find_gateway_key(const struct config_item *item, void *owner, void **base)
{
	struct gateway_file *file = owner;

	*base = &file->config.volumes;
	for (int i = 0; i < volume_key_count && strcasecmp(item->section, COMMON) == 0; i++) {
		if (volume_keys[i].common && strcasecmp(item->key, volume_keys[i].name) == 0)
			return &volume_keys[i];
	}
	*base = &file->config;
	for (int i = 0; i < gateway_key_count; i++) {
		if (strcasecmp(item->section, gateway_keys[i].section) == 0 &&
		    strcasecmp(item->key, gateway_keys[i].name) == 0)
			return &gateway_keys[i];
	}
	return NULL;
}

static void
note_spare_lines(const struct config_text *text, struct gateway_file *file)
{
	struct device_address device;
	struct fault ignored;

	for (int i = 0; i < text->count; i++) {
		char name[DEVICE_TEXT_MAX];

		if (strcasecmp(text->items[i].section, SPARES) != 0 ||
		    strcasecmp(text->items[i].key, SPARE) != 0)
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(text->items[i].value, " \t"),
			 text->items[i].value);
		for (int s = 0; s < file->config.pool.count &&
				device_address_parse(name, &device, &ignored) == 0;
		     s++) {
			if (file->spare_lines[s] == 0 &&
			    device_address_same(&device, &file->config.pool.spares[s].device))
				file->spare_lines[s] = text->items[i].line;
		}
	}
}

static void
set_defaults(struct gateway_config *config)
{
	memset(config, 0, sizeof(*config));
	volume_config_usual(&config->volumes);
	config->severity = LOG_WARNING;
	snprintf(config->exporter_address, sizeof(config->exporter_address), "127.0.0.1");
	config->exporter_port = EXPORTER_PORT_DEFAULT;
}

int
gateway_file_parse(const char *text, size_t length, struct gateway_file *out,
		   struct config_faults *faults)
{
	struct config_sink sink = {
		.find = find_gateway_key,
		.owner = out,
		.sections = "[volumes], [spares], [notify] and [exporter]",
		.tables = { { volume_keys, volume_key_count, out->volume_lines },
			    { gateway_keys, gateway_key_count, out->lines } },
	};
	struct volume_config *volumes = &out->config.volumes;
	struct config_text parsed;
	int error;

	set_defaults(&out->config);
	memset(out->volume_lines, 0, sizeof(out->volume_lines));
	memset(out->lines, 0, sizeof(out->lines));
	memset(out->spare_lines, 0, sizeof(out->spare_lines));
	error = config_text_parse(text, length, &parsed, faults);
	if (error != 0)
		return error;
	config_items_read(&parsed, &sink, faults);
	note_spare_lines(&parsed, out);
	config_text_free(&parsed);
	if (volumes->sync_rate_min > volumes->sync_rate_max) {
		config_fault_add(faults, 0, "sync_rate_min",
				 "choose sync_rate_min not above sync_rate_max",
				 "the value in [volumes] is above sync_rate_max");
		if (faults->count > 0)
			snprintf(faults->list[faults->count - 1].section,
				 sizeof(faults->list[0].section), COMMON);
		volumes->sync_rate_min = SYNC_RATE_MIN_DEFAULT;
		volumes->sync_rate_max = SYNC_RATE_MAX_DEFAULT;
	}
	config_faults_sort(faults);
	return 0;
}

int
gateway_file_read(struct gateway_file *out, struct config_faults *faults)
{
	size_t length = 0;
	int error;

	memset(out, 0, sizeof(*out));
	set_defaults(&out->config);
	if (snprintf(out->path, sizeof(out->path), "%s/%s", config_dir(), gateway_name) >=
	    (int)sizeof(out->path))
		return -ENAMETOOLONG;
	error = file_read(out->path, CONFIG_FILE_BYTES_MAX, &out->text, &length);
	if (error == 0) {
		error = gateway_file_parse(out->text, length, out, faults);
	} else if (error == -ENOENT) {
		error = 0;
	} else {
		config_fault_add(faults, 0, "", "check its permissions, its length and the disk",
				 "it can't be read: %s", strerror(-error));
	}
	if (error != 0)
		gateway_file_free(out);
	return error;
}

void
gateway_file_free(struct gateway_file *file)
{
	free(file->text);
	file->text = NULL;
}

/* --- writing --- */

char *
gateway_template(void)
{
	struct gateway_config *usual = calloc(1, sizeof(*usual));
	const char *section = "";
	char *text = NULL;
	size_t size;
	FILE *out = usual ? open_memstream(&text, &size) : NULL;

	if (!out) {
		free(usual);
		return NULL;
	}
	set_defaults(usual);
	fputs("# Settings of the gateway. iraid.conf(5) explains the keys; iraid config check "
	      "finds faults in this file.\n"
	      "# A line with # in front shows the default, or an example.\n\n"
	      "# Defaults of all volumes: the file of a volume overrides them. iraid config reload "
	      "applies changes.\n"
	      "[" COMMON "]\n",
	      out);
	for (int i = 0; i < volume_key_count; i++) {
		if (volume_keys[i].common)
			config_template_key(out, &volume_keys[i], &usual->volumes, true);
	}
	for (int i = 0; i < gateway_key_count; i++) {
		if (strcmp(section, gateway_keys[i].section) != 0)
			fprintf(out, "\n[%s]\n", gateway_keys[i].section);
		section = gateway_keys[i].section;
		config_template_key(out, &gateway_keys[i], usual, true);
	}
	free(usual);
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

static bool
same_spares(const struct spare_pool *a, const struct spare_pool *b)
{
	for (int i = 0; i < a->count; i++) {
		int other = spare_pool_find(b, &a->spares[i].device);

		if (other < 0 || a->spares[i].size_bytes != b->spares[other].size_bytes ||
		    a->spares[i].block_bytes != b->spares[other].block_bytes)
			return false;
	}
	return a->count == b->count;
}

static int
insert_spare(struct gateway_file *file, const struct pool_spare *spare)
{
	char value[DEVICE_TEXT_MAX + 64], line[DEVICE_TEXT_MAX + 80];
	int after = 0, error = 0;

	config_spare_format(spare, value);
	snprintf(line, sizeof(line), SPARE " = %s", value);
	for (int i = 0; i < file->config.pool.count; i++)
		after = file->spare_lines[i] > after ? file->spare_lines[i] : after;
	if (after == 0)
		after = config_line_commented(file->text, SPARES, SPARE);
	if (after == 0)
		after = config_section_end(file->text, SPARES);
	if (after == 0) {
		error = config_line_insert(&file->text, config_lines(file->text), "\n[" SPARES "]");
		after = config_lines(file->text);
	}
	return error != 0 ? error : config_line_insert(&file->text, after, line);
}

/* One change of one line; 0: nothing is left to do; 1: look again. */
static int
one_change(struct gateway_file *file, const struct spare_pool *wanted)
{
	const struct spare_pool *now = &file->config.pool;
	int error;

	for (int i = 0; i < now->count; i++) {
		if (spare_pool_find(wanted, &now->spares[i].device) >= 0)
			continue;
		error = config_line_remove(&file->text, file->spare_lines[i]);
		return error != 0 ? error : 1;
	}
	for (int i = 0; i < wanted->count; i++) {
		if (spare_pool_find(now, &wanted->spares[i].device) >= 0)
			continue;
		error = insert_spare(file, &wanted->spares[i]);
		return error != 0 ? error : 1;
	}
	return 0;
}

static int
change_spares(struct gateway_file *file, const struct spare_pool *wanted,
	      struct config_faults *faults)
{
	int more = 1;

	for (int i = 0; i < 3 * SPARE_POOL_MAX && more == 1; i++) {
		faults->count = faults->passed_over = 0;
		more = gateway_file_parse(file->text, strlen(file->text), file, faults);
		if (more == 0)
			more = one_change(file, wanted);
	}
	if (more == 0 && !same_spares(&file->config.pool, wanted))
		more = -EINVAL;
	return more == 1 ? -EINVAL : more;
}

int
gateway_spares_write(const struct spare_pool *pool, struct fault *fault)
{
	struct config_faults *faults = calloc(1, sizeof(*faults));
	struct gateway_file *file = calloc(1, sizeof(*file));
	int error = faults && file ? gateway_file_read(file, faults) : -ENOMEM;

	if (error == 0 && !file->text) {
		file->text = gateway_template();
		error = file->text ? 0 : -ENOMEM;
	}
	if (error == 0)
		error = change_spares(file, pool, faults);
	if (error == 0)
		error = config_file_replace(config_dir(), gateway_name, file->text);
	if (error != 0)
		error = fault_disk(fault, error, config_dir(), "%s/%s: %s", config_dir(),
				   gateway_name,
				   error == -EINVAL
					   ? "can't be changed in its present form; write "
					     "[spares] and one spare a line, as in iraid.conf(5)"
					   : strerror(-error));
	if (file)
		gateway_file_free(file);
	free(file);
	free(faults);
	return error;
}
