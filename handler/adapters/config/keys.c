/* config/keys.c - see keys.h. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "keys.h"

#define VOLUME(field) offsetof(struct volume_config, field)
#define GATEWAY(field) offsetof(struct gateway_config, field)

const struct config_key volume_keys[] = {
	{ "volume", "uuid", CONFIG_UUID, EFFECT_START, true, false, 0, 0, VOLUME(uuid),
	  "UUID of the volume, as in the superblocks of its members; iraid examine MEMBER shows "
	  "it." },
	{ "volume", "member", CONFIG_DEVICES, EFFECT_COMMAND, true, false, 2, SLOTS_MAX, 0,
	  "Members and spares, one a line, in any order: PORTAL/IQN/LUN, or PORTAL,PORTAL/IQN/LUN "
	  "for a LUN with several portals. The default port is 3260; write IPv6 in brackets; host "
	  "names are allowed. The superblocks say which device is which member. Change this list "
	  "with iraid replace, add-spare and remove." },
	{ "volume", "initiator", CONFIG_INITIATOR, EFFECT_START, false, false, 0, 0,
	  VOLUME(initiator),
	  "Initiator name for the login to the targets; their ACLs must have it." },
	{ "volume", "chap_file", CONFIG_PATH, EFFECT_LOGIN, false, true, 0, 0, VOLUME(chap_file),
	  "File with the CHAP user (line 1) and secret (line 2), owned by root, mode 0600; lines 3 "
	  "and "
	  "4: user and secret by which targets prove who they are. none: log in without CHAP." },
	{ "volume", "give_up", CONFIG_SECONDS, EFFECT_NOW, false, true, 1, GIVE_UP_SECONDS_MAX,
	  VOLUME(give_up_seconds),
	  "Evict a member that has been silent for this time, if the others suffice." },
	{ "volume", "grace", CONFIG_MILLISECONDS, EFFECT_NOW, false, true, 0,
	  GRACE_MILLISECONDS_MAX, VOLUME(grace_milliseconds),
	  "When a target ends its session, for example because it restarts, wait this time for a "
	  "new session before the member is evicted. 0: do not wait." },
	{ "volume", "queue_limit", CONFIG_SECONDS, EFFECT_NOW, false, true, 1,
	  QUEUE_LIMIT_SECONDS_MAX, VOLUME(queue_limit_seconds),
	  "When too many members are silent, I/O waits this time before it fails." },
	{ "volume", "assembly_wait", CONFIG_SECONDS, EFFECT_NOW, false, true, 1,
	  ASSEMBLY_WAIT_SECONDS_MAX, VOLUME(assembly_wait_seconds),
	  "At the start, wait this time for absent members before the volume starts without "
	  "them." },
	{ "volume", "sync_rate_min", CONFIG_RATE, EFFECT_NOW, false, true, SYNC_RATE_LEAST,
	  SYNC_RATE_MOST, VOLUME(sync_rate_min),
	  "Lower limit of resync, rebuild and scrub, bytes a second of each member: also while "
	  "initiators are busy. iraid set changes it." },
	{ "volume", "sync_rate_max", CONFIG_RATE, EFFECT_NOW, false, true, SYNC_RATE_LEAST,
	  SYNC_RATE_MOST, VOLUME(sync_rate_max),
	  "Upper limit of resync, rebuild and scrub, bytes a second of each member. iraid set "
	  "changes it." },
	{ "volume", "hedge", CONFIG_MILLISECONDS, EFFECT_NOW, false, true, 0,
	  HEDGE_MILLISECONDS_MAX, VOLUME(hedge_milliseconds),
	  "When a member does not answer a read within this time, compute the data from the "
	  "others. 0: never." },
	{ "volume", "spare_wait", CONFIG_SECONDS, EFFECT_NOW, false, true, 1,
	  SPARE_WAIT_SECONDS_MAX, VOLUME(spare_wait_seconds),
	  "Wait this time for a silent member to return before a spare takes its place." },
	{ "volume", "error_limit", CONFIG_NUMBER, EFFECT_NOW, false, true, 1, ERROR_LIMIT_MAX,
	  VOLUME(error_limit),
	  "Unreadable sectors that are repaired on a member before it is evicted." },
	{ "volume", "log", CONFIG_LOG, EFFECT_NOW, false, true, 0, 0, VOLUME(log),
	  "Levels 5 and 6: when writes are logged on the members before they change rows. "
	  "degraded: while members are out, so that a crash of the gateway costs no data. always: "
	  "also while all are there, so that it costs none if a member goes with the gateway. off: "
	  "never. iraid set changes it." },
	{ "volume", "header_digest", CONFIG_DIGEST, EFFECT_LOGIN, false, true, 0, 0,
	  VOLUME(header_digest),
	  "A checksum (CRC32C) of iSCSI headers between gateway and targets, for networks that "
	  "corrupt data. preferred: where the target has it. required: targets that do not have it "
	  "are not used. none: not asked for. Use it together with data_digest." },
	{ "volume", "redirects", CONFIG_REDIRECTS, EFFECT_LOGIN, false, true, 0, 0,
	  VOLUME(redirects),
	  "Where a target may redirect a login. portals: only to portals that the member's own "
	  "line "
	  "names. no: nowhere. yes: anywhere, for arrays that choose the portal themselves." },
	{ "volume", "data_digest", CONFIG_DIGEST, EFFECT_LOGIN, false, true, 0, 0,
	  VOLUME(data_digest),
	  "The same for the data. It costs processor time on both sides. What arrives with a wrong "
	  "checksum is asked for again, and never used." },
	{ "volume", "enabled", CONFIG_BOOL, EFFECT_NOW, false, false, 0, 0, VOLUME(enabled),
	  "Whether iraid-engine --start-all starts the volume. tcmu-runner starts an exported "
	  "volume in any case." },
};
const int volume_key_count = sizeof(volume_keys) / sizeof(volume_keys[0]);

const struct config_key gateway_keys[] = {
	{ "spares", "spare", CONFIG_SPARES, EFFECT_NOW, false, false, 0, SPARE_POOL_MAX,
	  GATEWAY(pool),
	  "Spares that all volumes share, one a line: DEVICE size=BYTES block=BYTES. iraid "
	  "add-spare --gateway measures the LUN and adds its line." },
	{ "notify", "mail", CONFIG_MAILS, EFFECT_UNIT, false, false, 0, GATEWAY_MAILS_MAX, 0,
	  "Recipients of mail about events, one address a line. /usr/sbin/sendmail sends it." },
	{ "notify", "command", CONFIG_PATH, EFFECT_UNIT, false, false, 0, 0, GATEWAY(command),
	  "Program that is run for each event." },
	{ "notify", "severity", CONFIG_SEVERITY, EFFECT_UNIT, false, false, 0, 0, GATEWAY(severity),
	  "Report events of this severity and above: critical, error, warning, notice or info." },
	{ "exporter", "address", CONFIG_ADDRESS, EFFECT_UNIT, false, false, 0, 0,
	  GATEWAY(exporter_address),
	  "IP address at which the Prometheus exporter and the web page listen. They have no "
	  "login: to open them to other machines, put a firewall or a proxy with a login in "
	  "front." },
	{ "exporter", "port", CONFIG_NUMBER, EFFECT_UNIT, false, false, 1, 65535,
	  GATEWAY(exporter_port), "TCP port of the exporter." },
};
const int gateway_key_count = sizeof(gateway_keys) / sizeof(gateway_keys[0]);

bool
config_key_repeated(const struct config_key *key)
{
	return key->kind == CONFIG_DEVICES || key->kind == CONFIG_SPARES ||
	       key->kind == CONFIG_MAILS;
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

/* --- a file's items --- */

/* Two keys of which one is the other misspelt: one letter wrong, missing or too many, or two
 * swapped.
 */
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
		snprintf(remedy, sizeof(remedy), "write one of the sections %s; see iraid.conf(5)",
			 sink->sections);
		config_fault_add(faults, item->line, item->key, remedy,
				 "section [%.64s] is not known", item->section);
		return;
	}
	snprintf(remedy, sizeof(remedy), "iraid.conf(5) lists all keys");
	for (int t = 0; t < CONFIG_TABLES && sink->tables[t].keys; t++) {
		for (int i = 0; i < sink->tables[t].count; i++) {
			if (nearly(item->key, sink->tables[t].keys[i].name))
				snprintf(remedy, sizeof(remedy), "did you mean %s?",
					 sink->tables[t].keys[i].name);
		}
	}
	config_fault_add(faults, item->line, item->key, remedy, "there is no such key in [%.64s]",
			 item->section);
}

static int *
line_slot(const struct config_sink *sink, const struct config_key *key)
{
	for (int t = 0; t < CONFIG_TABLES && sink->tables[t].keys; t++) {
		if (key >= sink->tables[t].keys &&
		    key < sink->tables[t].keys + sink->tables[t].count)
			return &sink->tables[t].lines[key - sink->tables[t].keys];
	}
	return NULL;
}

static bool
section_known(const struct config_item *item, const struct config_sink *sink)
{
	const char *place = strcasestr(sink->sections, item->section);

	return place && place > sink->sections && place[-1] == '[' &&
	       place[strlen(item->section)] == ']';
}

static void
read_item(const struct config_item *item, const struct config_key *key, void *base,
	  struct config_sink *sink, struct config_faults *faults)
{
	struct config_fault fault = { .line = item->line };
	int *line = line_slot(sink, key);
	const char *hash = strpbrk(item->value, "#;");

	if (line && *line > 0 && !config_key_repeated(key)) {
		config_fault_add(faults, item->line, key->name, "remove one of them",
				 "it occurs twice, first in line %d", *line);
		return;
	}
	if (item->value[0] == '\0') {
		config_fault_add(faults, item->line, key->name,
				 "give it a value, or put # in front for the default",
				 "it has no value");
	} else if (hash && hash > item->value && (hash[-1] == ' ' || hash[-1] == '\t')) {
		config_fault_add(faults, item->line, key->name,
				 "give the comment a line of its own",
				 "\"%.*s\" is part of the value", text_fit(hash, 200), hash);
	} else if (!config_value_read(key, item->value, base, &fault)) {
		config_fault_add(faults, item->line, key->name, fault.remedy, "%s", fault.what);
	}
	if (line && *line == 0)
		*line = item->line;
}

void
config_items_read(const struct config_text *text, struct config_sink *sink,
		  struct config_faults *faults)
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
				 key ? key->common && strcasecmp(item->section, "volumes") == 0
						 ? "volumes"
						 : key->section
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
	case CONFIG_LOG:
		return "off, degraded or always";
	case CONFIG_REDIRECTS:
		return "no, portals or yes";
	case CONFIG_DIGEST:
		return "none, preferred or required";
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
	char text[40];

	config_bound_format(key, bound, text, sizeof(text));
	return key->max == 0 ? NULL : json_object_new_string(text);
}

static void
add_key(json_object *list, const char *file, const char *section, const struct config_key *key,
	const void *defaults)
{
	json_object *object = json_object_new_object();
	char value[CONFIG_VALUE_MAX] = "";

	if (!key->required && !config_key_repeated(key) && key->kind != CONFIG_INITIATOR)
		config_value_format(key, defaults, value);
	json_object_object_add(object, "file", json_object_new_string(file));
	json_object_object_add(object, "section", json_object_new_string(section));
	json_object_object_add(object, "key", json_object_new_string(key->name));
	json_object_object_add(object, "type", json_object_new_string(kind_name(key->kind)));
	json_object_object_add(object, "repeated",
			       json_object_new_boolean(config_key_repeated(key)));
	json_object_object_add(object, "required", json_object_new_boolean(key->required));
	json_object_object_add(object, "default", value[0] ? json_object_new_string(value) : NULL);
	json_object_object_add(object, "min", bound_json(key, key->min));
	json_object_object_add(object, "max", bound_json(key, key->max));
	json_object_object_add(object, "applies",
			       json_object_new_string(config_effect_name(key->effect)));
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
				add_key(list, "gateway", "volumes", &volume_keys[i],
					&usual->config.volumes);
		}
		for (int i = 0; i < gateway_key_count; i++)
			add_key(list, "gateway", gateway_keys[i].section, &gateway_keys[i],
				&usual->config);
		gateway_file_free(usual);
	}
	free(faults);
	free(usual);
	return list;
}
