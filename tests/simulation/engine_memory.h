/* engine_memory.h - where the engine's memory comes from in the simulator.
 *
 * An engine that "crashed" gives nothing back, as a killed process would not.  All its memory lies
 * in one place, which is used again from its beginning once no engine is left: so a life costs no
 * page faults, and a process can live thousands of lives.  What the engine calls malloc() and so on
 * is renamed by the compiler (tests/CMakeLists.txt), but not where a sanitizer looks after the
 * memory.
 */
#ifndef IRAID_ENGINE_MEMORY_H
#define IRAID_ENGINE_MEMORY_H

#include <stdint.h>

void engine_memory_begin(void); /* an engine is about to be made */
void engine_memory_end(void);	/* one was destroyed, or crashed */

/* Of the next allocations, behind some that succeed, so many fail. */
void engine_memory_refuse(uint64_t behind, uint64_t count);
uint64_t engine_memory_refused(void); /* how many failed so far */

#endif
