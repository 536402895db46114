/* chunks.c - who has which chunk of a row, and what its redundancy is worth. */
#include "core.h"

#include <stdio.h>

const char *
roles_text(uint32_t roles, char text[ROLES_TEXT_MAX])
{
	size_t length = 0;

	text[0] = '\0';
	for (int role = 0; role < IRAID_MEMBERS_MAX && length + 4 < ROLES_TEXT_MAX; role++)
		if (roles & ROLE(role))
			length += (size_t)snprintf(text + length, ROLES_TEXT_MAX - length, "%s%d",
						   length > 0 ? ", " : "", role);
	return text;
}

uint32_t
engine_absent(const struct engine *engine, uint64_t row)
{
	uint32_t roles = engine->missing;

	if (roles == 0)
		return 0;
	if (engine->target != NULL && intent_row_on_target(&engine->intent, row))
		roles &= ~ROLE(engine->target->role);
	return geometry_positions(&engine->geometry, row, roles);
}

bool
engine_has_parity(const struct engine *engine)
{
	return engine->geometry.level == 5 || engine->geometry.level == 6;
}

bool
engine_may_tear(const struct engine *engine)
{
	return engine->suspended && engine_has_parity(engine) && !engine->fenced &&
	       engine->phase < PHASE_RELEASE;
}

/* Nothing will be listed of it, so it need not wait until there is room for what its region loses:
 * what nobody wrote, or a flush covered, is what the others make of it.
 */
static bool
loses_nothing(const struct engine *engine, uint64_t row)
{
	return engine->lost_full && !intent_row_losable(&engine->intent, row) &&
	       !MUTANT(FULL_FOR_REGION);
}

enum row_trust
engine_trust(const struct engine *engine, uint64_t row)
{
	if (engine->geometry.redundancy == 0 || !intent_row_suspect(&engine->intent, row))
		return ROW_PROVEN;
	return intent_row_defined(&engine->intent, row) || loses_nothing(engine, row) ? ROW_DEFINED
										      : ROW_SUSPECT;
}

bool
engine_bare(const struct engine *engine)
{
	return engine_has_parity(engine) &&
	       __builtin_popcount(engine->missing) >= engine->geometry.redundancy;
}

bool
engine_bears(const struct engine *engine, int role)
{
	return geometry_bears(&engine->geometry, engine->out | ROLE(role));
}

struct member *
engine_holder(struct engine *engine, uint64_t row, int role)
{
	if (engine->by_role[role] != NULL)
		return engine->by_role[role];
	if (engine->target != NULL && engine->target->role == role &&
	    intent_row_on_target(&engine->intent, row))
		return engine->target;
	return NULL;
}

int
engine_writers(struct engine *engine, uint64_t row, int role, struct member *out[2])
{
	int count = 0;

	if (engine->by_role[role] != NULL)
		out[count++] = engine->by_role[role];
	if (engine->target != NULL && engine->target->role == role &&
	    intent_row_on_target(&engine->intent, row))
		out[count++] = engine->target;
	return count;
}

/* --- the member that is being filled --- */

bool
target_changing(const struct engine *engine)
{
	return engine->target != NULL && (engine->target_phase == TARGET_TAKING ||
					  engine->target_phase == TARGET_WITHDRAWING);
}

bool
target_filling(const struct engine *engine)
{
	return engine->target != NULL && engine->target_phase == TARGET_FILLING;
}
