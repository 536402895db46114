/* config/check.c - see check.h. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "search.h"
#include "volume_file.h"

#define VOLUMES_MAX 1024

struct check {
	json_object *files, *faults;
	struct gateway_file *gateway;
	int count;
	char (*names)[LAYOUT_NAME_MAX + 1];
	struct volume_file **volumes; /* by names[]; what of them could be read */
};

/* --- faults as JSON --- */

static void
put_faults(json_object *list, const struct config_faults *faults, const char *file)
{
	for (int i = 0; i < faults->count; i++) {
		const struct config_fault *fault = &faults->list[i];
		json_object *object = json_object_new_object();

		json_object_object_add(object, "file", json_object_new_string(file));
		json_object_object_add(object, "line",
				       fault->line > 0 ? json_object_new_int(fault->line) : NULL);
		json_object_object_add(object, "section", json_object_new_string(fault->section));
		json_object_object_add(object, "key", json_object_new_string(fault->key));
		json_object_object_add(object, "what", json_object_new_string(fault->what));
		json_object_object_add(object, "remedy", json_object_new_string(fault->remedy));
		json_object_array_add(list, object);
	}
}

const char *
config_fault_text(json_object *fault, const char *key)
{
	json_object *value = NULL;

	json_object_object_get_ex(fault, key, &value);
	return value ? json_object_get_string(value) : "";
}

/* --- what a file says is true of the machine --- */

static void
check_mode(const char *path, struct config_faults *faults)
{
	struct stat status;

	if (stat(path, &status) != 0)
		return;
	if (status.st_uid != 0 && status.st_uid != geteuid())
		config_fault_add(faults, 0, "", "chown root it", "it does not belong to root");
	if (status.st_mode & 022)
		config_fault_add(faults, 0, "", "chmod 600 it",
				 "users other than its owner can write it, mode %04o",
				 status.st_mode & 07777);
}

static void
check_chap_file(const char *path, int line, struct config_faults *faults)
{
	struct iscsi_credentials credentials;
	struct fault why;

	if (line > 0 && path[0] != '\0' && iscsi_credentials_read(path, &credentials, &why) != 0)
		config_fault_add(
			faults, line, "chap_file",
			"write the user on line 1 and the secret on line 2, for mutual CHAP the "
			"target's own on lines 3 and 4; the file must "
			"belong to root and have mode 0600",
			"%.*s: %s", text_fit(path, 300), path, why.message);
	explicit_bzero(&credentials, sizeof(credentials));
}

static int
line_of(const char *name, const struct config_key *keys, int count, const int *lines)
{
	for (int i = 0; i < count; i++) {
		if (strcmp(keys[i].name, name) == 0)
			return lines[i];
	}
	return 0;
}

static void
check_gateway(struct check *check)
{
	struct gateway_file *gateway = check->gateway;
	struct config_faults *faults = calloc(1, sizeof(*faults));

	if (!faults)
		return;
	gateway_file_read(gateway, faults);
	check_mode(gateway->path, faults);
	check_chap_file(gateway->config.volumes.chap_file,
			line_of("chap_file", volume_keys, volume_key_count, gateway->volume_lines),
			faults);
	if (gateway->config.command[0] != '\0' && access(gateway->config.command, X_OK) != 0)
		config_fault_add(
			faults, line_of("command", gateway_keys, gateway_key_count, gateway->lines),
			"command", "name an existing program by its absolute path",
			"%.*s can't be run: %s", text_fit(gateway->config.command, 300),
			gateway->config.command, strerror(errno));
	config_faults_sort(faults);
	if (gateway->text)
		json_object_array_add(check->files, json_object_new_string(gateway->path));
	put_faults(check->faults, faults, gateway->path);
	free(faults);
}

/* --- volumes beside each other --- */

static void
check_device(const struct check *check, int index, int d, struct config_faults *faults)
{
	const struct volume_file *file = check->volumes[index];
	const struct device_address *device = &file->config.devices[d];
	char text[MEMBER_ADDRESS_MAX];

	member_address_format(&device->address, text);
	for (int i = 0; i < check->count; i++) {
		const struct volume_config *other = &check->volumes[i]->config;

		for (int o = 0; o < other->device_count && i != index; o++) {
			if (device_address_overlap(device, &other->devices[o]))
				config_fault_add(faults, file->device_lines[d], "member",
						 "remove it from one of them",
						 "%.300s is also a member of volume %s", text,
						 check->names[i]);
		}
	}
	for (int i = 0; i < check->gateway->config.pool.count; i++) {
		if (device_address_overlap(device, &check->gateway->config.pool.spares[i].device))
			config_fault_add(faults, file->device_lines[d], "member",
					 "remove it from one of them; a device of a volume is "
					 "never used as a spare",
					 "%.300s is also a spare of the gateway", text);
	}
}

static void
check_volume(struct check *check, int index, struct config_faults *faults)
{
	static const uint8_t none[16];
	const struct volume_file *file = check->volumes[index];
	const struct volume_config *config = &file->config;

	check_mode(file->path, faults);
	check_chap_file(config->chap_file,
			line_of("chap_file", volume_keys, volume_key_count, file->lines), faults);
	for (int i = 0; i < check->count; i++) {
		if (i != index && memcmp(config->uuid, none, 16) != 0 &&
		    memcmp(config->uuid, check->volumes[i]->config.uuid, 16) == 0)
			config_fault_add(faults, file->lines[0], "uuid",
					 "remove the file that is a copy",
					 "volume %s has the same UUID", check->names[i]);
	}
	for (int d = 0; d < config->device_count; d++)
		check_device(check, index, d, faults);
	config_faults_sort(faults);
}

/* Files that look like a volume's and are none. */
static void
check_strays(struct check *check)
{
	struct config_faults *faults = calloc(1, sizeof(*faults));
	char folder[PATH_MAX], path[PATH_MAX + NAME_MAX + 2];
	DIR *dir = volume_config_folder(folder, sizeof(folder)) == 0 ? opendir(folder) : NULL;
	struct dirent *entry;

	while (dir && faults && (entry = readdir(dir))) {
		char name[NAME_MAX + 1];
		size_t length = strlen(entry->d_name), end = strlen(VOLUME_SUFFIX);
		const char *why;

		if (entry->d_name[0] == '.' || length <= end ||
		    strcmp(entry->d_name + length - end, VOLUME_SUFFIX) != 0)
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)(length - end), entry->d_name);
		why = volume_name_fault(name);
		if (!why)
			continue;
		faults->count = 0;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		config_fault_add(faults, 0, "", "rename or remove it", "it is not read: %s", why);
		put_faults(check->faults, faults, path);
	}
	if (dir)
		closedir(dir);
	free(faults);
}

static bool
load_volumes(struct check *check, struct config_faults **faults)
{
	for (int i = 0; i < check->count; i++) {
		check->volumes[i] = calloc(1, sizeof(*check->volumes[i]));
		faults[i] = calloc(1, sizeof(*faults[i]));
		if (!check->volumes[i] || !faults[i])
			return false;
		volume_file_read(check->names[i], check->volumes[i], faults[i]);
	}
	return true;
}

static int
list_volumes(struct check *check, const char *name)
{
	bool there = !name;
	int count = volume_config_list(check->names, VOLUMES_MAX - 1);

	if (count < 0)
		return count;
	for (int i = 0; i < count && !there; i++)
		there = strcmp(check->names[i], name) == 0;
	if (!there) /* so that it is said of it that it is not there */
		snprintf(check->names[count++], sizeof(check->names[0]), "%s", name);
	check->count = count;
	return 0;
}

static bool
check_volumes(struct check *check, const char *name)
{
	struct config_faults **faults = calloc((size_t)check->count + 1, sizeof(*faults));
	bool done;

	check->volumes = calloc((size_t)check->count + 1, sizeof(*check->volumes));
	done = faults && check->volumes && load_volumes(check, faults);
	for (int i = 0; i < check->count && done; i++) {
		if (name && strcmp(name, check->names[i]) != 0)
			continue;
		if (check->volumes[i]->path[0] == '/')
			json_object_array_add(check->files,
					      json_object_new_string(check->volumes[i]->path));
		check_volume(check, i, faults[i]);
		put_faults(check->faults, faults[i], check->volumes[i]->path);
	}
	for (int i = 0; i < check->count && check->volumes; i++) {
		if (check->volumes[i])
			volume_file_free(check->volumes[i]);
		free(check->volumes[i]);
		if (faults)
			free(faults[i]);
	}
	free(check->volumes);
	free(faults);
	return done;
}

/* A name that no file can have may be longer than the list has room for: it is looked at by itself.
 */
static bool
check_name(struct check *check, const char *name)
{
	struct config_faults *faults = calloc(1, sizeof(*faults));
	struct volume_file *file = calloc(1, sizeof(*file));
	bool done = faults && file;

	if (done) {
		volume_file_read(name, file, faults);
		put_faults(check->faults, faults, file->path);
		volume_file_free(file);
	}
	free(file);
	free(faults);
	return done;
}

json_object *
config_check(const char *name)
{
	bool nobodys = name && volume_name_fault(name);
	struct check check = {
		.files = json_object_new_array(),
		.faults = json_object_new_array(),
		.gateway = calloc(1, sizeof(*check.gateway)),
		.names = calloc(VOLUMES_MAX, sizeof(*check.names)),
	};
	json_object *result = NULL;
	bool done =
		check.gateway && check.names && list_volumes(&check, nobodys ? NULL : name) == 0;

	if (done) {
		check_gateway(&check);
		done = nobodys ? check_name(&check, name) : check_volumes(&check, name);
		if (!name)
			check_strays(&check);
	}
	if (done) {
		result = json_object_new_object();
		json_object_object_add(result, "files", json_object_get(check.files));
		json_object_object_add(result, "faults", json_object_get(check.faults));
	}
	json_object_put(check.files);
	json_object_put(check.faults);
	if (check.gateway)
		gateway_file_free(check.gateway);
	free(check.gateway);
	free(check.names);
	return result;
}

/* --- what holds --- */

/* As the control socket names it: with the unit. */
static void
socket_name(const struct config_key *key, char *out, size_t size)
{
	const char *unit = "";

	if (key->kind == CONFIG_SECONDS)
		unit = "_seconds";
	else if (key->kind == CONFIG_MILLISECONDS)
		unit = "_milliseconds";
	else if (key->kind == CONFIG_RATE)
		unit = "_bytes";
	else if (key->kind == CONFIG_DEVICES)
		unit = "s";
	snprintf(out, size, "%s%s", key->name, unit);
}

static json_object *
values_json(const struct config_key *keys, int count, bool common_only, const void *base)
{
	json_object *values = json_object_new_object();
	char name[64];

	for (int i = 0; i < count; i++) {
		if (common_only && !keys[i].common)
			continue;
		socket_name(&keys[i], name, sizeof(name));
		json_object_object_add(values, name, config_value_json(&keys[i], base));
	}
	return values;
}

/* One key of a table as it holds; `line`: where it is, 0: it is the default. */
static json_object *
key_json(const char *section, const struct config_key *key, const void *base, const char *source,
	 int line)
{
	json_object *object = json_object_new_object();
	char text[CONFIG_VALUE_MAX];

	config_value_format(key, base, text);
	json_object_object_add(object, "section", json_object_new_string(section));
	json_object_object_add(object, "key", json_object_new_string(key->name));
	json_object_object_add(object, "value",
			       config_key_repeated(key) ? config_value_json(key, base)
							: json_object_new_string(text));
	json_object_object_add(object, "source", json_object_new_string(source));
	json_object_object_add(object, "line", line > 0 ? json_object_new_int(line) : NULL);
	json_object_object_add(object, "applies",
			       json_object_new_string(config_effect_name(key->effect)));
	return object;
}

static json_object *
volume_key_json(const struct volume_file *file, const struct gateway_file *gateway, int index)
{
	const struct config_key *key = &volume_keys[index];
	const char *source = "default";
	int line = file->lines[index];

	if (line > 0) {
		source = "file";
	} else if (key->common &&
		   !config_value_same(key, &file->config, &gateway->config.volumes)) {
		source = "file"; /* it gave way to the other rate there */
	} else if (key->common && gateway->volume_lines[index] > 0) {
		source = "gateway.conf";
		line = gateway->volume_lines[index];
	}
	return key_json(key->section, key, &file->config, source, line);
}

static json_object *
gateway_keys_json(const struct gateway_file *gateway)
{
	json_object *list = json_object_new_array();

	for (int i = 0; i < volume_key_count; i++) {
		int line = gateway->volume_lines[i];

		if (volume_keys[i].common)
			json_object_array_add(list, key_json("volumes", &volume_keys[i],
							     &gateway->config.volumes,
							     line > 0 ? "file" : "default", line));
	}
	for (int i = 0; i < gateway_key_count; i++) {
		int line = gateway->lines[i];

		json_object_array_add(list, key_json(gateway_keys[i].section, &gateway_keys[i],
						     &gateway->config,
						     line > 0 ? "file" : "default", line));
	}
	return list;
}

static json_object *
volume_json(const struct volume_file *file, const struct gateway_file *gateway)
{
	json_object *result = json_object_new_object(), *keys = json_object_new_array();

	for (int i = 0; i < volume_key_count; i++)
		json_object_array_add(keys, volume_key_json(file, gateway, i));
	json_object_object_add(result, "name", json_object_new_string(file->config.name));
	json_object_object_add(result, "file", json_object_new_string(file->path));
	json_object_object_add(result, "keys", keys);
	json_object_object_add(result, "values",
			       values_json(volume_keys, volume_key_count, false, &file->config));
	return result;
}

json_object *
config_show_volume(const char *name)
{
	struct gateway_file *gateway = calloc(1, sizeof(*gateway));
	struct config_faults *faults = calloc(1, sizeof(*faults)),
			     *others = calloc(1, sizeof(*others));
	struct volume_file *file = calloc(1, sizeof(*file));
	json_object *result = NULL, *list;

	if (gateway && faults && others && file) {
		gateway_file_read(gateway, others);
		if (volume_file_read(name, file, faults) == 0) {
			result = volume_json(file, gateway);
			volume_file_free(file);
		} else {
			result = json_object_new_object();
			list = json_object_new_array();
			put_faults(list, faults, file->path);
			json_object_object_add(result, "faults", list);
		}
		gateway_file_free(gateway);
	}
	free(file);
	free(others);
	free(faults);
	free(gateway);
	return result;
}

json_object *
config_show_gateway(void)
{
	struct gateway_file *gateway = calloc(1, sizeof(*gateway));
	struct config_faults *faults = calloc(1, sizeof(*faults));
	json_object *result = NULL, *list;

	if (gateway && faults) {
		gateway_file_read(gateway, faults);
		result = json_object_new_object();
		list = json_object_new_array();
		json_object_object_add(result, "file",
				       gateway->text ? json_object_new_string(gateway->path)
						     : NULL);
		json_object_object_add(result, "volumes",
				       values_json(volume_keys, volume_key_count, true,
						   &gateway->config.volumes));
		for (int i = 0; i < gateway_key_count; i++) {
			const struct config_key *key = &gateway_keys[i];
			json_object *section = NULL;

			if (key->kind == CONFIG_SPARES) {
				json_object_object_add(result, "spares",
						       config_value_json(key, &gateway->config));
				continue;
			}
			if (!json_object_object_get_ex(result, key->section, &section)) {
				section = json_object_new_object();
				json_object_object_add(result, key->section, section);
			}
			json_object_object_add(section, key->name,
					       config_value_json(key, &gateway->config));
		}
		json_object_object_add(result, "keys", gateway_keys_json(gateway));
		put_faults(list, faults, gateway->path);
		json_object_object_add(result, "faults", list);
		gateway_file_free(gateway);
	}
	free(faults);
	free(gateway);
	return result;
}
