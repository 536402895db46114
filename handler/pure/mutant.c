/* mutant.c - see mutant.h.  Empty in the product. */
#include "mutant.h"

#ifdef IRAID_MUTANTS
#include <stdlib.h>
#include <string.h>

enum mutant mutant_active = MUTANT_NONE;

/* For programs that have no option for it (nbdkit with our plugin): IRAID_MUTANT=NAME. */
__attribute__((constructor)) static void
choose_from_environment(void)
{
	static const char *const names[] = {
#define MUTANT_NAME(NAME, name, rule, catcher, text) [MUTANT_##NAME] = name,
		MUTANTS(MUTANT_NAME)
#undef MUTANT_NAME
	};
	const char *wanted = getenv("IRAID_MUTANT");

	for (size_t i = 1; wanted != NULL && i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(names[i], wanted) == 0)
			mutant_active = (enum mutant)i;
}
#endif
