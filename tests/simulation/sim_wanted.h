/* Weights of pairs, for sim_where.c: a row for each state, a digit for each fault. */
	"0100110111000000111",	/* superblocks are read */
	"2422442444000000224",	/* maps are read */
	"1222222222000000122",	/* a new epoch is written */
	"8888888888000000280",	/* stop: drains */
	"8888888888000000480",	/* stop: last flush */
	"8888888888000000480",	/* stop: last map */
	"8888888888000000480",	/* stop: last superblocks */
	"8888888888000000480",	/* stop: sessions end */
	"0000000000000000000",	/* runs */
	"0000000111000000001",	/* degraded */
	"1111121222000000121",	/* suspended */
	"2422242444000000024",	/* evicts */
	"1111111221000000111",	/* a member is silent */
	"1111111222000000021",	/* a member has grace */
	"8844848888000000848",	/* a conflict is looked into*/
	"2222442444000000024",	/* losses are recorded */
	"1111221222000000012",	/* table is written */
	"0000110111000000011",	/* map is written */
	"1111111222000000012",	/* superblocks are written */
	"2222222444000000122",	/* marks are cleaned */
	"0100110111000000011",	/* flush round */
	"2222222442000000012",	/* target: marks */
	"1111111111000000011",	/* target: fills */
	"4444444884000000284",	/* target: takes its place */
	"4888888888000000488",	/* target: withdraws */
	"1111111111000000011",	/* resync works */
	"1111121222000000112",	/* rebuild works */
	"2222222442000000122",	/* scrub works */
	"2222222444000000124",	/* mending */
	"1221221222000000022",	/* grows */
	"0110110111000000011",	/* rows are suspect */
	"0000010111000000001",	/* something is lost */
	"4484484888000000488",	/* short of memory */
