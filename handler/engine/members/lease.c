/* lease.c - is the volume still ours?  What members have answered says so.
 *
 * A gateway that takes the volume over preempts this one on a quorum of the members
 * (geometry_quorum()), and waits LEASE_AWAITED_MS before it acknowledges anything.  A read or write
 * that a member has answered as ours was sent before that one had it.  So when as many members as
 * meet every quorum have each answered one that was sent
 *
 *	after a request came, or
 *	less than LEASE_MS ago
 *
 * no other gateway had acknowledged anything before that request came.  Under load the answers are
 * there; else members are asked (lease_ask).
 */
#include "internal.h"

#include <errno.h>

#define FRESH_MS (LEASE_MS / 2) /* who answered later than that need not be asked just now */

/* A conflict comes before a medium error, and a refusal may come before a conflict. */
void
lease_answered(const struct member_io *mio, int result)
{
	struct member *member = mio->member;
	const bool data = mio->io.op == BACKEND_READ || mio->io.op == BACKEND_WRITE ||
			  mio->io.op == BACKEND_ZERO;

	if (result == -EACCES) {
		member->ours_at = member->ours_ns = 0;
		return;
	}
	/* In a session whose superblock was not read yet it may be another's. */
	if ((result != 0 && result != -ENODATA) || !data || !member->in_sync || !member->checked ||
	    mio->sent_at <= member->ours_at)
		return;
	member->ours_at = mio->sent_at;
	member->ours_ns =
		MUTANT(LEASE_FROM_ANSWER) ? member->engine->figures.stamp_ns : mio->sent_ns;
}

/* The place that is changing hands: some superblocks name the one, and some the other, or nobody. */
static uint32_t
unsettled_place(const struct engine *engine)
{
	return target_changing(engine) && !MUTANT(LEASE_BESIDE_TAKING) ? ROLE(engine->target->role)
								       : 0;
}

/* Whoever takes the volume over counts it, by whatever superblock is there.  One that was to be out
 * and stays may be out by some.
 */
static bool
may_speak(const struct member *member)
{
	const struct engine *engine = member->engine;

	return member->backend != NULL && member->in_sync && !member->disputed &&
	       !(ROLE(member->role) & unsettled_place(engine)) &&
	       engine->metadata->durable >= member->kept_record;
}

/* By the largest volume that some superblocks may speak of. */
static uint32_t
missing_for_all(const struct engine *engine)
{
	return engine->missing & ~unsettled_place(engine);
}

/* It changes with who is out only. */
static int
quorum_now(struct engine *engine)
{
	struct eviction *eviction = engine->eviction;
	const uint32_t out = missing_for_all(engine);

	if (eviction->quorum == 0 || eviction->quorum_out != out) {
		eviction->quorum_out = out;
		eviction->quorum = geometry_quorum(&engine->geometry, out);
	}
	return eviction->quorum;
}

int
lease_needed(struct engine *engine)
{
	const int there = engine->geometry.members - __builtin_popcount(missing_for_all(engine));
	const int quorum = quorum_now(engine);
	int unreserved = 0;

	/* Who is on its way out counts for whoever takes the volume over. */
	for_each_member(engine, member)
		unreserved +=
			(member->in_sync || member->evicting) && !member->identity.reservation;
	if (there - unreserved < quorum || MUTANT(ZOMBIE_READS_SERVED))
		return 0; /* no other gateway can prove anything either */
	return there - quorum + 1;
}

bool
lease_holds(struct engine *engine, uint64_t since, uint64_t now_ns, int needed)
{
	for_each_member(engine, member) {
		const bool in_time = member->ours_ns != 0 &&
				     now_ns < member->ours_ns + LEASE_MS * UINT64_C(1000000) &&
				     now_ns != 0;

		needed -= may_speak(member) && member->identity.reservation &&
			  (in_time || member->ours_at > since);
	}
	return needed <= 0;
}

/* It has answered, or is about to. */
static bool
is_hopeful(const struct member *member, uint64_t since)
{
	const struct engine *engine = member->engine;
	const bool by_time = engine->port.clock_ns != NULL;

	if (member->ours_at > since)
		return true;
	if (by_time && member->ours_ns != 0 &&
	    engine->figures.stamp_ns < member->ours_ns + FRESH_MS * UINT64_C(1000000))
		return true;
	return member->in_flight_count > 0 && (by_time || member->data_sent_at > since) &&
	       member->data_sent_at != 0 && engine->now_ms < member->data_sent_ms + LEASE_SOON_MS;
}

static struct member *
quickest_to_ask(struct engine *engine, uint32_t hopeful)
{
	struct member *quickest = NULL;

	for_each_member(engine, member)
		if (may_speak(member) && member_usable(member) && !member->probing &&
		    !(hopeful & ROLE(member->role)) &&
		    (quickest == NULL || member->latency_us < quickest->latency_us))
			quickest = member;
	return quickest;
}

void
lease_ask(struct engine *engine, uint64_t since, int needed)
{
	uint32_t hopeful = 0;

	for_each_member(engine, member)
		if (may_speak(member) && is_hopeful(member, since)) {
			hopeful |= ROLE(member->role);
			needed--;
		}
	for (; needed > 0; needed--) {
		struct member *member = quickest_to_ask(engine, hopeful);

		if (member == NULL)
			return;
		hopeful |= ROLE(member->role);
		engine->counters.proofs_asked++;
		evict_probe(member);
	}
}
