/* mutant.h - known mistakes, one per rule of docs/design that code can break, for the simulator to
 * catch.  In this layer, so that every other may have one.
 *
 * MUTANT(NAME) is false in the product: the compiler sees a constant and leaves no code.  In a
 * build with -DIRAID_MUTANTS=ON it asks mutant_active, which `simulate --mutant` or IRAID_MUTANT
 * sets.  A place that has one reads: "here somebody could have written the other thing".
 */
#ifndef IRAID_MUTANT_H
#define IRAID_MUTANT_H

#include <stdbool.h>

/* Name on the command line; rule; who catches it; what is wrong.  Who catches it is "level L" (the
 * simulator, with volumes of that level), or "PROGRAM: TEST", a test of tests/unit.
 * `scripts/simulate --mutants` runs just that.
 */
/* clang-format off */
#define MUTANTS(X)										\
	X(RMW_ON_SUSPECT, "rmw-on-suspect", 1, "level 5",					\
	  "read-modify-write on parity that was not proven")					\
	X(REBUILT_FROM_SUSPECT, "rebuilt-from-suspect", 1,					\
	  "test_engine_operations: test_nothing_is_made_from_parity_that_is_suspect",		\
	  "a chunk is made from parity that was not proven")					\
	X(ROWS_SHARED, "rows-shared", 2, "level 5",						\
	  "writes of one row are carried out at the same time")					\
	X(COMPARE_UNCLAIMED, "compare-unclaimed", 2, "level 5",					\
	  "other writes come between a comparison and its write")				\
	X(ZERO_FORGETS_LOST, "zero-forgets-lost", 9, "level 5",					\
	  "zeros over lost bytes are acknowledged before the table says so")			\
	X(ZEROS_LATE, "zeros-late", 2, "level 5",						\
	  "a long range of zeros goes on after who submitted it gave it up")			\
	X(STALE_PARITY, "stale-parity", 2, "level 5",						\
	  "parity is made although not all that it needs was read")				\
	X(Q_MISWEIGHED, "q-misweighed", 2, "level 6",						\
	  "a small write counts in Q with another chunk's factor")				\
	X(ROWS_REMEMBERED, "rows-remembered", 2, "level 5",					\
	  "old data and parity are taken from memory after others wrote there, or caches were lost")	\
	X(DOUBT_IGNORED, "doubt-ignored", 6,							\
	  "test_engine_operations: test_nothing_is_made_from_what_was_read_before_caches_were_lost",	\
	  "something is made from what was read before a cache was lost")			\
	X(DOUBT_ANYWHERE, "doubt-anywhere", 15,							\
	  "test_engine_operations: test_reads_go_on_beside_writes_that_fail",			\
	  "a write that fails makes all that is read begin again, wherever it is")		\
	X(FENCE_BROKEN, "fence-broken", 3, "level 5",						\
	  "a member that returns is not reset: late writes land")				\
	X(COPIES_UNSETTLED, "copies-unsettled", 1, "level 1",					\
	  "copies that may differ are read, now one, now the other")				\
	X(REISSUED, "reissued", 3, "level 5",							\
	  "at its deadline a write is sent again on the same session")				\
	X(DIVERT_SKIPPED, "divert-skipped", 4, "level 5",					\
	  "memory is handed back while a read may still fill it")				\
	X(EVICT_TOO_MANY, "evict-too-many", 5, "level 5",					\
	  "more silent members are evicted than the level bears")				\
	X(EVICT_UNRECORDED, "evict-unrecorded", 5, "level 1",					\
	  "an eviction is acknowledged before it is durable")					\
	X(FLUSH_SKIPPED, "flush-skipped", 6, "level 5",						\
	  "members are not flushed")								\
	X(FUA_SKIPPED, "fua-skipped", 6, "level 5",						\
	  "a write with FUA is acknowledged without a flush")					\
	X(CACHE_FORGOTTEN, "cache-forgotten", 6, "level 5",					\
	  "a member that lost its cache is taken back as it is")				\
	X(CLEANED_UNFLUSHED, "cleaned-unflushed", 6, "level 5",					\
	  "dirty bits are cleared before the flush")						\
	X(CHECKPOINT_AHEAD, "checkpoint-ahead", 6, "level 5",					\
	  "a region counts as copied before it is on the member")				\
	X(MARK_SKIPPED, "mark-skipped", 6, "level 5",						\
	  "the region map is not written")							\
	X(MARK_UNAWAITED, "mark-unawaited", 6, "level 5",					\
	  "a write does not wait for its region's mark")					\
	X(FAILURE_FORGOTTEN, "failure-forgotten", 1,						\
	  "test_engine_operations: test_a_write_that_failed_half_way_leaves_nothing_trusted",	\
	  "a write that failed half way leaves nothing suspect")				\
	X(EPOCH_UNWRITTEN, "epoch-unwritten", 7, "level 5",					\
	  "both halves start: an assembly is not recorded on its members")			\
	X(STALE_TRUSTED, "stale-trusted", 7, "level 5",						\
	  "a member that is out of date is trusted")						\
	X(EVICTION_UNREMEMBERED, "eviction-unremembered", 7, "level 1",				\
	  "this gateway forgets who is out: those start alone")					\
	X(EPOCH_UNAWAITED, "epoch-unawaited", 7, "level 1",					\
	  "who is out is acknowledged before this gateway has the epoch on record")		\
	X(INTERRUPTED_UNMEASURED, "interrupted-unmeasured", 1,					\
	  "test_engine_grow: test_a_replacement_that_has_become_too_small_is_not_filled",	\
	  "a replacement that was interrupted goes on, though the volume has grown beyond it")	\
	X(GROWN_UNPADDED, "grown-unpadded", 1, "level 5",					\
	  "new rows of a region that counts as proven hold whatever was there")			\
	X(GROWN_UNMARKED, "grown-unmarked", 6, "level 5",					\
	  "a larger size is recorded before its regions are marked")				\
	X(GROWN_WRITTEN, "grown-written", 9, "level 5",						\
	  "new rows that nobody ever wrote are lost with a member")				\
	X(HALF_GROWN_FORGOTTEN, "half-grown-forgotten", 6,					\
	  "test_engine_grow: test_a_scrub_keeps_to_the_rows_on_record_when_growing_is_given_up",	\
	  "when a stop ends growing half way, a scrub begins with rows that no record has")	\
	X(GROWN_UNRECORDED, "grown-unrecorded", 6, "level 0",					\
	  "new rows are used before the superblocks know of them")				\
	X(PLACE_TAKEN_AT_ONCE, "place-taken-at-once", 13,					\
	  "test_engine_replaced: test_write_acknowledged_before_the_superblocks_know_is_on_both",	\
	  "a new member has a place before the superblocks say so")				\
	X(FORMER_LEFT_WAITING, "former-left-waiting", 15,					\
	  "test_engine_replaced: test_former_that_refused_a_write_and_stays_is_sent_it_again",	\
	  "a member that was to be replaced and stays is not sent again what it refused meanwhile")	\
	X(PARKED_WHEN_FENCED, "parked-when-fenced", 15,						\
	  "test_engine_fence: test_a_write_that_is_refused_after_the_fence_ends",		\
	  "what a member refuses after the fence waits for an eviction that never comes")	\
	X(FLUSH_COUNTED_UNSENT, "flush-counted-unsent", 6,					\
	  "test_engine_flush: test_a_flush_that_waits_for_its_member_has_not_covered_anything_yet",	\
	  "a flush that waits for its member counts as if it had been sent")			\
	X(LOSS_GONE_WITH_MEMBER, "loss-gone-with-member", 6,					\
	  "test_engine_losses: test_a_loss_is_told_although_its_member_went",			\
	  "what a cache took along is told by no flush once its member is evicted")		\
	X(SETTLED_TWICE, "settled-twice", 1,							\
	  "test_engine_losses: test_parity_that_a_cache_took_along_is_not_believed",		\
	  "P and Q that a lost cache made to differ are believed where nobody had written, one member being out")	\
	X(FILLED_COUNTED_THERE, "filled-counted-there", 1,					\
	  "test_intent: test_what_was_written_stays_proven_while_its_place_is_filled",		\
	  "while a place is being filled, a lost cache makes all rows doubtful in regions that were fresh")	\
	X(TARGET_KEPT, "target-kept", 13,							\
	  "test_engine_replaced: test_new_member_that_gives_its_place_back_is_not_kept",	\
	  "a new member that gives its place back is taken for one that is evicted, and kept when the others are silent")	\
	X(CLONE_TAKEN, "clone-taken", 17,							\
	  "test_engine_identity: test_spare_with_a_members_uuid_is_refused",			\
	  "a device whose UUID is another member's is taken")					\
	X(SPARE_CAUGHT_UP, "spare-caught-up", 12,						\
	  "test_engine_identity: test_device_marked_as_a_spare_in_a_members_place_is_filled_as_a_whole",	\
	  "a spare in the place of a member that went is sent only what that one lacks")	\
	X(RETURNED_OLDER_TRUSTED, "returned-older-trusted", 12,					\
	  "test_engine_identity: test_member_put_back_under_a_running_volume_is_filled_from_the_start",	\
	  "a member that returns older than it was is trusted")					\
	X(COUNTED_ON, "counted-on", 12,								\
	  "test_engine_identity: test_former_member_is_not_taken_for_one_that_has_its_uuid",	\
	  "superblocks of a device that is filled from the start are counted from where it was")	\
	X(COUNTED_UNACKNOWLEDGED, "counted-unacknowledged", 12,					\
	  "test_engine_rebuild: test_who_was_not_told_that_it_is_filled_has_not_gone_back_in_time",	\
	  "others are told of superblocks of a device that is filled from the start before it has one of them")	\
	X(COUNTED_IN_ONE_COPY, "counted-in-one-copy", 12,					\
	  "test_engine_rebuild: test_who_loses_the_first_copy_that_says_it_is_filled_has_not_gone_back_in_time",	\
	  "others are told of superblocks of a device that is filled from the start when one of its copies is of that count")	\
	X(RESTART_OLDER_TRUSTED, "restart-older-trusted", 12,					\
	  "test_engine_identity: test_member_put_back_while_no_gateway_ran_is_filled_from_the_start",	\
	  "a member that is older than the others know is trusted at an assembly")		\
	X(TRACKED_OLDER_TRUSTED, "tracked-older-trusted", 12,					\
	  "test_engine_identity: test_member_put_back_while_it_was_out_is_filled_from_the_start",	\
	  "a member that went back while it was out is caught up by its flags")			\
	X(TWIN_GUESSED, "twin-guessed", 12,							\
	  "test_engine_copies: test_of_two_equal_devices_neither_is_believed",			\
	  "of two devices that are the same member the first is taken")				\
	X(LOST_VOLUME_RESERVED, "lost-volume-reserved", 8,					\
	  "test_engine_identity: test_member_that_another_gateway_has_had_is_left_to_it",	\
	  "a gateway that lost the volume keeps the reservation of a member that it logged in to too late")	\
	X(TAKEN_EACH_MOMENT, "taken-each-moment", 8,					\
	  "test_engine_identity: test_member_that_another_gateway_has_had_is_rarely_looked_at",	\
	  "a gateway that lost the volume reserves a member of it again and again for a moment")	\
	X(RESTORED_NEWER_SUPERBLOCK, "restored-newer-superblock", 12,				\
	  "test_engine_identity: test_member_that_another_gateway_wrote_to_is_not_taken_back",	\
	  "a member that another gateway wrote to meanwhile is taken back")			\
	X(TRACKED_EPOCH_IGNORED, "tracked-epoch-ignored", 7,					\
	  "test_engine_identity: test_member_that_was_used_without_the_others_is_filled_from_the_start",	\
	  "a member that was used without the others is caught up by flags")			\
	X(SUPERBLOCK_RETRY_OTHER_COPY, "superblock-retry-other-copy", 12,			\
	  "test_engine_identity: test_refused_superblock_is_repeated_on_the_same_copy",		\
	  "a repetition after a failed superblock write goes to the good copy")			\
	X(FORGET_AT_ONCE, "forget-at-once", 7,							\
	  "test_engine_identity: test_removed_member_is_forgotten_by_the_superblocks_first",	\
	  "stale flags go before superblocks say that nobody is tracked")			\
	X(TARGET_MARKS_UNAWAITED, "target-marks-unawaited", 7,					\
	  "test_engine_identity: test_target_is_on_record_only_when_its_marks_are_durable",	\
	  "a target is on record before its stale marks are durable")				\
	X(EVICT_CANCEL_STAYS_OUT, "evict-cancel-stays-out", 5,					\
	  "test_engine_identity: test_cancelled_eviction_is_taken_off_record",			\
	  "a cancelled eviction stays on record")						\
	X(FORCE_TRUSTS, "force-trusts", 1,							\
	  "test_engine_identity: test_forced_member_that_went_back_is_suspect_everywhere",	\
	  "a forced member's regions are not suspect")						\
	X(FORCE_MAP_UNWRITTEN, "force-map-unwritten", 1,					\
	  "test_engine_identity: test_forced_member_is_trusted_only_when_the_map_says_what_it_lacks",	\
	  "superblocks trust a forced member before the map says what it lacks")		\
	X(UNKNOWN_UNFLUSHED, "unknown-unflushed", 6,						\
	  "test_engine_flush: test_a_write_that_failed_and_was_done_is_flushed",		\
	  "a write that failed, and may have been done, needs no flush")			\
	X(LOSS_DOUBTED_UNTIL_TOLD, "loss-doubted-until-told", 6,				\
	  "test_engine_losses: test_a_cache_is_made_up_for_by_those_who_were_proven_since",	\
	  "who lost a cache can't make up for another's until a flush was told, though all is proven")	\
	X(LOSS_DOUBTED_AGAIN, "loss-doubted-again", 6,						\
	  "test_engine_losses: test_a_loss_that_was_made_up_for_is_not_doubted_again",		\
	  "what a lost cache took along is doubted once more whenever its member loses a session, until a flush was told")	\
	X(LOSS_DOUBTED_FOR_OTHERS, "loss-doubted-for-others", 6,				\
	  "test_engine_losses: test_a_cache_is_made_up_for_while_a_first_resync_goes_on",	\
	  "who lost a cache can't make up for another's while anything at all is unproven")	\
	X(FORCED_TABLE_COUNTS, "forced-table-counts", 1,					\
	  "test_engine_force: test_what_a_forced_member_calls_lost_and_was_written_since_is_there",	\
	  "what the old table of a forced member calls lost is lost")				\
	X(FORCED_TABLE_IGNORED, "forced-table-ignored", 1,					\
	  "test_engine_force: test_what_was_lost_on_a_forced_member_is_lost_again",		\
	  "what a forced member's table says of its own old chunks is forgotten")		\
	X(FORCED_TABLE_UNWRITTEN, "forced-table-unwritten", 1,					\
	  "test_engine_force: test_forced_member_keeps_no_old_table",				\
	  "superblocks trust a forced member whose old table of lost extents was not overwritten")	\
	X(FORCED_MAP_COUNTS, "forced-map-counts", 1,						\
	  "test_engine_force: test_what_a_forced_member_called_stale_and_was_copied_since_is_there",	\
	  "what the old map of a forced member calls stale is lost")				\
	X(FORCED_MAPS_IGNORED, "forced-maps-ignored", 1,					\
	  "test_engine_force: test_where_all_are_forced_their_own_maps_count",			\
	  "the maps of forced members count for nothing though there are no others")		\
	X(FORCED_UNWRITTEN_LOST, "forced-unwritten-lost", 9,					\
	  "test_engine_force: test_what_nobody_ever_wrote_is_not_lost_by_force",		\
	  "what nobody ever wrote is taken for written when a member is taken by force")	\
	X(FORCED_UNWRITTEN_ALONE, "forced-unwritten-alone", 9,					\
	  "test_intent: test_what_is_forced_is_written_unless_a_map_of_today_says_no",		\
	  "maps of an older time alone are believed what they call unwritten when a member is taken by force")	\
	X(FORCED_NOT_RAW, "forced-not-raw", 1,							\
	  "test_intent: test_what_is_made_beside_a_forced_member_goes_with_a_cache",		\
	  "where nobody ever wrote, parity is believed that was made beside a member taken by force, and may be lost with a cache")	\
	X(MAP_UNREAD_WHOLE, "map-unread-whole", 6,						\
	  "test_engine_map: test_sectors_that_can_not_be_read_cost_their_own_blocks_of_a_map",	\
	  "a sector that can't be read costs a member's whole region map, and its table of lost extents")	\
	X(MAP_REFUSAL_IS_LOSS, "map-refusal-is-loss", 9,					\
	  "test_engine_refused: test_region_map_that_is_refused_is_not_damaged",			\
	  "a region map that members refuse to read is taken for damaged, and what they lack for lost")	\
	X(TABLE_REFUSAL_IS_LOSS, "table-refusal-is-loss", 9,					\
	  "test_engine_refused: test_table_of_lost_extents_that_is_refused_is_not_empty",	\
	  "a table of lost extents that members refuse to read is taken for empty")		\
	X(TABLE_UNREAD_EMPTY, "table-unread-empty", 9,						\
	  "test_engine_unread: test_table_that_can_not_be_read_is_not_empty",			\
	  "a table of lost extents that can be read nowhere is taken for empty")			\
	X(LISTED_UNSAID, "listed-unsaid", 9,							\
	  "test_engine_unread: test_superblocks_know_first_that_something_is_listed",		\
	  "what is lost is listed in a block that superblocks still call empty")			\
	X(EMPTY_UNSETTLED, "empty-unsettled", 9,						\
	  "test_engine_unread: test_block_that_was_given_up_is_called_empty_when_it_is_written",	\
	  "superblocks call a block of the table empty before all members have it so")		\
	X(LISTED_SAID_ONCE, "listed-said-once", 9,						\
	  "test_engine_unread: test_both_copies_of_a_superblock_know_first_that_something_is_listed",	\
	  "what is lost is listed when one copy of each superblock says so, and the other not yet")	\
	X(LOST_OWNER_IGNORED, "lost-owner-ignored", 8,						\
	  "test_engine_fence: test_volume_whose_owner_can_not_be_read_is_refused",		\
	  "a copy of the superblock that can't be read names no other gateway")			\
	X(LOST_COPY_DENIES, "lost-copy-denies", 7,						\
	  "test_assembly: test_a_lost_copy_may_have_been_the_record_that_gave_a_place_away",	\
	  "a member that lost a copy of its superblock did not take the record that is not in the other")	\
	X(OLDER_EPOCH_UNHEARD, "older-epoch-unheard", 7,					\
	  "test_engine_starts: test_a_start_that_one_member_knows_of_does_not_make_it_the_truth",	\
	  "starts that ended early left one member a higher epoch than the others ran since, and it is believed")	\
	X(KNOWN_WRITE_DENIES, "known-write-denies", 13,						\
	  "test_engine_handover: test_place_that_is_given_back_is_the_former_holders",		\
	  "a superblock that the writer of the newest knew to be written denies that one")	\
	X(ONE_WRITE_UNHEARD, "one-write-unheard", 7,						\
	  "test_assembly: test_of_the_same_epoch_one_later_write_denies_a_record",		\
	  "the first superblocks of a start don't deny those of one that never ran")		\
	X(DEAD_UNHEARD, "dead-unheard", 7,							\
	  "test_engine_starts: test_who_is_dead_went_on_without_a_start_that_never_ran",		\
	  "a start that one member knows of is believed where the one that could deny it is away")	\
	X(OLD_COPY_DENIES, "old-copy-denies", 12,						\
	  "test_assembly: test_whose_superblock_was_put_back_denies_no_record",			\
	  "a member that went back in time denies a record that it once had")			\
	X(TAKEN_BY_ITS_OLD_NAME, "taken-by-its-old-name", 12,					\
	  "test_engine_starts: test_members_that_change_addresses_during_a_start_are_known",	\
	  "who is back with another superblock while maps are read goes on under the name it had")	\
	X(CALLED_OFF_GOES_ON, "called-off-goes-on", 8,						\
	  "test_engine_starts: test_a_start_by_force_that_is_called_off_writes_no_superblocks",	\
	  "a start by force that was called off writes superblocks to members that are being given back")	\
	X(ATTEMPTS_ALIKE, "attempts-alike", 7,							\
	  "test_engine_starts: test_an_attempt_is_newer_than_those_before_it",			\
	  "a start that begins again writes superblocks of the epoch that it has written already")	\
	X(SAID_FORGOTTEN, "said-forgotten", 12,							\
	  "test_engine_copies: test_copy_is_known_though_its_member_has_gone_again",		\
	  "a copy is taken for its member because that went after it had said who it is")	\
	X(THIRD_TWIN_TAKEN, "third-twin-taken", 12,						\
	  "test_assembly: test_of_a_member_and_its_copies_none_is_believed_if_two_are_equal",	\
	  "of three devices that are the same member the third is taken, if the others are equal")	\
	X(FORCED_MENDS, "forced-mends", 1,							\
	  "test_engine_force: test_old_map_of_a_forced_member_mends_no_other",			\
	  "the old region map of a forced member stands in for one that can't be read")	\
	X(FORCED_MEND_EACH_OTHER, "forced-mend-each-other", 1,					\
	  "test_engine_force: test_forced_members_do_not_mend_each_others_maps",		\
	  "of forced members alone an older map stands in for one that can't be read")		\
	X(FORCED_TABLES_IN_TURN, "forced-tables-in-turn", 1,					\
	  "test_engine_force: test_of_forced_members_the_newest_table_counts",			\
	  "of forced members alone any one's table of lost extents is believed, be it the oldest")	\
	X(MAP_LOST_MEMBER_OK, "map-lost-member-ok", 7,						\
	  "test_engine_identity: test_member_lost_while_maps_are_read_begins_the_assembly_anew",	\
	  "a member lost while maps are read is taken")						\
	X(MERGE_AND, "merge-and", 6,								\
	  "test_engine_identity: test_mark_that_one_member_has_counts",				\
	  "marks count only if all members have them")						\
	X(TARGET_DOUBT_ON_EVICTION, "target-doubt-on-eviction", 14,				\
	  "test_engine_replaced: test_what_was_copied_before_parity_defined_it_is_copied_again",	\
	  "suspect regions on the target count as copied when another member goes")		\
	X(REFUSER_ASKED_AGAIN, "refuser-asked-again", 15,					\
	  "test_engine_operations: test_read_of_many_rows_goes_around_a_copy_that_refuses",	\
	  "a read that goes row by row asks a copy again that has just refused other rows")	\
	X(OWNER_IGNORED, "owner-ignored", 8, "level 5",						\
	  "a volume that another gateway has is started")					\
	X(NOTHING_TOLD_AS_LOST, "nothing-told-as-lost", 9,					\
	  "test_engine_lost_caches: test_nothing_is_told_where_no_data_is_lost",		\
	  "data is said to be lost where a member goes that had P there")			\
	X(LOSS_FORGOTTEN, "loss-forgotten", 9, "level 5",					\
	  "what can't be known is read as data")						\
	X(REFUSAL_IS_LOSS, "refusal-is-loss", 9,						\
	  "test_engine_operations: test_what_a_member_refuses_to_read_is_not_called_lost",	\
	  "what a member refuses to read is reported as a medium error when another's sector is bad")	\
	X(SCRUB_SKIPS, "scrub-skips", 5,							\
	  "test_engine_scrub: test_a_scrub_that_is_begun_anew_skips_nothing",			\
	  "a scrub that is stopped and begun anew goes on where the one before had been")	\
	X(MARKED_BY_FIRST, "marked-by-first", 6,						\
	  "test_engine_lost_caches: test_what_a_resync_made_beside_a_write_is_nobodys_data",	\
	  "rows that nobody wrote count as written when a resync corrects them beside one that is proven")	\
	X(ROWS_BETWEEN_NOTED, "rows-between-noted", 6,						\
	  "test_engine_lost_caches: test_a_scrub_writes_no_row_between_two_that_it_corrects",	\
	  "rows between two that are corrected count as written")				\
	X(MENDED_WRITTEN, "mended-written", 6,							\
	  "test_engine_lost_caches: test_what_a_resync_mended_beside_a_bad_row_is_nobodys_data",	\
	  "rows that nobody wrote count as written when a resync corrects them one by one, beside one that can't be read")	\
	X(PARITY_UNKEPT, "parity-unkept", 16,							\
	  "test_engine_lost: test_parity_on_its_way_when_a_member_goes_counts_as_new",		\
	  "a region is cleaned while parity that a resync made of it is on its way, for a member went")	\
	X(CORRECTION_UNMARKED, "correction-unmarked", 6,						\
	  "test_engine_scrub: test_what_a_scrub_corrected_is_not_lost_with_a_member",		\
	  "what a scrub corrects is written into a region that counts as clean")		\
	X(SCRUB_ACROSS_REGIONS, "scrub-across-regions", 9,						\
	  "test_engine_scrub: test_a_scrub_marks_what_it_corrects_and_no_more",			\
	  "regions between two that a scrub corrects count as written")				\
	X(SETS_ALL_TAKEN, "sets-all-taken", 12,								\
	  "test_engine_rebuild: test_a_spare_is_taken_though_all_sets_are_taken",		\
	  "while four members that are out are tracked, nobody who is not is filled")		\
	X(TWIN_UNCORRECTED, "twin-uncorrected", 14,						\
	  "test_engine_twins: test_what_a_scrub_went_by_is_on_the_spare_too",			\
	  "a row is corrected by what a member returns, and who takes its place has something else")	\
	X(DOUBLE_TRUSTED, "double-trusted", 14,							\
	  "test_engine_twins: test_a_cache_lost_in_rows_that_nobody_wrote_is_made_up_for",	\
	  "of rows that became suspect, what is on a target counts as what the member has whose place it takes") \
	X(UNWRITTEN_DOUBLE_KEPT, "unwritten-double-kept", 14,					\
	  "test_engine_twins: test_a_cache_lost_in_rows_that_nobody_wrote_is_made_up_for",	\
	  "of rows that nobody wrote, who is to take a place keeps what the one before has lost with its cache")	\
	X(SETTLE_SKIPS_TARGET, "settle-skips-target", 1,					\
	  "test_engine_operations: test_what_was_read_of_copies_that_differ_stays_when_a_member_is_filled",	\
	  "what is read of copies that differ is not written to the member that is being filled")	\
	X(MAP_BLOCK_MISPLACED, "map-block-misplaced", 6,					\
	  "test_engine_map: test_marks_in_every_block_survive_a_crash",				\
	  "blocks of the region map are written over the first one")				\
	X(MAP_BATCH_ONE, "map-batch-one", 6,							\
	  "test_engine_map: test_no_row_is_written_before_its_own_mark",			\
	  "of several blocks of the region map the first is taken for all")			\
	X(NARROW_FIRST_BLOCK, "narrow-first-block", 6,						\
	  "test_engine_map: test_a_mark_that_is_being_cleared_counts_as_cleared_in_every_block",	\
	  "marks in later blocks of the region map are trusted while they are cleared")		\
	X(ZEROS_FAILURE_FORGOTTEN, "zeros-failure-forgotten", 1,				\
	  "test_engine_operations: test_zeros_that_failed_half_way_leave_nothing_trusted",	\
	  "a range of zeros that failed half way leaves nothing suspect")			\
	X(ZEROS_NOT_REPEATED, "zeros-not-repeated", 6,						\
	  "test_engine_operations: test_what_went_with_a_cache_is_written_again",		\
	  "zeros are acknowledged although a cache was lost under way")				\
	X(WRITE_NOT_REPEATED_CACHE, "write-not-repeated-cache", 6,				\
	  "test_engine_operations: test_what_went_with_a_cache_is_written_again",		\
	  "a write whose member came back without its cache is acknowledged")			\
	X(COPY_ANY_FRESH, "copy-any-fresh", 1,							\
	  "test_engine_operations: test_what_was_never_written_reads_alike_from_all_copies",	\
	  "copies that were never written are read now one, now the other")			\
	X(FRESH_READ_AROUND, "fresh-read-around", 1,						\
	  "test_engine_operations: test_what_was_never_written_reads_alike_around_a_member",	\
	  "copies that were never written are read around a slow or silent member")		\
	X(REPEATED_BEHIND, "repeated-behind", 2, "level 5",					\
	  "a write carried out again comes over one that was acknowledged meanwhile")		\
	X(ZEROS_BEHIND, "zeros-behind", 2,							\
	  "test_engine_order: test_zeros_carried_out_again_spare_what_is_newer",		\
	  "a long range of zeros carried out again comes over what was written meanwhile")	\
	X(SPLIT_BEHIND, "split-behind", 2,							\
	  "test_engine_order: test_joined_writes_that_part_keep_their_place",			\
	  "writes that were joined and part come behind later ones")				\
	X(SPLIT_LEAVES_MARKS, "split-leaves-marks", 4,						\
	  "test_engine_log: test_writes_that_part_behind_their_record_leave_no_marks",		\
	  "writes that were joined, and part while they wait behind their record, leave the marks of its regions") \
	X(RECORDED_KEPT_BACK, "recorded-kept-back", 18,						\
	  "test_engine_log: test_a_row_that_is_in_a_record_is_not_kept_back",			\
	  "a write that begins again behind its record leaves its last row to another one, and the record says that it is written") \
	X(ROOM_UNRESERVED, "room-unreserved", 15,						\
	  "test_write_back: test_what_makes_room_in_the_log_finds_memory",			\
	  "who waits for room in the log has all memory, and who makes that room finds none")	\
	X(ROOM_BEHIND, "room-behind", 15,							\
	  "test_write_back: test_what_makes_room_in_the_log_finds_memory",			\
	  "who makes room in the log waits for memory behind those who wait for that room")	\
	X(UNLOGGED_TOLD_EARLY, "unlogged-told-early", 18,					\
	  "test_write_back: test_what_a_broken_log_has_no_record_of_is_not_acknowledged_before_it_is_closed", \
	  "what no record has is acknowledged while a start would bring back what older records have")	\
	X(GONE_COPY_COUNTED, "gone-copy-counted", 18,						\
	  "test_engine_replay: test_who_has_gone_may_have_had_the_other_copy",			\
	  "a record of which one copy can't be read and the other has gone is taken for one that never was") \
	X(RETURNED_COMPARED, "returned-compared", 14,						\
	  "test_engine_scrub: test_a_copy_that_was_not_read_is_compared_with_nothing",		\
	  "a scrub compares, and corrects by, what it has not read of a member that came back meanwhile") \
	X(PIECE_FORGOTTEN, "piece-forgotten", 6,						\
	  "test_engine_order: test_a_piece_that_went_with_a_cache_is_written_again",		\
	  "a request is acknowledged although a cache took a piece of it along")		\
	X(PIECE_UNDOUBTED, "piece-undoubted", 6,						\
	  "test_engine_order: test_a_piece_whose_row_failed_since_is_written_again",		\
	  "a request is acknowledged although a write of others made the rows of a piece suspect")	\
	X(PIECES_DOUBTED_ANYWHERE, "pieces-doubted-anywhere", 15,				\
	  "test_engine_operations: test_requests_of_several_pieces_end_beside_writes_that_fail",	\
	  "a write that fails makes all requests of several pieces begin again, wherever they are")	\
	X(ZEROS_DOUBTED_ANYWHERE, "zeros-doubted-anywhere", 15,					\
	  "test_engine_operations: test_requests_of_several_pieces_end_beside_writes_that_fail",	\
	  "a write that fails makes all zeros begin again, wherever they are")			\
	X(WHOLE_DOUBT_FORGOTTEN, "whole-doubt-forgotten", 6,					\
	  "test_intent: test_doubt_of_whole_regions_stays",					\
	  "rows that became suspect with all of their region count as what was written there")	\
	X(CACHE_BY_NEW_SESSION, "cache-by-new-session", 15,					\
	  "test_engine_flush: test_a_flush_ends_although_the_member_returns_without_a_cache",	\
	  "whether a cache may be lost is judged by what the member says of caches afterwards")	\
	X(BROKEN_WORD_IGNORED, "broken-word-ignored", 6,					\
	  "test_engine_losses: test_a_write_that_fails_after_its_answer_fails_a_flush",		\
	  "a device without a cache that says it lost acknowledged writes is believed to hold them")	\
	X(BROKEN_WORD_BOUNDED, "broken-word-bounded", 6,					\
	  "test_engine_losses: test_a_device_that_lost_writes_without_a_cache_is_filled_anew",	\
	  "of a device that was sent no flushes, only what was written last is doubted")	\
	X(COPIED_UNDOUBTED, "copied-undoubted", 6,						\
	  "test_engine_rebuild: test_device_that_lost_what_was_copied_to_it_is_filled_anew",	\
	  "a device without a cache that lost what was copied to it goes on being filled where it was")	\
	X(LOSS_TOLD_TO_FUA, "loss-told-to-fua", 6,						\
	  "test_engine_losses: test_a_loss_is_told_to_a_flush_and_to_nobody_else",		\
	  "what a cache took along is told to a write with FUA, and to no flush then")		\
	X(LOSS_TOLD_TO_READER, "loss-told-to-reader", 6,					\
	  "test_engine_losses: test_a_loss_is_told_to_a_flush_and_to_nobody_else",		\
	  "what a cache took along is told to a read with FUA, and to no flush then")		\
	X(FLUSH_NOT_EVICTING, "flush-not-evicting", 6,						\
	  "test_engine_flush: test_a_flush_waits_for_an_eviction_under_way",			\
	  "a flush does not wait for an eviction under way")					\
	X(FLUSH_FORGETS_RESEND, "flush-forgets-resend", 6,					\
	  "test_engine_flush: test_a_flush_that_its_session_cut_off_covers_nothing",		\
	  "a flush cut off by its session leaves the member flushed")				\
	X(FLUSH_FAILED_FORGOTTEN, "flush-failed-forgotten", 6,					\
	  "test_engine_flush: test_a_flush_that_failed_covers_nothing",				\
	  "a flush that failed leaves the member flushed")					\
	X(CUT_OFF_BY_NEW_SESSION, "cut-off-by-new-session", 6,					\
	  "test_engine_flush: test_a_write_given_up_in_another_session_is_flushed",		\
	  "whether a write that was cut off may be in a cache is asked of the session that comes next")	\
	X(STOP_CLEANS_ANYWAY, "stop-cleans-anyway", 6,						\
	  "test_engine_flush: test_a_stop_whose_flush_failed_clears_no_marks",			\
	  "a stop clears marks although its flush failed")					\
	X(EVIDENCE_OLD, "evidence-old", 5,							\
	  "test_engine_evidence: test_a_member_that_refuses_is_evicted_on_new_evidence_only",	\
	  "a member that answers badly is evicted on what the others answered before")		\
	X(KEPT_OUT, "kept-out", 5,								\
	  "test_engine_evidence: test_a_member_that_is_needed_is_kept_until_its_eviction_is_durable",	\
	  "who is to be evicted stays out although it is needed and nothing was done without it")	\
	X(UNKNOWN_FILLED, "unknown-filled", 14,							\
	  "test_engine_knowable: test_member_that_returns_to_a_full_table_keeps_what_it_holds",	\
	  "a rebuild copies what parity makes that was not proven")				\
	X(HELD_STAYS, "held-stays", 14,								\
	  "test_engine_lost: test_what_was_lost_after_a_member_left_is_not_taken_from_it",	\
	  "who was away is believed to hold what becomes suspect after the record")		\
	X(LOST_FULL_DEFINED, "lost-full-defined", 14,						\
	  "test_engine_knowable: test_member_that_returns_to_a_full_table_keeps_what_it_holds",	\
	  "a region that did not fit in the table counts as recorded")				\
	X(READS_HELD, "reads-held", 15,								\
	  "test_engine_bounds: test_reads_go_on_while_an_eviction_can_not_be_recorded",		\
	  "reads wait until it is on record who is out")					\
	X(WAITS_FOR_EVER, "waits-for-ever", 15,							\
	  "test_engine_bounds: test_every_request_ends_while_an_eviction_can_not_be_recorded",	\
	  "a request waits as long as what it waits for is refused")				\
	X(JOINED_LATE, "joined-late", 15,							\
	  "test_engine_bounds: test_a_write_that_joined_one_that_is_late_has_its_own_time",	\
	  "a write fails when the time of one that it joined is used up")			\
	X(LONG_RANGES_LATE, "long-ranges-late", 15,						\
	  "test_engine_bounds: test_a_long_range_ends_though_no_other_request_is_late",		\
	  "a piece of a long range of zeros ends in time only where a short request is late, too")	\
	X(REFUSED_UNPACED, "refused-unpaced", 15,						\
	  "test_engine_bounds: test_what_is_refused_is_repeated_once_a_second",			\
	  "map and table of lost extents are sent again at once when they are refused")		\
	X(GRACE_IGNORED, "grace-ignored", 5,							\
	  "test_engine_grace: test_a_target_that_is_started_anew_costs_nothing",		\
	  "a member is evicted the moment its session is ended")				\
	X(GRACE_RENEWED, "grace-renewed", 15,							\
	  "test_engine_grace: test_a_target_that_ends_every_session_has_no_more_time",		\
	  "a member that ends each session at once is never evicted")				\
	X(CORRECTION_UNFLUSHED, "correction-unflushed", 6,					\
	  "test_engine_scrub: test_what_a_scrub_corrected_stays_so_without_the_caches",		\
	  "a scrub says that it corrected what a cache may lose")				\
	X(SUSPECT_BY_REGION, "suspect-by-region", 16,						\
	  "test_engine_lost: test_failed_write_of_a_degraded_volume_loses_its_own_row_only",	\
	  "a write that failed makes its whole region suspect")					\
	X(UNDEFINED_BY_REGION, "undefined-by-region", 16,					\
	  "test_engine_recorded: test_what_was_on_record_stays_known_when_caches_are_lost",	\
	  "of a degraded volume a row that becomes suspect takes its region along, also rows whose losses were on record")	\
	X(STOP_FLUSHED_UNKNOWN, "stop-flushed-unknown", 16,					\
	  "test_engine_recorded: test_what_a_stop_flushed_is_known_at_the_next_start",		\
	  "what a stop had flushed counts as unflushed after the next start, though all that is lost is on record")	\
	X(STOP_FLUSHED_ANYWAY, "stop-flushed-anyway", 16,					\
	  "test_engine_recorded: test_a_stop_flushed_nothing_of_a_device_that_says_so_later",	\
	  "what a stop had flushed is known at the next start, though a device says there that it lost writes")	\
	X(ROWS_UNNOTED, "rows-unnoted", 16,							\
	  "test_engine_lost_caches: test_lost_caches_make_suspect_what_was_written_and_nothing_else",	\
	  "rows that are written are not remembered as such until they are flushed")		\
	X(HEALED_THOUGH_DOUBTED, "healed-though-doubted", 15,					\
	  "test_engine_mend: test_what_is_lost_again_while_it_is_healed_stays_lost",		\
	  "a row counts as healed though a cache has taken some of it along meanwhile")	\
	X(HELD_UNREAD_MADE, "held-unread-made", 14,						\
	  "test_engine_mend: test_what_a_target_held_and_can_not_be_read_is_not_made_of_the_others",	\
	  "what a member alone held is made of the others where it can't be read, and counts as held")	\
	X(HELD_LOST_WITH_OTHERS, "held-lost-with-others", 14,					\
	  "test_engine_mend: test_what_a_target_holds_is_not_lost_with_another_member_s_sector",	\
	  "a bad sector on another member becomes zeros on a member that alone holds the row's data")	\
	X(READABLE_LET_GO, "readable-let-go", 9,						\
	  "test_engine_mend: test_member_at_its_end_stays_while_rows_depend_on_it",		\
	  "a member goes for its bad sectors while rows are unproven, of which it alone has its chunk")	\
	X(CORRECTED_UNTOLD, "corrected-untold", 15,						\
	  "test_engine_scrub: test_what_a_scrub_corrected_is_told_whatever_happens_elsewhere_then",	\
	  "rows that a scrub has corrected are not counted if its batch has to begin again")	\
	X(HELD_FORGOTTEN_AGAIN, "held-forgotten-again", 14,					\
	  "test_engine_mend: test_parity_that_is_written_again_fits_what_the_target_held",	\
	  "a row that is written again after it was misread is made as if the target held nothing")	\
	X(HEALED_BY_WORD, "healed-by-word", 14,							\
	  "test_engine_knowable: test_what_a_cache_may_have_lost_stays_lost_whatever_its_member_says_later",	\
	  "who returns without a cache is believed to have had none")				\
	X(ONE_CONFLICT_FENCES, "one-conflict-fences", 17,					\
	  "test_engine_fence: test_a_member_that_alone_speaks_of_another_gateway_is_evicted",	\
	  "one member's reservation conflict stops the volume")					\
	X(CONFLICT_UNASKED, "conflict-unasked", 17,						\
	  "test_engine_fence: test_a_gateway_that_has_taken_all_members_is_believed",		\
	  "a member that speaks of another gateway is evicted before the others were asked")	\
	X(CLAIM_DENIED_AT_ONCE, "claim-denied-at-once", 17,					\
	  "test_engine_fence: "									\
	  "test_a_gateway_that_takes_one_member_after_the_other_finds_all_in_sync",		\
	  "a member is evicted while another gateway takes one after the other")		\
	X(LOGIN_CONFLICT_UNHEARD, "login-conflict-unheard", 17,					\
	  "test_engine_fence: test_a_member_that_refuses_a_session_for_another_gateway_is_believed",	\
	  "a log-in that finds another gateway's reservation counts as silence")			\
	X(OUT_CONFLICT_UNHEARD, "out-conflict-unheard", 17,					\
	  "test_engine_fence: test_another_gateway_that_may_live_on_a_member_that_left_is_believed",	\
	  "another gateway has a member that left, on which it may live, and this one goes on")		\
	X(HALVES_GO_ON, "halves-go-on", 7,							\
	  "test_engine_fence: test_a_gateway_that_could_start_with_what_it_has_is_believed",	\
	  "a gateway goes on although another can start with the members that speak of it")	\
	X(BEYOND_END_REJECTED, "beyond-end-rejected", 9,					\
	  "test_engine_lost: test_growth_cut_short_after_losses_in_its_rows_forgets_no_other",	\
	  "lost extents that reach behind the volume's end make the others beside them void")	\
	X(UNHOLD_OMITTED, "unhold-omitted", 14,							\
	  "test_engine_rebuild: test_member_that_was_used_elsewhere_holds_nothing_that_was_lost",	\
	  "a member of which nothing is trusted is believed to hold lost data")						\
	X(HELD_ONCE_MORE, "held-once-more", 9,							\
	  "test_engine_knowable: test_what_a_cache_may_have_lost_stays_lost_when_its_member_goes_again",	\
	  "a member that goes again, having lost nothing, is believed about what its cache may have lost before")	\
	X(MEND_UNVERIFIED, "mend-unverified", 9,						\
	  "test_engine_mend: test_member_that_can_not_keep_what_is_rewritten_loses_its_place",	\
	  "a rewritten sector is not verified")							\
	X(MEND_EIO_IS_LOSS, "mend-eio-is-loss", 9,						\
	  "test_engine_mend: test_read_that_is_refused_during_a_rebuild_gives_nothing_up",	\
	  "a refused read gives data up as lost")						\
	X(BLAME_NEVER, "blame-never", 14,							\
	  "test_engine_mend: test_repair_of_level_6_rewrites_what_has_rotted",			\
	  "level 6 scrub --repair recomputes P and Q from rotten data")				\
	X(BLAME_UNPROVEN, "blame-unproven", 1,							\
	  "test_engine_mend: test_resync_of_level_6_takes_data_as_it_stands",			\
	  "resync of level 6 after a crash 'corrects' data by blame")				\
	X(MADE_FROM_UNREAD, "made-from-unread", 14,						\
	  "test_engine_rebuild: test_member_that_goes_while_rows_are_copied_does_no_harm",	\
	  "a chunk is made from others than those that were read, for one more member went meanwhile")	\
	X(SHAPE_IGNORED, "shape-ignored", 17, "level 5",					\
	  "a member that came back with another size or block size goes on")			\
	X(RECORDED_OTHER_MISSING, "recorded-other-missing", 14,					\
	  "test_engine_lost: test_member_that_goes_while_a_loss_is_recorded_is_recorded_too",	\
	  "recorded regions count as defined although another member went meanwhile")		\
	X(RECORDED_DOUBTS, "recorded-doubts", 14,						\
	  "test_engine_lost: test_row_that_fails_while_a_loss_is_recorded_is_recorded_too",	\
	  "recorded regions count as defined although doubts came meanwhile")			\
	X(PAD_UNFLUSHED, "pad-unflushed", 6,							\
	  "test_engine_lost: test_padded_rows_of_a_grown_volume_survive_a_loss_of_power",	\
	  "padded rows are not flushed before they count")					\
	X(MEND_SUSPECT_FORGOTTEN, "mend-suspect-forgotten", 1,					\
	  "test_engine_mend: test_mend_that_failed_half_way_leaves_the_row_suspect",		\
	  "a mend that failed half way leaves the row trusted")						\
	X(STOP_GOES_BACK, "stop-goes-back", 15,							\
	  "test_engine_stops: test_stop_that_gave_up_its_last_flush_does_not_begin_the_next_step",	\
	  "a stop's last flush that was given up begins the next step when it fails")						\
	X(EXAMINED_ONCE, "examined-once", 12,							\
	  "test_engine_identity: test_an_assembly_that_begins_again_accuses_nobody",		\
	  "a member is judged by the superblock that was read, although it has been written since")	\
	X(LOST_COPY_ACCUSED, "lost-copy-accused", 12,						\
	  "test_engine_identity: test_unreadable_copy_is_not_held_against_its_member",		\
	  "a member one copy of whose superblock can't be read is accused of the write that it held")	\
	X(LOST_COPY_TWIN, "lost-copy-twin", 12,							\
	  "test_engine_copies: test_of_two_devices_the_one_that_lost_a_copy_need_not_be_the_older",	\
	  "of two devices that are the same member the one that lost a copy is thought the older")	\
	X(RECORD_IN_ONE_COPY, "record-in-one-copy", 13,						\
	  "test_engine_starts: test_a_lost_copy_does_not_take_along_who_is_out",		\
	  "who is out is on record when one copy of each superblock says so, and goes with a bad sector")	\
	X(SAID_ONCE_AGAIN, "said-once-again", 12,						\
	  "test_engine_identity: test_member_put_back_with_an_unreadable_copy_is_known",	\
	  "what the last update but one says is all that is known of a member")			\
	X(RETURNED_BY_ONE_TRUSTED, "returned-by-one-trusted", 12,				\
	  "test_engine_identity: test_member_that_returns_one_write_older_is_known",		\
	  "a member that returns one write older is trusted though both its copies are there")	\
	X(FAILED_SPARED, "failed-spared", 2,							\
	  "test_engine_order: test_zeros_carried_out_again_don_t_spare_a_write_that_failed",	\
	  "a range of zeros that is repeated leaves what a write that failed would have overwritten")	\
	X(CACHE_SPARED, "cache-spared", 6,							\
	  "test_engine_order: test_zeros_carried_out_again_spare_what_is_newer",		\
	  "a range of zeros that is repeated for a lost cache leaves what others wrote there, which may be lost")	\
	X(LOGINS_ARE_PROGRESS, "logins-are-progress", 15,					\
	  "test_engine_evidence: test_a_member_that_answers_nothing_but_log_ins_goes",		\
	  "a member that takes sessions and answers nothing in them is back each time")		\
	X(EACH_SESSION_PATIENT, "each-session-patient", 15,					\
	  "test_engine_evidence: test_one_command_has_no_whole_session_more",			\
	  "a command that no session got an answer to has all of each session's time")		\
	X(FLUSHED_UNKNOWN, "flushed-unknown", 16,						\
	  "test_engine_lost_caches: test_what_a_flush_covered_stays_known_when_a_cache_is_lost",	\
	  "a flush does not make safe what was written before it")				\
	X(FLUSH_COVERS_UNSENT, "flush-covers-unsent", 6,						\
	  "test_engine_lost_caches: test_a_flush_covers_nothing_of_a_device_that_hid_its_cache",	\
	  "what the others flushed is safe on a member that was sent no flush and lost writes")	\
	X(FLUSH_OF_ANOTHER, "flush-of-another", 6,						\
	  "test_engine_lost: test_a_flush_of_a_growth_covers_nothing_until_it_has_succeeded",	\
	  "a growth's flush that is under way, or was refused, makes safe what requests wrote")	\
	X(NEVER_LEARNED, "never-learned", 16,							\
	  "test_engine_lost_caches: test_after_a_crash_a_flush_tells_which_rows_a_cache_can_take_along",	\
	  "regions that were dirty at assembly count as a whole, flushed or not")		\
	X(FLUSH_COVERS_ALL, "flush-covers-all", 6,						\
	  "test_engine_lost_caches: test_a_flush_covers_no_row_that_is_written_meanwhile",	\
	  "a flush makes safe also what is written while it is under way")			\
	X(RESYNC_UNNOTED, "resync-unnoted", 6,							\
	  "test_engine_lost_caches: test_parity_that_a_resync_corrected_can_go_with_a_cache",	\
	  "parity that a resync corrected counts as safe before a flush")	\
	X(CHOSEN_FOR_EVER, "chosen-for-ever", 17,						\
	  "test_engine_replaced: test_chosen_spare_that_refuses_writes_is_given_up",		\
	  "a spare that an administrator chose is tried again whatever it refuses")		\
	X(REFUSER_TAKEN_AGAIN, "refuser-taken-again", 17,					\
	  "test_engine_replaced: test_spare_that_refuses_writes_makes_way_for_the_next",	\
	  "a spare that refused to be filled is taken again")					\
	X(READMITTED_IN_VAIN, "readmitted-in-vain", 17,					\
	  "test_engine_replaced: test_chosen_spare_that_refuses_writes_is_given_up",		\
	  "a replacement that was given up and is taken back does not go on")			\
	X(REST_UNPROVEN, "rest-unproven", 1,							\
	  "test_engine_mend: test_rows_behind_one_that_can_not_be_read_are_proven",		\
	  "a resync leaves all rows of a region behind one that can't be read")			\
	X(REFUSAL_STOPS_ALL, "refusal-stops-all", 1,						\
	  "test_engine_mend: test_rows_behind_one_that_is_refused_are_proven",			\
	  "a resync goes no further than a sector that a member refuses to read")		\
	X(REFUSAL_STOPS_FILLING, "refusal-stops-filling", 15,					\
	  "test_engine_mend: test_refused_read_does_not_keep_other_regions_from_being_copied",	\
	  "a rebuild goes no further than a sector that a member refuses to read")		\
	X(REFUSAL_AWAITED, "refusal-awaited", 15,						\
	  "test_engine_mend: test_rebuild_makes_what_is_refused_from_the_others",		\
	  "a rebuild waits for a sector that a member refuses to read though the others make up for it")	\
	X(REFUSED_REWRITTEN, "refused-rewritten", 15,						\
	  "test_engine_mend: test_rebuild_makes_what_is_refused_from_the_others",		\
	  "a rebuild rewrites what a member refuses to read")					\
	X(REFUSAL_STOPS_REPAIR, "refusal-stops-repair", 15,					\
	  "test_engine_mend: test_refused_row_does_not_keep_others_from_being_mended",		\
	  "a row in which a read is refused keeps all that were met later from being mended")	\
	X(FORMER_DISPUTES, "former-disputes", 17,						\
	  "test_engine_replaced: test_place_does_not_change_hands_while_its_holder_speaks_of_another_gateway",	\
	  "a place is given away while its holder says that another gateway has it")		\
	X(TAKE_OVER_LASTS, "take-over-lasts", 8,						\
	  "test_engine: test_a_take_over_ends_with_the_time_of_its_start",			\
	  "a start that may take over goes on trying without end")			\
	X(REFUSAL_DENIES, "refusal-denies", 17,							\
	  "test_engine_fence: test_members_that_refuse_to_be_asked_deny_nothing",		\
	  "a member that was busy all the time denies that there is another gateway")		\
	X(ASKED_FOR_EVER, "asked-for-ever", 15,							\
	  "test_engine_fence: test_one_member_that_refuses_to_be_asked_keeps_nobody_waiting",	\
	  "a member that refuses to be asked about another gateway is waited for without end")	\
	X(FIRST_TO_ANSWER_TAKEN, "first-to-answer-taken", 12,					\
	  "test_engine_copies: test_copy_that_answers_first_is_not_taken_for_the_member",	\
	  "a volume starts when all places are taken, though devices have not said yet what they are")	\
	X(SLOW_NOT_AWAITED, "slow-not-awaited", 7,						\
	  "test_engine_halves: test_half_that_answers_slowly_is_awaited",			\
	  "a half starts although the other, which knows of its being out, is just answering")	\
	X(TAKEN_PLACE_NO_HALF, "taken-place-no-half", 7,					\
	  "test_assembly: test_every_mix_of_three_and_four_members_is_judged_as_the_rules_say",	\
	  "of halves that only a place with two devices makes possible the one that is just answering is not awaited")	\
	X(ANYBODY_A_HALF, "anybody-a-half", 15,							\
	  "test_engine_halves: test_device_that_answers_nothing_costs_no_request",		\
	  "a start waits for a device that answers nothing as if it were a half that others may know nothing of")	\
	X(OUTDATED_TAKEN, "outdated-taken", 8,						\
	  "test_engine_starts: test_who_was_taken_out_while_this_gateway_waited_is_not_trusted",	\
	  "a start goes by superblocks that were read long before, though another gateway may have had the volume since")	\
	X(ACCUSED_UNHEARD, "accused-unheard", 15,						\
	  "test_engine_starts: test_nobody_went_back_because_another_gateway_has_written_meanwhile",	\
	  "members that another gateway has written to since they were read count as put back in time")	\
	X(TWIN_WHILE_LOADING_LATE, "twin-while-loading-late", 12,				\
	  "test_engine_copies: test_copy_is_known_while_the_maps_are_read",			\
	  "a member that shows up again while the maps are read is looked at only when the volume runs")	\
	X(COPY_KEPT, "copy-kept", 12,								\
	  "test_engine_copies: test_copy_in_use_goes_as_soon_as_the_others_can_do_without_it",	\
	  "a copy that was found out is trusted again if it was needed at that moment")		\
	X(LATE_TWIN_IGNORED, "late-twin-ignored", 12,						\
	  "test_engine_copies: test_copy_in_use_goes_when_the_member_shows_more",		\
	  "a copy in use stays when the member turns up and has had later superblocks")		\
	X(ABSENT_TWIN_FORGOTTEN, "absent-twin-forgotten", 12,					\
	  "test_engine_copies: test_copy_that_is_back_before_its_member_is_not_taken",		\
	  "of a member and its copy, both of which went, the first that is back is taken")		\
	X(CHANGED_TWIN_FORGOTTEN, "changed-twin-forgotten", 12,				\
	  "test_engine_copies: test_copy_is_not_taken_while_its_member_can_not_be_used",	\
	  "a copy is taken when its member has changed its size, or lost its superblock")	\
	X(TWIN_UNREMEMBERED, "twin-unremembered", 12,						\
	  "test_engine_copies: test_copy_that_was_refused_is_filled_from_the_start_whoever_answers_for_its_member",	\
	  "a copy of a member catches up by what the flags say when nobody else has that UUID any more")	\
	X(DOUBTFUL_TRACKED, "doubtful-tracked", 12,						\
	  "test_engine_copies: test_copy_that_was_refused_is_filled_from_the_start_when_all_is_begun_anew",	\
	  "a copy that was refused beside its member catches up when both are removed and it is added again")	\
	X(CHANGED_MEMBER_UNSHOWN, "changed-member-unshown", 12,				\
	  "test_assembly: test_a_copy_is_not_the_member_because_that_has_changed",		\
	  "a start takes a copy of a member that is there, and has changed its size")		\
	X(WITNESS_BY_COPY, "witness-by-copy", 8,						\
	  "test_assembly: test_an_old_copy_of_the_device_that_has_changed_does_not_speak_for_it",	\
	  "an old copy of a device that has changed keeps what that one says of the others from counting")	\
	X(WITNESS_BY_OLDER, "witness-by-older", 8,						\
	  "test_assembly: test_a_member_that_went_back_does_not_speak_for_the_device_that_has_changed",	\
	  "a member that went back in time keeps what a device that has changed says of the others from counting")	\
	X(FILLED_STILL_A_SPARE, "filled-still-a-spare", 12,					\
	  "test_engine_identity: test_spare_that_was_filled_is_known_by_its_uuid_while_it_is_away",	\
	  "a spare that was filled, and went, is forgotten when another one with its UUID is back")	\
	X(RECORD_UNRETRIED, "record-unretried", 15,						\
	  "test_engine_memory: test_what_is_lost_is_recorded_as_soon_as_there_is_memory",	\
	  "nothing wakes the engine to record what is lost once there is memory for it again")	\
	X(SENT_BY_ERROR, "sent-by-error", 1,							\
	  "test_engine_memory: test_write_that_was_sent_is_not_taken_for_one_without_memory",	\
	  "whether a write that failed was sent is guessed from its error")			\
	X(ZEROS_SENT_BY_ERROR, "zeros-sent-by-error", 1,					\
	  "test_engine_memory: test_zeros_that_were_sent_are_not_taken_for_some_without_memory",	\
	  "whether zeros that failed were sent is guessed from their error")			\
	X(FORMER_HEARD, "former-heard", 17,							\
	  "test_engine_replaced: test_answer_of_a_former_that_comes_late_is_nobodys",		\
	  "what a member answers whose place was given away is taken for an answer of that place")	\
	X(UNDECIDED_REFUSED, "undecided-refused", 16,						\
	  "test_engine_lost: test_what_is_not_lost_is_not_refused_while_losses_are_recorded",	\
	  "while losses are recorded, rows that lose nothing are refused as well")		\
	X(RECORD_AWAITED_UNSEEN, "record-awaited-unseen", 16,					\
	  "test_engine_lost: test_read_that_would_wait_for_the_record_fails_with_all_others",	\
	  "a read that waits for losses to be recorded is looked at when something else happens")	\
	X(FLUSHED_NOTED, "flushed-noted", 9,							\
	  "test_intent: test_what_was_flushed_is_not_lost_with_a_cache_for_want_of_memory",	\
	  "to say that no row of a region was lost with a cache takes memory, without which all of them are")	\
	X(ROWS_UNRESERVED, "rows-unreserved", 16,						\
	  "test_intent: test_rows_are_told_apart_without_memory",				\
	  "memory for what is known of rows is not set aside: without any, regions count as a whole")	\
	X(SETTLED_BESIDE_TARGET, "settled-beside-target", 16,					\
	  "test_engine_losses: test_who_was_filled_before_a_cache_took_parity_along_fits_it",	\
	  "parity that a lost cache took along is believed beside a target that was filled before")	\
	X(FRESH_WHILE_SURE, "fresh-while-sure", 16,						\
	  "test_intent: test_what_was_filled_before_a_cache_took_parity_along_is_compared",	\
	  "one row of a region that may be lost makes all its new parity count as flushed when no redundancy is left")	\
	X(SETTLED_ONCE, "settled-once", 16,							\
	  "test_intent: test_what_is_settled_stays_so_when_another_cache_is_lost",		\
	  "a second cache that is lost makes all never-written rows of a volume without redundancy doubtful")		\
	X(DEFINED_ONCE, "defined-once", 16,							\
	  "test_intent: test_what_is_defined_stays_so_when_another_cache_is_lost",		\
	  "a second cache that is lost takes along what never-written rows are without redundancy, if one was written since")	\
	X(UNSENT_UNTOLD, "unsent-untold", 15,							\
	  "test_engine_stops: test_what_waited_too_long_for_members_is_told_at_once",			\
	  "a command that ends without being sent wakes nobody")					\
	X(ASSEMBLY_UNRETRIED, "assembly-unretried", 15, "level 5",				\
	  "nothing wakes an assembly for which there was no memory")				\
	X(TABLE_AWAITED_FOR_EVER, "table-awaited-for-ever", 15,					\
	  "test_engine_memory: test_stop_ends_while_the_table_of_lost_extents_can_not_be_written",	\
	  "a stop waits for requests that wait for a table which nobody writes any more")		\
	X(NOTHING_LOST_UNTOLD, "nothing-lost-untold", 15, "level 0",				\
	  "who accepts what is lost of a volume without redundancy waits for ever")		\
	X(NOTHING_LOST_WRITTEN, "nothing-lost-written", 15,					\
	  "test_engine_unread: test_table_that_nobody_needs_holds_up_no_stop",			\
	  "a stop waits for a bad table of lost extents, where nothing is ever lost")		\
	X(LAST_UNDELIVERED, "last-undelivered", 15,						\
	  "test_engine_memory: test_stop_ends_while_the_table_of_lost_extents_can_not_be_written",	\
	  "a volume has stopped before those are told whom its end told last")	\
	X(TAKEN_UNPREEMPTED, "taken-unpreempted", 8, "level 5",					\
	  "a take-over does not take the right to write from the other gateway's sessions")	\
	X(CONFLICT_DENIED, "conflict-denied", 8, "level 5",					\
	  "a write that meets another gateway's reservation counts as done")			\
	X(TRIES_FORGOTTEN, "tries-forgotten", 1,						\
	  "test_engine_evidence: test_assembly_that_never_was_counts_for_nothing",		\
	  "half of a volume starts in the epoch that the other half got in an assembly that never was")	\
	X(EPOCH_FOUND, "epoch-found", 8, "level 5",						\
	  "a gateway that takes a volume over goes on in the other one's epoch")	\
	X(ACCEPTED_BESIDE_TARGET, "accepted-beside-target", 14,					\
	  "test_engine_lost: test_what_is_accepted_fits_what_a_device_that_is_filled_has",	\
	  "what is accepted counts as proven where a device that is being filled has a chunk that P and Q don't fit")	\
	X(LEANS_ON_NOBODY, "leans-on-nobody", 9,						\
	  "test_engine_lost: test_what_was_accepted_with_a_device_is_unknown_without_it",		\
	  "what was accepted with a chunk of a device that was being filled counts as known when that is gone")	\
	X(FULL_FOR_ALL, "full-for-all", 16,							\
	  "test_engine_lost: test_what_is_listed_beside_a_full_table_is_settled",	\
	  "when one region does not fit in the table of lost extents, the others are not looked at")	\
	X(FULL_FOR_REGION, "full-for-region", 16,						\
	  "test_engine_lost: test_rows_that_lose_nothing_are_not_refused_beside_one_that_found_no_room",	\
	  "when a row finds no room in the table of lost extents, its region's rows that lose nothing are refused as well")	\
	X(FULL_UNSETTLED, "full-unsettled", 16,							\
	  "test_engine_lost: test_what_is_listed_beside_a_full_table_is_settled_though_more_is_doubted",	\
	  "losses that did not all fit are not recorded once more when more became suspect meanwhile")	\
	X(UNLISTED_DOUBTED, "unlisted-doubted", 9,						\
	  "test_engine_lost: test_what_a_device_that_is_filled_has_stays_when_it_finds_no_room",	\
	  "when losses are recorded, what a device that is being filled has of rows that found no room is dropped")	\
	X(NEEDED_CONFLICT_FENCES, "needed-conflict-fences", 17,					\
	  "test_engine_fence: test_a_member_that_can_not_be_spared_is_asked_until_it_takes_a_write",	\
	  "a member that can't be spared is believed, though the others deny what it says")	\
	X(FORCE_LASTS, "force-lasts", 7,							\
	  "test_engine: test_force_ends_with_the_time_of_its_start",				\
	  "a start by force goes on trying without end")					\
	X(FENCED_STARTING, "fenced-starting", 17,						\
	  "test_engine_fence: test_a_start_that_is_fenced_off_has_failed",			\
	  "a start that was fenced off looks as if it went on")					\
	X(DENIED_FOR_EVER, "denied-for-ever", 17,						\
	  "test_engine_fence: test_others_that_are_taken_while_one_is_held_are_believed",	\
	  "what the others said of another gateway once is what they say for good")		\
	X(HELD_IN_ITS_SESSION, "held-in-its-session", 8,					\
	  "test_engine_fence: test_a_member_that_is_held_is_logged_in_to_anew",			\
	  "a member that spoke of another gateway is used again without another log-in")		\
	X(STARTED_UNASKED, "started-unasked", 17,						\
	  "test_engine_fence: test_a_volume_does_not_start_on_a_member_that_another_gateway_may_have",	\
	  "a start puts on record who is away before it has asked those that it needs")		\
	X(STARTED_IN_ITS_SESSION, "started-in-its-session", 8,					\
	  "test_engine_fence: test_a_start_finds_out_who_has_the_members",			\
	  "a start that met another gateway tries again in the same sessions")	\
	X(QUESTION_UNFLUSHED, "question-unflushed", 6,						\
	  "test_engine_losses: test_what_members_are_asked_with_beside_a_conflict_is_no_loss",	\
	  "what members are asked with counts as data that a cache may lose")	\
	X(WRITTEN_AT_RELEASE, "written-at-release", 8,						\
	  "test_engine_stops: test_nothing_is_written_when_sessions_are_given_back",		\
	  "the end of a target's session is put on record when the volume is stopped already")	\
	X(RECORDED_AFTER_CRASH, "recorded-after-crash", 9,					\
	  "test_engine_recorded: test_what_a_stop_knew_counts_for_one_start_only",		\
	  "what a stop in order knew of missing members' chunks is believed after a crash, too")	\
	X(RECORDED_THOUGH_FULL, "recorded-though-full", 9,					\
	  "test_engine_recorded: test_what_found_no_room_is_not_called_recorded",		\
	  "a stop says that all losses are on record although the table was full")		\
	X(RECORDED_FOR_OTHERS, "recorded-for-others", 9,					\
	  "test_engine_recorded: test_who_goes_after_the_stop_takes_along_what_was_not_proven",	\
	  "what a stop knew of those who were missing then is believed of another, too")	\
	X(RECORDED_LEANING, "recorded-leaning", 9,						\
	  "test_engine_lost: test_what_was_accepted_with_a_device_is_unknown_after_a_stop",	\
	  "a stop calls recorded what was accepted with a chunk of a device that is being filled")	\
	X(RECORDED_FORCED, "recorded-forced", 9,						\
	  "test_engine_recorded: test_what_a_stop_knew_says_nothing_of_a_member_that_is_taken_by_force",	\
	  "what a stop knew of missing members' chunks is believed beside a member that is taken by force, too")	\
	X(RECORDED_UNREAD, "recorded-unread", 9,						\
	  "test_engine_recorded: test_what_a_stop_knew_is_worth_nothing_without_all_of_the_table",	\
	  "what a stop knew is believed though part of the table of lost extents can be read nowhere")	\
	X(RECORDED_BEFORE, "recorded-before", 9,						\
	  "test_engine_recorded: test_what_a_stop_knew_is_void_when_a_later_assembly_was_seen",	\
	  "what a stop knew is believed though this gateway has seen a later assembly")		\
	X(VOID_BEFORE_START, "void-before-start", 16,						\
	  "test_engine_lost_caches: test_writes_lost_before_the_start_void_no_flush_after_it",	\
	  "what a device lost before the start voids flushes of it that came later")		\
	X(MISFIT_UNHEARD, "misfit-unheard", 8,							\
	  "test_assembly: test_a_device_that_has_changed_may_be_the_last_who_knows_that_the_others_are_out",	\
	  "what a device that has changed says of the others counts for nothing")		\
	X(WITNESS_FLAGS, "witness-flags", 1,							\
	  "test_assembly: test_what_members_lack_is_not_known_where_a_device_that_has_changed_says_who_is_out",	\
	  "a member forced on the word of a device that has changed lacks what nobody marked")	\
	X(FITTING_REWRITTEN, "fitting-rewritten", 6,						\
	  "test_engine_mend: test_row_that_fits_as_it_is_can_not_go_with_a_cache",		\
	  "P and Q that fit what a device brings back are written again, and may be lost with a cache")	\
	X(FRESH_IS_RAW, "fresh-is-raw", 16,							\
	  "test_engine_lost_caches: test_what_was_clean_stays_known_where_nobody_had_written",	\
	  "a lost cache makes all of a region doubtful that nobody had written before the start, though it was clean since")	\
	X(NEVER_RAW, "never-raw", 1,								\
	  "test_intent: test_what_a_resync_just_made_goes_with_a_cache",			\
	  "parity that a resync has just made is believed when a cache may have taken it along")	\
	X(NEWER_BY_OUR_WRITES, "newer-by-our-writes", 12,					\
	  "test_engine_copies: test_copy_that_an_assembly_wrote_to_is_no_newer_for_that",	\
	  "a copy is newer than its member by what an assembly that began again wrote to it")	\
	X(FUA_UNCOVERED, "fua-uncovered", 6,							\
	  "test_engine_lost_caches: test_a_write_with_fua_stays_known_when_a_cache_is_lost",	\
	  "the flush of a write with FUA does not cover the write itself")			\
	X(FORMER_AWAITED, "former-awaited", 15,							\
	  "test_engine_grace: test_a_place_is_taken_while_its_holder_has_grace",		\
	  "superblocks that give a place away wait for its holder, which is silent")		\
	X(DATA_ON_TARGET_ALONE, "data-on-target-alone", 9,					\
	  "test_engine_lost: test_what_only_a_device_that_is_filled_would_take_is_refused",	\
	  "data is acknowledged that nobody has but a device that is being filled")	\
	X(KEPT_UNTOLD, "kept-untold", 6,							\
	  "test_engine_grow: test_member_that_was_to_go_and_stays_knows_before_new_rows_are_used",	\
	  "what superblocks said while a member was on its way out counts as known to it when it stays")	\
	X(TWO_WHO_GO_UNTOLD, "two-who-go-untold", 7,						\
	  "test_engine_handover: test_two_who_went_at_once_do_not_start_together",		\
	  "a former holder and a member that goes meanwhile may start together")	\
	X(SETTLED_UNNOTED, "settled-unnoted", 6,						\
	  "test_engine_losses: test_a_copy_that_a_read_settled_can_go_with_a_cache",		\
	  "a copy that a read wrote over another counts as safe before a flush")	\
	X(FILLED_ELSEWHERE_TRUSTED, "filled-elsewhere-trusted", 7,				\
	  "test_engine_rebuild: test_member_that_was_used_elsewhere_while_it_was_being_filled_is_filled_from_the_start",	\
	  "a member that was used without the others is caught up by flags, if it was being filled when it left")	\
	X(CACHE_OFF_FORGOTTEN, "cache-off-forgotten", 6,					\
	  "test_engine_flush: test_what_a_cache_took_is_flushed_after_it_was_switched_off",	\
	  "what a cache took is not flushed once the member says that it has none")		\
	X(LEFT_IN_CACHE_UNFLUSHED, "left-in-cache-unflushed", 6,				\
	  "test_engine_flush: test_what_a_gateway_left_in_a_cache_is_flushed_after_it_was_switched_off",	\
	  "what a gateway left in a cache is not flushed by the next, where the member says that it has none")	\
	X(LEFT_TAKES_WRITTEN, "left-takes-written", 6,						\
	  "test_engine_lost_caches: test_a_cache_that_was_left_takes_along_nothing_that_was_written_since",	\
	  "what was written since the start may be lost with a cache that was switched off before")	\
	X(CACHE_TAKES_LEFT_ONLY, "cache-takes-left-only", 6,					\
	  "test_engine_lost_caches: test_lost_caches_make_suspect_what_was_written_and_nothing_else",	\
	  "a lost cache makes nothing doubtful that was written since the start")		\
	X(CLOSING_CACHE_TRUSTED, "closing-cache-trusted", 6,					\
	  "test_engine_losses: test_a_cache_can_go_while_its_session_is_being_closed",		\
	  "a member that is to go before its session has ended, and stays, has lost nothing")	\
	X(CLOSING_ANSWERS_TRUSTED, "closing-answers-trusted", 6,				\
	  "test_engine_losses: test_a_cache_can_go_with_what_its_member_has_not_answered",	\
	  "a member that is to go with a flush or a write unanswered, and stays, has lost nothing")	\
	X(DOUBT_UNRECORDED, "doubt-unrecorded", 12,						\
	  "test_engine_losses: test_a_device_that_lost_writes_while_it_was_out_is_filled_anew",	\
	  "what a member that is out says of lost writes is forgotten when the gateway starts anew")	\
	X(DOUBT_RECORDED_LATE, "doubt-recorded-late", 12,					\
	  "test_engine_losses: test_what_a_device_said_before_it_was_gone_is_on_record",	\
	  "what a member said of lost writes is on record only when its next session is judged")	\
	X(UNREAD_COUNTS, "unread-counts", 9,							\
	  "test_engine_mend: test_who_returns_while_a_row_is_mended_counts_for_the_next_one",	\
	  "a row is mended with the chunk of a member that returned after it was read")		\
	X(MENDED_HELD, "mended-held", 15,							\
	  "test_engine_mend: test_request_waits_for_one_row_that_is_mended",			\
	  "rows are mended one by one, and whoever waits for one of them waits for all")	\
	X(NOTED_UNSENT, "noted-unsent", 9,							\
	  "test_engine_lost_caches: test_a_write_that_was_not_sent_went_into_no_cache",		\
	  "what waits for its mark counts as written, and is lost with a cache")		\
	X(GONE_WHILE_TAKEN, "gone-while-taken", 13,						\
	  "test_engine_handover: test_a_write_waits_until_a_place_is_given_back_while_another_goes",	\
	  "a member that goes while a place is given back makes writes pass by who was to have it")	\
	X(KEPT_AT_ONCE, "kept-at-once", 9,							\
	  "test_engine_handover: test_a_member_that_stays_is_on_record_before_anything_is_written",	\
	  "writes are acknowledged while some superblocks say yet that a member is out which is back")	\
	X(CLOSED_RESERVED, "closed-reserved", 13,						\
	  "test_engine_identity: test_device_that_is_removed_while_it_is_filled_keeps_no_reservation",	\
	  "a device that is removed while it is filled keeps the volume's reservation")		\
	X(REMOVED_RESERVED, "removed-reserved", 13,						\
	  "test_engine_identity: test_member_that_is_taken_out_and_removed_keeps_no_reservation",	\
	  "a device that is removed right after it was taken out keeps its reservation")	\
	X(GOING_JUDGED, "going-judged", 13,							\
	  "test_engine_copies: test_who_is_taken_out_on_its_way_out_stays_who_it_is_until_then",	\
	  "who is on its way out, and was taken out, loses its role when it answers beside a copy")	\
	X(FORMER_LOSS_KEPT, "former-loss-kept", 15,						\
	  "test_engine_handover: test_what_the_former_holder_loses_while_it_leaves_fails_no_flush",	\
	  "a flush fails for what a device that was replaced lost when the other had all of it")	\
	X(OUT_UNTOLD, "out-untold", 13,								\
	  "test_engine_handover: test_nobody_is_out_before_those_who_stay_have_heard_of_it",	\
	  "a member is out before another has heard of it that was on its way out and stays")	\
	X(COMPARED_AS_CORRECTED, "compared-as-corrected", 14,					\
	  "test_engine_scrub: test_what_was_only_compared_is_not_taken_for_corrected",		\
	  "a scrub that corrects passes by rows that the one before it was just comparing")	\
	X(FIRST_SESSION_COUNTS, "first-session-counts", 6,					\
	  "test_engine_losses: test_a_cache_is_believed_to_live_on_from_the_first_session",	\
	  "that a member's first session can't tell of the time before counts as a cache that is lost with it")	\
	X(TOLD_IS_MADE_UP, "told-is-made-up", 6,						\
	  "test_engine_losses: test_a_cache_is_not_made_up_for_because_its_loss_was_told",	\
	  "who lost a cache makes up for another's as soon as a flush has told of it")		\
	X(TOLD_IN_VAIN, "told-in-vain", 6,							\
	  "test_engine_flush: test_a_flush_that_was_not_carried_out_tells_of_no_loss",		\
	  "a flush that failed for silent members counts as one that told of what caches lost")	\
	X(LEFT_UNEXAMINED, "left-unexamined", 15,						\
	  "test_engine_fence: test_a_member_that_did_not_say_who_it_is_is_asked_in_another_session",	\
	  "a member that met a conflict when its superblocks were read is never asked again")	\
	X(WRITTEN_MEMBER_UNSEEN, "written-member-unseen", 15,					\
	  "test_engine_force: test_member_that_comes_and_goes_while_maps_are_written_is_used",	\
	  "a start by force waits for ever for a member that was back while the others' maps were written")	\
	X(ATTEMPT_DOUBTED, "attempt-doubted", 6,						\
	  "test_engine_starts: test_what_a_cache_may_have_lost_in_an_attempt_is_not_doubted_later",	\
	  "what a cache may have lost in an attempt to start counts as lost with the member's next session, whatever was flushed since")	\
	X(UNSTEADY_TAKEN, "unsteady-taken", 15,							\
	  "test_engine_starts: test_who_is_lost_each_time_its_map_is_read_is_not_waited_for_longer_than_who_is_away",	\
	  "a start begins again each time that a member is lost which the others could do without")	\
	X(UNSTEADY_UNAWAITED, "unsteady-unawaited", 5,						\
	  "test_engine_starts: test_who_is_lost_twice_at_once_has_as_much_time_as_who_is_away",	\
	  "a member whose session ended twice as a start read its map is out at once")	\
	X(GONE_UNHEARD, "gone-unheard", 7,							\
	  "test_engine_starts: test_who_has_said_that_the_other_is_out_is_heard_when_it_has_gone",	\
	  "what a device said of the others counts for nothing once it has gone, while a start goes on")	\
	X(CHOSEN_AWAITED, "chosen-awaited", 15,							\
	  "test_engine_starts: test_who_goes_while_superblocks_are_written_makes_room_for_one_that_is_late",	\
	  "a start waits for those it chose, though one that came late could make up for them")	\
	X(GONE_ON_UNHEARD, "gone-on-unheard", 15,						\
	  "test_engine_starts: test_who_refuses_its_superblock_makes_room_for_one_that_went_on_without_it",	\
	  "a start holds on to who refuses its superblock, though one that went on without it has come")	\
	X(WENT_ON_UNSEEN, "went-on-unseen", 7,							\
	  "test_assembly: test_who_has_more_writes_of_the_same_epoch_than_one_could_have_is_not_caught_up",	\
	  "a member that went on beyond a record that went back in time is caught up by regions")	\
	X(OPENING_THERE, "opening-there", 15,							\
	  "test_engine_starts: test_who_is_logged_in_to_again_is_not_there_yet",			\
	  "a start that begins again takes who is just being logged in to for one that is there")	\
	X(LOOKED_AT_MEANWHILE, "looked-at-meanwhile", 15,					\
	  "test_engine_shape: test_a_device_that_has_changed_is_asked_once_at_a_time",		\
	  "a device's superblocks are read again while they are being read, for ever")	\
	X(DATA_ONLY_SPARED, "data-only-spared", 6,						\
	  "test_engine_knowable: test_what_one_member_alone_would_hold_is_refused_while_one_more_may_go",	\
	  "data is acknowledged that one member alone holds, though the level bears one more loss")	\
	X(UNCOPIED_EVERYWHERE, "uncopied-everywhere", 15,					\
	  "test_engine_rebuild: test_reads_elsewhere_end_beside_a_region_that_can_not_be_copied",	\
	  "what counts as copied no more in one region makes all that is under way begin again")	\
	X(UNCOPIED_UNSEEN, "uncopied-unseen", 14,						\
	  "test_intent: test_what_counts_as_copied_no_more_is_doubted_in_its_region_only",	\
	  "operations under way go on with rows that count as copied no more")			\
	X(UNHELD_EARLY, "unheld-early", 9,							\
	  "test_engine_handover: test_what_the_holder_of_a_place_has_outlives_a_spare_that_does_not_get_it",	\
	  "what an absent member has of lost rows is given up when another begins to be filled in its place")	\
	X(MISFIT_NEEDED, "misfit-needed", 15,							\
	  "test_engine_grow: test_volume_starts_without_a_member_that_is_too_small_for_what_it_has_grown_to",	\
	  "a volume does not start while a member that it can do without fits its own superblock, and not the volume")	\
	X(REPLACED_DISTRUSTED, "replaced-distrusted", 12,					\
	  "test_engine_handover: test_a_spare_that_went_back_tells_nothing_of_whom_it_replaces",	\
	  "a member is not trusted because the device that was to replace it went back in time")	\
	X(LOSS_TOLD_ONCE, "loss-told-once", 6,							\
	  "test_engine_told: test_a_loss_is_told_to_all_who_flush_in_time",			\
	  "what a cache took along is told to one initiator, and to no other that has lost data with it")	\
	X(LOSS_UNRECORDED, "loss-unrecorded", 6,						\
	  "test_engine_told: test_a_loss_that_was_not_told_is_told_by_the_next_start",		\
	  "a gateway that starts anew says that all is there which caches had lost before anybody flushed")	\
	X(LATE_ZEROS_QUEUE, "late-zeros-queue", 15,						\
	  "test_engine_zero: test_a_range_that_is_late_before_it_begins_waits_for_no_other",	\
	  "a range of zeros that comes too late for who submitted it is answered when those before it are done")	\
	X(LOST_RECORD_TOLD, "lost-record-told", 6,						\
	  "test_engine_told: test_nothing_is_told_of_a_cache_in_which_was_nothing",		\
	  "superblocks and maps that a cache took along are told as lost data")			\
	X(LOST_IN_START_TOLD, "lost-in-start-told", 6,						\
	  "test_engine_told: test_nothing_is_told_of_what_went_in_a_start",			\
	  "what a member loses while the volume is being started is told as lost data")		\
	X(LEFT_LOST_UNTOLD, "left-lost-untold", 6,						\
	  "test_engine_told: test_a_loss_of_what_was_left_is_told_though_the_session_ended_in_the_start",	\
	  "what a gateway left in the cache of a member whose session ended before its successor ran is lost untold")	\
	X(LOST_AWAY_UNRECORDED, "lost-away-unrecorded", 6,					\
	  "test_engine_told: test_a_loss_is_told_though_the_gateway_ends_before_the_member_is_back",	\
	  "a gateway that ends while members are away keeps to itself that caches may be lost")	\
	X(LAST_FLUSH_FORGOTTEN, "last-flush-forgotten", 6,					\
	  "test_engine_told: test_a_stop_whose_flush_fails_is_told_by_the_next_start",		\
	  "that the flush of an orderly stop failed is told to nobody")				\
	X(MENDED_UNNOTED, "mended-unnoted", 6,							\
	  "test_engine_mend: test_a_piece_made_anew_in_a_row_that_was_torn_can_go_with_a_cache",	\
	  "a piece that is made because it could not be read counts as what was there")		\
	X(TARGET_COUNT_FORGOTTEN, "target-count-forgotten", 12,					\
	  "test_engine_returns: test_one_that_goes_before_it_is_sent_a_superblock_is_known_by_its_count",	\
	  "of a member that is about to be filled nobody knows any more what it had acknowledged")	\
	X(READDED_BELIEVED, "readded-believed", 12,						\
	  "test_engine_returns: test_one_that_was_removed_is_not_believed_for_what_is_lost",	\
	  "what a member holds of lost rows counts after it was removed and added again")	\
	X(WRITTEN_WHILE_SUSPENDED, "written-while-suspended", 5,				\
	  "test_engine_suspended: test_a_write_that_comes_while_too_many_are_silent_leaves_its_row_alone",	\
	  "writes begin while more members are silent than the level bears")			\
	X(WRITTEN_WHEN_PREPARED, "written-when-prepared", 5,					\
	  "test_engine_suspended: test_a_write_that_prepares_while_members_fall_silent_waits",	\
	  "a write that has read what it needs goes on though too many members are silent by now")	\
	X(DEFINITION_NEEDS_ALL, "definition-needs-all", 9,					\
	  "test_engine_lost: test_a_sector_of_q_is_not_needed_for_what_p_defines",		\
	  "what P defines of a missing member is given up for an unreadable sector of Q")	\
	X(COPY_NEEDS_ALL, "copy-needs-all", 9,							\
	  "test_engine_rebuild: test_a_copy_leaves_parity_of_others_as_it_is",			\
	  "while a member is copied to its successor, others' unreadable sectors are given up")	\
	X(REMADE_WHOLE, "remade-whole", 9,							\
	  "test_engine_refused: test_one_that_refuses_a_read_is_rewritten_nothing",		\
	  "where a piece was made anew in a row that proves nothing all of the chunk is written, what is refused too")	\
	X(HALF_UNAWAITED, "half-unawaited", 12,							\
	  "test_engine_halves: test_a_newer_half_that_is_about_to_say_so_rules",		\
	  "a newer half that has logged in and not answered yet when the maps are read is overwritten")	\
	X(FOUND_IN_CACHE_ONLY, "found-in-cache-only", 6,					\
	  "test_engine_starts: test_a_superblock_that_is_in_a_cache_only_is_flushed_before_the_other_copy_is_overwritten",	\
	  "a start overwrites the older copy of a superblock while the newer one may be in a cache only")	\
	X(LEFT_LOST_IN_START, "left-lost-in-start", 6,						\
	  "test_engine_told: test_what_the_flush_of_a_start_finds_lost_is_told",		\
	  "a device that says in a start that it lost writes of the gateway before tells nobody")	\
	X(TARGET_FOUND_IN_CACHE, "target-found-in-cache", 6,				\
	  "test_engine_starts: test_others_are_told_of_no_superblock_that_is_in_a_cache_only",	\
	  "others are told how many superblocks a device has, some of which may be in its cache only")	\
	X(ZEROS_WHEN_MARKED, "zeros-when-marked", 5,						\
	  "test_engine_suspended: test_what_waits_for_its_mark_while_members_fall_silent_waits_on",	\
	  "zeros whose mark is durable are written though too many members are silent by now")	\
	X(PASSED_BY_ROW, "passed-by-row", 9,							\
	  "test_engine_rebuild: test_a_copy_of_a_member_asks_nothing_of_others",			\
	  "where a member that is copied lacks one piece of a row, all that others lack of it is given up")	\
	X(UNHELD_ON_RECORD_ONLY, "unheld-on-record-only", 9,					\
	  "test_engine_knowable: test_an_image_is_not_believed_for_what_found_no_room",		\
	  "who is not believed for what is listed as lost is believed for what found no room in the table")	\
	X(LOSS_FORGOTTEN_AGAIN, "loss-forgotten-again", 6,					\
	  "test_engine_told: test_what_one_said_of_lost_caches_counts_after_it_has_gone",	\
	  "what a newer member said of lost caches is forgotten when it goes before the volume runs")	\
	X(CUT_OFF_FLUSH_TOLD, "cut-off-flush-told", 6,						\
	  "test_engine_told: test_nothing_is_told_of_a_flush_that_was_cut_off",			\
	  "a flush that was cut off counts as one of data, though there was none")		\
	X(ATTEMPT_TOLD, "attempt-told", 6,							\
	  "test_engine_told: test_nothing_is_told_by_an_attempt_that_was_given_up",		\
	  "what the superblocks of an attempt to start said of lost caches outlives the attempt")	\
	X(NEWER_TOO_LATE, "newer-too-late", 12,							\
	  "test_engine_halves: test_a_newer_half_that_comes_while_maps_are_read_rules",		\
	  "a newer half that comes while the maps of the other are read is overwritten")	\
	X(REMOVED_UNMARKED, "removed-unmarked", 12,						\
	  "test_engine_returns: test_one_that_is_removed_lacks_what_is_written_before_that_is_on_record",	\
	  "what a removed member lacks is not marked any more while it is on record")		\
	X(SENT_IS_HEARD, "sent-is-heard", 12,							\
	  "test_engine_returns: test_one_whose_superblock_never_came_is_known_by_its_epoch",	\
	  "a member counts as one that heard of what it was sent")				\
	X(IMAGE_REMEMBERED, "image-remembered", 12,						\
	  "test_engine_returns: test_a_member_is_believed_though_an_image_of_it_was_there_before",	\
	  "that a member's image was there once counts against the member")			\
	X(FORCE_UNTRACKS, "force-untracks", 12,							\
	  "test_engine_force: test_who_is_away_at_a_start_by_force_is_tracked",			\
	  "a start by force forgets who is away while it takes who is out of date")		\
	X(COPIED_UNHEARD, "copied-unheard", 12,							\
	  "test_engine_returns: test_one_that_is_put_back_before_it_has_its_superblock_is_known",	\
	  "a member catches up before others know of a superblock that it got since it is back")	\
	X(CLEANED_UNHEARD, "cleaned-unheard", 12,							\
	  "test_engine_returns: test_what_one_is_sent_before_its_superblock_is_copied_again",	\
	  "what a returning member was sent before others know of its superblock counts as held by it")	\
	X(DIRTY_WHILE_UNHEARD, "dirty-while-unheard", 9,						\
	  "test_engine_returns: test_what_was_flushed_beside_one_that_is_not_heard_is_not_lost",		\
	  "nothing becomes clean while a returning member waits for its superblock")			\
	X(LOSS_NOT_PASSED_ON, "loss-not-passed-on", 6,							\
	  "test_engine_told: test_what_one_said_of_lost_caches_counts_though_a_start_without_it_was_not_finished", \
	  "a start without the one that told of lost caches does not tell its members")			\
	X(MENDED_WHILE_SUSPENDED, "mended-while-suspended", 5,					\
	  "test_engine_suspended: test_what_a_returning_member_holds_is_not_taken_while_too_many_are_silent",	\
	  "what a returning member holds of a lost row is written, P and Q with it, though too many members are silent by now")	\
	X(UNREAD_DURABLE, "unread-durable", 1,							\
	  "test_engine_unread: test_a_map_that_was_not_read_counts_as_no_mark",			\
	  "marks count as durable in a map that could not be read")				\
	X(FIRST_BLOCKS_FIRST, "first-blocks-first", 15,						\
	  "test_engine_map: test_marks_in_the_last_block_wait_for_no_others",			\
	  "marks of a large volume's first regions go before those of its last, however long these wait")	\
	X(SIZE_UNBOUNDED, "size-unbounded", 17,							\
	  "test_engine_grow: test_a_member_of_any_size_is_put_on_record",			\
	  "what a member says of its size is put on record, though no superblock can say it")	\
	X(GONE_TWIN_TRACKED, "gone-twin-tracked", 12,							\
	  "test_engine_copies: test_of_two_that_came_while_a_start_waited_the_one_that_is_left_is_filled_from_the_start",	\
	  "of two equal devices of which one has gone before the volume runs, flags say what the other lacks")	\
	X(DEBT_FOR_EVER, "debt-for-ever", 1,							\
	  "test_engine_throttle: test_a_large_batch_at_a_low_rate_is_paid_for_in_the_end",	\
	  "background work that owes its rate more than a minute never goes on")			\
	X(LOGGED_UNAWAITED, "logged-unawaited", 18, "level 5",					\
	  "a row is written before its record is durable")					\
	X(LOGGED_OUT_OF_ORDER, "logged-out-of-order", 18,					\
	  "test_engine_log: test_a_row_is_touched_when_all_records_before_its_own_are_durable",	\
	  "a row is written when its record is durable, and one before it is not")		\
	X(LOGGED_IN_CACHE, "logged-in-cache", 18, "level 5",					\
	  "records stay in volatile caches")							\
	X(LOGGED_ONCE, "logged-once", 18, "level 6",						\
	  "a record is on one member, though two may go")					\
	X(LOGGED_APART, "logged-apart", 18,					\
	  "test_engine_log: test_parity_is_in_the_record_of_its_data",	\
	  "P and the data of the same columns may be in different records")			\
	X(LOG_REFUSAL_IGNORED, "log-refusal-ignored", 18,					\
	  "test_engine_log: test_a_log_that_members_refuse_is_given_up_and_the_volume_goes_on",	\
	  "a record that its member refused counts as durable")					\
	X(ROW_BEFORE_LOG, "row-before-log", 18, "level 5",					\
	  "while members are out, rows are written without a record")				\
	X(DATA_BESIDE_LOG, "data-beside-log", 18, "level 5",					\
	  "rows without redundancy are written without a record while older records of them are live")	\
	X(ZEROS_BEFORE_LOG, "zeros-before-log", 18, "level 5",					\
	  "while members are out, rows of zeros are written without a record")			\
	X(SEGMENT_REUSED_EARLY, "segment-reused-early", 18,					\
	  "test_engine_log: test_nothing_is_overwritten_that_a_start_might_need",	\
	  "a segment of the log is used again before members know that its records are in their rows")	\
	X(REFUSED_TAKES_ALL, "refused-takes-all", 18,						\
	  "test_engine_log: test_a_member_that_refuses_the_log_leaves_no_other_without_room",	\
	  "a record that one member refused takes what another keeps for the tail")		\
	X(GAP_AWAITED, "gap-awaited", 18,							\
	  "test_engine_log: test_records_behind_one_that_failed_hold_nobody_up",	\
	  "records behind one that failed are waited for, though they never count")		\
	X(TAIL_UNRESERVED, "tail-unreserved", 18,						\
	  "test_engine_log: test_the_tail_can_be_told_however_full_the_log_is",			\
	  "records with data go into the segment that is kept for the tail, behind one that tells it")	\
	X(TAIL_UNWRITTEN, "tail-unwritten", 18, "level 5",					\
	  "the tail passes records whose rows are being written")				\
	X(TAIL_UNFLUSHED, "tail-unflushed", 18, "level 5",					\
	  "the tail passes records whose rows were not flushed")				\
	X(TAIL_FLUSHED_LATER, "tail-flushed-later", 18,				\
	  "test_engine_log: test_the_tail_passes_nothing_that_was_written_while_a_flush_was_under_way",	\
	  "the tail passes records whose rows were written while a flush was under way")	\
	X(TAIL_OVER_LOST_CACHE, "tail-over-lost-cache", 18,					\
	  "test_engine_log: test_a_record_is_needed_as_long_as_a_cache_may_have_taken_its_rows_along",	\
	  "the tail passes records whose rows may be gone with a cache")			\
	X(LOG_OPENED_BESIDE_WRITES, "log-opened-beside-writes", 18, "level 5",			\
	  "the log is opened while rows are being written without records")			\
	X(LOG_OPENED_UNFLUSHED, "log-opened-unflushed", 18, "level 5",				\
	  "the log is opened while rows are in volatile caches")				\
	X(LOG_OPENED_UNRECORDED, "log-opened-unrecorded", 18,					\
	  "test_engine_log: test_no_row_is_written_while_superblocks_are_to_name_the_log",	\
	  "rows are logged before the superblocks name the log")				\
	X(WRITTEN_WHILE_LOG_OPENS, "written-while-log-opens", 18,				\
	  "test_engine_log: test_no_row_is_written_while_superblocks_are_to_name_the_log",	\
	  "rows are written while the superblocks are to name the log")				\
	X(PLACE_TAKEN_BESIDE_LOG, "place-taken-beside-log", 18, "level 5",			\
	  "a place changes hands while records are live")					\
	X(LOG_NEVER_PROVEN, "log-never-proven", 18,					\
	  "test_engine_log: test_superblocks_say_when_all_rows_are_proven",	\
	  "what was proven since the log was opened is lost with the next member")		\
	X(LOG_UNREPLAYED, "log-unreplayed", 18, "level 5",					\
	  "a start does not replay the log")							\
	X(REPLAY_OLDEST_WINS, "replay-oldest-wins", 18, "level 5",				\
	  "of several records of a chunk the oldest is written")				\
	X(REPLAY_COPIES_NONE, "replay-copies-none", 18,					\
	  "test_engine_log: test_a_record_is_on_enough_members_before_it_is_replayed",	\
	  "a record that is whole on too few members is not copied before it is replayed")	\
	X(REPLAY_TORN, "replay-torn", 18,							\
	  "test_log_replay: test_a_torn_record_ends_the_replay",				\
	  "a logged record is replayed although its payload is torn")				\
	X(REPLAY_UNCHAINED, "replay-unchained", 18,						\
	  "test_log_replay: test_a_record_that_does_not_follow_on_the_one_before_is_not_replayed",	\
	  "a logged record is replayed that follows on another one than is there")		\
	X(REPLAY_BEFORE_TAIL, "replay-before-tail", 18,						\
	  "test_log_replay: test_what_is_in_its_row_is_not_replayed",				\
	  "logged records are replayed over what was written to their rows later")		\
	X(REPLAY_HOLE_UNSEEN, "replay-hole-unseen", 18,						\
	  "test_log_replay: test_a_durable_record_that_is_gone_is_told_from_a_torn_one",	\
	  "a durable record that is gone is taken for one that was torn")			\
	X(REPLAY_BEFORE_HOLE, "replay-before-hole", 18,						\
	  "test_log_replay: test_a_durable_record_that_is_gone_is_told_from_a_torn_one",		\
	  "what was logged before a record that is gone is written over what that one had written")	\
	X(REPLAY_NEWEST_UNASKED, "replay-newest-unasked", 18,					\
	  "test_log_replay: test_what_could_not_be_read_may_be_the_newest_record",		\
	  "a newest record in blocks that can't be read is taken for one that was torn")	\
	X(REPLAYED_BY_FORCE, "replayed-by-force", 18,					\
	  "test_engine_log: test_a_start_by_force_replays_nothing",				\
	  "records are replayed although newer ones may have gone with members")		\
	X(REPLAY_REFUSED_AGAIN, "replay-refused-again", 18,					\
	  "test_engine_replay: test_a_log_of_a_later_release_is_left_for_it",	\
	  "a log of a later release is tried again and again")	\
	X(REPLAY_REFUSAL_IS_LOSS, "replay-refusal-is-loss", 18,					\
	  "test_engine_replay: test_a_start_waits_for_a_log_that_is_refused_and_loses_nothing",	\
	  "a log that is refused is taken for one that can't be read")	\
	X(REPLAY_UNREAD_EMPTY, "replay-unread-empty", 18,					\
	  "test_engine_replay: test_what_may_be_hidden_in_an_unreadable_log_is_not_taken_for_nothing",	\
	  "blocks of a log that can't be read are taken for empty ones")	\
	X(REPLAY_UNSOUND, "replay-unsound", 18,					\
	  "test_engine_replay: test_a_record_that_changes_while_it_is_read_is_not_replayed",	\
	  "a record is replayed that is not what it was when it was chosen")	\
	X(REPLAY_COPIED_OVER, "replay-copied-over", 18,					\
	  "test_engine_replay: test_copies_of_records_take_the_place_of_none_that_is_needed",	\
	  "a record is copied over others that are to be replayed")	\
	X(REPLAY_REFUSED_TRUSTED, "replay-refused-trusted", 18,					\
	  "test_engine_replay: test_by_force_only_the_rows_that_were_refused_are_lost",	\
	  "a row that refused its replay is believed")	\
	X(REPLAY_CACHE_FORGOTTEN, "replay-cache-forgotten", 18,					\
	  "test_engine_replay: test_rows_are_written_again_when_a_cache_loses_them_before_the_flush",	\
	  "what a cache lost of a replay is not written again")	\
	X(TAIL_BEFORE_HANDED_OVER, "tail-before-handed-over", 18,				\
	  "test_engine_no_memory: test_a_start_without_memory_for_something_replays_all_the_same",	\
	  "the tail passes what a start has found pending, and has no memory for yet")		\
	X(CORRECTION_UNLOGGED, "correction-unlogged", 18,					\
	  "test_engine_log: test_what_a_scrub_corrects_is_logged",				\
	  "a scrub corrects a row beside the log")						\
	X(MENDED_UNLOGGED, "mended-unlogged", 18,					\
	  "test_engine_log: test_a_row_that_is_mended_is_logged",				\
	  "a row is mended, more than one chunk of it, beside the log")			\
	X(MENDED_LOGGED_IN_PART, "mended-logged-in-part", 18,				\
	  "test_engine_log: test_parity_that_follows_rotten_data_is_replayed_with_it",	\
	  "parity is logged without the data that it was made from")			\
	X(UNREAD_LOGGED, "unread-logged", 18,						\
	  "test_engine_log: test_nothing_is_logged_of_a_row_that_was_not_read",			\
	  "of a row that is mended also pieces are logged that nobody could read")		\
	X(HELD_LOST_UNTOLD, "held-lost-untold", 6,						\
	  "test_engine_replay: test_what_a_log_had_acknowledged_and_lost_is_told",		\
	  "records are gone that had acknowledged small writes, and flushes do not fail for that")	\
	X(TAIL_OF_ONE, "tail-of-one", 18,						\
	  "test_engine_replay: test_copies_of_records_leave_those_before_a_tail_that_one_member_knows",	\
	  "a replay writes copies over records that only one member knows to be done with")	\
	X(ZEROS_UNCOUNTED, "zeros-uncounted", 18,						\
	  "test_engine_log: test_a_start_has_not_much_to_write_after_many_zeros",		\
	  "of rows of zeros that a start has to write only the bytes of their records are counted")	\
	X(MENDED_WITHOUT_READER, "mended-without-reader", 9,					\
	  "test_engine_mend: test_nothing_is_made_of_a_row_whose_member_went_after_it_was_read",	\
	  "a row is mended with what was read of a member that has gone since")		\
	X(MISREAD_TRACKED, "misread-tracked", 9,					\
	  "test_engine_mend: test_who_is_needed_is_rewritten_until_it_reads_as_written",	\
	  "who reads something else than was written gets only what was written since it left")	\
	X(MISREAD_LEFT, "misread-left", 9,						\
	  "test_engine_mend: test_who_is_needed_is_rewritten_until_it_reads_as_written",	\
	  "what was rewritten and reads as something else is left so where its member is needed")	\
	X(TAIL_UNTOLD, "tail-untold", 18,							\
	  "test_engine_replay: test_a_log_that_has_no_room_to_tell_its_tail_begins_anew",	\
	  "a log that went on behind a crash waits for room to tell its tail, which nothing makes")	\
	X(FAILED_RECORD_STAYS, "failed-record-stays", 18,					\
	  "test_engine_log: test_what_failed_is_not_replayed_on_those_who_have_no_mark_of_it",	\
	  "a record is replayed whose write failed, and whose regions are not marked any more")	\
	X(DRAIN_AWAITS_ROOM, "drain-awaits-room", 16,						\
	  "test_engine_log: test_a_log_drains_though_a_write_waits_for_room",			\
	  "while the log drains a write waits for room of one that waits for that")		\
	X(HELD_ACKED_EARLY, "held-acked-early", 18, "level 5",				\
	  "a small write is acknowledged before its record is durable")			\
	X(HELD_KEPT_BRIEFLY, "held-kept-briefly", 18, "level 5",				\
	  "the tail passes records that were acknowledged and are in no row")			\
	X(HELD_UNFLUSHED, "held-unflushed", 18,					\
	  "test_write_back: test_what_the_log_has_acknowledged_outlives_caches",	\
	  "what was acknowledged by the log is dropped when its row has it in a cache")	\
	X(HELD_READ_EARLY, "held-read-early", 18,					\
	  "test_write_back: test_nobody_reads_what_is_in_no_durable_record",	\
	  "a read sees what is in no durable record and no row")				\
	X(HELD_DROPPED, "held-dropped", 18,					\
	  "test_write_back: test_a_log_is_closed_when_all_that_it_has_acknowledged_is_in_its_row",	\
	  "the log is closed while what it has acknowledged is in no row")			\
	X(HELD_UNDOUBTED, "held-undoubted", 18,					\
	  "test_write_back: test_rows_that_a_broken_log_was_written_to_are_not_believed",	\
	  "what a broken log holds is written to rows that superblocks call proven")		\
	X(HELD_JOINED_LATE, "held-joined-late", 18,						\
	  "test_write_back: "									\
	  "test_a_write_that_comes_when_its_row_was_written_is_not_forgotten_with_it",		\
	  "a small write joins others whose row is being written, and goes with them")	\
	X(HELD_OVERTAKEN, "held-overtaken", 18,					\
	  "test_write_back: test_who_wants_the_row_comes_behind_those_that_wait_to_join",	\
	  "a later write of a row goes before small ones that wait for their turn")	\
	X(RUNS_SHARE_PARITY, "runs-share-parity", 18,						\
	  "test_write_back: test_runs_of_a_row_that_is_suspect_are_written_one_by_one",	\
	  "several runs of a row are written at once though each makes all of its parity anew") \
	X(RUNS_SHARE_COLUMNS, "runs-share-columns", 18, "level 5",				\
	  "two runs of a row, of the same columns, are written at the same time")	\
	X(HELD_LOGGED_TWICE, "held-logged-twice", 18, "level 5",				\
	  "the same bytes are in one record twice, where they have no order")	\
	X(HELD_REPLACED_LATE, "held-replaced-late", 18,					\
	  "test_write_back: test_what_is_being_logged_is_overwritten_by_the_log_alone",	\
	  "a small write takes the place of one whose record is under way")			\
	X(AGAIN_IN_PART, "again-in-part", 18,							\
	  "test_write_back: test_a_row_that_is_often_written_to_is_logged_once_more",		\
	  "of a row that is logged once more a part is not")					\
	X(HELD_UNRESERVED, "held-unreserved", 18,						\
	  "test_write_back: test_a_full_log_holds_no_more_than_it_can_write_to_rows",	\
	  "more is held than there is room in the log to write it to its rows")			\
	X(HELD_LOST_EARLY, "held-lost-early", 16,						\
	  "test_write_back: test_what_a_member_refuses_for_a_while_is_not_given_up",	\
	  "what was acknowledged is given up while nobody needs its place")			\
	X(REPLAY_STALE, "replay-stale", 18,							\
	  "test_log_replay: test_what_an_older_run_left_behind_a_gap_is_stale",			\
	  "a start takes a record that an older run left behind a gap")	\
	X(PENDING_OVER_WRITTEN, "pending-over-written", 18, "level 5",			\
	  "what was acknowledged is written over what its row got later")			\
	X(PENDING_FORGOTTEN, "pending-forgotten", 18, "level 5",				\
	  "a start forgets what was acknowledged and is in no row")				\
	X(MAJORITY_IGNORED, "majority-ignored", 8, "level 10",					\
	  "a take-over goes on with as many members as the level needs, though others could live with the rest")	\
	X(UNPROVEN_COUNTED, "unproven-counted", 8,						\
	  "test_engine_takeover: test_a_member_on_which_others_may_read_does_not_count",	\
	  "a take-over counts members from which the gateway before is not proven gone")	\
	X(LEASE_UNAWAITED, "lease-unawaited", 8, "level 5",					\
	  "a take-over acknowledges while the gateway before may still answer by what it heard last")	\
	X(RESTORED_UNAWAITED, "restored-unawaited", 6,						\
	  "test_engine_lease: test_a_member_that_is_back_in_a_take_over_may_have_been_the_former_ones",	\
	  "a take-over does not wait for what the gateway before heard of a member that it was away from") \
	X(ZOMBIE_READS_SERVED, "zombie-reads-served", 8, "level 5",				\
	  "a read is answered though another gateway may have the volume")			\
	X(LEASE_BY_OLD_CLOCK, "lease-by-old-clock", 8,					\
	  "test_engine_lease: test_time_is_what_it_is_when_an_answer_is_given",		\
	  "a read is judged by the time at which the turn began, before the gateway stood still")	\
	X(LEASE_FROM_ANSWER, "lease-from-answer", 8,						\
	  "test_engine_lease: test_what_members_say_counts_from_when_they_were_asked",	\
	  "what a member said counts from when its answer is looked at")			\
	X(UNANSWERED_HEARD, "unanswered-heard", 8,						\
	  "test_engine_lease: test_a_read_that_was_not_sent_says_nothing",			\
	  "a read that was given up before it was sent counts as what the member said")	\
	X(LEASE_BESIDE_TAKING, "lease-beside-taking", 8,					\
	  "test_engine_lease: test_a_read_beside_a_place_that_changes_hands_counts_that_place",	\
	  "a read is proven without the place that some superblocks say has been filled")	\
	X(FORMER_UNTOLD, "former-untold", 8,							\
	  "test_engine_takeover: test_who_was_replaced_says_so",					\
	  "a device whose place was taken is not told, and starts a mirror alone")		\
	X(FORMER_TOLD_ONCE, "former-told-once", 8,						\
	  "test_engine_takeover: test_who_was_replaced_says_so_twice",				\
	  "a device whose place was taken is told in one copy only")				\
	X(FORMER_CONFLICT_UNHEARD, "former-conflict-unheard", 8,				\
	  "test_engine_takeover: test_who_takes_the_last_copy_while_it_is_replaced_has_the_volume",	\
	  "a place is taken although another gateway has taken the last copy from it")		\
	X(PREDECESSOR_KEPT, "predecessor-kept", 8,						\
	  "test_engine_takeover: test_whom_it_was_taken_from_is_forgotten_when_another_had_it",	\
	  "a gateway takes members from whom it once took the volume, though others had it since")	\
	X(TAKEN_TOO_EARLY, "taken-too-early", 8,						\
	  "test_engine_takeover: test_too_few_for_a_take_over_take_nothing",			\
	  "a take-over takes members though too few answer")					\
	X(COUNTED_UNTOLD, "counted-untold", 8,							\
	  "test_engine_heard: test_who_is_counted_on_and_left_out_says_so",			\
	  "a take-over counts on a device that it runs without, and does not tell it")	\
	X(UNHEARD_COUNTED, "unheard-counted", 8,							\
	  "test_engine_heard: test_who_refuses_to_hear_keeps_a_take_over_waiting",		\
	  "a take-over runs though one that it needs went before it heard of it")		\
	X(TAKEN_IN_PART, "taken-in-part", 8,							\
	  "test_engine_heard: test_a_take_over_that_died_is_begun_with_as_many",		\
	  "a gateway that died in a take-over, started again, takes it for its own volume")	\
	X(ATTEMPT_DECIDED, "attempt-decided", 8,							\
	  "test_engine_heard: test_a_take_over_that_died_is_begun_with_as_many",		\
	  "superblocks of a take-over that has not told all say that it has")		\
	X(COPY_COUNTED, "copy-counted", 8,							\
	  "test_engine_heard: test_an_old_copy_is_not_counted_on",		\
	  "a copy of a device, or what it was once, counts for a take-over")	\
	X(TOLD_WHOEVER_ANSWERS, "told-whoever-answers", 8,							\
	  "test_engine_heard: test_another_volume_is_told_nothing",		\
	  "a device that is out is told of a take-over though it may be another one by now")	\
	X(LEFT_TO_ANOTHER, "left-to-another", 8,							\
	  "test_engine_heard: test_who_was_written_by_another_is_looked_at_again",		\
	  "a start goes on with a member that another gateway has written meanwhile")	\
	X(OWN_WORDS_TRUSTED, "own-words-trusted", 8,							\
	  "test_engine_heard: test_who_was_told_in_our_words_is_not_taken_back",		\
	  "a gateway goes on with a member that a take-over has told that it is out")	\
	X(REPLACED_TAKEN_BACK, "replaced-taken-back", 8,						\
	  "test_engine_heard: test_who_was_told_that_its_place_is_anothers_is_not_taken_back",	\
	  "a gateway goes on with a member that a take-over has told that its place is another's")	\
	X(LISTED_FOR_ALL, "listed-for-all", 17,							\
	  "test_engine_heard: test_what_one_is_told_of_itself_is_nobodys_record",		\
	  "what a superblock says of a device that has no place becomes the record of all")	\
	X(STILL_UNTOLD, "still-untold", 17,							\
	  "test_engine_takeover: test_a_take_over_does_without_members_with_which_nobody_could_run",		\
	  "who was to hear of a take-over is counted anew whenever it is looked at")	\
	X(EVICTED_UNHEARD, "evicted-unheard", 8,							\
	  "test_engine_heard: test_who_goes_from_a_take_over_is_not_said_to_be_out",		\
	  "a take-over that does not end leaves on record that a member is out")	\
	X(REFUSER_TAKEN, "refuser-taken", 15,							\
	  "test_engine_heard: test_a_take_over_goes_on_without_who_refuses_its_superblock",	\
	  "a take-over begins again each time that a member refuses its superblock which the others could do without")	\
	X(NEEDED_LEFT_OUT, "needed-left-out", 5,						\
	  "test_engine_heard: test_who_is_needed_by_a_take_over_is_not_left_out",		\
	  "a take-over fails for some seconds because a member went twice without which it can't be")	\
	X(OUT_RULES, "out-rules", 17,							\
	  "test_engine_heard: test_who_was_told_of_what_never_was_in_force_does_not_rule",		\
	  "what was never in force rules if one that is out has it")	\
	X(TOLD_UNNOTED, "told-unnoted", 17,							\
	  "test_engine_heard: test_who_is_told_lacks_no_more_than_before",		\
	  "a device that is told that it is out seems to have been used elsewhere")	\
	X(DECIDED_IN_THE_LEASE, "decided-in-the-lease", 8,							\
	  "test_engine_heard: test_who_is_started_anew_in_a_take_over_waits_for_the_lease",		\
	  "a gateway started anew in its take-over does not wait for what the one before may answer")	\
	X(UNDECIDED_UNSAID, "undecided-unsaid", 7,						\
	  "test_engine_takeover: test_who_may_run_on_with_who_went_is_waited_for",			\
	  "members don't say that their gateway may forget an eviction, and another takes over by one copy")	\
	X(GIVEN_BACK_IN_PART, "given-back-in-part", 7,						\
	  "test_engine_takeover: test_who_did_not_stop_it_starts_no_half",				\
	  "a gateway starts a half of what another one stopped, and may have started since")	\
	X(TARGET_UNANNOUNCED, "target-unannounced", 7,						\
	  "test_engine_takeover: test_who_does_not_hear_who_is_in_sync_is_not_all_that_there_is",	\
	  "a place is taken before the others know that it is about to be")			\
	X(PREDECESSOR_UNASKED, "predecessor-unasked", 8,					\
	  "test_engine_takeover: test_who_took_it_back_keeps_whom_this_one_did_not_reach",		\
	  "a gateway that stood still takes a member from who took the volume back meanwhile")	\
	X(FLUSH_UNPROVEN, "flush-unproven", 8, "level 5",					\
	  "a flush succeeds though another gateway may have acknowledged what it is about")	\
	X(UNPROVEN_MADE_UP_FOR, "unproven-made-up-for", 6,					\
	  "test_engine_losses: test_a_cache_is_not_made_up_for_by_rows_that_are_not_proven",		\
	  "a member goes for its cache, though what a crash or a cache has left is not proven")	\
	X(UNFLUSHED_KEPT, "unflushed-kept", 12,								\
	  "test_engine_losses: test_a_device_that_was_sent_no_flushes_goes_though_rows_are_not_proven",	\
	  "a device that was sent no flushes, and lost writes, stays as rows are not proven")	\
	X(PROVEN_UNKNOWABLE, "proven-unknowable", 5,							\
	  "test_engine_losses: test_a_cache_is_made_up_for_when_failed_rows_were_written_again",	\
	  "a flush fails for rows that were proven since, in a region that is not")			\
	X(CONDEMNED_AWAITED, "condemned-awaited", 5,						\
	  "test_engine_losses: test_who_is_back_without_its_cache_is_not_waited_for",		\
	  "I/O waits for a member that was away with others, and is back only to be evicted")	\
	X(OWN_RECORD_ASSUMED, "own-record-assumed", 7,						\
	  "test_engine_takeover: test_who_has_lost_its_record_starts_no_half",			\
	  "a gateway that has lost its record starts what it left as if it knew what came after")	\
	X(RECORD_LOST_TWICE, "record-lost-twice", 7,						\
	  "test_engine_takeover: test_who_has_lost_its_record_keeps_what_it_found",		\
	  "a gateway without a record means a new epoch before what it found is on record")
/* clang-format on */

enum mutant {
	MUTANT_NONE,
#define MUTANT_CONSTANT(NAME, name, rule, catcher, text) MUTANT_##NAME,
	MUTANTS(MUTANT_CONSTANT)
#undef MUTANT_CONSTANT
};

#ifdef IRAID_MUTANTS
extern enum mutant mutant_active;
#define MUTANT(NAME) (mutant_active == MUTANT_##NAME)
#else
#define MUTANT(NAME) (false && MUTANT_##NAME)
#endif

#endif
