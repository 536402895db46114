/* config_keys.c - see config_keys.h.
 *
 * Times carry a unit, so that nobody has to remember which key counts seconds and which milliseconds; sizes are
 * binary, as everywhere in the iraid command.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <uuid/uuid.h>

#include "config_keys.h"

#define VOLUME(field) offsetof(struct volume_config, field)
#define GATEWAY(field) offsetof(struct gateway_config, field)

const struct config_key volume_keys[] = {
	{ "volume", "uuid", CONFIG_UUID, EFFECT_START, true, false, 0, 0, VOLUME(uuid),
	  "Of the superblocks; iraid examine MEMBER shows it." },
	{ "volume", "member", CONFIG_DEVICES, EFFECT_COMMAND, true, false, 2, SLOTS_MAX, 0,
	  "Members and spares, one a line, in any order: PORTAL/IQN/LUN, port 3260 if absent, IPv6 in brackets, host "
	  "names allowed; a LUN with several portals: PORTAL,PORTAL/IQN/LUN. Which is which, their superblocks say. "
	  "iraid replace, add-spare and remove change them." },
	{ "volume", "initiator", CONFIG_INITIATOR, EFFECT_START, false, false, 0, 0, VOLUME(initiator),
	  "The name to log in with; the targets' ACLs have it." },
	{ "volume", "chap_file", CONFIG_PATH, EFFECT_LOGIN, false, true, 0, 0, VOLUME(chap_file),
	  "Line 1 user, line 2 secret; owned by root, mode 0600. none: log in without CHAP." },
	{ "volume", "give_up", CONFIG_SECONDS, EFFECT_NOW, false, true, 1, GIVE_UP_SECONDS_MAX, VOLUME(give_up_seconds),
	  "A member that is silent for so long is left out, if the others suffice." },
	{ "volume", "queue_limit", CONFIG_SECONDS, EFFECT_NOW, false, true, 1, QUEUE_LIMIT_SECONDS_MAX,
	  VOLUME(queue_limit_seconds), "When too many are silent, I/O waits for so long before it fails." },
	{ "volume", "assembly_wait", CONFIG_SECONDS, EFFECT_NOW, false, true, 1, ASSEMBLY_WAIT_SECONDS_MAX,
	  VOLUME(assembly_wait_seconds),
	  "At the start, wait so long for absent members before going on without them." },
	{ "volume", "sync_rate_min", CONFIG_RATE, EFFECT_NOW, false, true, SYNC_RATE_LEAST, SYNC_RATE_MOST,
	  VOLUME(sync_rate_min),
	  "Resync, rebuild and scrub, bytes of each member a second: so much in any case. iraid set changes it." },
	{ "volume", "sync_rate_max", CONFIG_RATE, EFFECT_NOW, false, true, SYNC_RATE_LEAST, SYNC_RATE_MOST,
	  VOLUME(sync_rate_max), "The same, when the volume is idle: at most so much. iraid set changes it." },
	{ "volume", "hedge", CONFIG_MILLISECONDS, EFFECT_NOW, false, true, 0, HEDGE_MILLISECONDS_MAX,
	  VOLUME(hedge_milliseconds),
	  "A read that waits so long for one member is made from the others; 0: never." },
	{ "volume", "spare_wait", CONFIG_SECONDS, EFFECT_NOW, false, true, 1, SPARE_WAIT_SECONDS_MAX,
	  VOLUME(spare_wait_seconds),
	  "A member that fell silent may return for so long before a spare takes its place." },
	{ "volume", "error_limit", CONFIG_NUMBER, EFFECT_NOW, false, true, 1, ERROR_LIMIT_MAX, VOLUME(error_limit),
	  "Unreadable sectors that are repaired on a member before it loses its place." },
	{ "volume", "header_digest", CONFIG_BOOL, EFFECT_LOGIN, false, true, 0, 0, VOLUME(header_digest),
	  "Ask the targets for a checksum (CRC32C) on iSCSI headers: for networks that flip bits; costs a little "
	  "speed." },
	{ "volume", "enabled", CONFIG_BOOL, EFFECT_NOW, false, false, 0, 0, VOLUME(enabled),
	  "no: iraid-engine --start-all passes it over." },
};
const int volume_key_count = sizeof(volume_keys) / sizeof(volume_keys[0]);

const struct config_key gateway_keys[] = {
	{ "spares", "spare", CONFIG_SPARES, EFFECT_NOW, false, false, 0, SPARE_POOL_MAX, GATEWAY(pool),
	  "Spares that all volumes share, one a line: DEVICE size=BYTES block=BYTES. iraid add-spare --gateway looks at "
	  "the LUN and adds it." },
	{ "notify", "mail", CONFIG_MAILS, EFFECT_UNIT, false, false, 0, GATEWAY_MAILS_MAX, 0,
	  "Who gets a mail about events, one address a line; sent by /usr/sbin/sendmail." },
	{ "notify", "command", CONFIG_PATH, EFFECT_UNIT, false, false, 0, 0, GATEWAY(command),
	  "Program that is run for each event." },
	{ "notify", "severity", CONFIG_SEVERITY, EFFECT_UNIT, false, false, 0, 0, GATEWAY(severity),
	  "The least severe events that are told: critical, error, warning, notice or info." },
	{ "exporter", "address", CONFIG_ADDRESS, EFFECT_UNIT, false, false, 0, 0, GATEWAY(exporter_address),
	  "Where the Prometheus exporter and the web page listen. They have no login: beyond this machine, put a "
	  "firewall or a proxy with one in front." },
	{ "exporter", "port", CONFIG_NUMBER, EFFECT_UNIT, false, false, 1, 65535, GATEWAY(exporter_port),
	  "Its TCP port." },
};
const int gateway_key_count = sizeof(gateway_keys) / sizeof(gateway_keys[0]);

static const char *const severities[] = {
	"emergency", "alert", "critical", "error", "warning", "notice", "info", "debug",
};
#define SEVERITIES (sizeof(severities) / sizeof(severities[0]))

bool
config_key_repeated(const struct config_key *key)
{
	return key->kind == CONFIG_DEVICES || key->kind == CONFIG_SPARES || key->kind == CONFIG_MAILS;
}

const char *
config_effect_name(enum config_effect effect)
{
	switch (effect) {
	case EFFECT_NOW:
		return "reload";
	case EFFECT_LOGIN:
		return "reload, next login";
	case EFFECT_START:
		return "next start";
	case EFFECT_COMMAND:
		return "command";
	case EFFECT_UNIT:
		return "restart of the unit";
	}
	return "";
}

/* --- numbers with units --- */

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit time_units[] = {	/* in milliseconds; the last that fits is written */
	{ "ms", 1 }, { "s", 1000 }, { "min", 60000 }, { "h", 3600000 }, { "d", 86400000 }, { NULL, 0 },
};
static const struct unit size_units[] = {
	{ "", 1 }, { "K", 1ull << 10 }, { "M", 1ull << 20 }, { "G", 1ull << 30 }, { "T", 1ull << 40 }, { NULL, 0 },
};

static void
format_number(uint64_t number, const struct unit *units, char *out, size_t size)
{
	const struct unit *best = units;

	for (const struct unit *unit = units; unit->name; unit++) {
		if (number != 0 && number % unit->factor == 0)
			best = unit;
	}
	snprintf(out, size, "%llu%s", (unsigned long long)(number / best->factor), best->name);
}

/* False: no number, or beyond 64 bits.  *unit is what follows it. */
static bool
split_number(const char *text, uint64_t *number, const char **unit)
{
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return false;
	errno = 0;
	*number = strtoull(text, &end, 10);
	while (*end == ' ' || *end == '\t')
		end++;
	*unit = end;
	return errno == 0;
}

static bool
read_number(const char *text, const struct unit *units, uint64_t *out)
{
	const char *given;
	uint64_t number;

	if (!split_number(text, &number, &given))
		return false;
	for (; units->name; units++) {
		size_t length = strlen(units->name);

		if (strncasecmp(given, units->name, length) != 0 ||
		    (given[length] != '\0' && (units->factor < 1024 || strcasecmp(given + length, "iB") != 0)))
			continue;
		if (number > UINT64_MAX / units->factor)
			return false;
		*out = number * units->factor;
		return true;
	}
	return false;
}

static bool
wrong(struct config_fault *fault, const char *remedy, const char *text, const char *what)
{
	snprintf(fault->what, sizeof(fault->what), "\"%.200s\" %s", text, what);
	snprintf(fault->remedy, sizeof(fault->remedy), "%s", remedy);
	return false;
}

/* min, max: in what `factor` counts. */
static bool
within(const struct config_key *key, const struct unit *units, uint64_t number, uint64_t factor, const char *text,
       struct config_fault *fault)
{
	char least[40], most[40], remedy[128];

	if (number >= key->min * factor && number <= key->max * factor)
		return true;
	if (units) {
		format_number(key->min * factor, units, least, sizeof(least));
		format_number(key->max * factor, units, most, sizeof(most));
	} else {
		snprintf(least, sizeof(least), "%llu", (unsigned long long)key->min);
		snprintf(most, sizeof(most), "%llu", (unsigned long long)key->max);
	}
	snprintf(remedy, sizeof(remedy), "choose %s to %s", key->min == 0 ? "0" : least, most);
	return wrong(fault, remedy, text, number < key->min * factor ? "is too little" : "is too much");
}

static bool
read_time(const struct config_key *key, const char *text, uint64_t factor, uint32_t *out, struct config_fault *fault)
{
	uint64_t milliseconds, number;
	const char *unit;

	if (split_number(text, &number, &unit) && *unit == '\0' && number == 0 && key->min == 0) {
		*out = 0;
		return true;
	}
	if (split_number(text, &number, &unit) && *unit == '\0')
		return wrong(fault, "write 500ms, 5s, 2min, 1h or 1d", text, "has no unit");
	if (!read_number(text, time_units, &milliseconds))
		return wrong(fault, "write 500ms, 5s, 2min, 1h or 1d", text, "is not a time");
	if (milliseconds % factor != 0)
		return wrong(fault, "write it in seconds, for example 5s", text, "is not a whole number of seconds");
	if (!within(key, time_units, milliseconds, factor, text, fault))
		return false;
	*out = (uint32_t)(milliseconds / factor);
	return true;
}

static bool
read_rate(const struct config_key *key, const char *text, uint64_t *out, struct config_fault *fault)
{
	uint64_t bytes;

	if (!read_number(text, size_units, &bytes))
		return wrong(fault, "write bytes a second, or a number with K, M, G or T (1024 times more each), for example "
			     "10M", text, "is not a rate");
	if (!within(key, size_units, bytes, 1, text, fault))
		return false;
	*out = bytes;
	return true;
}

static bool
read_count(const struct config_key *key, const char *text, uint32_t *out, struct config_fault *fault)
{
	const char *unit;
	uint64_t number;

	if (!split_number(text, &number, &unit) || *unit != '\0')
		return wrong(fault, "write digits only", text, "is not a whole number");
	if (!within(key, NULL, number, 1, text, fault))
		return false;
	*out = (uint32_t)number;
	return true;
}

/* --- the other kinds --- */

static bool
read_bool(const char *text, bool *out, struct config_fault *fault)
{
	static const char *const words[] = { "no", "yes", "off", "on", "false", "true", "0", "1" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcasecmp(text, words[i]) == 0) {
			*out = i % 2 == 1;
			return true;
		}
	}
	return wrong(fault, "write yes or no", text, "is neither yes nor no");
}

static bool
read_uuid(const char *text, uint8_t out[16], struct config_fault *fault)
{
	uint8_t uuid[16];

	if (uuid_parse(text, uuid) != 0 || uuid_is_null(uuid))
		return wrong(fault, "iraid examine MEMBER shows the one of the superblocks", text, "is not a UUID");
	memcpy(out, uuid, 16);
	return true;
}

static bool
read_initiator(const char *text, char out[224], struct config_fault *fault)
{
	const char *why = strlen(text) > 223 ? "an initiator's name has 5 to 223 characters" : initiator_name_fault(text);

	if (why) {
		snprintf(fault->what, sizeof(fault->what), "\"%.240s\": %s", text, why);
		snprintf(fault->remedy, sizeof(fault->remedy), "write it as iqn.YYYY-MM.DOMAIN:NAME");
		return false;
	}
	snprintf(out, 224, "%s", text);
	return true;
}

static bool
read_path(const char *text, char out[PATH_MAX], struct config_fault *fault)
{
	bool none = strcmp(text, "none") == 0;

	if (!none && text[0] != '/')
		return wrong(fault, "give the whole path, from /, or none", text, "is not an absolute path");
	if (strlen(text) >= PATH_MAX)
		return wrong(fault, "choose a shorter path", text, "is too long");
	snprintf(out, PATH_MAX, "%s", none ? "" : text);
	return true;
}

static bool
read_device(const char *text, struct volume_config *config, struct config_fault *fault)
{
	struct device_address device;
	const char *why = "";

	if (device_address_parse(text, &device, &why) != 0) {
		snprintf(fault->what, sizeof(fault->what), "\"%.300s\": %s", text, why);
		snprintf(fault->remedy, sizeof(fault->remedy),
			 "write PORTAL/IQN/LUN, for example 10.0.0.1:3260/iqn.2026-01.org.example:disk/0");
		return false;
	}
	/* Two sessions to one LUN would fence each other for ever. */
	if (volume_config_find(config, &device) >= 0)
		return wrong(fault, "name each LUN once", text, "is there twice");
	if (config->device_count == SLOTS_MAX)
		return wrong(fault, "take some out", text, "is one more than a volume can have");
	config->devices[config->device_count++] = device;
	return true;
}

/* DEVICE size=BYTES block=BYTES */
static bool
read_spare(const char *text, struct spare_pool *pool, struct config_fault *fault)
{
	struct pool_spare spare = { .size_bytes = 0 };
	char device[DEVICE_TEXT_MAX];
	unsigned long long size = 0;
	size_t length = strcspn(text, " \t");
	const char *why = "";
	unsigned int block = 0;
	int used = 0;

	if (length >= sizeof(device))
		return wrong(fault, "write PORTAL/IQN/LUN", text, "is too long");
	memcpy(device, text, length);
	device[length] = '\0';
	if (device_address_parse(device, &spare.device, &why) != 0) {
		snprintf(fault->what, sizeof(fault->what), "\"%.300s\": %s", device, why);
		snprintf(fault->remedy, sizeof(fault->remedy), "write PORTAL/IQN/LUN size=BYTES block=BYTES");
		return false;
	}
	if (sscanf(text + length, " size=%19llu block=%4u%n", &size, &block, &used) != 2 ||
	    text[length + (size_t)used] != '\0' || size < LAYOUT_MEMBER_BYTES_MIN || size > INT64_MAX ||
	    (block != 512 && block != 4096))
		return wrong(fault, "take the line out and run: iraid add-spare --gateway DEVICE, which measures it", text,
			     "does not end with size=BYTES block=512 or block=4096, as they are");
	for (int i = 0; i < pool->count; i++) {
		if (device_address_same(&pool->spares[i].device, &spare.device))
			return wrong(fault, "name each LUN once", device, "is there twice");
	}
	if (pool->count == SPARE_POOL_MAX)
		return wrong(fault, "take some out", device, "is one more than a gateway can have");
	spare.size_bytes = size;
	spare.block_bytes = block;
	pool->spares[pool->count++] = spare;
	return true;
}

void
config_spare_format(const struct pool_spare *spare, char out[DEVICE_TEXT_MAX + 64])
{
	char device[DEVICE_TEXT_MAX];

	device_address_format(&spare->device, device);
	snprintf(out, DEVICE_TEXT_MAX + 64, "%s size=%llu block=%u", device, (unsigned long long)spare->size_bytes,
		 spare->block_bytes);
}

/* A local name or an address; strict enough that it can be an argument of a program. */
static bool
read_mail(const char *text, struct gateway_config *config, struct config_fault *fault)
{
	bool good = isalnum((unsigned char)text[0]) && strlen(text) <= GATEWAY_MAIL_MAX;

	for (const char *c = text; *c && good; c++)
		good = isalnum((unsigned char)*c) || strchr(".@_+-=%", *c);
	if (!good)
		return wrong(fault, "write NAME@HOST, one a line", text, "is not a mail address");
	if (config->mail_count == GATEWAY_MAILS_MAX)
		return wrong(fault, "mail to a list, or take some out", text, "is one address more than can be");
	snprintf(config->mail[config->mail_count++], sizeof(config->mail[0]), "%s", text);
	return true;
}

static bool
read_severity(const char *text, uint32_t *out, struct config_fault *fault)
{
	for (uint32_t i = 0; i < SEVERITIES; i++) {
		if (strcasecmp(text, severities[i]) == 0) {
			*out = i;
			return true;
		}
	}
	return wrong(fault, "choose critical, error, warning, notice or info", text, "is not a severity");
}

static bool
read_address(const char *text, char out[64], struct config_fault *fault)
{
	struct in6_addr binary;

	if (inet_pton(AF_INET, text, &binary) != 1 && inet_pton(AF_INET6, text, &binary) != 1)
		return wrong(fault, "write one of this machine's, for example 127.0.0.1, ::1 or 0.0.0.0", text,
			     "is not an IP address");
	snprintf(out, 64, "%s", text);
	return true;
}

bool
config_value_read(const struct config_key *key, const char *text, void *base, struct config_fault *fault)
{
	void *field = (char *)base + key->offset;

	switch (key->kind) {
	case CONFIG_UUID:
		return read_uuid(text, field, fault);
	case CONFIG_DEVICES:
		return read_device(text, base, fault);
	case CONFIG_INITIATOR:
		return read_initiator(text, field, fault);
	case CONFIG_PATH:
		return read_path(text, field, fault);
	case CONFIG_SECONDS:
		return read_time(key, text, 1000, field, fault);
	case CONFIG_MILLISECONDS:
		return read_time(key, text, 1, field, fault);
	case CONFIG_RATE:
		return read_rate(key, text, field, fault);
	case CONFIG_NUMBER:
		return read_count(key, text, field, fault);
	case CONFIG_BOOL:
		return read_bool(text, field, fault);
	case CONFIG_SPARES:
		return read_spare(text, field, fault);
	case CONFIG_MAILS:
		return read_mail(text, base, fault);
	case CONFIG_SEVERITY:
		return read_severity(text, field, fault);
	case CONFIG_ADDRESS:
		return read_address(text, field, fault);
	}
	return false;
}

/* --- values as text, as JSON, compared --- */

void
config_value_format(const struct config_key *key, const void *base, char out[CONFIG_VALUE_MAX])
{
	const void *field = (const char *)base + key->offset;

	out[0] = '\0';
	switch (key->kind) {
	case CONFIG_UUID:
		uuid_unparse_lower(field, out);
		break;
	case CONFIG_INITIATOR:
	case CONFIG_ADDRESS:
		snprintf(out, CONFIG_VALUE_MAX, "%s", (const char *)field);
		break;
	case CONFIG_PATH:
		snprintf(out, CONFIG_VALUE_MAX, "%s", *(const char *)field ? (const char *)field : "none");
		break;
	case CONFIG_SECONDS:
		format_number(*(const uint32_t *)field * 1000ull, time_units, out, CONFIG_VALUE_MAX);
		break;
	case CONFIG_MILLISECONDS:
		if (*(const uint32_t *)field == 0)
			snprintf(out, CONFIG_VALUE_MAX, "0");
		else
			format_number(*(const uint32_t *)field, time_units, out, CONFIG_VALUE_MAX);
		break;
	case CONFIG_RATE:
		format_number(*(const uint64_t *)field, size_units, out, CONFIG_VALUE_MAX);
		break;
	case CONFIG_NUMBER:
		snprintf(out, CONFIG_VALUE_MAX, "%u", *(const uint32_t *)field);
		break;
	case CONFIG_BOOL:
		snprintf(out, CONFIG_VALUE_MAX, "%s", *(const bool *)field ? "yes" : "no");
		break;
	case CONFIG_SEVERITY:
		snprintf(out, CONFIG_VALUE_MAX, "%s", severities[*(const uint32_t *)field % SEVERITIES]);
		break;
	case CONFIG_DEVICES:
	case CONFIG_SPARES:
	case CONFIG_MAILS:
		break;
	}
}

static size_t
field_bytes(const struct config_key *key)
{
	switch (key->kind) {
	case CONFIG_UUID:
		return 16;
	case CONFIG_INITIATOR:
		return sizeof(((struct volume_config *)0)->initiator);
	case CONFIG_PATH:
		return PATH_MAX;
	case CONFIG_ADDRESS:
		return sizeof(((struct gateway_config *)0)->exporter_address);
	case CONFIG_SECONDS:
	case CONFIG_MILLISECONDS:
	case CONFIG_NUMBER:
	case CONFIG_SEVERITY:
		return sizeof(uint32_t);
	case CONFIG_RATE:
		return sizeof(uint64_t);
	case CONFIG_BOOL:
		return sizeof(bool);
	case CONFIG_DEVICES:
	case CONFIG_SPARES:
	case CONFIG_MAILS:
		break;
	}
	return 0;
}

bool
config_value_same(const struct config_key *key, const void *a, const void *b)
{
	const char *one = (const char *)a + key->offset, *other = (const char *)b + key->offset;

	if (key->kind == CONFIG_INITIATOR || key->kind == CONFIG_PATH || key->kind == CONFIG_ADDRESS)
		return strcmp(one, other) == 0;
	return memcmp(one, other, field_bytes(key)) == 0;
}

void
config_value_copy(const struct config_key *key, void *to, const void *from)
{
	memcpy((char *)to + key->offset, (const char *)from + key->offset, field_bytes(key));
}

static json_object *
list_json(const struct config_key *key, const void *base)
{
	const struct gateway_config *gateway = base;
	const struct volume_config *volume = base;
	json_object *list = json_object_new_array();
	char text[DEVICE_TEXT_MAX];

	if (key->kind == CONFIG_DEVICES) {
		for (int i = 0; i < volume->device_count; i++) {
			device_address_format(&volume->devices[i], text);
			json_object_array_add(list, json_object_new_string(text));
		}
		return list;
	}
	for (int i = 0; i < gateway->mail_count && key->kind == CONFIG_MAILS; i++)
		json_object_array_add(list, json_object_new_string(gateway->mail[i]));
	for (int i = 0; i < gateway->pool.count && key->kind == CONFIG_SPARES; i++) {
		json_object *spare = json_object_new_object();

		device_address_format(&gateway->pool.spares[i].device, text);
		json_object_object_add(spare, "device", json_object_new_string(text));
		json_object_object_add(spare, "size_bytes",
				       json_object_new_int64((int64_t)gateway->pool.spares[i].size_bytes));
		json_object_object_add(spare, "block_bytes", json_object_new_int64(gateway->pool.spares[i].block_bytes));
		json_object_array_add(list, spare);
	}
	return list;
}

/* Times in seconds or milliseconds, rates in bytes a second, a path that is none as an empty text. */
json_object *
config_value_json(const struct config_key *key, const void *base)
{
	const void *field = (const char *)base + key->offset;
	char text[CONFIG_VALUE_MAX];

	switch (key->kind) {
	case CONFIG_SECONDS:
	case CONFIG_MILLISECONDS:
	case CONFIG_NUMBER:
		return json_object_new_int64(*(const uint32_t *)field);
	case CONFIG_RATE:
		return json_object_new_int64((int64_t)*(const uint64_t *)field);
	case CONFIG_BOOL:
		return json_object_new_boolean(*(const bool *)field);
	case CONFIG_PATH:
		return json_object_new_string(field);
	case CONFIG_DEVICES:
	case CONFIG_SPARES:
	case CONFIG_MAILS:
		return list_json(key, base);
	case CONFIG_UUID:
	case CONFIG_INITIATOR:
	case CONFIG_SEVERITY:
	case CONFIG_ADDRESS:
		config_value_format(key, base, text);
		return json_object_new_string(text);
	}
	return NULL;
}

/* --- a file's items --- */

/* Two keys of which one is the other misspelt: one letter wrong, missing or too many, or two swapped. */
static bool
nearly(const char *a, const char *b)
{
	size_t la = strlen(a), lb = strlen(b), head = 0, tail = 0, least = la < lb ? la : lb;

	while (head < least && tolower((unsigned char)a[head]) == tolower((unsigned char)b[head]))
		head++;
	while (tail < least - head &&
	       tolower((unsigned char)a[la - 1 - tail]) == tolower((unsigned char)b[lb - 1 - tail]))
		tail++;
	return la - head - tail <= 2 && lb - head - tail <= 2 && head + tail > 1;
}

static void
unknown_key(const struct config_item *item, const struct config_sink *sink, bool section_known,
	    struct config_faults *faults)
{
	char remedy[320];

	if (!section_known) {
		snprintf(remedy, sizeof(remedy), "the sections are %s; iraid.conf(5)", sink->sections);
		config_fault_add(faults, item->line, item->key, remedy, "section [%.64s] is not known", item->section);
		return;
	}
	snprintf(remedy, sizeof(remedy), "iraid.conf(5) has all keys");
	for (int t = 0; t < CONFIG_TABLES && sink->tables[t].keys; t++) {
		for (int i = 0; i < sink->tables[t].count; i++) {
			if (nearly(item->key, sink->tables[t].keys[i].name))
				snprintf(remedy, sizeof(remedy), "is it %s?", sink->tables[t].keys[i].name);
		}
	}
	config_fault_add(faults, item->line, item->key, remedy, "there is no such key in [%.64s]", item->section);
}

static int *
line_of(const struct config_sink *sink, const struct config_key *key)
{
	for (int t = 0; t < CONFIG_TABLES && sink->tables[t].keys; t++) {
		if (key >= sink->tables[t].keys && key < sink->tables[t].keys + sink->tables[t].count)
			return &sink->tables[t].lines[key - sink->tables[t].keys];
	}
	return NULL;
}

static bool
section_known(const struct config_item *item, const struct config_sink *sink)
{
	const char *place = strcasestr(sink->sections, item->section);

	return place && place > sink->sections && place[-1] == '[' && place[strlen(item->section)] == ']';
}

static void
read_item(const struct config_item *item, const struct config_key *key, void *base, struct config_sink *sink,
	  struct config_faults *faults)
{
	struct config_fault fault = { .line = item->line };
	int *line = line_of(sink, key);
	const char *hash = strpbrk(item->value, "#;");

	if (line && *line > 0 && !config_key_repeated(key)) {
		config_fault_add(faults, item->line, key->name, "take one of them out", "it is there twice, first in line %d",
				 *line);
		return;
	}
	if (item->value[0] == '\0') {
		config_fault_add(faults, item->line, key->name, "put # in front to have the default", "it has no value");
	} else if (hash && hash > item->value && (hash[-1] == ' ' || hash[-1] == '\t')) {
		config_fault_add(faults, item->line, key->name, "give the comment a line of its own",
				 "\"%.200s\" is part of the value", hash);
	} else if (!config_value_read(key, item->value, base, &fault)) {
		config_fault_add(faults, item->line, key->name, fault.remedy, "%s", fault.what);
	}
	if (line && *line == 0)
		*line = item->line;
}

void
config_items_read(const struct config_text *text, struct config_sink *sink, struct config_faults *faults)
{
	for (int i = 0; i < text->count; i++) {
		const struct config_item *item = &text->items[i];
		void *base = NULL;
		const struct config_key *key = sink->find(item, sink->owner, &base);
		int before = faults->count;

		if (key)
			read_item(item, key, base, sink, faults);
		else
			unknown_key(item, sink, section_known(item, sink), faults);
		for (int f = before; f < faults->count; f++)
			snprintf(faults->list[f].section, sizeof(faults->list[f].section), "%s",
				 key ? key->common && strcasecmp(item->section, "volumes") == 0 ? "volumes" : key->section
				     : item->section);
	}
}

/* --- the table --- */

static const char *
kind_name(enum config_kind kind)
{
	switch (kind) {
	case CONFIG_UUID:
		return "uuid";
	case CONFIG_DEVICES:
		return "member";
	case CONFIG_INITIATOR:
		return "initiator";
	case CONFIG_PATH:
		return "path";
	case CONFIG_SECONDS:
	case CONFIG_MILLISECONDS:
		return "time";
	case CONFIG_RATE:
		return "rate";
	case CONFIG_NUMBER:
		return "number";
	case CONFIG_BOOL:
		return "yes or no";
	case CONFIG_SPARES:
		return "spare";
	case CONFIG_MAILS:
		return "mail address";
	case CONFIG_SEVERITY:
		return "severity";
	case CONFIG_ADDRESS:
		return "address";
	}
	return "";
}

static json_object *
bound_json(const struct config_key *key, uint64_t bound)
{
	char text[40] = "";

	if (key->kind == CONFIG_SECONDS)
		format_number(bound * 1000, time_units, text, sizeof(text));
	else if (key->kind == CONFIG_MILLISECONDS)
		format_number(bound, time_units, text, sizeof(text));
	else if (key->kind == CONFIG_RATE)
		format_number(bound, size_units, text, sizeof(text));
	else
		snprintf(text, sizeof(text), "%llu", (unsigned long long)bound);
	return key->max == 0 ? NULL : json_object_new_string(bound == 0 ? "0" : text);
}

static void
add_key(json_object *list, const char *file, const char *section, const struct config_key *key, const void *defaults)
{
	json_object *object = json_object_new_object();
	char value[CONFIG_VALUE_MAX] = "";

	if (!key->required && !config_key_repeated(key) && key->kind != CONFIG_INITIATOR)
		config_value_format(key, defaults, value);
	json_object_object_add(object, "file", json_object_new_string(file));
	json_object_object_add(object, "section", json_object_new_string(section));
	json_object_object_add(object, "key", json_object_new_string(key->name));
	json_object_object_add(object, "type", json_object_new_string(kind_name(key->kind)));
	json_object_object_add(object, "repeated", json_object_new_boolean(config_key_repeated(key)));
	json_object_object_add(object, "required", json_object_new_boolean(key->required));
	json_object_object_add(object, "default", value[0] ? json_object_new_string(value) : NULL);
	json_object_object_add(object, "min", bound_json(key, key->min));
	json_object_object_add(object, "max", bound_json(key, key->max));
	json_object_object_add(object, "applies", json_object_new_string(config_effect_name(key->effect)));
	json_object_object_add(object, "meaning", json_object_new_string(key->meaning));
	json_object_array_add(list, object);
}

json_object *
config_keys_json(void)
{
	struct gateway_file *usual = calloc(1, sizeof(*usual));
	struct config_faults *faults = calloc(1, sizeof(*faults));
	json_object *list = json_object_new_array();

	if (usual && faults && gateway_file_parse("", 0, usual, faults) == 0) {
		for (int i = 0; i < volume_key_count; i++)
			add_key(list, "volume", "volume", &volume_keys[i], &usual->config.volumes);
		for (int i = 0; i < volume_key_count; i++) {
			if (volume_keys[i].common)
				add_key(list, "gateway", "volumes", &volume_keys[i], &usual->config.volumes);
		}
		for (int i = 0; i < gateway_key_count; i++)
			add_key(list, "gateway", gateway_keys[i].section, &gateway_keys[i], &usual->config);
		gateway_file_free(usual);
	}
	free(faults);
	free(usual);
	return list;
}
