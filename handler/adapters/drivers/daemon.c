/* drivers/daemon.c - iraid-engine: volumes and the control socket without a kernel part, for tests,
 * benches and for preparing volumes on a machine that has no LIO.
 *
 * Prints "ready" on standard output once the socket is served; ends in order on SIGTERM and SIGINT.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "offline.h"
#include "adapters/rpc/socket.h"
#include "adapters/base/log.h"

#define VOLUMES_MAX 1024

static void
print_usage(FILE *out)
{
	fprintf(out,
		"usage: iraid-engine [--socket PATH] [--start-all]\n"
		"       iraid-engine --check-config [--json] [NAME]\n"
		"       iraid-engine --print-config gateway|volume [NAME]\n"
		"       iraid-engine --record-standby NAME\n"
		"\n"
		"Serve volumes and the control socket without tcmu-runner.\n"
		"\n"
		"  --socket PATH  serve PATH instead of IRAID_SOCKET or /run/iraid/control.sock\n"
		"  --start-all    start all volumes whose file does not have enabled = no\n"
		"  --check-config list the faults of all files, or of a volume's; exit status 1 if "
		"there is a fault\n"
		"  --print-config print the settings of the gateway, or of a volume, as JSON\n"
		"  --print-config-keys      print all keys, as JSON\n"
		"  --print-config-template  print a gateway.conf with every key explained\n"
		"  --record-standby  put a volume on standby whose handler is dead or hangs; exit "
		"status 3 if a process has\n"
		"                 it still\n"
		"  --version      print the version\n"
		"  --help         print this text\n");
}

static int
start_all(struct volume_host *host)
{
	static const struct volume_start_options usual;
	char(*names)[LAYOUT_NAME_MAX + 1] = calloc(VOLUMES_MAX, sizeof(*names));
	struct volume_config *config = malloc(sizeof(*config));
	struct fault fault = FAULT_NONE;
	int count = names && config ? volume_config_list(names, VOLUMES_MAX) : -ENOMEM;

	if (count < 0)
		log_line(LOG_ERR, "%s/volumes: %s", config_dir(), strerror(-count));
	for (int i = 0; i < count; i++) {
		if (volume_config_read(names[i], config, &fault) != 0) {
			log_line(LOG_ERR, "%s", fault.message);
			continue;
		}
		if (config->enabled && volume_start(host, names[i], &usual, &fault) != 0)
			log_line(LOG_ERR, "%s", fault.message);
	}
	free(config);
	free(names);
	return count < 0 ? count : 0;
}

/* Returns the exit status. */
static int
serve_socket(const char *socket, bool all)
{
	struct volume_host *host;
	struct control *control;
	struct fault fault;
	sigset_t ends;
	int number;

	/* Blocked before the first thread is made, so that only sigwait() sees them. */
	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &ends, NULL);
	sigdelset(&ends, SIGPIPE);

	host = volume_host_create("iraid-engine");
	if (!host) {
		log_line(LOG_ERR, "out of memory");
		return EXIT_FAILURE;
	}
	control = control_start(host, socket, &fault);
	if (!control) {
		log_line(LOG_ERR, "control socket %s", fault.message);
		volume_host_destroy(host);
		return EXIT_FAILURE;
	}
	if (all)
		start_all(host);
	printf("ready\n");
	fflush(stdout);
	sigwait(&ends, &number);
	volume_host_end(host);
	control_stop(control);
	volume_host_destroy(host);
	return EXIT_SUCCESS;
}

enum action { ACTION_SERVE, ACTION_CHECK, ACTION_SHOW, ACTION_STANDBY };

static int
act(enum action action, const char *what, const char *name, const char *socket, bool all,
    bool as_json)
{
	switch (action) {
	case ACTION_SERVE:
		return serve_socket(socket, all);
	case ACTION_CHECK:
		return config_main_check(name, as_json);
	case ACTION_SHOW:
		return config_main_show(what, name);
	case ACTION_STANDBY:
		return standby_main_record(name);
	}
	return EXIT_FAILURE;
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "socket", required_argument, NULL, 's' },
		{ "start-all", no_argument, NULL, 'a' },
		{ "check-config", no_argument, NULL, 'c' },
		{ "print-config", required_argument, NULL, 'p' },
		{ "print-config-keys", no_argument, NULL, 'k' },
		{ "print-config-template", no_argument, NULL, 't' },
		{ "record-standby", no_argument, NULL, 'r' },
		{ "json", no_argument, NULL, 'j' },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	const char *socket = socket_path(), *what = "", *name = NULL;
	enum action action = ACTION_SERVE;
	bool all = false, as_json = false;
	int option;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (option) {
		case 's':
			socket = optarg;
			break;
		case 'a':
			all = true;
			break;
		case 'c':
			action = ACTION_CHECK;
			break;
		case 'p':
			action = ACTION_SHOW;
			what = optarg;
			break;
		case 'k':
			return config_main_keys();
		case 't':
			return config_main_template();
		case 'r':
			action = ACTION_STANDBY;
			break;
		case 'j':
			as_json = true;
			break;
		case 'V':
			printf("iraid-engine %s\n", IRAID_VERSION);
			return EXIT_SUCCESS;
		case 'h':
			print_usage(stdout);
			return EXIT_SUCCESS;
		default:
			print_usage(stderr);
			return 2;
		}
	}
	if (optind < argc && action != ACTION_SERVE)
		name = argv[optind++];
	if (optind != argc) {
		fprintf(stderr, "iraid-engine: unexpected argument \"%s\"\n", argv[optind]);
		print_usage(stderr);
		return 2;
	}
	return act(action, what, name, socket, all, as_json);
}
