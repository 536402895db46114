/* fuzz.c - see fuzz.h. */
#include "fuzz.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t fuzz_steps;
static uint64_t random_state;

uint64_t
fuzz_random(void)
{
	random_state += 0x9e3779b97f4a7c15;
	uint64_t mixed = (random_state ^ random_state >> 30) * 0xbf58476d1ce4e5b9;

	mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
	return mixed ^ mixed >> 31;
}

uint32_t
fuzz_below(uint32_t bound)
{
	return (uint32_t)((fuzz_random() >> 32) % bound);
}

void
fuzz_require(bool condition, const char *what)
{
	if (!condition) {
		fprintf(stderr, "%s: %s\n", program_invocation_short_name, what);
		abort();
	}
}

#ifdef IRAID_LIBFUZZER
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t size_max);
size_t
LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t size_max, unsigned int seed);

/* Now and then an input as the target makes it, which libFuzzer would not come upon. */
size_t
LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t size_max, unsigned int seed)
{
	static uint8_t made[FUZZ_INPUT_MAX];

	if (seed % 16 != 0)
		return LLVMFuzzerMutate(data, size, size_max);
	random_state = seed;
	size = fuzz_make(made);
	size = size < size_max ? size : size_max;
	memcpy(data, made, size);
	return size;
}
#else
static int
replay(const char *path)
{
	static uint8_t input[1 << 20];
	FILE *file = fopen(path, "rb");

	if (file == NULL) {
		perror(path);
		return 1;
	}
	size_t size = fread(input, 1, sizeof(input), file);
	fclose(file);
	LLVMFuzzerTestOneInput(input, size);
	return 0;
}

static int
replay_all(char **paths)
{
	int failed = 0;

	for (; *paths != NULL; paths++)
		failed |= replay(*paths);
	return failed;
}

int
main(int argc, char **argv)
{
	static uint8_t input[FUZZ_INPUT_MAX];
	char *end;
	uint64_t runs;

	if (argc < 2) {
		fprintf(stderr, "usage: %s RUNS SEED | FILE...\n", argv[0]);
		return 2;
	}
	runs = strtoull(argv[1], &end, 10);
	if (*end != '\0')
		return replay_all(argv + 1);
	random_state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	for (uint64_t run = 0; run < runs; run++)
		LLVMFuzzerTestOneInput(input, fuzz_make(input));
	printf("%llu runs", (unsigned long long)runs);
	if (fuzz_steps > 0)
		printf(", %.1f steps each", (double)fuzz_steps / (double)runs);
	printf("\n");
	return 0;
}
#endif
