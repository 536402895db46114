/* backend/path.c - see path.h.  Nothing is sent for its sake. */
#include "path.h"
#include "internal.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static uint64_t
buffer_bytes(int fd, int option)
{
	int bytes = 0;
	socklen_t size = sizeof(bytes);

	return getsockopt(fd, SOL_SOCKET, option, &bytes, &size) == 0 && bytes > 0 ? (uint64_t)bytes
										   : 0;
}

static uint64_t
queue_bytes(int fd, unsigned long request)
{
	int bytes = 0;

	return ioctl(fd, request, &bytes) == 0 && bytes > 0 ? (uint64_t)bytes : 0;
}

/* tcp_packets_in_flight() of the kernel. */
static uint32_t
in_flight_segments(const struct tcp_info *info)
{
	uint32_t there = info->tcpi_unacked + info->tcpi_retrans,
		 gone = info->tcpi_sacked + info->tcpi_lost;

	return there > gone ? there - gone : 0;
}

/* An older kernel fills less of tcp_info: the rest stays 0. */
static bool
ask_tcp(int fd, struct path_tcp *out)
{
	struct tcp_info info = { 0 };
	socklen_t size = sizeof(info), name_size = sizeof(out->congestion) - 1;

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
		return false;
	*out = (struct path_tcp){
		.rtt_us = info.tcpi_rtt,
		.rttvar_us = info.tcpi_rttvar,
		.min_rtt_us = info.tcpi_min_rtt == UINT32_MAX ? 0 : info.tcpi_min_rtt,
		.cwnd_segments = info.tcpi_snd_cwnd,
		.mss_bytes = info.tcpi_snd_mss,
		.path_mtu_bytes = info.tcpi_pmtu,
		.segments_out = info.tcpi_segs_out,
		.retransmits = info.tcpi_total_retrans,
		.in_flight_segments = in_flight_segments(&info),
		.lost_segments = info.tcpi_lost,
		.send_queue_bytes = queue_bytes(fd, SIOCOUTQ),
		.receive_queue_bytes = queue_bytes(fd, SIOCINQ),
		.busy_us = info.tcpi_busy_time,
		.peer_limited_us = info.tcpi_rwnd_limited,
		.sndbuf_limited_us = info.tcpi_sndbuf_limited,
		.delivery_rate = info.tcpi_delivery_rate,
		.pacing_rate = info.tcpi_pacing_rate == UINT64_MAX ? 0 : info.tcpi_pacing_rate,
		.sndbuf_bytes = buffer_bytes(fd, SO_SNDBUF),
		.rcvbuf_bytes = buffer_bytes(fd, SO_RCVBUF),
	};
	if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, out->congestion, &name_size) != 0)
		out->congestion[0] = '\0';
	return true;
}

void
backend_iscsi_path(const struct backend *backend, struct backend_path *out)
{
	const struct iscsi_member *member = (const struct iscsi_member *)backend;
	uint32_t most = member->identity.transfer_bytes_max;

	memset(out, 0, sizeof(*out));
	if (member->state != SESSION_OPEN || member->connection == NULL)
		return;
	out->open = true;
	memcpy(out->portal, member->portal, sizeof(out->portal));
	memcpy(out->vendor, member->inspection.device.vendor, sizeof(out->vendor));
	memcpy(out->product, member->inspection.device.product, sizeof(out->product));
	out->agreed = member->login.negotiated;
	out->window = iscsi_connection_window(member->connection);
	out->window_ours = WINDOW_COMMANDS;
	out->data_in_bytes = iscsi_connection_data_in_bytes(member->connection);
	out->in_flight = (uint32_t)member->wire_count;
	out->read_bytes_max = most;
	out->write_bytes_max = member->write_bytes_max < most ? member->write_bytes_max : most;
	out->tcp_known = ask_tcp(member->fd, &out->tcp);
}
