/* device/look.h - libblkid's look at foreign bytes, in a process of its own: iraid-look
 * (drivers/look.c), which answers with one line.
 */
#ifndef IRAID_DEVICE_LOOK_H
#define IRAID_DEVICE_LOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "adapters/base/fault.h"

/* The start, what was found (nothing: an empty text), and a newline. */
#define LOOK_ANSWER_START "found: "
#define LOOK_TEXT_MAX 100
#define LOOK_ANSWER_MAX (LOOK_TEXT_MAX + 16)

/* copy: a file that holds the LUN's ends, sealed; it is read from 0.  *out gets what was found, "" if
 * nothing.  A look that broke off, or took too long, found something that nobody knows, and out
 * says so.  False: the program can't be started.
 */
bool look_at_copy(int copy, uint32_t block_bytes, char *out, size_t out_size, struct fault *fault);

#endif
