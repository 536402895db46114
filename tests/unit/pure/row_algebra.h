/* row_algebra.h - the definition of P and Q for tests, slow and without isa-l: factors over
 * GF(2^8) with 11Dh, and what chunks tell about each other.
 */
#ifndef IRAID_TEST_ROW_ALGEBRA_H
#define IRAID_TEST_ROW_ALGEBRA_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "pure/geometry.h"

#define ALGEBRA_WIDTH_MAX 8

static uint8_t products[256][256];

static int
make_products(void **state)
{
	for (unsigned int a = 0; a < 256; a++)
		for (unsigned int b = 0; b < 256; b++) {
			unsigned int shifted = a;
			uint8_t product = 0;

			for (int bit = 0; bit < 8; bit++) {
				if (b >> bit & 1)
					product ^= (uint8_t)shifted;
				shifted = shifted & 0x80 ? (shifted << 1) ^ 0x11d : shifted << 1;
			}
			products[a][b] = product;
		}
	return 0;
}

static bool
has(uint32_t set, int position)
{
	return (set >> position & 1) != 0;
}

/* Factor of data chunk k in what stands at the position: the definition of code.h. */
static uint8_t
factor(const struct geometry *geometry, int position, int k)
{
	uint8_t power = 1;

	for (int i = 0; position == geometry->data_chunks + 1 && geometry->level == 6 && i < k; i++)
		power = products[power][2];
	return power;
}

/* Is the vector in the span of the rows?  The rows are spoilt. */
static bool
in_span(uint8_t rows[][ALGEBRA_WIDTH_MAX], int count, uint8_t *vector, int size)
{
	int used = 0;

	for (int column = 0; column < size; column++) {
		int pivot = used;

		while (pivot < count && rows[pivot][column] == 0)
			pivot++;
		if (pivot == count)
			continue;
		uint8_t inverse = 1;
		uint8_t lead[ALGEBRA_WIDTH_MAX];

		while (products[inverse][rows[pivot][column]] != 1)
			inverse++;
		for (int i = 0; i < size; i++)
			lead[i] = products[inverse][rows[pivot][i]];
		memcpy(rows[pivot], rows[used], ALGEBRA_WIDTH_MAX);
		memcpy(rows[used++], lead, ALGEBRA_WIDTH_MAX);
		for (int other = used; other < count; other++) {
			uint8_t times = rows[other][column];

			for (int i = 0; i < size; i++)
				rows[other][i] ^= products[times][lead[i]];
		}
		uint8_t times = vector[column];
		for (int i = 0; i < size; i++)
			vector[i] ^= products[times][lead[i]];
	}
	for (int i = 0; i < size; i++)
		if (vector[i] != 0)
			return false;
	return true;
}

/* Do the old bytes of `read` tell what P or Q, at `position`, holds besides `written`? */
static bool
tells(const struct geometry *geometry, uint32_t read, uint32_t written, int position)
{
	uint8_t rows[ALGEBRA_WIDTH_MAX][ALGEBRA_WIDTH_MAX] = { { 0 } };
	uint8_t lacking[ALGEBRA_WIDTH_MAX] = { 0 };
	int count = 0;

	for (int i = 0; i < geometry->width; i++) {
		if (!has(read, i))
			continue;
		for (int k = 0; k < geometry->data_chunks; k++)
			rows[count][k] =
				i < geometry->data_chunks ? i == k : factor(geometry, i, k);
		count++;
	}
	for (int k = 0; k < geometry->data_chunks; k++)
		if (!has(written, k))
			lacking[k] = factor(geometry, position, k);
	return in_span(rows, count, lacking, geometry->data_chunks);
}

#endif
