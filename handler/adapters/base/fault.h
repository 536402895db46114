/* base/fault.h - texts that say what went wrong. */
#ifndef IRAID_FAULT_H
#define IRAID_FAULT_H

/* Bytes of as many whole characters of a UTF-8 text as make at most `most`: to quote it with "%.*s". */
int text_fit(const char *text, int most);

#endif
