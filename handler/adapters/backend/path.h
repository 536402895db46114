/* backend/path.h - what there is between us and a member: for an administrator, not for the engine.
 */
#ifndef IRAID_BACKEND_ISCSI_PATH_H
#define IRAID_BACKEND_ISCSI_PATH_H

#include "ports/backend.h"
#include "adapters/iscsi/login.h"

/* of the session's connection, as the kernel has it; 0: it does not say */
struct path_tcp {
	uint32_t rtt_us, rttvar_us, min_rtt_us;
	uint32_t cwnd_segments, mss_bytes, path_mtu_bytes;
	uint64_t segments_out, retransmits;
	/* as it reckons: sent and not acknowledged, given up as lost */
	uint32_t in_flight_segments, lost_segments;
	/* not sent or not acknowledged; not read by us */
	uint64_t send_queue_bytes, receive_queue_bytes;
	uint64_t busy_us; /* that there was something to send; of that: */
	/* the member's window, our buffer was full */
	uint64_t peer_limited_us, sndbuf_limited_us;
	uint64_t delivery_rate, pacing_rate; /* bytes a second */
	uint64_t sndbuf_bytes, rcvbuf_bytes;
	char congestion[16]; /* control's name */
};

struct backend_path {
	bool open; /* there is a session; else nothing below counts */
	char portal[PORTAL_MAX];
	char vendor[9], product[17];
	struct iscsi_negotiated agreed;
	uint32_t window;      /* commands that the target lets be under way */
	uint32_t window_ours; /* that we would have under way at most */
	uint32_t in_flight;
	/* longest PDU of data so far: what the target may send is not negotiated */
	uint32_t data_in_bytes;
	uint32_t read_bytes_max, write_bytes_max; /* of one command */
	bool tcp_known;
	struct path_tcp tcp;
};

void backend_iscsi_path(const struct backend *backend, struct backend_path *out);

#endif
