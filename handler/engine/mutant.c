/* mutant.c - see mutant.h.  Empty in the product. */
#include "mutant.h"

#ifdef IRAID_MUTANTS
enum mutant mutant_active = MUTANT_NONE;
#endif
