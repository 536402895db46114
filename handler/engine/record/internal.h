/* internal.h - what the files of record/ know of each other, beside record.h. */
#ifndef IRAID_ENGINE_RECORD_INTERNAL_H
#define IRAID_ENGINE_RECORD_INTERNAL_H

#include "write_log.h"

void marks_flush_begins(struct engine *engine); /* a round of flushes */

/* --- log_room.c, for write_log.c and log_opening.c --- */

/* Where so many bytes go in this member's log; false: nowhere now.  tail_only: they make room. */
bool log_find_room(const struct write_log *log, int role, uint32_t bytes, bool tail_only,
		   uint32_t *segment, uint32_t *at);
/* This member takes so many now. */
bool log_may_take(struct engine *engine, int role, uint32_t bytes, bool tail_only);
/* Roles of the members that take the copies; 0: there are not enough. */
uint32_t log_choose_copies(struct engine *engine, uint32_t bytes, bool tail_only);
uint32_t log_pieces_bytes(const struct logged *logged, int begin, int end);
uint64_t log_live_bytes_max(const struct engine *engine);
/* Zeros: so many rows that the tail is to rise, though their records are small. */
bool log_zeros_are_many(const struct engine *engine);
void
log_zeros_note(struct write_log *log, uint64_t sequence, const struct log_piece *pieces, int count);
void log_zeros_pass(struct write_log *log, uint64_t sequence); /* members know it is done with */
void log_zeros_forget(struct write_log *log);
/* What goes before others: of those that have begun, and to write what is held to its rows. */
uint64_t log_promised_bytes(const struct write_log *log);
/* All of an operation has room.  packed_bytes: of the record that it would be in, so far. */
bool log_may_begin(const struct engine *engine, const struct logged *logged, uint32_t packed_bytes,
		   uint64_t promised);
bool log_has_room_for(const struct engine *engine, uint32_t bytes); /* a record */
/* The first that waits does. */
bool log_makes_room(const struct write_log *log);
uint64_t log_segments_used(const struct engine *engine); /* of each member's log */

#endif
