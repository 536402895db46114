/* backend/states.c - the pure half of the session's state machine: which state follows which.
 * session.c has the picture.
 */
#include "internal.h"

const char *
session_state_name(enum session_state state)
{
	static const char *const names[] = {
		[SESSION_CLOSED] = "closed",
		[SESSION_RESOLVE] = "the lookup of the portal's name",
		[SESSION_CONNECT] = "connecting",
		[SESSION_LOGIN] = "the login",
		[SESSION_INSPECT] = "the inspection",
		[SESSION_HOLDER] = "READ RESERVATION",
		[SESSION_REGISTER] = "REGISTER of the reservation key",
		[SESSION_NEXUS] = "READ FULL STATUS",
		[SESSION_PREEMPT] = "PREEMPT AND ABORT",
		[SESSION_RESERVE] = "RESERVE",
		[SESSION_OUTCOME] = "READ RESERVATION",
		[SESSION_RESET] = "LOGICAL UNIT RESET",
		[SESSION_SETTLE] = "TEST UNIT READY after the reset",
		[SESSION_FOLLOW] = "the wait for the end of the session that was preempted",
		[SESSION_MODE] = "MODE SENSE",
		[SESSION_CONFIRM] = "READ RESERVATION",
		[SESSION_KEYS] = "READ KEYS",
		[SESSION_EXPEL] = "PREEMPT AND ABORT",
		[SESSION_OPEN] = "open",
		[SESSION_RELEASE] = "RELEASE",
		[SESSION_UNREGISTER] = "removal of the reservation key",
		[SESSION_LOGOUT] = "the logout",
		[SESSION_FAILED] = "failed",
	};

	return names[state];
}

/* What a registrant had sent may still land: who was expelled is fenced off, too. */
static enum session_state
after_keys(const struct session_facts *facts)
{
	/* Such a target is asked about one session at a time. */
	if (facts->expelled && (!facts->other_key || facts->closes_late))
		return SESSION_RESET;
	if (!facts->other_key)
		return SESSION_OPEN;
	return facts->closes_late ? SESSION_NEXUS : SESSION_EXPEL;
}

static enum session_state
after_fence(const struct session_facts *facts)
{
	if (!facts->whole)
		return SESSION_MODE;
	return facts->reserved ? SESSION_CONFIRM : SESSION_OPEN;
}

/* The target does not know the command. */
static enum session_state
next_after_unsupported(enum session_state state, const struct session_facts *facts)
{
	if (state == SESSION_KEYS) /* whatever it said before */
		return facts->expelled ? SESSION_RESET : SESSION_OPEN;
	if (state == SESSION_NEXUS)
		return facts->foreign_holder ? SESSION_PREEMPT : SESSION_EXPEL;
	/* without a reservation, unless another one's is in the way */
	if ((state == SESSION_HOLDER || state == SESSION_REGISTER || state == SESSION_RESERVE) &&
	    !facts->barred)
		return SESSION_RESET;
	return SESSION_FAILED;
}

static enum session_state
next_after_conflict(enum session_state state, const struct session_facts *facts)
{
	switch ((int)state) {
	case SESSION_INSPECT: /* whose reservation is it? The rest is asked when it is ours */
		return facts->reservation_wanted ? SESSION_HOLDER : SESSION_FAILED;
	case SESSION_REGISTER:
	case SESSION_RESERVE:
	case SESSION_PREEMPT:
		return SESSION_OUTCOME;
	case SESSION_EXPEL: /* it has left by itself */
		return SESSION_KEYS;
	default:
		return SESSION_FAILED;
	}
}

static enum session_state
next_after_good(enum session_state state, const struct session_facts *facts)
{
	switch (state) {
	case SESSION_RESOLVE:
		return SESSION_CONNECT;
	case SESSION_CONNECT:
		return SESSION_LOGIN;
	case SESSION_LOGIN:
		return SESSION_INSPECT;
	case SESSION_INSPECT:
		if (!facts->inspected)
			return SESSION_INSPECT;
		return facts->reservation_wanted ? SESSION_HOLDER : SESSION_RESET;
	case SESSION_HOLDER:
		if (facts->foreign_holder && !facts->take_over)
			return SESSION_FAILED;
		return SESSION_REGISTER;
	case SESSION_REGISTER:
		if (!facts->foreign_holder)
			return SESSION_RESERVE;
		return facts->closes_late ? SESSION_NEXUS : SESSION_PREEMPT;
	case SESSION_NEXUS:
		return facts->foreign_holder ? SESSION_PREEMPT : SESSION_EXPEL;
	case SESSION_PREEMPT:
		return SESSION_RESERVE;
	case SESSION_RESERVE:
		return SESSION_RESET;
	case SESSION_OUTCOME:
		if (facts->foreign_holder)
			return SESSION_FAILED;
		/* Held with our key by a session of ours that is dead: taken from it. */
		return facts->ours ? SESSION_PREEMPT : SESSION_RESERVE;
	case SESSION_RESET:
		return SESSION_SETTLE;
	case SESSION_SETTLE:
		if (facts->unfenced)
			return SESSION_FOLLOW;
		return after_fence(facts);
	case SESSION_FOLLOW:
		return after_fence(facts);
	case SESSION_MODE:
		if (!facts->whole)
			return SESSION_MODE;
		return facts->reserved ? SESSION_CONFIRM : SESSION_OPEN;
	case SESSION_CONFIRM:
		return SESSION_KEYS;
	case SESSION_KEYS:
		return after_keys(facts);
	case SESSION_EXPEL:
		return SESSION_KEYS;
	case SESSION_RELEASE:
		return SESSION_UNREGISTER;
	case SESSION_UNREGISTER:
		return SESSION_LOGOUT;
	case SESSION_LOGOUT:
		return SESSION_CLOSED;
	case SESSION_OPEN: /* the keep-alive */
		return SESSION_OPEN;
	case SESSION_CLOSED:
	case SESSION_FAILED:
		break;
	}
	return SESSION_FAILED;
}

bool
session_may_reserve(enum session_state state)
{
	return state > SESSION_LOGIN && state < SESSION_OPEN;
}

bool
session_on_the_way_back(enum session_state state)
{
	return state == SESSION_RELEASE || state == SESSION_UNREGISTER || state == SESSION_LOGOUT;
}

enum session_state
session_next(enum session_state state, enum session_outcome outcome,
	     const struct session_facts *facts)
{
	if (outcome == OUTCOME_REPEAT || outcome == OUTCOME_LATER)
		return state;
	if (outcome == OUTCOME_GOOD || session_on_the_way_back(state))
		return next_after_good(state, facts); /* the way back stops for nothing */
	if (outcome == OUTCOME_UNSUPPORTED)
		return next_after_unsupported(state, facts);
	if (outcome == OUTCOME_CONFLICT)
		return next_after_conflict(state, facts);
	return SESSION_FAILED;
}
