/* assembly.c - see assembly.h. */
#include "assembly.h"

#include <stdio.h>
#include <string.h>

static bool
newer(const struct superblock *a, const struct superblock *b)
{
	return a->epoch != b->epoch ? a->epoch > b->epoch : a->event > b->event;
}

static bool
ours(const struct assembly_input *input, int i)
{
	return input->presence[i] == PRESENCE_EXAMINED &&
	       memcmp(input->superblocks[i]->volume_uuid, input->volume_uuid, 16) == 0;
}

static int
find_newest(const struct assembly_input *input)
{
	int newest = -1;

	for (int i = 0; i < input->count; i++)
		if (ours(input, i) && (newest < 0 || newer(input->superblocks[i],
							   input->superblocks[newest])))
			newest = i;
	return newest;
}

/* Why member i can't be used under the newest superblock, or NULL. */
static const char *
member_fault(const struct assembly_input *input, const struct superblock *newest, int i,
	     const struct assembly_verdict *so_far)
{
	const struct superblock *own = input->superblocks[i];

	if (input->presence[i] == PRESENCE_REJECTED)
		return "no valid superblock of this volume";
	if (input->presence[i] == PRESENCE_AWAITED)
		return "not reachable";
	if (!ours(input, i))
		return "is a member of another volume";
	if (own->role >= newest->member_count ||
	    memcmp(own->member_uuid, newest->member_uuids[own->role], 16) != 0)
		return "is not a member of this volume any more";
	for (int j = 0; j < i; j++)
		if (so_far->role[j] == own->role)
			return "claims a role that another member has";
	if (newest->member_states[own->role] != MEMBER_IN_SYNC)
		return "is out of date: the volume went on without it";
	return NULL;
}

static void
refuse(struct assembly_verdict *out, const char *text)
{
	out->answer = ASSEMBLY_REFUSED;
	snprintf(out->reason, sizeof(out->reason), "%s", text);
}

void
assembly_decide(const struct assembly_input *input, struct assembly_verdict *out)
{
	const struct superblock *newest;
	int trusted = 0;
	int awaited = 0;
	int tolerated;

	*out = (struct assembly_verdict){ .answer = ASSEMBLY_WAIT };
	for (int i = 0; i < input->count; i++) {
		out->role[i] = -1;
		awaited += input->presence[i] == PRESENCE_AWAITED;
	}
	out->newest = find_newest(input);
	if (out->newest < 0) {
		if (awaited == 0)
			refuse(out, "no member has a superblock of this volume");
		else
			snprintf(out->reason, sizeof(out->reason), "no member has answered yet");
		return;
	}
	newest = input->superblocks[out->newest];
	for (int i = 0; i < input->count; i++) {
		out->fault[i] = member_fault(input, newest, i, out);
		if (ours(input, i) && input->superblocks[i]->role < newest->member_count)
			out->role[i] = input->superblocks[i]->role;
		out->in_sync[i] = out->fault[i] == NULL;
		trusted += out->in_sync[i];
	}
	if (newest->member_count != input->count) {
		refuse(out, "the configuration lists another number of members than the superblocks");
		return;
	}
	if (newest->epoch < input->epoch_seen && !input->force) {
		/* Newer members may be among those still awaited. */
		if (awaited == 0)
			refuse(out, "these members are older than what this gateway has run: newer ones "
				    "are missing; start with --force to lose what only they hold");
		else
			snprintf(out->reason, sizeof(out->reason), "waiting for members of a newer epoch");
		return;
	}
	tolerated = newest->level == 5 ? 1 : 0;
	if (trusted == input->count)
		out->answer = ASSEMBLY_READY;
	else if (trusted >= input->count - tolerated)
		out->answer = awaited > 0 ? ASSEMBLY_DEGRADED : ASSEMBLY_READY;
	else if (awaited == 0)
		snprintf(out->reason, sizeof(out->reason), "%d of %d members can be trusted, %d are needed",
			 trusted, input->count, input->count - tolerated), out->answer = ASSEMBLY_REFUSED;
	else
		snprintf(out->reason, sizeof(out->reason), "%d of %d members are there, %d are needed",
			 trusted, input->count, input->count - tolerated);
}
