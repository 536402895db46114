/* config/volume_file.c - see volume_file.h.
 *
 * A file is changed by changing lines: what is to be there is compared with what the file says now,
 * and only the lines that differ are touched.  The outcome is read again before it replaces the
 * file: if it does not say exactly what it should (a form nobody thought of), the file stays, and
 * the administrator is told.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "volume_file.h"
#include "adapters/base/files.h"

#define SECTION "volume"
#define COMMENT_COLUMNS 100

static int
key_index(enum config_kind kind)
{
	int i = 0;

	while (volume_keys[i].kind != kind)
		i++;
	return i;
}

/* --- reading --- */

static const struct config_key *
find_volume_key(const struct config_item *item, void *owner, void **base)
{
	struct volume_file *file = owner;

	*base = &file->config;
	for (int i = 0; i < volume_key_count; i++) {
		if (strcasecmp(item->section, volume_keys[i].section) == 0 &&
		    strcasecmp(item->key, volume_keys[i].name) == 0)
			return &volume_keys[i];
	}
	return NULL;
}

/* Where each device is, in their order: those that could not be read have no entry. */
static void
note_device_lines(const struct config_text *text, struct volume_file *file)
{
	struct volume_config *config = &file->config;
	struct device_address device;
	struct fault ignored;

	for (int i = 0; i < text->count; i++) {
		int index;

		if (strcasecmp(text->items[i].key, "member") != 0 ||
		    device_address_parse(text->items[i].value, &device, &ignored) != 0)
			continue;
		index = volume_config_find(config, &device);
		if (index >= 0 && file->device_lines[index] == 0)
			file->device_lines[index] = text->items[i].line;
	}
}

/* Of the two rates each may stand in the file or not: one that does not gives way. */
static void
check_rates(struct volume_file *file, struct config_faults *faults)
{
	struct volume_config *config = &file->config;
	int min = 0, max = 0;
	char least[CONFIG_VALUE_MAX], most[CONFIG_VALUE_MAX];

	while (volume_keys[min].offset != offsetof(struct volume_config, sync_rate_min))
		min++;
	while (volume_keys[max].offset != offsetof(struct volume_config, sync_rate_max))
		max++;
	if (config->sync_rate_min <= config->sync_rate_max)
		return;
	if (file->lines[min] == 0) {
		config->sync_rate_min = config->sync_rate_max;
	} else if (file->lines[max] == 0) {
		config->sync_rate_max = config->sync_rate_min;
	} else {
		config_value_format(&volume_keys[min], config, least);
		config_value_format(&volume_keys[max], config, most);
		config_fault_add(faults, file->lines[min], "sync_rate_min",
				 "choose sync_rate_min not above sync_rate_max",
				 "%.40s is above sync_rate_max, %.40s", least, most);
	}
}

static void
check_whole(struct volume_file *file, struct config_faults *faults)
{
	const struct volume_config *config = &file->config;
	int members = key_index(CONFIG_DEVICES);
	bool bad_member = false;

	for (int i = 0; i < volume_key_count; i++) {
		if (volume_keys[i].required && file->lines[i] == 0)
			config_fault_add(
				faults, 0, volume_keys[i].name,
				volume_keys[i].kind == CONFIG_UUID
					? "write the UUID in the superblocks: iraid examine MEMBER "
					  "shows it"
					: "write a line \"member = PORTAL/IQN/LUN\" for each, "
					  "below [volume]",
				"it is missing");
	}
	for (int i = 0; i < faults->count; i++)
		bad_member |= strcmp(faults->list[i].key, "member") == 0;
	if (file->lines[members] != 0 && config->device_count < 2 && !bad_member)
		config_fault_add(faults, file->lines[members], "member",
				 "write a line for each member",
				 "a volume needs 2 members or more, the file has %d",
				 config->device_count);
	check_rates(file, faults);
}

int
volume_file_parse(const char *text, size_t length, const struct volume_config *defaults,
		  struct volume_file *out, struct config_faults *faults)
{
	struct config_sink sink = {
		.find = find_volume_key,
		.sections = "[volume]",
		.owner = out,
		.tables = { { volume_keys, volume_key_count, out->lines } },
	};
	struct config_text parsed;
	int error;

	out->config = *defaults;
	memset(out->lines, 0, sizeof(out->lines));
	memset(out->device_lines, 0, sizeof(out->device_lines));
	error = config_text_parse(text, length, &parsed, faults);
	if (error != 0)
		return error;
	config_items_read(&parsed, &sink, faults);
	note_device_lines(&parsed, out);
	config_text_free(&parsed);
	check_whole(out, faults);
	config_faults_sort(faults);
	return 0;
}

bool
volume_config_same(const struct volume_config *a, const struct volume_config *b)
{
	for (int i = 0; i < volume_key_count; i++) {
		if (volume_keys[i].kind != CONFIG_DEVICES &&
		    !config_value_same(&volume_keys[i], a, b))
			return false;
	}
	if (a->device_count != b->device_count)
		return false;
	for (int i = 0; i < a->device_count; i++) {
		int other = volume_config_find(b, &a->devices[i]);
		char one[DEVICE_TEXT_MAX], two[DEVICE_TEXT_MAX];

		if (other < 0)
			return false;
		device_address_format(&a->devices[i], one);
		device_address_format(&b->devices[other], two);
		if (strcmp(one, two) != 0)
			return false;
	}
	return true;
}

static int
read_text(const char *name, struct volume_file *out, struct config_faults *faults)
{
	struct volume_config *defaults = malloc(sizeof(*defaults));
	size_t length;
	int error = defaults ? file_read(out->path, CONFIG_FILE_BYTES_MAX, &out->text, &length)
			     : -ENOMEM;

	if (error == 0) {
		volume_config_defaults(defaults, name);
		error = volume_file_parse(out->text, length, defaults, out, faults);
		if (error == 0 && faults->count > 0)
			error = -EINVAL;
	} else if (error == -ENOENT) {
		config_fault_add(faults, 0, "", "iraid list shows all volumes",
				 "there is no volume \"%s\": the file does not exist", name);
	} else if (error == -EFBIG) {
		config_fault_add(faults, 0, "", "make it shorter", "it is longer than %u bytes",
				 CONFIG_FILE_BYTES_MAX);
	} else if (error != -ENOMEM) {
		config_fault_add(faults, 0, "", "check its permissions and the disk",
				 "it can't be read: %s", strerror(-error));
	}
	free(defaults);
	return error;
}

int
volume_file_read(const char *name, struct volume_file *out, struct config_faults *faults)
{
	const char *why = volume_name_fault(name);
	char folder[PATH_MAX];
	int error = why ? -EINVAL : volume_config_folder(folder, sizeof(folder));

	memset(out, 0, sizeof(*out));
	snprintf(out->path, sizeof(out->path), "\"%.80s\"", name);
	if (why)
		config_fault_add(faults, 0, "", "choose another name", "%s", why);
	if (error == 0 &&
	    snprintf(out->path, sizeof(out->path), "%s/%s" VOLUME_SUFFIX, folder, name) >= PATH_MAX)
		error = -ENAMETOOLONG;
	if (error == 0)
		error = read_text(name, out, faults);
	if (error != 0)
		volume_file_free(out);
	return error;
}

void
volume_file_free(struct volume_file *file)
{
	free(file->text);
	file->text = NULL;
}

/* --- templates --- */

static void
print_comment(FILE *out, const char *text)
{
	size_t column = 1;

	putc('#', out);
	while (*text) {
		size_t word = strcspn(text, " ");

		if (column + 1 + word > COMMENT_COLUMNS) {
			fputs("\n#", out);
			column = 1;
		}
		fprintf(out, " %.*s", (int)word, text);
		column += 1 + word;
		text += word;
		text += strspn(text, " ");
	}
	putc('\n', out);
}

static const char *
example(enum config_kind kind)
{
	switch (kind) {
	case CONFIG_SPARES:
		return "10.0.0.9:3260/iqn.2026-01.org.example:spare/0 size=1099511627776 block=512";
	case CONFIG_MAILS:
		return "root@localhost";
	case CONFIG_DEVICES:
		return "10.0.0.1:3260/iqn.2026-01.org.example:disk/0";
	case CONFIG_UUID:
	case CONFIG_INITIATOR:
	case CONFIG_PATH:
	case CONFIG_SECONDS:
	case CONFIG_MILLISECONDS:
	case CONFIG_RATE:
	case CONFIG_NUMBER:
	case CONFIG_BOOL:
	case CONFIG_LOG:
	case CONFIG_REDIRECTS:
	case CONFIG_DIGEST:
	case CONFIG_SEVERITY:
	case CONFIG_ADDRESS:
		break;
	}
	return "";
}

void
config_template_key(FILE *out, const struct config_key *key, const void *base, bool as_comment)
{
	char value[CONFIG_VALUE_MAX];

	putc('\n', out);
	print_comment(out, key->meaning);
	if (config_key_repeated(key)) {
		if (as_comment)
			fprintf(out, "#%s = %s\n", key->name, example(key->kind));
		return;
	}
	config_value_format(key, base, value);
	fprintf(out, "%s%s = %s\n", as_comment ? "#" : "", key->name, value);
}

/* The text of a file that says *config, every key of it explained; what is as in *defaults is a
 * comment.  malloc'ed.
 */
static char *
volume_template(const struct volume_config *config, const struct volume_config *defaults)
{
	char *text = NULL, device[DEVICE_TEXT_MAX];
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	fprintf(out,
		"# Volume %s. iraid.conf(5) explains the keys. iraid config check %s finds faults "
		"in this file;\n"
		"# iraid config reload %s applies changes. A line with # in front shows the "
		"default.\n"
		"# This file has the addresses of the members and the logins. All else is in their "
		"superblocks.\n\n"
		"[volume]\n",
		config->name, config->name, config->name);
	for (int i = 0; i < volume_key_count; i++) {
		const struct config_key *key = &volume_keys[i];
		bool given = key->required || key->kind == CONFIG_INITIATOR ||
			     !config_value_same(key, config, defaults);

		config_template_key(out, key, given ? config : defaults, !given);
		for (int d = 0; key->kind == CONFIG_DEVICES && d < config->device_count; d++) {
			device_address_format(&config->devices[d], device);
			fprintf(out, "member = %s\n", device);
		}
	}
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

/* --- changing --- */

/* A volume's file while it is changed. */
struct edit {
	const struct volume_config *wanted;
	struct volume_config defaults;
	struct volume_file now; /* the text, and what it says so far */
	struct config_faults faults;
};

static int
look_again(struct edit *edit)
{
	edit->faults.count = edit->faults.passed_over = 0;
	return volume_file_parse(edit->now.text, strlen(edit->now.text), &edit->defaults,
				 &edit->now, &edit->faults);
}

/* A line of its own, where it is expected: behind `after`, its own comment, or the last line of the
 * section.
 */
static int
insert_line(struct edit *edit, int after, const char *key, const char *value)
{
	char *line = NULL;
	int error = 0;

	if (after == 0)
		after = config_line_commented(edit->now.text, SECTION, key);
	if (after == 0)
		after = config_section_end(edit->now.text, SECTION);
	if (after == 0) { /* no such section: it was of another spelling, or is missing */
		after = config_lines(edit->now.text);
		error = config_line_insert(&edit->now.text, after++, "[" SECTION "]");
	}
	if (error == 0 && asprintf(&line, "%s = %s", key, value) < 0)
		return -ENOMEM;
	if (error == 0)
		error = config_line_insert(&edit->now.text, after, line);
	free(line);
	return error != 0 ? error : look_again(edit);
}

static int
edit_key(struct edit *edit, int index)
{
	const struct config_key *key = &volume_keys[index];
	char value[CONFIG_VALUE_MAX];
	int error;

	if (config_value_same(key, &edit->now.config, edit->wanted))
		return 0;
	config_value_format(key, edit->wanted, value);
	if (edit->now.lines[index] == 0)
		return insert_line(edit, 0, key->name, value);
	error = config_line_set(&edit->now.text, edit->now.lines[index], value);
	return error != 0 ? error : look_again(edit);
}

static int
add_or_change_device(struct edit *edit, const struct device_address *device)
{
	const struct volume_config *now = &edit->now.config;
	char wanted[DEVICE_TEXT_MAX], is[DEVICE_TEXT_MAX];
	int index = volume_config_find(now, device), error;

	device_address_format(device, wanted);
	if (index < 0)
		return insert_line(
			edit,
			now->device_count > 0 ? edit->now.device_lines[now->device_count - 1] : 0,
			"member", wanted);
	device_address_format(&now->devices[index], is);
	if (strcmp(is, wanted) == 0)
		return 0;
	error = config_line_set(&edit->now.text, edit->now.device_lines[index], wanted);
	return error != 0 ? error : look_again(edit);
}

static int
edit_devices(struct edit *edit)
{
	int error = 0;

	for (int i = 0; i < edit->wanted->device_count && error == 0; i++)
		error = add_or_change_device(edit, &edit->wanted->devices[i]);
	for (int i = 0; i < edit->now.config.device_count && error == 0; i++) {
		if (volume_config_find(edit->wanted, &edit->now.config.devices[i]) >= 0)
			continue;
		error = config_line_remove(&edit->now.text, edit->now.device_lines[i]);
		if (error == 0)
			error = look_again(edit);
		i = -1; /* from the beginning: it was parsed anew */
	}
	return error;
}

/* The text as it is to be; -EINVAL: it can't be brought to that. */
static int
edit_text(struct edit *edit)
{
	int error = look_again(edit);

	for (int i = 0; i < volume_key_count && error == 0; i++) {
		if (volume_keys[i].kind != CONFIG_DEVICES)
			error = edit_key(edit, i);
	}
	if (error == 0)
		error = edit_devices(edit);
	if (error == 0 &&
	    (edit->faults.count > 0 || !volume_config_same(&edit->now.config, edit->wanted)))
		error = -EINVAL;
	return error;
}

int
config_file_replace(const char *folder, const char *name, const char *text)
{
	return file_rewrite(folder, name, text, strlen(text), 0600);
}

/* What stands there now; if nothing does, a new file's text. */
static int
begin_edit(struct edit *edit, struct fault *fault)
{
	int error = volume_file_read(edit->wanted->name, &edit->now, &edit->faults);

	if (error == -ENOENT) {
		edit->now.text = volume_template(edit->wanted, &edit->defaults);
		return edit->now.text ? 0 : -ENOMEM;
	}
	return error == 0 ? 0 : config_faults_tell(&edit->faults, edit->now.path, error, fault);
}

static int
write_edit(const struct edit *edit, struct fault *fault)
{
	char folder[PATH_MAX], name[LAYOUT_NAME_MAX + sizeof(VOLUME_SUFFIX)];
	int error = volume_config_folder(folder, sizeof(folder));

	snprintf(name, sizeof(name), "%s" VOLUME_SUFFIX, edit->wanted->name);
	if (error == 0)
		error = config_file_replace(folder, name, edit->now.text);
	return error == 0 ? 0
			  : fault_disk(fault, error, config_dir(), "%s: %s", edit->now.path,
				       strerror(-error));
}

int
volume_config_write(const struct volume_config *config, struct fault *fault)
{
	struct edit *edit = calloc(1, sizeof(*edit));
	int error = fault_errno(fault, -ENOMEM, "volume \"%s\": out of memory", config->name);

	if (edit) {
		edit->wanted = config;
		volume_config_defaults(&edit->defaults, config->name);
		error = begin_edit(edit, fault);
	}
	if (error == 0) {
		error = edit_text(edit);
		if (error == -EINVAL && edit->faults.count > 0)
			config_faults_tell(&edit->faults, edit->now.path, error, fault);
		else if (error == -EINVAL)
			fault_errno(fault, error,
				    "%s%s can't be changed in its present form; write one section "
				    "[volume] with one key a line, as in iraid.conf(5)",
				    config->name, VOLUME_SUFFIX);
	}
	if (error == 0)
		error = write_edit(edit, fault);
	if (edit)
		volume_file_free(&edit->now);
	free(edit);
	return error;
}

int
volume_config_create(const struct volume_config *config, struct fault *fault)
{
	struct volume_config *existing = malloc(sizeof(*existing));
	int error = -ENOMEM, lock = config_lock(VOLUMES_LOCK, fault);

	if (lock >= 0 && existing)
		error = volume_config_read(config->name, existing, fault);
	else if (lock < 0)
		error = lock;
	if (error == 0 || error == -EINVAL)
		error = fault_errno(
			fault, -EEXIST,
			"there is already a volume \"%s\"; another command has just made it",
			config->name);
	else if (error == -ENOENT)
		error = volume_config_write(config, fault);
	if (lock >= 0)
		close(lock);
	free(existing);
	return error;
}
