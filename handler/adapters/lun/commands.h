/* lun/commands.h - the one table of SCSI commands: which there are, and who carries them out.
 *
 * A new command is one line of the table in commands.c and one function: in scsi.c if it is
 * answered at once (mode.c: mode pages), in job.c if it needs requests to the volume or brings a
 * parameter list.  What such a job writes it says itself (job->writes), for the commands that
 * overlap it.  LUN_PASS hands a command on to tcmu-runner, so `check` alone is for those that it
 * carries out by our read, write and flush.
 */
#ifndef IRAID_LUN_COMMANDS_H
#define IRAID_LUN_COMMANDS_H

#include "job.h"

#define NO_ACTION 0xff /* no service action */

/* data_bytes: what the initiator expects to be moved. */
typedef uint16_t
lun_check_function(const struct scsi_unit *unit, const uint8_t *cdb, uint64_t data_bytes);
typedef void
lun_answer_function(const struct scsi_unit *unit, const uint8_t *cdb, struct lun_answer *out);
typedef bool lun_begin_function(struct scsi_job *job);

struct scsi_command {
	uint8_t opcode;
	uint8_t action;	   /* NO_ACTION if it has none */
	const char *name;  /* NULL ends the table */
	uint8_t usage[15]; /* bits that are looked at, from byte 1 on (SPC-4 6.35.3) */

	/* One of the three carries it out. */
	lun_check_function *check;   /* LUN_PASS if it returns 0; else ASC of the refusal */
	lun_answer_function *answer; /* LUN_GOOD or LUN_CHECK; out->data is zeroed */
	lun_begin_function *begin;   /* LUN_JOB; returns as scsi_job_begin() does */
	/* It needs no medium: carried out also while the LUN is on standby (SPC-4 5.15.2.4.5; READ
	 * CAPACITY too, as LIO has it, or Linux would know no size of such a path).
	 */
	bool on_standby;
	bool in_pair;	    /* there is none with a single gateway */
	bool judges_action; /* other service actions come to it too, and it refuses them */
};

extern const struct scsi_command scsi_commands[];

/* NULL: there is none. */
const struct scsi_command *scsi_find_command(const uint8_t *cdb);

/* scsi.c */
lun_check_function lun_check_transfer, lun_check_range;
lun_answer_function lun_test_unit_ready, lun_request_sense, lun_inquiry;
lun_answer_function lun_start_stop, lun_read_capacity_10, lun_read_capacity_16, lun_prefetch;
lun_answer_function lun_receive_copy_results, lun_get_lba_status;

/* groups.c */
lun_answer_function lun_report_groups;

/* mode.c */
lun_answer_function lun_mode_sense;

/* What is wrong with a MODE SELECT: ASC, or 0 if nothing is, and then it changes nothing.  list: its
 * `length` bytes of parameters, at most MODE_LIST_BYTES_MAX.
 */
#define MODE_LIST_BYTES_MAX 256
uint16_t lun_mode_select_fault(const struct scsi_unit *unit, const uint8_t *cdb,
			       const uint8_t *list, size_t length);

/* job.c */
lun_begin_function lun_begin_read, lun_begin_write, lun_begin_compare_and_write, lun_begin_unmap;
lun_begin_function lun_begin_write_same, lun_begin_verify, lun_begin_write_verify;
lun_begin_function lun_begin_copy, lun_begin_mode_select;

#endif
