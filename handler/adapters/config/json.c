/* config/json.c - reading NAME.json, as volumes were configured before NAME.conf: the first change writes the latter.
 * As strict as that: a key that is not known, or a value out of bounds, is an error that names the file and the key.
 */
#include <ctype.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "volume_file.h"

#define JSON_DEPTH_MAX 8

struct parse {
	struct volume_config *config;
	const char *file;
	char *reason;
	size_t reason_size;
};

static int __attribute__((format(printf, 2, 3)))
fault(const struct parse *parse, const char *format, ...)
{
	va_list arguments;
	int used = snprintf(parse->reason, parse->reason_size, "%s: ", parse->file);

	if (used < 0 || (size_t)used >= parse->reason_size)
		return -EINVAL;
	va_start(arguments, format);
	vsnprintf(parse->reason + used, parse->reason_size - (size_t)used, format, arguments);
	va_end(arguments);
	return -EINVAL;
}

/* The text of a string value that fits into out[size] and holds no NUL. */
static int
read_text(const struct parse *parse, const char *key, json_object *value, char *out, size_t size)
{
	size_t length;

	if (!json_object_is_type(value, json_type_string))
		return fault(parse, "\"%s\" must be a string", key);
	length = (size_t)json_object_get_string_len(value);
	if (length >= size)
		return fault(parse, "\"%s\" is longer than %zu characters", key, size - 1);
	if (strlen(json_object_get_string(value)) != length)
		return fault(parse, "\"%s\" holds a NUL character", key);
	memcpy(out, json_object_get_string(value), length + 1);
	return 0;
}

/* The whole numbers of a configuration: where each goes, and its bounds. */
struct number_key {
	const char *key, *unit;
	uint64_t min, max;
	size_t offset;
	bool wide;		/* uint64_t, else uint32_t */
};

#define NUMBER(field, unit, min, max) { #field, unit, min, max, offsetof(struct volume_config, field), false }

static const struct number_key number_keys[] = {
	NUMBER(give_up_seconds, "seconds", 1, GIVE_UP_SECONDS_MAX),
	NUMBER(queue_limit_seconds, "seconds", 1, QUEUE_LIMIT_SECONDS_MAX),
	NUMBER(assembly_wait_seconds, "seconds", 1, ASSEMBLY_WAIT_SECONDS_MAX),
	{ "sync_rate_min_bytes", "bytes a second", SYNC_RATE_LEAST, SYNC_RATE_MOST,
	  offsetof(struct volume_config, sync_rate_min), true },
	{ "sync_rate_max_bytes", "bytes a second", SYNC_RATE_LEAST, SYNC_RATE_MOST,
	  offsetof(struct volume_config, sync_rate_max), true },
	NUMBER(hedge_milliseconds, "milliseconds", 0, HEDGE_MILLISECONDS_MAX),
	NUMBER(spare_wait_seconds, "seconds", 1, SPARE_WAIT_SECONDS_MAX),
	NUMBER(error_limit, "errors", 1, ERROR_LIMIT_MAX),
};
#define NUMBER_KEYS (sizeof(number_keys) / sizeof(number_keys[0]))

static int
read_number_key(const struct parse *parse, const struct number_key *known, json_object *value)
{
	char *field = (char *)parse->config + known->offset;
	int64_t number;

	if (!json_object_is_type(value, json_type_int))
		return fault(parse, "\"%s\" must be a whole number of %s", known->key, known->unit);
	number = json_object_get_int64(value);
	if (number < (int64_t)known->min || number > (int64_t)known->max)
		return fault(parse, "\"%s\" is %lld, must be %llu to %llu", known->key, (long long)number,
			     (unsigned long long)known->min, (unsigned long long)known->max);
	if (known->wide)
		*(uint64_t *)(void *)field = (uint64_t)number;
	else
		*(uint32_t *)(void *)field = (uint32_t)number;
	return 0;
}

static int
read_device(const struct parse *parse, json_object *value)
{
	struct volume_config *config = parse->config;
	struct device_address *device = &config->devices[config->device_count];
	char text[DEVICE_TEXT_MAX];
	const char *why = "";
	int error = read_text(parse, "members", value, text, sizeof(text));

	if (error != 0)
		return error;
	if (device_address_parse(text, device, &why) != 0)
		return fault(parse, "member \"%s\": %s", text, why);
	/* Two sessions to one LUN would fence each other for ever. */
	if (volume_config_find(config, device) >= 0)
		return fault(parse, "member \"%s\" is there twice", text);
	config->device_count++;
	return 0;
}

static int
read_devices(const struct parse *parse, json_object *value)
{
	size_t count;
	int error = 0;

	if (!json_object_is_type(value, json_type_array))
		return fault(parse, "\"members\" must be a list of PORTAL/IQN/LUN");
	count = json_object_array_length(value);
	if (count < 2 || count > SLOTS_MAX)
		return fault(parse, "\"members\" has %zu entries, must have 2 to %d", count, SLOTS_MAX);
	parse->config->device_count = 0;
	for (size_t i = 0; i < count && error == 0; i++)
		error = read_device(parse, json_object_array_get_idx(value, i));
	return error;
}

static int
read_name(const struct parse *parse, json_object *value)
{
	char name[LAYOUT_NAME_MAX + 1];
	int error = read_text(parse, "name", value, name, sizeof(name));

	if (error != 0)
		return error;
	if (strcmp(name, parse->config->name) != 0)
		return fault(parse, "\"name\" is \"%s\", but the file is that of volume \"%s\"", name,
			     parse->config->name);
	return 0;
}

static int
read_uuid(const struct parse *parse, json_object *value)
{
	char text[UUID_STR_LEN];
	int error = read_text(parse, "uuid", value, text, sizeof(text));

	if (error != 0)
		return error;
	if (uuid_parse(text, parse->config->uuid) != 0 || uuid_is_null(parse->config->uuid))
		return fault(parse, "\"uuid\" \"%s\" is not a UUID", text);
	return 0;
}

static int
read_initiator(const struct parse *parse, json_object *value)
{
	int error = read_text(parse, "initiator", value, parse->config->initiator,
			      sizeof(parse->config->initiator));
	const char *why;

	if (error != 0)
		return error;
	why = initiator_name_fault(parse->config->initiator);
	if (why)
		return fault(parse, "\"initiator\" \"%s\": %s", parse->config->initiator, why);
	return 0;
}

static int
read_chap_file(const struct parse *parse, json_object *value)
{
	int error = read_text(parse, "chap_file", value, parse->config->chap_file,
			      sizeof(parse->config->chap_file));

	if (error == 0 && parse->config->chap_file[0] != '\0' && parse->config->chap_file[0] != '/')
		return fault(parse, "\"chap_file\" \"%s\" must be an absolute path", parse->config->chap_file);
	return error;
}

static int
read_bool(const struct parse *parse, const char *key, json_object *value, bool *out)
{
	if (!json_object_is_type(value, json_type_boolean))
		return fault(parse, "\"%s\" must be true or false", key);
	*out = json_object_get_boolean(value);
	return 0;
}

static int
read_key(const struct parse *parse, const char *key, json_object *value)
{
	struct volume_config *config = parse->config;

	if (strcmp(key, "name") == 0)
		return read_name(parse, value);
	if (strcmp(key, "uuid") == 0)
		return read_uuid(parse, value);
	if (strcmp(key, "members") == 0)
		return read_devices(parse, value);
	if (strcmp(key, "initiator") == 0)
		return read_initiator(parse, value);
	if (strcmp(key, "chap_file") == 0)
		return read_chap_file(parse, value);
	for (size_t i = 0; i < NUMBER_KEYS; i++) {
		if (strcmp(key, number_keys[i].key) == 0)
			return read_number_key(parse, &number_keys[i], value);
	}
	if (strcmp(key, "header_digest") == 0)
		return read_bool(parse, key, value, &config->header_digest);
	if (strcmp(key, "enabled") == 0)
		return read_bool(parse, key, value, &config->enabled);
	return fault(parse, "unknown key \"%.64s\"", key);
}

/* What follows the object may be white space only. */
static bool
only_space(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if (!isspace((unsigned char)text[i]))
			return false;
	}
	return true;
}

static json_object *
parse_json(const struct parse *parse, const char *text, size_t length)
{
	struct json_tokener *tokener = json_tokener_new_ex(JSON_DEPTH_MAX);
	json_object *root;

	if (!tokener) {
		fault(parse, "out of memory");
		return NULL;
	}
	/* Not strict, because strict refuses comments; but whole and in UTF-8. */
	json_tokener_set_flags(tokener, JSON_TOKENER_VALIDATE_UTF8);
	root = json_tokener_parse_ex(tokener, text, (int)length);
	if (!root) {
		enum json_tokener_error error = json_tokener_get_error(tokener);

		fault(parse, "not valid JSON at byte %zu: %s", json_tokener_get_parse_end(tokener),
		      error == json_tokener_continue ? "the file ends too early"
						     : json_tokener_error_desc(error));
	} else if (!only_space(text + json_tokener_get_parse_end(tokener),
			       length - json_tokener_get_parse_end(tokener))) {
		fault(parse, "there is text after the object");
		json_object_put(root);
		root = NULL;
	} else if (!json_object_is_type(root, json_type_object)) {
		fault(parse, "not a JSON object");
		json_object_put(root);
		root = NULL;
	}
	json_tokener_free(tokener);
	return root;
}

int
volume_config_parse_json(const char *text, size_t length, const char *name, const char *file,
		    struct volume_config *out, char *reason, size_t reason_size)
{
	static const char *const required[] = { "name", "uuid", "members" };
	struct volume_config config;
	struct parse parse = { &config, file, reason, reason_size };
	json_object *root = parse_json(&parse, text, length);
	bool has_min, has_max;
	int error = 0;

	if (!root)
		return -EINVAL;
	volume_config_defaults(&config, name);
	for (size_t i = 0; i < sizeof(required) / sizeof(required[0]) && error == 0; i++) {
		if (!json_object_object_get_ex(root, required[i], NULL))
			error = fault(&parse, "\"%s\" is missing", required[i]);
	}
	if (error == 0) {
		json_object_object_foreach(root, key, value) {
			error = read_key(&parse, key, value);
			if (error != 0)
				break;
		}
	}
	has_min = json_object_object_get_ex(root, "sync_rate_min_bytes", NULL);
	has_max = json_object_object_get_ex(root, "sync_rate_max_bytes", NULL);
	json_object_put(root);
	if (error == 0 && !volume_config_fit_rates(&config, has_min, has_max))
		error = fault(&parse, "\"sync_rate_min_bytes\" is %llu, above \"sync_rate_max_bytes\", %llu",
			      (unsigned long long)config.sync_rate_min, (unsigned long long)config.sync_rate_max);
	if (error == 0)
		*out = config;
	return error;
}
