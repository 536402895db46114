/* engine.h - one volume: takes requests, drives the members, keeps promise 1.
 *
 * Single-threaded and driven from outside.  It never blocks, sleeps, makes a thread or looks at
 * a clock; it has no file descriptors.  The driver (adapters/volume/thread.c, a unit test, the
 * simulator) does, on one thread:
 *
 *	engine_submit(...)	as often as there are requests waiting
 *	backend callbacks	as members answer
 *	engine_run(now)		after each batch of the above, and at engine_deadline()
 *
 * Requests complete through request->done, from inside engine_run() only.
 */
#ifndef IRAID_ENGINE_H
#define IRAID_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/core/driver.h"

struct engine;

/* backends[0 .. count): the devices of the configuration, members and spares in any order, in slots
 * 0 .. count-1; what each one is, its superblock says.  Returns NULL if out of memory or count is
 * out of 1..SLOTS_MAX.  Nothing is opened yet.
 */
struct engine *engine_create(const struct engine_options *options, const struct engine_port *port,
			     struct backend *const *backends, int count, uint64_t now_ms);

/* Open the members and assemble, as engine_run() goes on. */
void engine_start(struct engine *engine);

/* Queue one request.  Its done() comes later, from engine_run(). */
void engine_submit(struct engine *engine, struct engine_request *request);

/* Let everything that can proceed do so.  now_ms: monotonic milliseconds, never going back. */
void engine_run(struct engine *engine, uint64_t now_ms);

/* The end of what port.record_epoch was asked: 0, or -errno.  Then call engine_run(). */
void engine_epoch_recorded(struct engine *engine, enum epoch_kind kind, uint64_t epoch, int error);

/* When engine_run() must be called again although nothing happened; UINT64_MAX for never. */
uint64_t engine_deadline(const struct engine *engine);

/* Stop in order: new requests fail (-ESHUTDOWN), those queued finish, members are flushed, the
 * superblocks marked clean, sessions closed.  stopped(owner) is called from engine_run(); then
 * engine_destroy() may be called.  Takes at most a few seconds when members don't answer.
 */
void engine_stop(struct engine *engine, void (*stopped)(void *owner), void *owner);

/* Only when stopped, or never started. */
void engine_destroy(struct engine *engine);

/* No request is with the engine for longer than this, whatever members, links or other requests do
 * (docs/design/time.md).  Ranges of zeros of more than a MiB: since a piece of such a range was
 * last done.
 */
uint64_t engine_request_ms_max(const struct engine_options *options);
/* stopped() of engine_stop() is called within this time, whoever refuses or stays silent. */
uint64_t engine_stop_ms_max(void);

#endif
