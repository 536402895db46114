/* config/value.c - values of keys: from text, as text, as JSON, compared.
 *
 * Times carry a unit, so that nobody has to remember which key counts seconds and which
 * milliseconds; sizes are binary, as everywhere in the iraid command.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <uuid/uuid.h>

#include "keys.h"
#include "adapters/iscsi/redirect.h"

static const char *const severities[] = {
	"emergency", "alert", "critical", "error", "warning", "notice", "info", "debug",
};
#define SEVERITIES (sizeof(severities) / sizeof(severities[0]))

/* --- numbers with units --- */

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit time_units[] = {
	/* in milliseconds; the last that fits is written */
	{ "ms", 1 },	  { "s", 1000 },     { "min", 60000 },
	{ "h", 3600000 }, { "d", 86400000 }, { NULL, 0 },
};
static const struct unit size_units[] = {
	{ "", 1 },	     { "K", 1ull << 10 }, { "M", 1ull << 20 },
	{ "G", 1ull << 30 }, { "T", 1ull << 40 }, { NULL, 0 },
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

void
config_bound_format(const struct config_key *key, uint64_t bound, char *out, size_t size)
{
	if (bound == 0)
		snprintf(out, size, "0");
	else if (key->kind == CONFIG_SECONDS)
		format_number(bound * 1000, time_units, out, size);
	else if (key->kind == CONFIG_MILLISECONDS)
		format_number(bound, time_units, out, size);
	else if (key->kind == CONFIG_RATE)
		format_number(bound, size_units, out, size);
	else
		snprintf(out, size, "%llu", (unsigned long long)bound);
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
read_with_unit(const char *text, const struct unit *units, uint64_t *out)
{
	const char *given;
	uint64_t number;

	if (!split_number(text, &number, &given))
		return false;
	for (; units->name; units++) {
		size_t length = strlen(units->name);

		if (strncasecmp(given, units->name, length) != 0 ||
		    (given[length] != '\0' &&
		     (units->factor < 1024 || strcasecmp(given + length, "iB") != 0)))
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
	snprintf(fault->what, sizeof(fault->what), "\"%.*s\" %s", text_fit(text, 200), text, what);
	snprintf(fault->remedy, sizeof(fault->remedy), "%s", remedy);
	return false;
}

/* number: in what the key counts, times `factor`. */
static bool
within(const struct config_key *key, uint64_t number, uint64_t factor, const char *text,
       struct config_fault *fault)
{
	char least[40], most[40], remedy[128];

	if (number >= key->min * factor && number <= key->max * factor)
		return true;
	config_bound_format(key, key->min, least, sizeof(least));
	config_bound_format(key, key->max, most, sizeof(most));
	snprintf(remedy, sizeof(remedy), "choose %s to %s", least, most);
	return wrong(fault, remedy, text,
		     number < key->min * factor ? "is too little" : "is too much");
}

static bool
read_time(const struct config_key *key, const char *text, uint64_t factor, uint32_t *out,
	  struct config_fault *fault)
{
	uint64_t milliseconds, number;
	const char *unit;

	if (split_number(text, &number, &unit) && *unit == '\0' && number == 0 && key->min == 0) {
		*out = 0;
		return true;
	}
	if (split_number(text, &number, &unit) && *unit == '\0')
		return wrong(fault, "write 500ms, 5s, 2min, 1h or 1d", text, "has no unit");
	if (!read_with_unit(text, time_units, &milliseconds))
		return wrong(fault, "write 500ms, 5s, 2min, 1h or 1d", text, "is not a time");
	if (milliseconds % factor != 0)
		return wrong(fault, "write whole seconds, for example 5s", text,
			     "is not a whole number of seconds");
	if (!within(key, milliseconds, factor, text, fault))
		return false;
	*out = (uint32_t)(milliseconds / factor);
	return true;
}

static bool
read_rate(const struct config_key *key, const char *text, uint64_t *out, struct config_fault *fault)
{
	uint64_t bytes;

	if (!read_with_unit(text, size_units, &bytes))
		return wrong(fault,
			     "write bytes a second, or a number with K, M, G or T (powers of "
			     "1024), for example 10M",
			     text, "is not a rate");
	if (!within(key, bytes, 1, text, fault))
		return false;
	*out = bytes;
	return true;
}

static bool
read_count(const struct config_key *key, const char *text, uint32_t *out,
	   struct config_fault *fault)
{
	const char *unit;
	uint64_t number;

	if (!split_number(text, &number, &unit) || *unit != '\0')
		return wrong(fault, "write digits only", text, "is not a whole number");
	if (!within(key, number, 1, text, fault))
		return false;
	*out = (uint32_t)number;
	return true;
}

/* --- the other kinds --- */

static bool
parse_bool(const char *text, bool *out)
{
	static const char *const words[] = { "no", "yes", "off", "on", "false", "true", "0", "1" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcasecmp(text, words[i]) == 0) {
			*out = i % 2 == 1;
			return true;
		}
	}
	return false;
}

static bool
read_bool(const char *text, bool *out, struct config_fault *fault)
{
	return parse_bool(text, out) ||
	       wrong(fault, "write yes or no", text, "is neither yes nor no");
}

const char *
log_mode_name(enum log_mode mode)
{
	switch (mode) {
	case LOG_MODE_OFF:
		return "off";
	case LOG_MODE_DEGRADED:
		return "degraded";
	case LOG_MODE_ALWAYS:
		return "always";
	}
	return "";
}

bool
log_mode_parse(const char *text, enum log_mode *out)
{
	static const enum log_mode modes[] = { LOG_MODE_OFF, LOG_MODE_DEGRADED, LOG_MODE_ALWAYS };

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcasecmp(text, log_mode_name(modes[i])) == 0) {
			*out = modes[i];
			return true;
		}
	}
	return false;
}

static bool
read_log(const char *text, enum log_mode *out, struct config_fault *fault)
{
	bool yes;

	if (log_mode_parse(text, out))
		return true;
	if (!parse_bool(text, &yes) || yes)
		return wrong(fault, "write off, degraded or always", text,
			     "is none of off, degraded and always");
	*out = LOG_MODE_OFF; /* YAML takes off for no, and hands that on */
	return true;
}

static bool
read_redirects(const char *text, enum redirects *out, struct config_fault *fault)
{
	bool yes;

	if (redirects_parse(text, out))
		return true;
	if (!parse_bool(text, &yes))
		return wrong(fault, "write no, portals or yes", text,
			     "is none of no, portals and yes");
	*out = yes ? REDIRECTS_YES : REDIRECTS_NO;
	return true;
}

static bool
read_digest(const char *text, enum iscsi_digest *out, struct config_fault *fault)
{
	bool yes;

	if (iscsi_digest_parse(text, out))
		return true;
	if (!parse_bool(text, &yes))
		return wrong(fault, "write none, preferred or required", text,
			     "is none of none, preferred and required");
	/* files of 0.1.0, where yes meant that a target may decline */
	*out = yes ? ISCSI_DIGEST_PREFERRED : ISCSI_DIGEST_NONE;
	return true;
}

static bool
read_uuid(const char *text, uint8_t out[16], struct config_fault *fault)
{
	uint8_t uuid[16];

	if (uuid_parse(text, uuid) != 0 || uuid_is_null(uuid))
		return wrong(fault, "iraid examine MEMBER shows the UUID in the superblocks", text,
			     "is not a UUID");
	memcpy(out, uuid, 16);
	return true;
}

static bool
read_initiator(const char *text, char out[224], struct config_fault *fault)
{
	const char *why = strlen(text) > 223 ? "an initiator's name has 5 to 223 characters"
					     : initiator_name_fault(text);

	if (why) {
		snprintf(fault->what, sizeof(fault->what), "\"%.*s\": %s", text_fit(text, 240),
			 text, why);
		snprintf(fault->remedy, sizeof(fault->remedy),
			 "write it as iqn.YYYY-MM.DOMAIN:NAME");
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
		return wrong(fault, "write an absolute path, or none", text,
			     "is not an absolute path");
	if (strlen(text) >= PATH_MAX)
		return wrong(fault, "choose a shorter path", text, "is too long");
	snprintf(out, PATH_MAX, "%s", none ? "" : text);
	return true;
}

static bool
read_device(const char *text, struct volume_config *config, struct config_fault *fault)
{
	struct device_address device;
	struct fault why;

	if (device_address_parse(text, &device, &why) != 0) {
		snprintf(fault->what, sizeof(fault->what), "\"%.*s\": %.160s", text_fit(text, 300),
			 text, why.message);
		snprintf(fault->remedy, sizeof(fault->remedy),
			 "write PORTAL/IQN/LUN, for example "
			 "10.0.0.1:3260/iqn.2026-01.org.example:disk/0");
		return false;
	}
	/* Two sessions to one LUN would fence each other for ever. */
	if (volume_config_find(config, &device) >= 0)
		return wrong(fault, "name each LUN once", text, "is there twice");
	if (config->device_count == SLOTS_MAX)
		return wrong(fault, "remove some", text,
			     "is one device more than a volume can have");
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
	struct fault why;
	unsigned int block = 0;
	int used = 0;

	if (length >= sizeof(device))
		return wrong(fault, "write PORTAL/IQN/LUN", text, "is too long");
	memcpy(device, text, length);
	device[length] = '\0';
	if (device_address_parse(device, &spare.device, &why) != 0) {
		snprintf(fault->what, sizeof(fault->what), "\"%.*s\": %.160s",
			 text_fit(device, 300), device, why.message);
		snprintf(fault->remedy, sizeof(fault->remedy),
			 "write PORTAL/IQN/LUN size=BYTES block=BYTES");
		return false;
	}
	if (sscanf(text + length, " size=%19llu block=%4u%n", &size, &block, &used) != 2 ||
	    text[length + (size_t)used] != '\0' || size < LAYOUT_MEMBER_BYTES_MIN ||
	    size > INT64_MAX || (block != 512 && block != 4096))
		return wrong(fault,
			     "remove the line and run iraid add-spare --gateway DEVICE, which "
			     "measures the LUN",
			     text,
			     "does not end with size=BYTES block=512 or size=BYTES block=4096");
	for (int i = 0; i < pool->count; i++) {
		if (device_address_same(&pool->spares[i].device, &spare.device))
			return wrong(fault, "name each LUN once", device, "is there twice");
	}
	if (pool->count == SPARE_POOL_MAX)
		return wrong(fault, "remove some", device,
			     "is one spare more than a gateway can have");
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
	snprintf(out, DEVICE_TEXT_MAX + 64, "%s size=%llu block=%u", device,
		 (unsigned long long)spare->size_bytes, spare->block_bytes);
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
		return wrong(fault, "use a mailing list, or remove some addresses", text,
			     "is one address more than allowed");
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
	return wrong(fault, "choose critical, error, warning, notice or info", text,
		     "is not a severity");
}

static bool
read_address(const char *text, char out[64], struct config_fault *fault)
{
	struct in6_addr binary;

	if (inet_pton(AF_INET, text, &binary) != 1 && inet_pton(AF_INET6, text, &binary) != 1)
		return wrong(
			fault,
			"write an address of this machine, for example 127.0.0.1, ::1 or 0.0.0.0",
			text, "is not an IP address");
	snprintf(out, 64, "%s", text);
	return true;
}

bool
config_value_read(const struct config_key *key, const char *text, void *base,
		  struct config_fault *fault)
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
	case CONFIG_LOG:
		return read_log(text, field, fault);
	case CONFIG_REDIRECTS:
		return read_redirects(text, field, fault);
	case CONFIG_DIGEST:
		return read_digest(text, field, fault);
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
		snprintf(out, CONFIG_VALUE_MAX, "%s",
			 *(const char *)field ? (const char *)field : "none");
		break;
	case CONFIG_SECONDS:
		format_number(*(const uint32_t *)field * 1000ull, time_units, out,
			      CONFIG_VALUE_MAX);
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
	case CONFIG_LOG:
		snprintf(out, CONFIG_VALUE_MAX, "%s", log_mode_name(*(const enum log_mode *)field));
		break;
	case CONFIG_REDIRECTS:
		snprintf(out, CONFIG_VALUE_MAX, "%s",
			 redirects_name(*(const enum redirects *)field));
		break;
	case CONFIG_DIGEST:
		snprintf(out, CONFIG_VALUE_MAX, "%s",
			 iscsi_digest_name(*(const enum iscsi_digest *)field));
		break;
	case CONFIG_SEVERITY:
		snprintf(out, CONFIG_VALUE_MAX, "%s",
			 severities[*(const uint32_t *)field % SEVERITIES]);
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
	case CONFIG_LOG:
		return sizeof(enum log_mode);
	case CONFIG_REDIRECTS:
		return sizeof(enum redirects);
	case CONFIG_DIGEST:
		return sizeof(enum iscsi_digest);
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

	if (key->kind == CONFIG_INITIATOR || key->kind == CONFIG_PATH ||
	    key->kind == CONFIG_ADDRESS)
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
		json_object_object_add(
			spare, "size_bytes",
			json_object_new_int64((int64_t)gateway->pool.spares[i].size_bytes));
		json_object_object_add(spare, "block_bytes",
				       json_object_new_int64(gateway->pool.spares[i].block_bytes));
		json_object_array_add(list, spare);
	}
	return list;
}

/* Times in seconds or milliseconds, rates in bytes a second, a path that is none as an empty text.
 */
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
		return json_object_new_int64((int64_t) * (const uint64_t *)field);
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
	case CONFIG_LOG:
	case CONFIG_REDIRECTS:
	case CONFIG_DIGEST:
	case CONFIG_SEVERITY:
	case CONFIG_ADDRESS:
		config_value_format(key, base, text);
		return json_object_new_string(text);
	}
	return NULL;
}
