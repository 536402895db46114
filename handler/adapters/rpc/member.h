/* rpc/member.h - which device of a volume somebody means. */
#ifndef IRAID_RPC_MEMBER_H
#define IRAID_RPC_MEMBER_H

#include "rpc.h"

struct pick {
	/* a role, an address, or a part of an address that only one has */
	char wanted[DEVICE_TEXT_MAX];
	int slot; /* -1: a role that no device holds */
	int role; /* -1: none, or unknown */
	enum member_state state;
	uint8_t uuid[16];
	char label[256];
	/* another device of the volume with its UUID (the same LUN, a copy), or empty */
	char twin[256];
};

/* On the volume's thread.  0; -ENOENT: nothing fits; -EINVAL: it is ambiguous. */
int pick_device(struct engine *engine, struct pick *pick, struct fault *fault);

/* Take parameter `key` and find it in the running volume. */
bool rpc_pick(struct rpc_context *context, json_object *params, const char *name, const char *key,
	      struct pick *out, struct fault *fault);

/* A volume that is not there is another error than one that doesn't run. */
bool rpc_is_configured(const char *name, struct fault *fault);

/* What volume_call(), or an administrative function of the engine, answered about `thing`. */
bool rpc_fail_call(struct fault *fault, int error, const char *name, const char *thing,
		   const char *remedy);

/* Wait until the engine has found out what the device is; then its state, or 0 when that took too
 * long, and why.
 */
enum member_state rpc_wait_recognised(struct rpc_context *context, const char *name,
				      const char *label, char *why, size_t why_size);
void rpc_put_state(json_object *result, enum member_state state, const char *why);

#endif
