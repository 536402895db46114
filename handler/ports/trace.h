/* trace.h - probes for tracers (bpftrace, perf, systemtap), at the borders of a command's steps
 * (engine/core/figures.h).
 *
 * A probe is one instruction that does nothing until a tracer puts a breakpoint there.  Built
 * without sys/sdt.h there are none.  Provider `iraid`; each has the same six arguments:
 *
 *	1 char *	the volume's name
 *	2 uint64_t	number of the command; of commands that were joined, the first one's
 *	3 int		what it is: 0 read, 1 write, 2 flush, 3 zeros, 4 compare and write
 *	4 uint64_t	its first byte on the volume
 *	5 uint64_t	its length; of commands that were joined, all of them
 *	6 uint32_t	how many commands were joined
 *
 * 1, 2 and 4 together say which two belong to each other: a command of several pieces has them
 * under way at the same time.
 *
 *	ring__begin	ring__end	it came from the initiator; the volume's thread has it
 *	wait__begin	wait__end	for its rows and for others to join it
 *	mark__begin	mark__end	dirty marks become durable
 *	read__begin	read__end	of members
 *	code__begin	code__end	parity
 *	write__begin	write__end	to members
 *	flush__begin	flush__end	of members' caches
 *	complete__begin	complete__end	the answer goes back
 *
 * One that fails on its way has begun a step without ending it.
 */
#ifndef IRAID_TRACE_H
#define IRAID_TRACE_H

#include <stdint.h>

#ifdef IRAID_SDT
#include <sys/sdt.h>

/* No argument may be a constant: perf leaves such out, and takes no probe whose places have
 * different arguments.
 */
#define TRACE(probe, volume, number, op, offset_bytes, length_bytes, commands)                     \
	do {                                                                                       \
		uint32_t trace_commands = (uint32_t)(commands);                                    \
		__asm__("" : "+r"(trace_commands));                                                \
		DTRACE_PROBE6(iraid, probe, (const char *)(volume), (uint64_t)(number), (int)(op), \
			      (uint64_t)(offset_bytes), (uint64_t)(length_bytes), trace_commands); \
	} while (0)
#else
#define TRACE(probe, volume, number, op, offset_bytes, length_bytes, commands)                     \
	((void)(volume), (void)(number), (void)(op), (void)(offset_bytes), (void)(length_bytes),   \
	 (void)(commands))
#endif

#endif
