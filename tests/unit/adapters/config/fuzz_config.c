/* Feeds arbitrary text to the readers of a gateway's files.
 *
 * Input: a byte that says which file, then its text.  What is accepted can be written, and reads back
 * as the same; what is not has a fault that can be shown in a line; and a file is edited without its
 * other lines changing in number.
 */
#include "../../fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "adapters/config/keys.h"
#include "adapters/config/volume_file.h"

static void
check_faults(const struct config_faults *faults)
{
	char line[2048];

	fuzz_require(faults->count <= CONFIG_FAULTS_MAX, "more faults than there is room for");
	for (int i = 0; i < faults->count; i++) {
		config_fault_format(&faults->list[i], "file", line, sizeof(line));
		fuzz_require(line[0] != '\0' && faults->list[i].what[0] != '\0',
			     "a fault that says nothing");
		for (const char *at = line; *at != '\0'; at++)
			fuzz_require((unsigned char)*at >= ' ' && *at != 0x7f,
				     "a fault that would confuse a terminal");
	}
}

/* Each value, written and read again, is what it was. */
static void
check_values(const struct config_key *keys, int count, const void *base, void *scratch)
{
	static char text[CONFIG_VALUE_MAX];
	struct config_fault fault;

	for (int i = 0; i < count; i++) {
		if (config_key_repeated(&keys[i]) || keys[i].kind == CONFIG_UUID)
			continue;
		config_value_format(&keys[i], base, text);
		memset(&fault, 0, sizeof(fault));
		fuzz_require(config_value_read(&keys[i], text, scratch, &fault),
			     "a value that was accepted is refused when it is written");
		fuzz_require(config_value_same(&keys[i], base, scratch), "reads back changed");
	}
}

static void
edit(const char *text, size_t size)
{
	char *copy = calloc(1, size + 1);
	int lines;

	fuzz_require(copy != NULL, "no memory");
	memcpy(copy, text, size);
	lines = config_lines(copy);
	fuzz_require(config_line_insert(&copy, lines / 2, "give_up = 5s") == 0, "not inserted");
	fuzz_require(config_lines(copy) == lines + 1, "more than a line was inserted");
	fuzz_require(config_line_set(&copy, lines / 2 + 1, "7s") == 0, "not set");
	fuzz_require(config_line_remove(&copy, lines / 2 + 1) == 0, "not removed");
	fuzz_require(config_lines(copy) == lines, "more than a line was removed");
	(void)config_section_end(copy, "volume");
	(void)config_line_commented(copy, "volume", "give_up");
	free(copy);
}

static void
fuzz_volume(const char *text, size_t size)
{
	static struct config_faults faults;
	static struct volume_config defaults, scratch;
	static struct volume_file file;

	memset(&faults, 0, sizeof(faults));
	volume_config_usual(&defaults);
	if (volume_file_parse(text, size, &defaults, &file, &faults) == 0 && faults.count == 0) {
		fuzz_require(file.config.device_count >= 0 && file.config.device_count <= SLOTS_MAX,
			     "more devices than there is room for");
		scratch = file.config;
		check_values(volume_keys, volume_key_count, &file.config, &scratch);
	}
	check_faults(&faults);
	volume_file_free(&file);
}

static void
fuzz_gateway(const char *text, size_t size)
{
	static struct config_faults faults;
	static struct gateway_config scratch;
	static struct gateway_file file;

	memset(&faults, 0, sizeof(faults));
	if (gateway_file_parse(text, size, &file, &faults) == 0 && faults.count == 0) {
		scratch = file.config;
		check_values(gateway_keys, gateway_key_count, &file.config, &scratch);
	}
	check_faults(&faults);
	gateway_file_free(&file);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size == 0 || size > CONFIG_FILE_BYTES_MAX)
		return 0;
	text = malloc(size); /* ASan sees its end */
	fuzz_require(text != NULL, "no memory");
	memcpy(text, data + 1, size - 1);
	if (data[0] & 1)
		fuzz_volume(text, size - 1);
	else
		fuzz_gateway(text, size - 1);
	if (data[0] & 2)
		edit(text, size - 1);
	free(text);
	return 0;
}

/* --- inputs --- */

static const char *const values[] = {
	"5s",
	"100ms",
	"-1",
	"0",
	"99999999999999999999",
	"10M",
	"yes",
	"off",
	"degraded",
	"always",
	"/etc/iraid/chap",
	"",
	"iqn.2026-01.org.iraid:x",
	"10.0.0.1:3260/iqn.2026-01.org.iraid:t/0",
	"[::1]:3260/iqn.2026-01.org.iraid:t/0",
	"127.0.0.1",
	"a@b.c",
	"warning",
	"naa.6001405",
	"00000000-0000-4000-8000-000000000000",
};

static size_t
add(uint8_t *input, size_t at, const char *text)
{
	const size_t length = strlen(text);

	if (at + length + 1 > FUZZ_INPUT_MAX)
		return at;
	memcpy(input + at, text, length);
	return at + length;
}

static size_t
add_line(uint8_t *input, size_t at, bool volume)
{
	const struct config_key *keys = volume ? volume_keys : gateway_keys;
	const int count = volume ? volume_key_count : gateway_key_count;

	at = add(input, at, keys[fuzz_below((uint32_t)count)].name);
	at = add(input, at, fuzz_below(8) ? " = " : "=");
	at = add(input, at, values[fuzz_below(sizeof(values) / sizeof(values[0]))]);
	return add(input, at, "\n");
}

size_t
fuzz_make(uint8_t *input)
{
	const bool volume = fuzz_below(2);
	size_t size = 1;

	input[0] = (uint8_t)(volume | fuzz_below(2) << 1);
	size = add(input, size,
		   volume	   ? "[volume]\n"
		   : fuzz_below(2) ? "[volumes]\n"
				   : "[events]\n");
	for (uint32_t lines = fuzz_below(12); lines > 0; lines--)
		size = add_line(input, size, volume);
	for (uint32_t edits = fuzz_below(4); edits > 0 && size > 1; edits--)
		input[1 + fuzz_below((uint32_t)size - 1)] = (uint8_t)fuzz_below(256);
	return size;
}
