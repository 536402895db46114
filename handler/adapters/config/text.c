/* config/text.c - see text.h.  libini_config reads; it is the only file that knows it.
 *
 * The library gives up a file at its first pass when a line has no form.  So such lines are reported and blanked, and
 * it is asked again: all faults of a file are found at once.  What it would pass over or take for something else is
 * looked for before: keys above the first section, comments that are indented or follow a heading, control characters;
 * and names for which it would give up the whole file without a word.
 *
 * Writing is not left to it: it would write every line in its own way.  A change replaces, adds or removes one line,
 * and leaves all others as they are, byte for byte.
 */
#include <ctype.h>
#include <errno.h>
#include <ini_configobj.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "text.h"

#define PASSES_MAX 4

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
	size_t bytes = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;

	for (size_t i = 1; i < bytes; i++) {
		if (!goes_on(text[i]))
			return 0;
	}
	if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
	    (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f))
		return 0;
	return bytes;
}

int
config_text_fit(const char *text, int most)
{
	int length = (int)strnlen(text, (size_t)most + 1);

	if (length <= most)
		return length;
	for (length = most; length > 0 && goes_on(text[length]); length--)
		;
	return length;
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
config_fault_add(struct config_faults *faults, int line, const char *key, const char *remedy, const char *format, ...)
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

/* Those of the file as a whole come last: what is missing may be missing for what is wrong elsewhere. */
static int
compare_faults(const void *a, const void *b)
{
	const struct config_fault *one = a, *other = b;
	int x = one->line > 0 ? one->line : CONFIG_LINES_MAX + 1, y = other->line > 0 ? other->line : CONFIG_LINES_MAX + 1;

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
	snprintf(out, size, "%s%s: %s%s%s%s%s", file, place, fault->key, fault->key[0] ? ": " : "", fault->what,
		 fault->remedy[0] ? "; " : "", fault->remedy);
	if (size > 0)
		cut_end(out);
}

void
config_faults_format(const struct config_faults *faults, const char *file, char *out, size_t size)
{
	size_t used;

	if (size > 0)
		out[0] = '\0';
	if (faults->count == 0)
		return;
	config_fault_format(&faults->list[0], file, out, size);
	used = strlen(out);
	if (faults->count + faults->passed_over > 1)
		snprintf(out + used, size - used, " (and %d more: iraid config check)",
			 faults->count + faults->passed_over - 1);
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

/* Make a comment of a line that was reported; of a heading with something behind it, a heading. */
static void
blank_out(char *text, int number)
{
	char *line = text + (line_at(text, number) - text);
	size_t length = strcspn(line, "\n");
	char *bracket = *skip_blanks(line) == '[' ? memchr(line, ']', length) : NULL;

	if (bracket && bracket + 1 < line + length)
		memset(bracket + 1, ' ', (size_t)(line + length - bracket) - 1);
	else
		memset(line, '#', length);
}

/* --- what is checked before the library sees it --- */

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
					 "there is a control character, byte 0x%02x", c);
			return false;
		}
	}
	if (line > CONFIG_LINES_MAX) {
		config_fault_add(faults, 0, "", "make it shorter", "it has more than %d lines", CONFIG_LINES_MAX);
		return false;
	}
	return true;
}

/* Where a line is. */
struct place {
	enum { IN_NO_SECTION, IN_SECTION, IN_UNFIT_SECTION } kind;
	const char *section;
	size_t section_length;
};

/* The library refuses a file as a whole, and names no line, when a name in it holds anything else. */
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

/* The name in a heading, as the library takes it; empty: it is none, and the library says so. */
static const char *
heading_name(const char *line, size_t *length)
{
	const char *name = skip_blanks(line + 1), *end = trimmed_end(name, line_end(line));
	const char *bracket = memchr(name, ']', (size_t)(end - name));

	if (bracket && end[-1] == ']')
		bracket = end - 1;
	*length = bracket ? (size_t)(trimmed_end(name, bracket) - name) : 0;
	return name;
}

static void
prepare_heading(char *line, size_t length, int number, struct place *place, struct config_faults *faults)
{
	place->kind = IN_SECTION;
	place->section = heading_name(line, &place->section_length);
	if (name_is_fit(place->section, place->section_length))
		return;
	config_fault_add(faults, number, "", "iraid.conf(5) has all sections; what stands below it is passed over",
			 "section [%.*s] is not known",
			 config_text_fit(place->section, place->section_length < 64 ? (int)place->section_length : 64),
			 place->section);
	place->kind = IN_UNFIT_SECTION;
	memset(line, '#', length);
}

static void
prepare_key(char *line, size_t length, int number, const struct place *place, struct config_faults *faults)
{
	const char *start = skip_blanks(line), *equals = memchr(line, '=', length);
	size_t key_length = equals ? (size_t)(trimmed_end(start, equals) - start) : 0;
	char key[sizeof(faults->list[0].key)];

	if (place->kind == IN_NO_SECTION) {
		config_fault_add(faults, number, "", "put the section's heading above it, for example [volume]",
				 "this line is in no section");
	} else if (place->kind == IN_SECTION) {
		int before = faults->count;

		if (name_is_fit(start, key_length))
			return;
		snprintf(key, sizeof(key), "%.*s", (int)key_length, start);
		config_fault_add(faults, number, key, "iraid.conf(5) has all keys", "there is no such key in [%.*s]",
				 place->section_length < 64 ? (int)place->section_length : 64, place->section);
		if (faults->count > before)
			snprintf(faults->list[before].section, sizeof(faults->list[before].section), "%.*s",
				 (int)place->section_length, place->section);
	}
	memset(line, '#', length);
}

/* Comments and headings may be indented and lines may end with CR; keys above the first section would be passed over. */
static void
prepare(char *text, struct config_faults *faults)
{
	struct place place = { .kind = IN_NO_SECTION };
	int number = 1;

	for (char *line = text; *line; line += next_line(line) - line, number++) {
		const char *start = skip_blanks(line);
		size_t length = (size_t)(line_end(line) - line);

		if (is_comment(start)) {
			memset(line, '#', (size_t)(start - line));
		} else if (*start == '[') {
			size_t indent = (size_t)(start - line);

			memmove(line, start, length - indent);
			memset(line + length - indent, ' ', indent);
			prepare_heading(line, length, number, &place, faults);
		} else if (*start != '\n' && *start != '\0') {
			prepare_key(line, length, number, &place, faults);
		}
		if (length > 0 && line[length - 1] == '\r')
			line[length - 1] = ' ';
	}
}

/* --- reading --- */

static void
add_form_fault(struct config_faults *faults, unsigned long code, int line)
{
	const char *what = "the line can't be read", *remedy = "write it as \"key = value\"";

	switch (code) {
	case ERR_NOEQUAL:
		what = "the line is neither \"key = value\", nor [section], nor a comment";
		remedy = "write key = value, or put # in front of a comment";
		break;
	case ERR_NOKEY:
		what = "there is no key in front of =";
		break;
	case ERR_NOCLOSESEC:
		what = "the heading of a section does not end with ]";
		remedy = "write [section]; comments have lines of their own";
		break;
	case ERR_NOSECTION:
		what = "the heading of a section is empty";
		remedy = "write [section]";
		break;
	case ERR_LONGDATA:
	case ERR_SECTIONLONG:
	case ERR_LONGKEY:
		what = "the line is too long";
		remedy = "make it shorter";
		break;
	default:
		break;
	}
	config_fault_add(faults, line, "", remedy, "%s", what);
}

/* The library's texts may be translated; code and line are the numbers in them, in this order. */
static void
report_errors(struct ini_cfgobj *ini, char *text, struct config_faults *faults)
{
	char **errors = NULL;

	if (ini_config_get_errors(ini, &errors) != 0)
		return;
	for (char **error = errors; *error; error++) {
		const char *at = *error + strcspn(*error, "0123456789");
		char *rest = (char *)at;
		unsigned long code = strtoul(at, &rest, 10);
		unsigned long line = strtoul(rest + strcspn(rest, "0123456789"), NULL, 10);

		if (line == 0 || line > CONFIG_LINES_MAX)
			line = 0;
		add_form_fault(faults, code, (int)line);
		if (line > 0)
			blank_out(text, (int)line);
	}
	ini_config_free_errors(errors);
}

static int
add_item(struct config_text *out, const char *section, const char *key, struct value_obj *value)
{
	struct config_item *more = realloc(out->items, sizeof(*more) * (size_t)(out->count + 1)), *item;
	const char *text = ini_get_const_string_config_value(value, NULL);
	uint32_t line = 0;

	if (!more)
		return -ENOMEM;
	out->items = more;
	value_get_line(value, &line);
	item = &more[out->count++];
	*item = (struct config_item){ strdup(section), strdup(key), strdup(text ? text : ""), (int)line };
	return item->section && item->key && item->value ? 0 : -ENOMEM;
}

/* The library lists a key as often as it is there, in any case of letters, and finds all of them by any. */
static int
collect_section(struct ini_cfgobj *ini, const char *section, struct config_text *out)
{
	int count = 0, error = 0;
	char **keys = ini_get_attribute_list(ini, section, &count, &error);

	for (int i = 0; keys && i < count && error == 0; i++) {
		struct value_obj *value = NULL;
		bool seen = false;

		for (int j = 0; j < i && !seen; j++)
			seen = strcasecmp(keys[i], keys[j]) == 0;
		if (seen)
			continue;
		error = ini_get_config_valueobj(section, keys[i], ini, INI_GET_FIRST_VALUE, &value);
		while (error == 0 && value) {
			error = add_item(out, section, keys[i], value);
			value = NULL;
			if (error == 0)
				error = ini_get_config_valueobj(section, keys[i], ini, INI_GET_NEXT_VALUE, &value);
		}
	}
	if (keys)
		ini_free_attribute_list(keys);
	return error == 0 ? 0 : -ENOMEM;
}

static int
compare_items(const void *a, const void *b)
{
	const struct config_item *one = a, *other = b;

	return (one->line > other->line) - (one->line < other->line);
}

static int
collect(struct ini_cfgobj *ini, struct config_text *out)
{
	int count = 0, error = 0;
	char **sections = ini_get_section_list(ini, &count, &error);

	for (int i = 0; sections && i < count && error == 0; i++)
		error = collect_section(ini, sections[i], out);
	if (sections)
		ini_free_section_list(sections);
	if (out->count > 0)
		qsort(out->items, (size_t)out->count, sizeof(out->items[0]), compare_items);
	return error == 0 ? 0 : -ENOMEM;
}

/* One pass of the library.  -EAGAIN: faults were reported and their lines blanked. */
static int
pass(char *text, size_t length, struct config_text *out, struct config_faults *faults)
{
	struct ini_cfgobj *ini = NULL;
	struct ini_cfgfile *file = NULL;
	int error = ini_config_create(&ini);

	if (error == 0)
		error = ini_config_file_from_mem(text, (uint32_t)length, &file);
	if (error == EILSEQ || error == EINVAL) {
		config_fault_add(faults, 0, "", "write the file as plain text in UTF-8", "it is not UTF-8");
		error = 0;
	} else if (error == 0) {
		error = ini_config_parse(file, INI_STOP_ON_NONE, INI_MV1S_ALLOW | INI_MV2S_ALLOW | INI_MS_MERGE,
					 INI_PARSE_NOWRAP | INI_PARSE_NO_C_COMMENTS, ini);
		if (ini_config_error_count(ini) > 0) {
			report_errors(ini, text, faults);
			error = -EAGAIN;
		} else if (error != 0) {
			config_fault_add(faults, 0, "", "write the file anew", "it can't be read: %s", strerror(error));
			error = 0;
		} else {
			error = collect(ini, out);
		}
	} else {
		error = -ENOMEM;
	}
	if (file)
		ini_config_file_destroy(file);
	if (ini)
		ini_config_destroy(ini);
	return error;
}

int
config_text_parse(const char *text, size_t length, struct config_text *out, struct config_faults *faults)
{
	char *copy;
	int error = -EAGAIN;

	memset(out, 0, sizeof(*out));
	if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
		text += 3;
		length -= 3;
	}
	if (length >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0)) {
		config_fault_add(faults, 0, "", "write the file as plain text in UTF-8", "it is UTF-16");
		return 0;
	}
	if (length == 0 || !characters_are_fit(text, length, faults))
		return 0;
	copy = malloc(length + 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, text, length);
	copy[length] = '\0';
	prepare(copy, faults);
	for (int i = 0; i < PASSES_MAX && error == -EAGAIN; i++)
		error = pass(copy, length, out, faults);
	free(copy);
	if (error == -EAGAIN)
		error = 0;	/* all of them are reported */
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

	return *start == '[' && strncasecmp(start + 1, section, length) == 0 && start[1 + length] == ']';
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
