/* short_memory.h - memory that the engine can't have: the n-th of its allocations, for all n in turn.
 *
 * Programs that want it link the engine with other names for malloc() and so on (CMakeLists.txt), so
 * members, oracle and test have theirs always.
 */
#ifndef IRAID_TEST_SHORT_MEMORY_H
#define IRAID_TEST_SHORT_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Of what the engine asks for from now on: behind some that it gets, so many are refused. */
void short_memory_refuse(uint64_t behind, uint64_t count);
/* None is refused any more.  Were all of them?  Else not so much was asked for. */
bool short_memory_end(void);
/* What engines have that "crashed", and that nobody gives back: there is no engine any more. */
void short_memory_free(void);

#endif
