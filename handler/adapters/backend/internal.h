/* backend/internal.h - what the files of backend/ share.
 *
 *   backend.c                the interface: events, the socket
 *   watch.c                  its progress, keep-alive
 *   session.c                from nothing to an open session and back, a state machine:
 *   states.c                 which state follows (pure)
 *   answers.c                what the answers mean
 *   io.c                     reads, writes and flushes of an open session
 *   cut.c                    an io cut into commands
 *   zero.c                   how zeros are made
 *   measure.c                its size asked anew, and what it says by itself (unit attentions)
 *   follow.c                 the end of a session that was preempted, on LIO
 *   path.c                   what was agreed with it, and what the kernel knows of the way to it
 *
 * A session is first a socket (CONNECT, LOGIN), then an iscsi_connection.  One rule holds for the
 * callbacks of both: they only note what happened.  Nothing is queued, nothing is destroyed and
 * nobody outside is called from inside one.
 */
#ifndef IRAID_BACKEND_INTERNAL_H
#define IRAID_BACKEND_INTERNAL_H

#include "backend.h"
#include "former.h"
#include "adapters/iscsi/connection.h"
#include "adapters/iscsi/login.h"
#include "adapters/base/resolver.h"
#include "adapters/base/sealed.h"
#include "adapters/iscsi/inspect.h"

#define WINDOW_COMMANDS 64		    /* on the wire of one session */
#define TRANSFERS_MAX (WINDOW_COMMANDS + 1) /* one may be under way without a command */
#define COMMAND_BYTES_MAX (4u << 20)
#define ATTENTION_LOG_MS 10000 /* what repeats is logged no more often */

enum session_state {
	SESSION_CLOSED,
	SESSION_RESOLVE, /* the portal's name */
	SESSION_CONNECT, /* TCP */
	SESSION_LOGIN,
	SESSION_INSPECT,  /* what it is: all steps of iscsi/inspect.h but the last */
	SESSION_HOLDER,	  /* who holds the reservation */
	SESSION_REGISTER, /* our key */
	SESSION_NEXUS,	  /* by which session the key that is to be preempted was registered */
	SESSION_PREEMPT,  /* the other gateway's key */
	SESSION_RESERVE,
	SESSION_OUTCOME, /* it was refused: who was faster */
	SESSION_RESET,	 /* LOGICAL UNIT RESET: the fence */
	SESSION_SETTLE,	 /* unit attentions again */
	SESSION_FOLLOW,	 /* until that session has ended */
	SESSION_MODE,	 /* the inspection's last step, and what a reservation forbade before */
	SESSION_CONFIRM, /* is the reservation still there */
	SESSION_KEYS,	 /* who else is registered */
	SESSION_EXPEL,	 /* one of them: its key preempted */
	SESSION_OPEN,
	SESSION_RELEASE, /* the way back */
	SESSION_UNREGISTER,
	SESSION_LOGOUT,
	SESSION_FAILED, /* only as an answer of session_next() */
};

/* How the command of a state ended. */
enum session_outcome {
	OUTCOME_GOOD,
	OUTCOME_REPEAT,	     /* unit attention: the same again, at once */
	OUTCOME_LATER,	     /* busy or becoming ready: the same again after a pause */
	OUTCOME_UNSUPPORTED, /* the target does not know this command */
	OUTCOME_CONFLICT,    /* another gateway's reservation is in the way */
	OUTCOME_BAD,	     /* it can't go on; the reason is noted */
};

struct session_facts {
	bool reservation_wanted;
	bool foreign_holder;
	bool ours;	  /* a reservation of our key is there already */
	bool take_over;	  /* the holder may be preempted, when it was read */
	bool reserved;	  /* RESERVE was good */
	bool inspected;	  /* up to MODE */
	bool barred;	  /* before: a reservation is in the way of the rest */
	bool whole;	  /* all of it */
	bool closes_late; /* the target: the reset does not fence off what it is closing */
	bool unfenced;	  /* a session that was preempted may be such a one */
	bool other_key;	  /* registered, and to be preempted */
	bool expelled;	  /* one was, and no fence came since */
};

/* Pure: which state follows.  SESSION_FAILED where there is none. */
enum session_state session_next(enum session_state state, enum session_outcome outcome,
				const struct session_facts *facts);
/* of INSPECT: see session_step_name() */
const char *session_state_name(enum session_state state);
bool session_may_reserve(enum session_state state); /* logged in, not opened yet */
bool session_on_the_way_back(enum session_state state);

struct iscsi_member;
struct transfer;

enum command_kind {
	COMMAND_READ,
	COMMAND_WRITE,
	COMMAND_SYNCHRONIZE,
	COMMAND_WRITE_SAME,
	COMMAND_MEASURE
};
/* waiting: to be sent again */
enum command_state { COMMAND_FREE, COMMAND_ON_WIRE, COMMAND_WAITING };

struct command { /* one SCSI command: all or a part of an io */
	struct scsi_task task;
	struct iscsi_task wire;
	struct iscsi_member *member;
	struct transfer *transfer;
	enum command_kind kind;
	enum command_state state;
	uint64_t offset_bytes;
	uint32_t length_bytes;
	struct iscsi_place place; /* of its data */
	bool unmaps;		  /* WRITE SAME */
	struct iovec answer_iov;  /* MEASURE */
	uint8_t answer[SCSI_CAPACITY_BYTES];
	uint8_t attentions, aborts;
	uint64_t busy_since_ms, repeat_ms;
	uint32_t pause_ms;
	struct command *previous, *next; /* on the wire: oldest first; free: stack */
};

struct transfer { /* one backend_io of which at least a part was sent */
	struct backend_io *io;
	uint32_t issued_bytes;
	struct iscsi_place place; /* where the next command starts */
	int commands;		  /* that exist */
	int error;		  /* the first one */
	bool issued;		  /* no more commands will be made of it */
	bool flush_wanted, flushing;
	bool again;    /* zeros that have to be made another way */
	bool diverted; /* its memory is somebody else's again */
	struct transfer *next;
};

struct io_list {
	struct backend_io *head, *tail;
};

/* A log-in as another initiator; follow.c. */
struct follower {
	struct scsi_nexus nexus; /* as whom */
	uint32_t portal_group;	 /* only there does the target wait; 0: not known */
	int fd;			 /* -1: none is under way */
	uint32_t events;	 /* as watched */
	bool connected;
	struct iscsi_login *login;
	struct iscsi_credentials *credentials; /* in secret memory */
	int error;			       /* of the last: 0, it was let in */
};

/* A message that makes the reactor's next turn return at once.  Outlives the member while it is
 * posted.
 */
struct member_wake {
	struct reactor_message message;
	struct iscsi_member *member; /* NULL: destroyed meanwhile */
	bool posted;
};

struct iscsi_member {
	struct backend backend;		      /* first: the engine's handle is the member */
	struct backend_iscsi_options options; /* but for its credentials: */
	struct sealed credentials;
	struct iscsi_credentials *opened; /* in secret memory, while a login needs them */
	char label[MEMBER_ADDRESS_MAX];
	struct reactor *reactor;
	struct member_wake *wake;
	uint64_t now_ms; /* of this turn */

	/* events that wait for the next tick */
	bool opened_pending, closed_pending;
	struct fault closed;

	/* the session */
	enum session_state state;
	struct session_facts facts;
	struct iscsi_login login;
	struct former *former;		     /* of the CHAP file, in secret memory; or NULL */
	struct iscsi_connection *connection; /* from the login's end on */
	int fd;				     /* the connection's, or still our own; -1: none */
	uint32_t fd_events;		     /* as watched */
	struct resolution *resolution;
	struct resolved addresses;
	int address_index;
	int redirects;
	int path; /* of this open, or of the next one */
	/* in use: another one than configured after a redirection */
	char portal[PORTAL_MAX];
	uint64_t connect_deadline_ms, address_deadline_ms;
	struct scsi_request request; /* of the state, or the keep-alive */
	struct iscsi_task step;	     /* the same on the wire */
	bool step_pending, step_done;
	int step_status;
	uint32_t step_response;	 /* of task management */
	uint64_t step_repeat_ms; /* 0: none waits */
	int step_repeats;
	uint64_t holder_key;	     /* whom PREEMPT is about */
	uint64_t take_over_until_ms; /* 0: the permission was never given, or is spent */
	bool taking_over;	     /* this session began while it held */
	uint64_t predecessor_key;    /* of the identity; from session to session */
	struct follower follower;
	uint64_t unfenced_key;	     /* 0: none; whose: */
	bool unfenced;		     /* its nexus is to be followed, from session to session */
	bool nexus_known;	     /* of the key that is to be preempted */
	bool unfollowed;	     /* it can't be: nothing is proven of what it had sent */
	bool was_unfollowed;	     /* before the key was to be preempted */
	struct scsi_preempted noted; /* with the options' owner */
	bool was_taken;		     /* some session was opened with our reservation */
	uint64_t told_key;	     /* that it has been logged */
	/* by every session begun since the last that was opened; see absorb_holder() */
	bool cache_kept;
	bool reserved;
	bool registered;			     /* our key, by this session */
	enum scsi_reservation_type reservation_type; /* that the target knows */
	bool exclusive;	     /* the target confirmed that it is SCSI_EXCLUSIVE_ACCESS */
	bool preempt_only;   /* the target knows no PREEMPT AND ABORT */
	int refusals;	     /* of RESERVE, although nobody holds one */
	int expelled;	     /* keys */
	bool leaving;	     /* as soon as all that is under way has ended, the keep-alive too */
	struct fault final;  /* why it ends, while what was taken is given back */
	struct fault broken; /* noted in a callback: the session is to be dropped */
	bool dropping;	     /* inside the destruction of the context or the connection */
	struct inspection inspection;
	struct backend_identity identity; /* from its end on */
	bool flush_sixteen;
	uint32_t write_bytes_max; /* of one command, for the sake of round trips */
	uint32_t same_bytes_max;  /* of one WRITE SAME */
	/* whatever it says of itself; remembered from session to session */
	bool unmap_refused, same_refused;
	uint64_t attention_logged_ms[2]; /* 0: not yet; [1]: that its size has changed */
	uint32_t digest_errors_seen;	 /* of this connection; earlier ones are in backend, too */
	uint64_t digest_logged_ms;

	/* its ios */
	struct io_list waiting, done;
	struct command commands[WINDOW_COMMANDS];
	struct command *free_commands;
	struct command *wire_oldest, *wire_newest;
	int wire_count, waiting_commands;
	struct transfer transfers[TRANSFERS_MAX];
	struct transfer *free_transfers;
	struct transfer *current; /* being cut into commands */
	struct transfer *to_flush;

	/* progress */
	uint64_t progress_ms, check_ms, idle_since_ms;
	uint64_t acked_base, acked_seen, acked_of_oldest, progress_seen;
	uint64_t look_ms, stood_still_ms;
};

/* backend.c */
void member_wake_up(struct iscsi_member *member);
/* Drop the session now; closed(error) follows.  Not from inside a callback. */
void member_login_over(struct iscsi_member *member); /* credentials are wiped until the next */
void member_forget_former(struct iscsi_member *member);
void member_drop(struct iscsi_member *member, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void member_disconnect(struct iscsi_member *member);
void member_flush(struct iscsi_member *member);
void member_break(struct iscsi_member *member, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void member_progress(struct iscsi_member *member);

/* watch.c */
void watch_start(struct iscsi_member *member); /* of the session that was just logged in */
void watch_session(struct iscsi_member *member);
/* of an open session, as soon as now_ms has moved */
void watch_pause(struct iscsi_member *member);
/* The time in which this gateway ran: a pause of its own is nobody else's fault. */
uint64_t watch_clock_ms(const struct iscsi_member *member);
uint64_t watch_interval_ms(const struct iscsi_member *member);

/* session.c */
void session_start(struct iscsi_member *member);
void session_advance(struct iscsi_member *member); /* after everything that may call back */
void session_connect_failed(struct iscsi_member *member, int error);
/* Its socket is ready for sending, for the first time. */
void session_connected(struct iscsi_member *member);
/* The login may have an outcome now. */
void session_login_served(struct iscsi_member *member);
void session_tick(struct iscsi_member *member);
uint64_t session_wake_ms(const struct iscsi_member *member);
/* Ends the attempt, or the session, from outside of callbacks.  What was reserved is given back. */
void session_leave(struct iscsi_member *member, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void session_release(struct iscsi_member *member); /* orderly, an open and idle one */
void session_keep_alive(struct iscsi_member *member);

const char *session_step_name(const struct iscsi_member *member); /* what is under way */

/* login_end.c: a login has failed; if nothing is broken then, it is to be tried again */
void login_refused(struct iscsi_member *member);
void login_accepted(struct iscsi_member *member);

/* answers.c: the outcome of the state's command, why a bad one is, in member->final */
enum session_outcome session_absorb(struct iscsi_member *member);

/* answers.c: before a key is preempted */
void preempt_begins(struct iscsi_member *member);
/* What the owner is to know of that has changed. */
void preempted_note(struct iscsi_member *member);

/* follow.c: a step of its own, with member->follower.error at its end */
void follow_start(struct iscsi_member *member);
void follow_end(struct iscsi_member *member); /* also if none was begun */

/* cut.c */
bool cut_possible(const struct iscsi_member *member, const struct backend_io *io);
uint32_t cut_write_bytes_max(const struct iscsi_negotiated *agreed, uint32_t block_bytes);
uint32_t cut_length(const struct iscsi_member *member, const struct transfer *transfer);
void cut_advance(struct transfer *transfer, uint32_t length);

/* zero.c */
void zero_note_limits(struct iscsi_member *member); /* of the device that was inspected */
/* of one command; 0: zeros have to be sent */
uint32_t zero_bytes_max(const struct iscsi_member *member);
bool zero_by_write_same(const struct iscsi_member *member, const struct backend_io *io);
struct iscsi_place zero_place(void); /* COMMAND_BYTES_MAX zeros */
bool zero_unmaps(const struct iscsi_member *member, const struct backend_io *io);
/* what is tried next differs */
void zero_refused(struct iscsi_member *member, const struct command *command);

/* measure.c */
void measure_build(struct iscsi_member *member, struct command *command);
/* with GOOD; what becomes of the io */
int measure_answered(struct iscsi_member *member, const struct command *command);
/* with anything else */
void measure_failed(const struct iscsi_member *member, const struct command *command);
/* a unit attention */
void mode_note(struct iscsi_member *member, const struct scsi_task *task);
void attention_note(struct iscsi_member *member, const struct scsi_task *task);
/* Of any answer.  failed_flush: it says of a flush that it could not be done. */
void cache_note(struct iscsi_member *member, const struct scsi_task *task, int status,
		bool failed_flush);

/* io.c */
void io_create(struct iscsi_member *member);
void io_submit(struct iscsi_member *member, struct backend_io *io);
void io_divert(struct iscsi_member *member, struct backend_io *io);
void io_pump(struct iscsi_member *member);
void io_fail_all(struct iscsi_member *member);
uint64_t io_repeat_ms(const struct iscsi_member *member);
const struct backend_io *io_oldest(const struct iscsi_member *member); /* NULL: there is none */
void io_doubt_flushes(struct iscsi_member *member); /* that were answered, and not told yet */
bool io_idle(const struct iscsi_member *member);

#endif
