/* drivers/offline.c - see offline.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapters/base/reactor.h"
#include "adapters/config/check.h"
#include "adapters/config/keys.h"
#include "adapters/volume/host.h"
#include "offline.h"

static void
print_json(json_object *object)
{
	puts(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY |
							    JSON_C_TO_STRING_SPACED |
							    JSON_C_TO_STRING_NOSLASHESCAPE));
}

static size_t
print_faults(json_object *result, bool quietly)
{
	json_object *faults = NULL;

	if (!json_object_object_get_ex(result, "faults", &faults))
		return 0;
	for (size_t i = 0; i < json_object_array_length(faults) && !quietly; i++) {
		json_object *fault = json_object_array_get_idx(faults, i);
		const char *line = config_fault_text(fault, "line");
		const char *key = config_fault_text(fault, "key");

		printf("%s%s%s: %s%s%s; %s\n", config_fault_text(fault, "file"), line[0] ? ":" : "",
		       line, key, key[0] ? ": " : "", config_fault_text(fault, "what"),
		       config_fault_text(fault, "remedy"));
	}
	return json_object_array_length(faults);
}

static int
end_command(json_object *result, size_t faults)
{
	json_object_put(result);
	return faults > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int
out_of_memory(void)
{
	fprintf(stderr, "iraid-engine: out of memory\n");
	return EXIT_FAILURE;
}

int
config_main_check(const char *name, bool as_json)
{
	json_object *result = config_check(name);

	if (!result)
		return out_of_memory();
	if (as_json)
		print_json(result);
	return end_command(result, print_faults(result, as_json));
}

int
config_main_show(const char *what, const char *name)
{
	json_object *result;

	if (strcmp(what, "gateway") != 0 && strcmp(what, "volume") != 0) {
		fprintf(stderr,
			"iraid-engine: --print-config \"%s\"; write gateway, or volume NAME\n",
			what);
		return 2;
	}
	if ((what[0] == 'v') != (name != NULL)) {
		fprintf(stderr, "iraid-engine: --print-config %s %s\n", what,
			name ? "takes no name" : "needs the volume's name");
		return 2;
	}
	result = name ? config_show_volume(name) : config_show_gateway();
	if (!result)
		return out_of_memory();
	print_json(result);
	return end_command(result, print_faults(result, true));
}

int
config_main_keys(void)
{
	json_object *keys = config_keys_json();

	print_json(keys);
	return end_command(keys, 0);
}

int
config_main_template(void)
{
	char *text = gateway_template();

	if (!text)
		return out_of_memory();
	fputs(text, stdout);
	free(text);
	return EXIT_SUCCESS;
}

static int
say_fault(const struct fault *fault)
{
	fprintf(stderr, "iraid-engine: %s\n", fault->message);
	if (fault->remedy[0])
		fprintf(stderr, "  remedy: %s\n", fault->remedy);
	return EXIT_FAILURE;
}

/* Recorded first: a handler that begins once the lock is free finds the record. */
static int
record_and_lock(const uint8_t uuid[16], const char *name, struct fault *fault)
{
	uint64_t since_ms;
	int error, fd;

	error = standby_recall(uuid, &since_ms);
	if (error != 0)
		error = standby_record(uuid, realtime_ms());
	if (error != 0)
		return fault_disk(fault, error, state_dir(),
				  "volume \"%s\": its role can't be recorded in %s/standby: %s",
				  name, state_dir(), strerror(-error));
	fd = volume_lock(uuid, name, "iraid-engine", fault);
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

/* Faults of the file that have nothing to do with that are no reason to leave it active. */
static int
find_uuid(const char *name, uint8_t out[16], struct fault *fault)
{
	struct volume_config *config;
	int error;

	if (volume_config_uuid(name, out))
		return 0;
	config = malloc(sizeof(*config));
	if (!config)
		return fault_errno(fault, -ENOMEM, "out of memory");
	error = volume_config_read(name, config, fault);
	if (error == 0)
		memcpy(out, config->uuid, sizeof(config->uuid));
	free(config);
	return error;
}

int
standby_main_record(const char *name)
{
	struct fault fault = FAULT_NONE;
	uint8_t uuid[16];
	int error;

	if (!name) {
		fprintf(stderr, "iraid-engine: --record-standby needs the volume's name\n");
		return 2;
	}
	error = find_uuid(name, uuid, &fault);
	if (error == 0)
		error = record_and_lock(uuid, name, &fault);
	if (error == 0)
		return EXIT_SUCCESS;
	say_fault(&fault);
	return error == -EBUSY ? STANDBY_HELD : EXIT_FAILURE;
}
