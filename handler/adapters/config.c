/* config.c - see config.h.  The file is read as strictly as it is written: a key that is not
 * known, or a value out of bounds, is an error that names the file and the key, because a typo
 * that is passed over ("give_up_second") becomes a surprise months later.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "config.h"
#include "files.h"

#define CONFIG_FILE_BYTES_MAX (256u * 1024u)
#define JSON_DEPTH_MAX 8

static const char suffix[] = ".json";

static const char *
folder_of(const char *variable, const char *usual)
{
	const char *value = getenv(variable);

	return value && value[0] ? value : usual;
}

const char *
config_dir(void)
{
	return folder_of("IRAID_CONFIG_DIR", "/etc/iraid");
}

const char *
state_dir(void)
{
	return folder_of("IRAID_STATE_DIR", "/var/lib/iraid");
}

const char *
run_dir(void)
{
	return folder_of("IRAID_RUN_DIR", "/run/iraid");
}

const char *
socket_path(void)
{
	return folder_of("IRAID_SOCKET", "/run/iraid/control.sock");
}

const char *
volume_name_fault(const char *name)
{
	size_t length = strlen(name);

	if (length == 0)
		return "a volume's name must not be empty";
	if (length > LAYOUT_NAME_MAX)
		return "a volume's name has at most 63 characters";
	if (name[0] == '.' || name[0] == '-')
		return "a volume's name must not begin with '.' or '-'";
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)name[i];

		if (c >= 0x80 || (!isalnum(c) && c != '.' && c != '_' && c != '-'))
			return "a volume's name may hold only letters, digits, '.', '_' and '-'";
	}
	return NULL;
}

const char *
initiator_name_fault(const char *name)
{
	size_t length = strlen(name);

	if (strncmp(name, "iqn.", 4) != 0 && strncmp(name, "eui.", 4) != 0 &&
	    strncmp(name, "naa.", 4) != 0)
		return "an initiator's name begins with iqn., eui. or naa.";
	if (length < 5 || length > 223)
		return "an initiator's name has 5 to 223 characters";
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)name[i];

		/* RFC 3722 allows more of UTF-8; targets in the field do not. */
		if (c >= 0x80 || isupper(c) || (!isalnum(c) && c != '.' && c != ':' && c != '-'))
			return "an initiator's name may hold only small letters, digits, '.', ':' and '-'";
	}
	return NULL;
}

static int
volumes_folder(char *out, size_t size)
{
	int count = snprintf(out, size, "%s/volumes", config_dir());

	return count < 0 || (size_t)count >= size ? -ENAMETOOLONG : 0;
}

void
volume_config_defaults(struct volume_config *config, const char *name)
{
	char host[65] = "gateway";
	uint64_t gateway = 0;

	memset(config, 0, sizeof(*config));
	snprintf(config->name, sizeof(config->name), "%s", name);
	config->give_up_seconds = GIVE_UP_SECONDS_DEFAULT;
	config->queue_limit_seconds = QUEUE_LIMIT_SECONDS_DEFAULT;
	config->assembly_wait_seconds = ASSEMBLY_WAIT_SECONDS_DEFAULT;
	config->sync_rate_min = SYNC_RATE_MIN_DEFAULT;
	config->sync_rate_max = SYNC_RATE_MAX_DEFAULT;
	config->hedge_milliseconds = HEDGE_MILLISECONDS_DEFAULT;
	config->spare_wait_seconds = SPARE_WAIT_SECONDS_DEFAULT;
	config->error_limit = ERROR_LIMIT_DEFAULT;
	config->enabled = true;
	if (gethostname(host, sizeof(host) - 1) != 0)
		snprintf(host, sizeof(host), "gateway");
	/* LIO tells initiators apart by their name alone, and host names repeat: the gateway's id makes two
	 * gateways two. */
	if (gateway_id(&gateway) != 0)
		gateway = 0;
	snprintf(config->initiator, sizeof(config->initiator), "iqn.2026-01.org.iraid:%s-%08x:%s", host,
		 (unsigned int)gateway, name);
	/* Names of hosts and volumes may hold what an initiator's name may not. */
	for (char *c = config->initiator; *c; c++) {
		if (isupper((unsigned char)*c))
			*c = (char)tolower((unsigned char)*c);
		else if (*c == '_')
			*c = '-';
	}
}

int
volume_config_find(const struct volume_config *config, const struct device_address *device)
{
	for (int i = 0; i < config->device_count; i++) {
		if (device_address_same(&config->devices[i], device))
			return i;
	}
	return -1;
}

int
volume_config_drop(struct volume_config *config, const struct device_address *device)
{
	int index = volume_config_find(config, device);

	if (index < 0)
		return 0;
	if (config->device_count <= 2)
		return -EINVAL;
	config->device_count--;
	memmove(&config->devices[index], &config->devices[index + 1],
		(size_t)(config->device_count - index) * sizeof(config->devices[0]));
	return 0;
}

/* --- reading --- */

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
volume_config_parse(const char *text, size_t length, const char *name, const char *file,
		    struct volume_config *out, char *reason, size_t reason_size)
{
	static const char *const required[] = { "name", "uuid", "members" };
	struct volume_config config;
	struct parse parse = { &config, file, reason, reason_size };
	json_object *root = parse_json(&parse, text, length);
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
	json_object_put(root);
	if (error == 0 && config.sync_rate_min > config.sync_rate_max)
		error = fault(&parse, "\"sync_rate_min_bytes\" is %llu, above \"sync_rate_max_bytes\", %llu",
			      (unsigned long long)config.sync_rate_min, (unsigned long long)config.sync_rate_max);
	if (error == 0)
		*out = config;
	return error;
}

int
volume_config_read(const char *name, struct volume_config *out, char *reason, size_t reason_size)
{
	char folder[PATH_MAX], path[PATH_MAX];
	char *text;
	size_t length;
	int error;
	const char *why = volume_name_fault(name);

	if (why) {
		snprintf(reason, reason_size, "\"%.80s\": %s", name, why);
		return -EINVAL;
	}
	error = volumes_folder(folder, sizeof(folder));
	if (error == 0 && snprintf(path, sizeof(path), "%s/%s%s", folder, name, suffix) >= (int)sizeof(path))
		error = -ENAMETOOLONG;
	if (error == 0)
		error = file_read(path, CONFIG_FILE_BYTES_MAX, &text, &length);
	if (error == -ENOENT)
		snprintf(reason, reason_size,
			 "there is no volume \"%s\" (no file %s); 'iraid list' shows those there are", name, path);
	else if (error == -EFBIG)
		snprintf(reason, reason_size, "%s: longer than %u bytes", path, CONFIG_FILE_BYTES_MAX);
	else if (error != 0)
		snprintf(reason, reason_size, "%s/%s%s: %s", folder, name, suffix, strerror(-error));
	if (error != 0)
		return error;
	error = volume_config_parse(text, length, name, path, out, reason, reason_size);
	free(text);
	return error;
}

/* --- writing --- */

static json_object *
config_to_json(const struct volume_config *config)
{
	json_object *root = json_object_new_object();
	json_object *members = json_object_new_array();
	char text[DEVICE_TEXT_MAX], uuid[UUID_STR_LEN];

	uuid_unparse_lower(config->uuid, uuid);
	for (int i = 0; i < config->device_count; i++) {
		device_address_format(&config->devices[i], text);
		json_object_array_add(members, json_object_new_string(text));
	}
	json_object_object_add(root, "name", json_object_new_string(config->name));
	json_object_object_add(root, "uuid", json_object_new_string(uuid));
	json_object_object_add(root, "members", members);
	json_object_object_add(root, "initiator", json_object_new_string(config->initiator));
	if (config->chap_file[0] != '\0')
		json_object_object_add(root, "chap_file", json_object_new_string(config->chap_file));
	for (size_t i = 0; i < NUMBER_KEYS; i++) {
		const char *field = (const char *)config + number_keys[i].offset;
		uint64_t number = number_keys[i].wide ? *(const uint64_t *)(const void *)field
						      : *(const uint32_t *)(const void *)field;

		json_object_object_add(root, number_keys[i].key, json_object_new_int64((int64_t)number));
	}
	json_object_object_add(root, "header_digest", json_object_new_boolean(config->header_digest));
	json_object_object_add(root, "enabled", json_object_new_boolean(config->enabled));
	return root;
}

int
volume_config_write(const struct volume_config *config, char *reason, size_t reason_size)
{
	char folder[PATH_MAX], file[LAYOUT_NAME_MAX + sizeof(suffix) + 1];
	json_object *root = config_to_json(config);
	const char *text = json_object_to_json_string_ext(
		root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE);
	char *lines = NULL;
	int error = volumes_folder(folder, sizeof(folder));
	int length = asprintf(&lines, "%s\n", text);

	snprintf(file, sizeof(file), "%s%s", config->name, suffix);
	if (length < 0)
		error = -ENOMEM;
	if (error == 0)
		error = file_replace(folder, file, lines, (size_t)length, 0600);
	if (error != 0)
		snprintf(reason, reason_size, "%s/%s: %s", folder, file, strerror(-error));
	if (length >= 0)
		free(lines);
	json_object_put(root);
	return error;
}

int
volume_config_delete(const char *name)
{
	char folder[PATH_MAX], file[LAYOUT_NAME_MAX + sizeof(suffix) + 1];
	int error = volumes_folder(folder, sizeof(folder));

	if (error != 0)
		return error;
	if (volume_name_fault(name))
		return -EINVAL;
	snprintf(file, sizeof(file), "%s%s", name, suffix);
	return file_remove(folder, file);
}

static int
compare_names(const void *a, const void *b)
{
	return strcmp(a, b);
}

int
volume_config_list(char (*names)[LAYOUT_NAME_MAX + 1], int max)
{
	char folder[PATH_MAX];
	struct dirent *entry;
	DIR *dir;
	int count = 0;
	int error = volumes_folder(folder, sizeof(folder));

	if (error != 0)
		return error;
	dir = opendir(folder);
	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	while (count < max && (entry = readdir(dir))) {
		size_t length = strlen(entry->d_name);

		if (length <= sizeof(suffix) - 1 || length - (sizeof(suffix) - 1) > LAYOUT_NAME_MAX ||
		    strcmp(entry->d_name + length - (sizeof(suffix) - 1), suffix) != 0)
			continue;
		length -= sizeof(suffix) - 1;
		memcpy(names[count], entry->d_name, length);
		names[count][length] = '\0';
		if (!volume_name_fault(names[count]))
			count++;
	}
	closedir(dir);
	qsort(names, (size_t)count, sizeof(names[0]), compare_names);
	return count;
}
