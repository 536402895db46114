/* rig.h - a volume on fake members, in virtual time, with an oracle of what reads may return.
 *
 * Every sector that is written carries its number and the number of the write.  The oracle knows,
 * for each sector, the newest write that was acknowledged and the newest that was submitted; what a
 * read returns must lie between.  Zeros are a write too, whose number is looked up.  After a crash
 * unacknowledged writes may or may not be there, but what was once read never reverts.
 */
#ifndef IRAID_RIG_H
#define IRAID_RIG_H

#include "engine/life/admin.h"
#include "engine/life/status.h"
#include "fake_member.h"

#define RIG_SECTOR 512u
#define RIG_MEMBER_BYTES (16ull << 20)
#define RIG_MEMBER_BYTES_MAX (20ull << 20)

struct rig_request;

struct rig {
	struct schedule schedule;
	struct engine *engine;
	struct engine_options options;
	struct fake_member members[IRAID_MEMBERS_MAX];
	int count;
	int level;
	uint32_t chunk_bytes;
	uint64_t sectors; /* of the volume that the load uses */
	uint64_t volume_bytes;
	uint64_t now_ms;
	uint64_t turn_ms; /* when the turn began that it stands still in; 0: it does not */
	uint64_t random;
	uint32_t *acknowledged; /* by sector: number of the newest write that was */
	/* newest that a flush or FUA made safe from a loss of power */
	uint32_t *flushed;
	uint32_t *submitted;
	/* by sector: number of the newest write of zeros, and of the one before */
	uint32_t *zeroed, *zeroed_before;
	/* by sector: `completed` when a write of zeros last ended */
	uint64_t *zero_ended;
	uint32_t writes;
	struct rig_request *active;
	int active_count;
	int long_zeros; /* of these: see ZEROS_LONG */
	uint64_t completed, failed, mismatches;
	int last_error;
	int losses_told; /* how often the engine said that data is lost */
	bool errors_allowed;
	uint32_t step_ms_max; /* virtual time of a step: 1 .. this */
	bool stopped;
	uint64_t epoch_recorded, epoch_tried;
	int epoch_error;  /* what recording one ends with */
	bool epochs_held; /* no answer: the disk hangs */
	uint32_t epochs_asked;
	int epochs_refused_told, epochs_well_told; /* events of that */
	bool verbose;
	bool clockless; /* figures without times */
};

/* How many lives a test has that draws them: all, or, under sanitizers, which make each ten
 * times as long, a fourth of them and at least four.
 */
uint64_t rig_lives(uint64_t count);

/* Format `count` members and remember their options; nothing is started. */
void rig_init(struct rig *rig, int level, int count, uint32_t chunk_bytes, uint64_t load_bytes,
	      uint64_t seed);
/* The same with chunks of 4 KiB and a region for each row, so many that the map has two blocks. */
void
rig_init_many_regions(struct rig *rig, int level, int count, uint64_t load_bytes, uint64_t seed);
void rig_free(struct rig *rig);

/* All members tell that they have so many bytes, RIG_MEMBER_BYTES_MAX at most. */
void rig_extend_members(struct rig *rig, uint64_t bytes);
/* The load uses more of the volume from now on.  Waits for what is under way. */
void rig_extend_load(struct rig *rig, uint64_t load_bytes);

/* Make the device in rig->members[index], which is not one of the `count`, and mark it as a spare
 * of the volume.
 */
void rig_mark_spare(struct rig *rig, int index, uint64_t bytes);

void rig_start(struct rig *rig);
void rig_stop(struct rig *rig); /* in order; asserts that it ends */
/* the engine is gone, what was in flight took effect or did not */
void rig_crash(struct rig *rig);

/* The same, and every member loses what its cache held and was not flushed. */
void rig_power_loss(struct rig *rig);

void rig_step(struct rig *rig); /* members answer, time passes */
void rig_steps(struct rig *rig, int steps);
/* The gateway stands still, and goes on: perhaps in the turn that it was in. */
void rig_stand_still(struct rig *rig, uint64_t ms);
void rig_go_on(struct rig *rig, bool in_its_turn);
void rig_jump(struct rig *rig); /* nothing to do: forward to the engine's deadline */
/* As a driver does: the engine runs when a member has said something, or at its deadline, and not
 * otherwise.  False: neither will ever be.
 */
bool rig_wake(struct rig *rig);
bool rig_wait(struct rig *rig, enum volume_state state, int steps);
/* Started, and all members in sync; or the test fails. */
void rig_start_active(struct rig *rig);
/* Until no parity is suspect any more; or the test fails. */
void rig_wait_for_resync(struct rig *rig);
/* both lose power at once: I/O waits until they are back */
void rig_lose_caches(struct rig *rig, int one, int other);
void rig_drain(struct rig *rig); /* until no request is active */

/* Submit one random request within the load's range, or a certain one.  Sectors.  COMPARE_WRITE: in
 * one of three cases with expectations that are wrong; nothing else may be under way there, and all
 * must have been written.
 */
void rig_submit_random(struct rig *rig);
/* fua of a flush: it is what a read with FUA begins with. */
void rig_submit(struct rig *rig, enum request_op op, uint64_t sector, uint64_t count, bool fua);

/* Read the load's whole range and check it. */
void rig_verify(struct rig *rig);

/* Rows whose parity is not the XOR of their data, over all rows. */
uint64_t rig_parity_faults(const struct rig *rig);

/* The superblock that counts on a member's medium. */
struct superblock rig_superblock(const struct rig *rig, int member);

struct engine_status rig_status(const struct rig *rig);

#endif
