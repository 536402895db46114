/* member.h - one device of a volume: a member, one that was or is to be one, or a spare. */
#ifndef IRAID_ENGINE_MEMBER_H
#define IRAID_ENGINE_MEMBER_H

#include "driver.h"
#include "figures.h"
#include "pure/spare.h"
#include "state/assembly.h"

struct engine;

struct member {
	struct engine *engine;
	struct backend *backend;
	struct backend_identity identity;
	int slot;
	bool leaving;		 /* let go: its session closes, then the slot is free */
	int role;		 /* -1 until assembled, and of spares */
	uint8_t uuid[16];	 /* from its superblock or spare's mark */
	enum standing standing;	 /* under the record, when it was last looked at */
	int stale_set;		 /* of record.tracked, or -1 */
	struct spare_mark spare; /* when presence is PRESENCE_SPARE */
	enum link_state link;
	/* this session's superblock was read and fits: I/O may be sent */
	bool checked;
	bool in_sync;
	bool evicting;	       /* out, but the survivors' superblocks don't say so yet */
	uint64_t evict_record; /* generation of superblocks that says it is out */
	uint64_t evict_epoch;  /* and their epoch */
	uint64_t kept_record;  /* ... that says that it stays after all; 0: nobody says otherwise */
	/* answers, but wrongly, or an administrator wants it out: evict it although it is connected
	 */
	bool condemned;
	/* says that another gateway has reserved it, and the others are asked: dispute.c */
	bool disputed;
	bool denied_late; /* they are asked, once they have had the time to be taken too */
	/* the others deny it, and can't do without it: it is asked until it does so too */
	bool held;
	bool held_known; /* which was told; its sessions come and go quietly */
	bool asking;
	/* engine->moment: since then; of its latest word that it is ours; of its latest that says
	 * neither
	 */
	uint64_t disputed_at, granted_at, evaded_at;
	uint64_t disputed_ms, ask_again_ms;
	/* when the newest read or write was sent that it answered as ours: engine->moment, and by
	 * the clock of figures; 0: none since it spoke of another gateway
	 */
	uint64_t ours_at, ours_ns;
	uint64_t data_sent_at, data_sent_ms; /* when the newest of all was */
	/* The start under way needs that it hears of it: takeover.c. */
	bool counted;
	/* Copies of its superblock that are still to say that it is out, as the others have it; -1:
	 * it can't be told.
	 */
	int untold;
	bool forced; /* in sync only because an administrator said so */
	/* of the map's area, bits: it refused to read them for this assembly */
	uint64_t refused_blocks[LAYOUT_MAP_BYTES / LAYOUT_MAP_BLOCK_BYTES / 64];
	struct taken_as taken_as;
	/* older than what it had acknowledged, or used elsewhere since: nothing on it is trusted */
	bool went_back;
	bool misread; /* something on it is not what was written: if it goes, nothing on it is trusted */
	/* a copy, older than the member: until it is filled from the start */
	bool disbelieved;
	/* when it had this one, another device had it too; zeros: none since it was filled from the
	 * start
	 */
	uint8_t twin_uuid[16];
	bool excluded; /* out until an administrator takes it back, for: */
	char excluded_for[200];
	int opens_left; /* other paths to try before it is evicted */
	/* its last session of use was ended, it did not fall silent: it has grace_ms */
	bool ended;
	/* Another gateway has written it, and the volume can't do without it: each log-in reserves it
	 * for a moment, and is of no use as long as that is so.
	 */
	bool anothers;
	uint64_t ended_ms; /* then */
	/* it has not answered any command for data since, whatever sessions it took; 0: no */
	uint64_t mute_since_ms;
	uint32_t mute_sessions; /* that ended so, one after the other */
	/* when the oldest command for data was sent that this session's end cut off; 0: none */
	uint64_t cut_off_ms;
	/* when to look for commands of this session that others ended under; 0: there is none */
	uint64_t patience_ms;
	bool unflushed; /* a cache took writes since the last flush that was sent */
	bool cached;	/* in some session, that was of writes since the start */
	/* backend->writes_lost has grown: to be looked at with the session's event */
	bool lost_event;
	/* cache_lost only says so because a session was lost: cache_kept may take it back */
	bool cache_in_doubt;
	/* by all sessions opened since the last in which it was of use */
	bool cache_kept;
	uint32_t lost_seen; /* of backend->writes_lost */
	/* said so, and was sent no flushes: no write to it is known to have lasted */
	bool doubted;
	/* the same, and no row was made suspect for it yet: no flush of all members covered it */
	bool flushes_void;
	/* lost a session with unflushed writes, and is not back yet */
	bool cache_lost;
	/* not only superblocks and maps, which are written through */
	bool unflushed_data;
	bool data_lost; /* so it was when cache_lost was set */
	bool left_lost; /* it said in a start that it lost writes, which this gateway had not sent */
	/* is back from that, and what it had not flushed is suspect: others may have no more than
	 * it
	 */
	bool lacking;
	enum presence presence;
	enum superblock_verdict verdict;
	struct superblock superblock; /* as examined */
	/* and the other copy could not be read: it may have been one write newer */
	bool copy_lost;
	uint64_t write_count; /* of its superblock */
	/* 4 blocks of 4 KiB: copies A and B, superblock to write, probe */
	uint8_t *page;
	int examining;	      /* reads of A and B under way */
	uint64_t examined_ms; /* when they began */
	bool examine_failed;
	bool found_durable; /* flushed since: what was found there is in no cache only */
	bool found_flushing;
	/* some copy could not be read, but not for the medium's sake */
	bool examine_refused;
	int looks_failed;  /* openings that ended before its superblocks were read */
	bool recognised;   /* in this session: its superblocks were read */
	bool awaited_once; /* a start was begun again for what it was about to say */
	/* PRESENCE_AWAITED again: it was examined, and its superblock is known */
	bool said;
	/* of assemblies that began again, one after the other, for its session ended */
	uint32_t losses;
	uint64_t unsteady_ms, lost_ms; /* when the first of them did, and the last */
	/* while assembling: what was refused may be newer; 0: all was read */
	uint64_t examine_again_ms;
	bool probing;
	struct list in_flight;
	uint32_t in_flight_count;
	struct list parked;
	bool opened_event; /* posted by the backend, handled in engine_run() */
	bool closed_event;
	int close_error;
	/* we ended its last session, and the reservation stays until the next one */
	bool reserved;
	uint64_t silent_since_ms;
	uint64_t silent_since; /* engine->moment */
	uint64_t answered_at;  /* latest sent_at of an answered command */
	uint64_t retry_ms;
	uint32_t backoff_ms;
	char reason[256];
	uint64_t reads, writes, read_bytes, written_bytes, errors, medium_errors, medium_repaired;
	struct member_figures figures; /* but in_flight */
	uint32_t latency_us;	       /* of reads, a moving mean */
	bool slow;		       /* reads avoid it, but for one in SLOW_PROBE */
	uint32_t avoided;
};

#endif
