/* iscsi/login_keys.c - the keys of the operational stage: what the target's values mean. */
#include "login.h"

#include <stdlib.h>
#include <string.h>

#define OFFERED_BURST_BYTES 262144	/* by login.c */
#define DEFAULT_SEGMENT_BYTES 8192	/* RFC 7143, 13.12 */
#define DEFAULT_FIRST_BURST_BYTES 65536 /* 13.14 */
#define BURST_BYTES_MIN 512		/* 13.13, 13.14 */
#define LENGTH_BYTES_MAX 0xffffff
#define PORTAL_GROUP_MAX 0xffff /* 13.9 */

/* The lower of the two sides' limits counts. */
static bool
key_number(const char *text, const char *key, uint32_t least, uint32_t most, uint32_t *out)
{
	size_t length = strlen(key);
	unsigned long value;
	char *end;

	if (strncmp(text, key, length) != 0)
		return false;
	value = strtoul(text + length, &end, 0);
	if (end != text + length && *end == '\0' && value >= least && value <= LENGTH_BYTES_MAX)
		*out = value < most ? (uint32_t)value : most;
	return true;
}

/* *out becomes `meaning` where the value is `word`, else its opposite. */
static bool
key_flag(const char *text, const char *key, const char *word, bool meaning, bool *out)
{
	size_t length = strlen(key);

	if (strncmp(text, key, length) != 0)
		return false;
	*out = (strcmp(text + length, word) == 0) == meaning;
	return true;
}

static bool
is_one_of(const char *value, const char *const *words)
{
	while (*words != NULL && strcmp(value, *words) != 0)
		words++;
	return *words != NULL;
}

/* A target that does not want to choose leaves it at the default, which is none (13.1). */
static bool
key_digest(const char *text, const char *key, bool *out, bool *odd)
{
	static const char *const none[] = { "None", "Reject", "Irrelevant", "NotUnderstood", NULL };
	size_t length = strlen(key);

	if (strncmp(text, key, length) != 0)
		return false;
	*out = strcmp(text + length, "CRC32C") == 0;
	if (!*out && !is_one_of(text + length, none))
		*odd = true;
	return true;
}

void
iscsi_login_keys(const char *text, size_t length, struct iscsi_negotiated *negotiated)
{
	struct iscsi_negotiated *out = negotiated;

	while (length > 0) {
		const char *end = memchr(text, '\0', length);

		if (end == NULL)
			return;
		(void)(key_number(text, "FirstBurstLength=", BURST_BYTES_MIN, OFFERED_BURST_BYTES,
				  &out->first_burst_bytes) ||
		       key_number(text, "MaxBurstLength=", BURST_BYTES_MIN, OFFERED_BURST_BYTES,
				  &out->max_burst_bytes) ||
		       key_number(text, "MaxRecvDataSegmentLength=", BURST_BYTES_MIN,
				  LENGTH_BYTES_MAX, &out->target_segment_bytes) ||
		       key_number(text, "TargetPortalGroupTag=", 0, PORTAL_GROUP_MAX,
				  &out->portal_group) ||
		       key_flag(text, "InitialR2T=", "No", false, &out->initial_r2t) ||
		       key_flag(text, "ImmediateData=", "Yes", true, &out->immediate_data) ||
		       key_digest(text, "HeaderDigest=", &out->header_digest, &out->odd_digest) ||
		       key_digest(text, "DataDigest=", &out->data_digest, &out->odd_digest));
		length -= (size_t)(end + 1 - text);
		text = end + 1;
	}
}

void
iscsi_negotiated_defaults(struct iscsi_negotiated *out)
{
	*out = (struct iscsi_negotiated){
		.first_burst_bytes = DEFAULT_FIRST_BURST_BYTES,
		.max_burst_bytes = OFFERED_BURST_BYTES,
		.target_segment_bytes = DEFAULT_SEGMENT_BYTES,
		.initial_r2t = true,
		.immediate_data = true,
	};
}

uint32_t
iscsi_immediate_bytes(const struct iscsi_negotiated *negotiated)
{
	if (!negotiated->immediate_data)
		return 0;
	return negotiated->first_burst_bytes < negotiated->target_segment_bytes
		       ? negotiated->first_burst_bytes
		       : negotiated->target_segment_bytes;
}
