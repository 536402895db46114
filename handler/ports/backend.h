/* backend.h - one member as the engine sees it.  An interface, no code.
 *
 * The engine never blocks: it opens a session, submits I/O, and is told of what became of it.
 * An adapter (libiscsi, a fake in memory, the simulator) implements `struct backend_ops` and
 * calls `struct backend_events` back.
 *
 * Rules for an adapter
 *  - No callback is made from inside an ops call: results are posted and delivered later by
 *    the thread that drives the engine.
 *  - Each submitted io is completed exactly once.  When it is, nothing can touch its memory
 *    any more.
 *  - open() leads to exactly one opened() or closed().  After opened(), exactly one closed()
 *    follows sooner or later.  All ios of the session are completed (-ENOTCONN) before closed().
 *  - A session is offered as opened only when the device is fit for use (a disk, writable, not
 *    reserved by somebody else) and fenced: LOGICAL UNIT RESET has completed on it, so that no
 *    write of an earlier session can land any more.
 *  - The adapter watches its own session: when the member makes no progress for
 *    deadline_ms while ios are outstanding (or on an idle session's keep-alive) it closes the
 *    session by itself with -ETIMEDOUT.  Progress is progress of commands: an answer, or data of one in more than
 *    drops.  Pings, messages and headers are none.
 *  - Whatever the member does (it drips, asks for the same again and again, has one unit attention after another),
 *    an io ends within BACKEND_IO_DEADLINES times deadline_ms and BACKEND_IO_SLACK_MS of its submit(), answered or
 *    with its session.  That counts all its repeats, and the time in which it waited behind others.
 *  - open() ends within the adapter's limit for connecting and BACKEND_RELEASE_MS, release() within BACKEND_RELEASE_MS.
 *  - A member may have more than one path (portal).  Each open() tries one of them: the same as last
 *    time after an orderly close, the next one after a session was lost or could not be opened.
 */
#ifndef IRAID_BACKEND_H
#define IRAID_BACKEND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

/* A link that is only slow has that long for all that was submitted at a time; a member that drips
 * has no longer.
 */
#define BACKEND_IO_DEADLINES 6u
#define BACKEND_IO_SLACK_MS 600u /* how seldom the adapter looks */
#define BACKEND_RELEASE_MS 1000u

enum backend_op {
	BACKEND_READ,
	BACKEND_WRITE,
	BACKEND_FLUSH, /* SYNCHRONIZE CACHE of the whole LUN; no iov */
	/* as a write of zeros, by whatever means are best; no iov.  Reads return zeros then */
	BACKEND_ZERO,
	/* asks the device for its size anew, which may have changed; no iov, offset and length 0 */
	BACKEND_MEASURE,
};

struct backend_io {
	enum backend_op op;
	bool fua; /* WRITE: on stable storage before it completes */
	/* ZERO: the device may give the space back, if it reads as zeros all the same */
	bool deallocate;
	uint64_t offset_bytes; /* on the member, from its first byte; whole blocks */
	uint32_t length_bytes;
	struct iovec *iov; /* lives until done(); the adapter may edit the array */
	int iov_count;
	/* MEASURE: the answer.  From then on I/O up to there is accepted */
	uint64_t capacity_bytes;

	/* 0
	 * -ENOTCONN  the session ended before the answer came: a write may or may not have happened
	 * -ENODATA   medium error on a read
	 * -EROFS     write protected
	 * -EACCES    reservation conflict: another gateway took the member
	 * -EIO       any other refusal; the command did not happen as asked
	 * -ECANCELED diverted before the device had answered all of it: nobody has said anything
	 */
	int result;
	void (*done)(struct backend_io *io);
	void *owner;

	/* for the adapter while it holds the io, for the engine otherwise */
	struct backend_io *next;
	uint64_t since_ms; /* for the adapter */
};

struct backend_identity { /* of an opened session */
	uint64_t capacity_bytes;
	uint32_t block_bytes;
	bool write_cache; /* WCE: writes may sit in a volatile cache */
	/* DPOFUA: FUA is honoured (else the adapter emulates it by a flush) */
	bool fua;
	/* holds a SCSI-3 reservation (the target knows them and a key was given) */
	bool reservation;
	/* Who had the member before us is proven gone from it: it holds our reservation, which bars
	 * reads and writes of all who are not registered, it knows no key but ours, and all this was
	 * so after the fence.  Also where nobody had it.  False where it can't be known: without
	 * reservations; where a key stays that we have no permission to preempt.
	 */
	bool taken;
	/* the last key, not ours, that this adapter preempted on it since its creation; 0: none */
	uint64_t predecessor_key;
	/* The device can show that it did not lose power, nor its volatile cache, since the session
	 * that was opened before this one.  Never true on the strength of hope: false where that
	 * can't be known.
	 */
	bool cache_kept;
	/* longest READ or WRITE sent as one command; longer ios are split */
	uint32_t transfer_bytes_max;
	/* longest ZERO that is one command; 0: zeros have to be sent over the network */
	uint32_t zero_bytes_max;
};

struct backend;

struct backend_ops {
	void (*open)(struct backend *backend);
	/* Only between opened() and closed(), or the io completes with -ENOTCONN. */
	void (*submit)(struct backend *backend, struct backend_io *io);
	/* From this call on nothing touches the memory of a read that was submitted and not
	 * completed yet: what still arrives is thrown away.  Its done() comes as ever, and until
	 * then the io itself and its iov array must live; what they point to need not.
	 */
	void (*divert)(struct backend *backend, struct backend_io *io);
	/* Drop the session now, without waiting for anything from the network.  From an opened
	 * or opening state; closed() follows with -ECANCELED. */
	void (*close)(struct backend *backend);
	/* As close(), for an orderly end: the ios that are under way end first, then the
	 * reservation is given back and the session logged out, as far as all that succeeds within
	 * BACKEND_RELEASE_MS.
	 */
	void (*release)(struct backend *backend);
};

struct backend_events {
	void (*opened)(void *owner, const struct backend_identity *identity);
	/* error: -ETIMEDOUT no progress; -ECONNREFUSED, -ECONNRESET, -EHOSTUNREACH, ... from the
	 * network; -EACCES login or reservation refused; -EBUSY in use by another gateway; -EINVAL
	 * device unfit; -ECANCELED our own close.  A target that is just restarting is met with all
	 * of -ECONNREFUSED, -ECONNRESET, -EACCES and -EINVAL: it listens before it knows its
	 * targets, and knows those before their LUNs.  reason: one line for a person, may name the
	 * portal; valid during the call only.
	 */
	void (*closed)(void *owner, int error, const char *reason);
	/* Asked just before predecessor_key's holder is preempted: is the volume this gateway's now,
	 * as other members say?  That one may have taken it back.  false: -EBUSY.  NULL: it is.
	 */
	bool (*is_ours)(void *owner);
};

struct backend {
	const struct backend_ops *ops;
	const struct backend_events *events; /* set by the engine before open() */
	void *events_owner;
	int paths; /* ways to the member that open() takes in turn; 0 counts as 1 */
	/* Set by the engine, at any time; 0: none.  The key of the gateway that this one has taken
	 * the volume from: open() preempts it, without another permission, until a session was
	 * opened with our reservation.  Who has that key on it later took it from us: -EBUSY, as for any
	 * other key.  An engine that has lost its volume takes it back (0), or is_ours() says so.
	 */
	uint64_t predecessor_key;
	/* Set by the engine, before open(): other members are awaited before any is taken from
	 * another gateway, whatever the adapter is permitted.  -EBUSY meanwhile.
	 */
	bool waits_to_take;
	/* How often the device said that a write failed which it had acknowledged, whatever it says
	 * of a cache; a flush that failed says so.  The adapter ends an open session for it, and
	 * counts before closed() or opened().
	 */
	uint32_t writes_lost;
	/* How often bytes came or arrived damaged, as digests said; for status only. */
	uint64_t digest_errors;
	const char *label; /* "10.0.0.1:3260/iqn.../0", for messages; never a secret */
};

#endif
