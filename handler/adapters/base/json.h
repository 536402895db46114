/* base/json.h - json-c, where there may be no memory: included instead of <json-c/json.h>.
 *
 * The library's functions that make values return NULL then, and those that put one into another
 * end the process when they are given that NULL.  So the names below are ours: they bear it, and
 * this thread remembers that something is missing, until json_was_short() is asked.
 */
#ifndef IRAID_JSON_H
#define IRAID_JSON_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

/* Did a value of this thread find no memory since the last question? */
bool json_was_short(void);

json_object *json_note_made(json_object *made); /* NULL: it is remembered; returns `made` */
/* A value that finds no room is freed by the next json_was_short(). */
void json_add(json_object *object, const char *key, json_object *value);
void json_append(json_object *array, json_object *value);

/* The whole text, which belongs to `object`; NULL: no memory. */
const char *json_text(json_object *object, int flags);

#define json_object_new_object() json_note_made((json_object_new_object)())
#define json_object_new_array() json_note_made((json_object_new_array)())
#define json_object_new_array_ext(size) json_note_made((json_object_new_array_ext)(size))
#define json_object_new_string(text) json_note_made((json_object_new_string)(text))
#define json_object_new_int(value) json_note_made((json_object_new_int)(value))
#define json_object_new_int64(value) json_note_made((json_object_new_int64)(value))
#define json_object_new_uint64(value) json_note_made((json_object_new_uint64)(value))
#define json_object_new_boolean(value) json_note_made((json_object_new_boolean)(value))
#define json_object_new_double(value) json_note_made((json_object_new_double)(value))
#define json_object_object_add(object, k, v) json_add(object, k, v)
#define json_object_array_add(array, v) json_append(array, v)

#endif
