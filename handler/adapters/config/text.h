/* config/text.h - files of "[section]" and "key = value" lines: reading them, and changing a line
 * without touching the others.  What the keys mean is keys.c's.
 */
#ifndef IRAID_CONFIG_TEXT_H
#define IRAID_CONFIG_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "adapters/base/fault.h"

#define CONFIG_FAULTS_MAX 64
#define CONFIG_FILE_BYTES_MAX (256u * 1024u)
#define CONFIG_LINES_MAX 2000

/* What is wrong in a file, as many as are found at once. */
struct config_fault {
	int line;	  /* from 1; 0: of the file as a whole */
	char section[32]; /* empty: not known, or of the file as a whole */
	char key[72];	  /* empty: of the line as a whole */
	char what[512];
	char remedy[320];
};

struct config_faults {
	int count, passed_over;
	struct config_fault list[CONFIG_FAULTS_MAX];
};

void config_fault_add(struct config_faults *faults, int line, const char *key, const char *remedy,
		      const char *format, ...) __attribute__((format(printf, 5, 6)));
void config_faults_sort(struct config_faults *faults); /* by line */
/* "FILE:LINE: key: what; remedy" */
void
config_fault_format(const struct config_fault *fault, const char *file, char *out, size_t size);
/* The first one, and how many more there are.  Returns the error. */
int config_faults_tell(const struct config_faults *faults, const char *file, int error,
		       struct fault *fault);

struct config_item {
	char *section, *key, *value; /* value: without blanks around it */
	int line;
};

struct config_text {
	int count;
	struct config_item *items; /* by line */
};

/* Faults of form are added to *faults; what else the file holds is in *out.  0 or -ENOMEM. */
int config_text_parse(const char *text, size_t length, struct config_text *out,
		      struct config_faults *faults);
void config_text_free(struct config_text *parsed);

/* --- changing; *text is malloc'ed and replaced; 0 or -ENOMEM --- */

/* Replace the value on a line. */
int config_line_set(char **text, int line, const char *value);
int config_line_remove(char **text, int line);
/* A line of its own after that one; 0: at the beginning. */
int config_line_insert(char **text, int after, const char *line);
/* The line that has the key as a comment, "#key =", in this section; 0: none. */
int config_line_commented(const char *text, const char *section, const char *key);
/* The last line of the section that is neither empty nor a comment, its heading included; 0: there
 * is no such section.
 */
int config_section_end(const char *text, const char *section);
int config_lines(const char *text);

#endif
