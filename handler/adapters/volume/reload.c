/* volume/reload.c - see reload.h.
 *
 * What the running volume has for its configuration (hosted->config) gets the values that can be
 * applied; the others keep those they were started with, so that asking again names them again.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapters/config/keys.h"
#include "internal.h"
#include "reload.h"

#define RESTART "run iraid stop and iraid start; if the volume is in use, first iraid unexport"

static int
note_change(struct reload *out, const char *key, const char *from, const char *to, bool applied,
	    const char *note)
{
	struct reload_change *change = &out->changes[out->count];

	if ((size_t)out->count == sizeof(out->changes) / sizeof(out->changes[0]))
		return -ENOSPC;
	*change = (struct reload_change){ key, strdup(from), strdup(to), applied, note };
	out->count++;
	return change->from && change->to ? 0 : -ENOMEM;
}

void
reload_free(struct reload *reload)
{
	for (int i = 0; i < reload->count; i++) {
		free(reload->changes[i].from);
		free(reload->changes[i].to);
	}
	reload->count = 0;
}

/* --- what differs --- */

static bool
holds_at_once(const struct config_key *key)
{
	return key->effect == EFFECT_NOW || key->effect == EFFECT_LOGIN;
}

static int
compare_key(const struct config_key *key, const struct volume_config *running,
	    const struct volume_config *file, struct reload *out)
{
	char from[CONFIG_VALUE_MAX], to[CONFIG_VALUE_MAX];

	if (config_value_same(key, running, file))
		return 0;
	config_value_format(key, running, from);
	config_value_format(key, file, to);
	return note_change(out, key->name, from, to, holds_at_once(key),
			   !holds_at_once(key)		 ? RESTART
			   : key->effect == EFFECT_LOGIN ? "at the next login to each member"
							 : "");
}

static int
compare_devices(const struct volume_config *running, const struct volume_config *file,
		struct reload *out)
{
	char from[DEVICE_TEXT_MAX], to[DEVICE_TEXT_MAX];
	int error = 0;

	for (int i = 0; i < running->device_count && error == 0; i++) {
		int index = volume_config_find(file, &running->devices[i]);

		device_address_format(&running->devices[i], from);
		if (index < 0) {
			error = note_change(
				out, "member", from, "", false,
				"restore the line and use iraid remove or iraid replace; without "
				"the line the volume starts without this device");
			continue;
		}
		device_address_format(&file->devices[index], to);
		if (strcmp(from, to) != 0)
			error = note_change(out, "member", from, to, true,
					    "at the next login to this member");
	}
	for (int i = 0; i < file->device_count && error == 0; i++) {
		if (volume_config_find(running, &file->devices[i]) >= 0)
			continue;
		device_address_format(&file->devices[i], to);
		error = note_change(out, "member", "", to, false,
				    "remove the line and use iraid add-spare or iraid replace, "
				    "which examine the device first");
	}
	return error;
}

static int
compare(const struct volume_config *running, const struct volume_config *file, struct reload *out)
{
	int error = 0;

	for (int i = 0; i < volume_key_count && error == 0; i++)
		error = volume_keys[i].kind == CONFIG_DEVICES
				? compare_devices(running, file, out)
				: compare_key(&volume_keys[i], running, file, out);
	return error;
}

/* What can hold now goes from one to the other; the devices stay, only their portals change. */
static void
take_values(struct volume_config *to, const struct volume_config *from)
{
	for (int i = 0; i < volume_key_count; i++) {
		if (volume_keys[i].kind != CONFIG_DEVICES && holds_at_once(&volume_keys[i]))
			config_value_copy(&volume_keys[i], to, from);
	}
	for (int i = 0; i < to->device_count; i++) {
		int index = volume_config_find(from, &to->devices[i]);

		if (index >= 0)
			to->devices[i] = from->devices[index];
	}
}

/* --- applying --- */

static int
adjust(struct hosted *hosted, void *argument, struct fault *fault)
{
	return volume_engine_adjust(hosted, fault);
}

int
volume_adjust(struct volume_host *host, const char *name, struct fault *fault)
{
	return volume_call_hosted(host, name, adjust, NULL, fault);
}

/* A login that can't succeed must not be prepared. */
static int
check_credentials(const struct volume_config *config, struct fault *fault)
{
	struct iscsi_credentials credentials;
	int error = config->chap_file[0] == '\0'
			    ? 0
			    : iscsi_credentials_read(config->chap_file, &credentials, fault);

	explicit_bzero(&credentials, sizeof(credentials));
	return error == 0 ? 0
			  : fault_errno(fault, -EINVAL, "chap_file %.400s: %s", config->chap_file,
					fault->message);
}

static int
apply_file(struct volume_host *host, struct hosted *hosted, const struct volume_config *file,
	   struct reload *out, struct fault *fault)
{
	struct volume_config *before = malloc(sizeof(*before));
	int error = before ? check_credentials(file, fault) : -ENOMEM;

	if (error == 0) {
		/* In one step: the volume's thread takes devices out of it that were let go. */
		pthread_mutex_lock(&hosted->lock);
		*before = hosted->config;
		error = compare(before, file, out);
		if (error == 0)
			take_values(&hosted->config, file);
		pthread_mutex_unlock(&hosted->lock);
	}
	if (error == 0) {
		error = volume_call_hosted(host, hosted->name, adjust, NULL, fault);
		/* Without an engine the next one begins with it. */
		if (error == -ENOMEDIUM || error == -EAGAIN || error == -ESHUTDOWN ||
		    error == -ENOTCONN)
			error = 0;
		if (error != 0) {
			pthread_mutex_lock(&hosted->lock);
			take_values(&hosted->config, before);
			pthread_mutex_unlock(&hosted->lock);
		}
	}
	free(before);
	return error;
}

/* Of a volume that does not run here: another program may have it. */
static void
note_user(struct volume_host *host, const struct volume_config *file, struct reload *out)
{
	struct fault fault;
	int lock = volume_lock(file->uuid, file->name, host->program, &fault);

	if (lock < 0)
		memcpy(out->note, fault.message,
		       sizeof(out->note)); /* it says who has it: it is his to read */
	else
		close(lock);
}

static int
reload(struct volume_host *host, const struct volume_config *file, struct reload *out,
       struct fault *fault)
{
	struct hosted *hosted = volume_pin(host, file->name);
	int error;

	if (!hosted) {
		note_user(host, file, out);
		return 0;
	}
	out->running = true;
	error = apply_file(host, hosted, file, out, fault);
	volume_unpin(hosted);
	return error;
}

int
volume_reload(struct volume_host *host, const char *name, struct reload *out, struct fault *fault)
{
	struct volume_config *file = malloc(sizeof(*file));
	int error;

	memset(out, 0, sizeof(*out));
	fault_errno(fault, -ENOMEM, "out of memory");
	pthread_mutex_lock(&host->edits);
	error = file ? volume_config_read(name, file, fault) : -ENOMEM;
	if (error == 0)
		error = reload(host, file, out, fault);
	pthread_mutex_unlock(&host->edits);
	if (error != 0)
		reload_free(out);
	free(file);
	return error;
}
