/* sim_record.c - who is in sync, as the members' superblocks have it.
 *
 * Who goes or comes is on record with one member after the other, and one that is silent may hold
 * up the rest for long.  A gateway that dies meanwhile leaves superblocks that differ, and it is by
 * them that the next one starts: the gateway that ran may have counted on somebody who is out to
 * some of them.
 */
#include "sim.h"

#include "pure/bytes.h"

#include <string.h>

/* By role: what whoever is in sync there has. */
struct records {
	struct superblock of[SIM_MEMBERS_MAX];
	bool known[SIM_MEMBERS_MAX];
};

static void
read_records(const struct sim *sim, struct records *records)
{
	for (int role = 0; role < sim->count; role++)
		records->known[role] = sim->holder[role] >= 0 &&
				       sim_read_superblock(&sim->members[sim->holder[role]].disk,
							   &records->of[role]);
}

/* Out, or given to a device that is not in sync there yet. */
static bool
is_away(const struct records *records, const struct superblock *record, int role)
{
	return record->member_states[role] != MEMBER_IN_SYNC ||
	       (records->known[role] &&
		memcmp(records->of[role].member_uuid, record->member_uuids[role], UUID_BYTES) != 0);
}

/* Roles that some member's superblock says so of: which of them a start hears first can't be told
 * from outside.
 */
uint32_t
record_away(const struct sim *sim, int but)
{
	struct records records;
	uint32_t away = 0;

	read_records(sim, &records);
	for (int of = 0; of < sim->count; of++)
		for (int role = 0; role < sim->count && records.known[of] && sim->holder[of] != but;
		     role++)
			if (is_away(&records, &records.of[of], role))
				away |= 1u << role;
	return away;
}

/* A newer record in which it is out counts no writes of it any more. */
static bool
calls_out(const struct superblock *record, int role, const struct superblock *old)
{
	return record->member_states[role] != MEMBER_IN_SYNC &&
	       (record->epoch != old->epoch ? record->epoch > old->epoch
					    : record->event > old->event);
}

/* Would a gateway that starts now, whomever of the others it finds, know that a device with this
 * superblock has gone back? A superblock says how many writes of its own each member had
 * acknowledged (one more may be behind a copy that can't be read), or that it is out.
 */
bool
record_knows_older(const struct sim *sim, int role, const struct superblock *old)
{
	struct records records;
	bool asked = false;

	read_records(sim, &records);
	for (int of = 0; of < sim->count; of++) {
		if (of == role || sim->holder[of] < 0)
			continue;
		if (!records.known[of] ||
		    (records.of[of].write_counts[role] <= old->write_count + 1 &&
		     !calls_out(&records.of[of], role, old)))
			return false;
		asked = true;
	}
	return asked;
}
