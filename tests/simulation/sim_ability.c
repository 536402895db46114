/* sim_ability.c - what only some lives have: sizes, faults and operations beside the ordinary ones.
 *
 * Each is drawn for itself, from the seed and its own number, so that one more changes nothing in
 * the lives that don't have it, and the large ones, which cost more, can be rare.  One that the
 * engine can't bear yet is off: `--with NAME` switches it on, for every life.
 */
#include "sim.h"

#include <stdio.h>
#include <string.h>

#define STREAM 0xAB1117000ull /* of random_stream(): not a step's */

struct ability abilities[ABILITIES] = {
	[ABILITY_MANY_MEMBERS] = { "many-members", 10, true, "up to 12 members" },
	[ABILITY_LARGE_CHUNKS] = { "large-chunks", 40, true, "chunks of 128 KiB to 1 MiB" },
	[ABILITY_LONG_REQUESTS] = { "long-requests", 40, true,
				    "reads, writes and zeros of several pieces, 4 to 8 MiB" },
	[ABILITY_SHORT_MEMORY] = { "short-memory", 50, true,
				   "bursts of requests that an arena as small as can be has no "
				   "room for" },
	[ABILITY_SMALL_TABLE] = { "small-table", 20, true, "tables of lost extents that fill" },
	[ABILITY_CACHE_SWITCHED] = { "cache-switched", 8, true,
				     "write caches that are on in one session and off in the "
				     "next" },
	[ABILITY_TWIN_SPARES] = { "twin-spares", 8, true,
				  "spares whose mark has the UUID of a member" },
	[ABILITY_STUCK_SECTORS] = { "stuck-sectors", 8, true,
				    "sectors that refuse to be read, or written, for good" },
	[ABILITY_CONFLICTS] = { "conflicts", 8, true,
				"a reservation conflict from one member only" },
	[ABILITY_SHAPES] = { "shapes", 8, true,
			     "another block size or capacity at the next log-in" },
	[ABILITY_ROLLBACKS] = { "rollbacks", 8, true, "devices that go back to a snapshot" },
	[ABILITY_ROT] = { "rot", 8, true,
			  "members that return something else than was written, until a scrub" },
	[ABILITY_POWER_AFTER_STOP] = { "power-after-stop", 4, true,
				       "after an orderly stop all members lose power" },
	[ABILITY_STANDSTILLS] = { "standstills", 8, true,
				  "a gateway that does nothing for minutes, and goes on" },
	[ABILITY_EPOCHS] = { "epochs-refused", 8, true,
			     "an epoch that can't be recorded for a while" },
	[ABILITY_NO_MEMORY] = { "no-memory", 8, true, "no memory to be had for a while" },
	[ABILITY_MANY_REGIONS] = { "many-regions", 40, true,
				   "region maps of several granules, some of several blocks" },
	[ABILITY_TIME_JUDGED] = { "time-judged", 1, true,
				  "each request has to end within the written bound" },
	[ABILITY_STAYING_FAULTS] = { "staying-faults", 6, true,
				     "a member is ill until the next quiescence, and watched for "
				     "longer than a request may take" },
	[ABILITY_ROWS_JUDGED] = { "rows-judged", 1, true,
				  "what a running gateway does not know is so by row, not by "
				  "region" },
	[ABILITY_STEERED] = { "steered", 3, true,
			      "faults that wait for a state of the engine in which they were "
			      "rare" },
	[ABILITY_LOST_COPIES] = { "lost-copies", 8, true,
				  "superblocks one copy of which can't be read after a restart" },
	[ABILITY_FENCES] = { "fences", 8, true,
			     "another gateway takes all members, and this one has to stop" },
	[ABILITY_CASCADES] = { "cascades", 8, true,
			       "faults that follow each other while the engine is busy with one" },
	[ABILITY_CLONES] = { "clones", 8, true,
			     "a copy of a member, new or old, as another device" },
	[ABILITY_FORCES] = { "forces", 8, true, "too few members are left, and a start by force" },
	[ABILITY_DEFERRED] = { "deferred-errors", 8, true,
			       "devices that say later that they have lost writes" },
	[ABILITY_TWO_GATEWAYS] = { "two-gateways", 8, true,
				   "a second gateway takes the volume over, and the first one "
				   "lives" },
	[ABILITY_HALVES] = { "halves", 8, true,
			     "a gateway that dies again and again, and finds other members each "
			     "time" },
	[ABILITY_LOG] = { "log", 2, true, "writes are logged while members are out, or always" },
	[ABILITY_PAIRS] = { "pairs", 4, true,
			    "two members that fall silent at once, where the level bears it" },
};

uint64_t
ability_random(const struct sim *sim, enum ability_name ability)
{
	return random_stream(sim->options.seed, STREAM + 16 * (uint64_t)ability);
}

void
ability_draw(struct sim *sim)
{
	for (int i = 0; i < ABILITIES; i++) {
		uint64_t random = random_stream(sim->options.seed, STREAM + 16 * (uint64_t)i + 1);

		if (abilities[i].on && random_once_in(&random, abilities[i].lives)) {
			sim->abilities |= 1ull << i;
			sim->options.totals->abilities[i]++;
		}
	}
}

bool
sim_can(const struct sim *sim, enum ability_name ability)
{
	return (sim->abilities >> ability) & 1;
}

bool
ability_switch(const char *name, bool on)
{
	for (int i = 0; i < ABILITIES; i++)
		if (strcmp(abilities[i].name, name) == 0) {
			abilities[i].on = on;
			abilities[i].lives = 1;
			return true;
		}
	return false;
}

void
ability_list(void)
{
	for (int i = 0; i < ABILITIES; i++)
		printf("%-22s %-4s one life in %-4u %s\n", abilities[i].name,
		       abilities[i].on ? "on" : "off", abilities[i].lives, abilities[i].text);
}
