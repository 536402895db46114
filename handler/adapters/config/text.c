/* config/text.c - see text.h.
 *
 * One pass, a line at a time; a line that is wrong is reported and passed over, so all faults of a
 * file are found at once.  A change replaces, adds or removes one line, and leaves all others as
 * they are, byte for byte.
 */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "text.h"

/* --- text that is quoted --- */

static bool
goes_on(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/* Bytes of the character at `text`; 0: it is not UTF-8, or not all of it is there. */
static size_t
character_bytes(const char *text)
{
	unsigned char first = (unsigned char)text[0], second = first ? (unsigned char)text[1] : 0;
	size_t bytes = first < 0x80   ? 1
		       : first < 0xc2 ? 0
		       : first < 0xe0 ? 2
		       : first < 0xf0 ? 3
		       : first < 0xf5 ? 4
				      : 0;

	for (size_t i = 1; i < bytes; i++) {
		if (!goes_on(text[i]))
			return 0;
	}
	if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
	    (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f))
		return 0;
	return bytes;
}

/* The end of a text that may have been cut: whole characters. */
static void
cut_end(char *text)
{
	char *end = text + strlen(text), *last = end;

	while (last > text && end - last < 4 && goes_on(last[-1]))
		last--;
	if (last > text && (unsigned char)last[-1] >= 0xc2 && character_bytes(last - 1) == 0)
		last[-1] = '\0';
}

/* It quotes the file, and goes to terminals, logs and JSON. */
static void
make_fit(char *text)
{
	cut_end(text);
	while (*text) {
		size_t bytes = character_bytes(text);

		if (bytes == 0 || iscntrl((unsigned char)*text))
			*text = '?';
		text += bytes == 0 ? 1 : bytes;
	}
}

/* --- faults --- */

void
config_fault_add(struct config_faults *faults, int line, const char *key, const char *remedy,
		 const char *format, ...)
{
	struct config_fault *fault;
	va_list arguments;

	if (faults->count == CONFIG_FAULTS_MAX) {
		faults->passed_over++;
		return;
	}
	fault = &faults->list[faults->count++];
	fault->line = line;
	fault->section[0] = '\0';
	snprintf(fault->key, sizeof(fault->key), "%s", key);
	snprintf(fault->remedy, sizeof(fault->remedy), "%s", remedy);
	va_start(arguments, format);
	vsnprintf(fault->what, sizeof(fault->what), format, arguments);
	va_end(arguments);
	make_fit(fault->what);
	make_fit(fault->key);
}

/* Those of the file as a whole come last: what is missing may be missing for what is wrong
 * elsewhere.
 */
static int
compare_faults(const void *a, const void *b)
{
	const struct config_fault *one = a, *other = b;
	int x = one->line > 0 ? one->line : CONFIG_LINES_MAX + 1,
	    y = other->line > 0 ? other->line : CONFIG_LINES_MAX + 1;

	return x - y;
}

void
config_faults_sort(struct config_faults *faults)
{
	qsort(faults->list, (size_t)faults->count, sizeof(faults->list[0]), compare_faults);
}

void
config_fault_format(const struct config_fault *fault, const char *file, char *out, size_t size)
{
	char place[24] = "";

	if (fault->line > 0)
		snprintf(place, sizeof(place), ":%d", fault->line);
	snprintf(out, size, "%s%s: %s%s%s%s%s", file, place, fault->key, fault->key[0] ? ": " : "",
		 fault->what, fault->remedy[0] ? "; " : "", fault->remedy);
	if (size > 0)
		cut_end(out);
}

int
config_faults_tell(const struct config_faults *faults, const char *file, int error,
		   struct fault *fault)
{
	char text[sizeof(fault->message)] = "", more[48] = "";

	if (faults->count > 0)
		config_fault_format(&faults->list[0], file, text, sizeof(text));
	if (faults->count > 0 && faults->count + faults->passed_over > 1)
		snprintf(more, sizeof(more), " (and %d more: iraid config check)",
			 faults->count + faults->passed_over - 1);
	return fault_errno(fault, error, "%s%s", text, more);
}

/* --- lines --- */

static const char *
line_end(const char *line)
{
	return line + strcspn(line, "\n");
}

static const char *
next_line(const char *line)
{
	const char *end = line_end(line);

	return *end ? end + 1 : end;
}

static const char *
skip_blanks(const char *line)
{
	return line + strspn(line, " \t\r");
}

/* Before the blanks at the end. */
static const char *
trimmed_end(const char *start, const char *end)
{
	while (end > start && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
		end--;
	return end;
}

static bool
is_comment(const char *start)
{
	return *start == '#' || *start == ';';
}

int
config_lines(const char *text)
{
	int count = 0;

	for (const char *line = text; *line; line = next_line(line))
		count++;
	return count;
}

/* The beginning of a line, from 1; the end of the text if it has fewer. */
static const char *
line_at(const char *text, int number)
{
	while (--number > 0 && *text)
		text = next_line(text);
	return text;
}

/* --- reading --- */

static bool
characters_are_fit(const char *text, size_t length, struct config_faults *faults)
{
	int line = 1;

	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c == '\n')
			line++;
		if ((c < 0x20 && c != '\n' && c != '\t' && c != '\r') || c == 0x7f) {
			config_fault_add(faults, line, "", "write the file as plain text in UTF-8",
					 "it has a control character, byte 0x%02x", c);
			return false;
		}
	}
	if (line > CONFIG_LINES_MAX) {
		config_fault_add(faults, 0, "", "make it shorter", "it has more than %d lines",
				 CONFIG_LINES_MAX);
		return false;
	}
	return true;
}

/* Where the reader is. */
struct reader {
	struct config_text *out;
	struct config_faults *faults;
	const char *section; /* NULL: above the first heading */
	size_t section_length;
	bool unfit; /* the heading was reported: so what stands below it need not be */
	int line;
};

static bool
is_utf8(const char *text, const char *end)
{
	while (text < end) {
		size_t bytes = character_bytes(text);

		if (bytes == 0 || bytes > (size_t)(end - text))
			return false;
		text += bytes;
	}
	return true;
}

/* No section has a name with anything else in it. */
static bool
name_is_fit(const char *name, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)name[i];

		if (c < ' ' || c == '!' || c >= 0x7f)
			return false;
	}
	return true;
}

/* [start .. end) begins with '['.  One with something behind it is a heading all the same: else all
 * below it would be wrong.
 */
static void
read_heading(struct reader *reader, const char *start, const char *end)
{
	const char *name = skip_blanks(start + 1),
		   *bracket = memchr(start, ']', (size_t)(end - start)), *name_end;
	bool fit;

	if (end[-1] == ']')
		bracket = end - 1;
	name_end = bracket && bracket > name ? trimmed_end(name, bracket) : name;
	fit = name_is_fit(name, (size_t)(name_end - name));
	if (bracket && fit && name_end == name) {
		config_fault_add(reader->faults, reader->line, "", "write [section]",
				 "the heading of a section is empty");
		return;
	}
	if (bracket && !fit)
		config_fault_add(
			reader->faults, reader->line, "",
			"iraid.conf(5) lists all sections; the lines of this section are ignored",
			"section [%.*s] is not known",
			text_fit(name, name_end - name < 64 ? (int)(name_end - name) : 64), name);
	else if (bracket != end - 1)
		config_fault_add(reader->faults, reader->line, "",
				 "write [section]; comments have lines of their own",
				 "the heading of a section does not end with ]");
	if (!bracket)
		return;
	reader->section = name;
	reader->section_length = (size_t)(name_end - name);
	reader->unfit = !fit;
}

static int
add_item(struct reader *reader, const char *key, const char *key_end, const char *value,
	 const char *value_end)
{
	struct config_text *out = reader->out;
	struct config_item *more = realloc(out->items, sizeof(*more) * (size_t)(out->count + 1)),
			   *item;

	if (!more)
		return -ENOMEM;
	out->items = more;
	item = &more[out->count++];
	*item = (struct config_item){
		.section = strndup(reader->section, reader->section_length),
		.key = strndup(key, (size_t)(key_end - key)),
		.value = strndup(value, (size_t)(value_end - value)),
		.line = reader->line,
	};
	return item->section && item->key && item->value ? 0 : -ENOMEM;
}

static int
read_key(struct reader *reader, const char *start, const char *end)
{
	const char *equals = memchr(start, '=', (size_t)(end - start)), *value, *key_end;

	if (!reader->section) {
		config_fault_add(reader->faults, reader->line, "",
				 "put the section's heading above it, for example [volume]",
				 "this line is in no section");
		return 0;
	}
	if (reader->unfit)
		return 0;
	if (!equals) {
		config_fault_add(
			reader->faults, reader->line, "",
			"write key = value, or put # in front of a comment",
			"the line is neither \"key = value\", nor [section], nor a comment");
		return 0;
	}
	key_end = trimmed_end(start, equals);
	if (key_end == start) {
		config_fault_add(reader->faults, reader->line, "", "write key = value",
				 "there is no key in front of =");
		return 0;
	}
	value = skip_blanks(equals + 1);
	return add_item(reader, start, key_end, value < end ? value : end, end);
}

static int
read_line(struct reader *reader, const char *line)
{
	const char *start = skip_blanks(line), *end = trimmed_end(line, line_end(line));

	if (!is_utf8(line, end)) {
		config_fault_add(reader->faults, reader->line, "",
				 "write the file as plain text in UTF-8", "it is not UTF-8");
		return 0;
	}
	if (start >= end || is_comment(start))
		return 0;
	if (*start == '[') {
		read_heading(reader, start, end);
		return 0;
	}
	return read_key(reader, start, end);
}

int
config_text_parse(const char *text, size_t length, struct config_text *out,
		  struct config_faults *faults)
{
	struct reader reader = { .out = out, .faults = faults, .line = 1 };
	char *copy;
	int error = 0;

	memset(out, 0, sizeof(*out));
	if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
		text += 3;
		length -= 3;
	}
	if (length >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0)) {
		config_fault_add(faults, 0, "", "write the file as plain text in UTF-8",
				 "it is UTF-16");
		return 0;
	}
	if (length == 0 || !characters_are_fit(text, length, faults))
		return 0;
	copy = strndup(text, length);
	if (!copy)
		return -ENOMEM;
	for (const char *line = copy; *line && error == 0; line = next_line(line), reader.line++)
		error = read_line(&reader, line);
	free(copy);
	if (error != 0)
		config_text_free(out);
	return error;
}

void
config_text_free(struct config_text *parsed)
{
	for (int i = 0; i < parsed->count; i++) {
		free(parsed->items[i].section);
		free(parsed->items[i].key);
		free(parsed->items[i].value);
	}
	free(parsed->items);
	memset(parsed, 0, sizeof(*parsed));
}

/* --- changing --- */

/* Put `with` in the place of text[from .. to). */
static int
splice(char **text, size_t from, size_t to, const char *with)
{
	char *made = NULL;

	if (asprintf(&made, "%.*s%s%s", (int)from, *text, with, *text + to) < 0)
		return -ENOMEM;
	free(*text);
	*text = made;
	return 0;
}

int
config_line_set(char **text, int line, const char *value)
{
	const char *start = line_at(*text, line), *end = line_end(start);
	const char *equals = memchr(start, '=', (size_t)(end - start));
	const char *from = equals ? equals + 1 : end;

	while (from < end && (*from == ' ' || *from == '\t'))
		from++;
	end = trimmed_end(from, end);
	return splice(text, (size_t)(from - *text), (size_t)(end - *text), value);
}

int
config_line_remove(char **text, int line)
{
	const char *start = line_at(*text, line);

	return splice(text, (size_t)(start - *text), (size_t)(next_line(start) - *text), "");
}

int
config_line_insert(char **text, int after, const char *line)
{
	const char *at = line_at(*text, after + 1);
	bool unended = at > *text && at[-1] != '\n';
	char *with = NULL;
	int error;

	if (asprintf(&with, "%s%s\n", unended ? "\n" : "", line) < 0)
		return -ENOMEM;
	error = splice(text, (size_t)(at - *text), (size_t)(at - *text), with);
	free(with);
	return error;
}

/* Is it the heading of this section? */
static bool
is_heading(const char *start, const char *section)
{
	size_t length = strlen(section);

	return *start == '[' && strncasecmp(start + 1, section, length) == 0 &&
	       start[1 + length] == ']';
}

int
config_line_commented(const char *text, const char *section, const char *key)
{
	size_t length = strlen(key);
	bool inside = false;
	int number = 1;

	for (const char *line = text; *line; line = next_line(line), number++) {
		const char *start = skip_blanks(line);

		if (*start == '[')
			inside = is_heading(start, section);
		if (!inside || !is_comment(start))
			continue;
		start += strspn(start, "#; \t");
		if (strncasecmp(start, key, length) == 0 && *skip_blanks(start + length) == '=')
			return number;
	}
	return 0;
}

int
config_section_end(const char *text, const char *section)
{
	bool inside = false;
	int number = 1, last = 0;

	for (const char *line = text; *line; line = next_line(line), number++) {
		const char *start = skip_blanks(line);

		if (*start == '[')
			inside = is_heading(start, section);
		if (inside && *start != '\n' && *start != '\0' && !is_comment(start))
			last = number;
	}
	return last;
}
