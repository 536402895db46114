/* fuzz.h - what fuzz targets share.  With libFuzzer each is a program of its own; without it fuzz.c
 * has main(), and the target makes its inputs: fuzz_NAME RUNS SEED tries so many, fuzz_NAME FILE...
 * replays what stands in files.
 */
#ifndef IRAID_TEST_FUZZ_H
#define IRAID_TEST_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FUZZ_INPUT_MAX 8192u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The target's.  Writes an input, and returns its length, FUZZ_INPUT_MAX at most. */
size_t fuzz_make(uint8_t *input);

uint64_t fuzz_random(void);
uint32_t fuzz_below(uint32_t bound);

void fuzz_require(bool condition, const char *what);

/* A target whose inputs are steps counts those that it took, and main() tells: where inputs end at
 * once, nothing behind the first check was tried.
 */
extern uint64_t fuzz_steps;

#endif
