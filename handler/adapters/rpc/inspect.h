/* rpc/inspect.h - what discover, examine and create say about a session. */
#ifndef IRAID_RPC_INSPECT_H
#define IRAID_RPC_INSPECT_H

#include "adapters/base/json.h"
#include "adapters/device/member_format.h"

/* Add to warnings what a target's administrator could tune; one line for each kind. */
void rpc_warn_sessions(json_object *warnings, const struct member_work *members, int count);

#endif
