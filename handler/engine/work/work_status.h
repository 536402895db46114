/* work_status.h - how far background work is. */
#ifndef IRAID_WORK_STATUS_H
#define IRAID_WORK_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "pure/layout.h"

struct work_status {  /* a resync, rebuild or scrub */
	bool running; /* false: none, or it waits; see reason */
	uint64_t done_rows, total_rows;
	uint64_t rate;	       /* bytes of each member a second, lately */
	uint64_t seconds_left; /* at that rate; UINT64_MAX: can't be told */
	char reason[96];       /* why it is not running, though there is something to do */
};

#define MISMATCH_POSITIONS 16

/* Of the scrub under way, or of the last one. */
struct scrub_found {
	bool active; /* started and neither finished nor stopped; it may wait */
	enum scrub_mode mode;
	uint64_t mismatches;			    /* rows whose parity did not fit */
	uint64_t mismatch_rows[MISMATCH_POSITIONS]; /* the first of them */
};

#endif
