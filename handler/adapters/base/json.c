/* base/json.c - see json.h. */
#include "json.h"

#include <errno.h>

#undef json_object_object_add
#undef json_object_array_add

/* Whoever made them may go on to fill them, so they are freed when the answer is made; more than
 * these are not freed.
 */
#define HOMELESS_MAX 16 /* each thread has room for them, see CMakeLists.txt */

static _Thread_local bool was_short;
static _Thread_local json_object *homeless[HOMELESS_MAX];
static _Thread_local int homeless_count;

bool
json_was_short(void)
{
	const bool was = was_short;

	was_short = false;
	while (homeless_count > 0)
		json_object_put(homeless[--homeless_count]);
	return was;
}

json_object *
json_note_made(json_object *made)
{
	was_short |= made == NULL;
	return made;
}

static void
drop(json_object *value)
{
	was_short = true;
	if (value != NULL && homeless_count < HOMELESS_MAX)
		homeless[homeless_count++] = value;
}

void
json_add(json_object *object, const char *key, json_object *value)
{
	if (object == NULL || json_object_object_add(object, key, value) != 0)
		drop(value);
}

void
json_append(json_object *array, json_object *value)
{
	if (array == NULL || json_object_array_add(array, value) != 0)
		drop(value);
}

/* The library goes on behind a part that found no room, and says nothing. */
const char *
json_text(json_object *object, int flags)
{
	const char *text;

	errno = 0;
	text = json_object_to_json_string_ext(object, flags);
	return errno == ENOMEM ? NULL : text;
}
