/* drivers/lio.h - what LIO has already, by configfs: it lists each storage object in a file. */
#ifndef IRAID_LIO_H
#define IRAID_LIO_H

#include <stdbool.h>

#define LIO_FOLDER "/sys/kernel/config/target"

/* A storage object of tcmu is made of `config`, as "iraid/v0".  folder: LIO_FOLDER */
bool lio_has(const char *folder, const char *config);

#endif
