"""scripts/conformance: what iscsi-test-cu's words are worth, and that a failure can't look like a success.

The texts are recorded runs (iscsi-test-cu of libiscsi 1.19.0); long ones lie in recorded/.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from iraid_dev.conform import cli, cu_run, results, tools_run
from iraid_dev.conform.cu_output import FAILED, PASSED, SILENT, SKIPPED, listed, parse
from iraid_dev.conform.results import Lun, Result, Run, differences, only_complaining, table, worse

RECORDED = Path(__file__).parent / "recorded"

START = """\
    Send PRIN/READ_KEYS
    Send READCAPACITY10 (Expecting SUCCESS) LBA:0 pmi:0
    [OK] READCAPACITY10 returned SUCCESS NO SENSE(0x00) (null)(0x0000)
    Send MODESENSE6 (Expecting SUCCESS)\x20
    [OK] MODESENSE6 returned SUCCESS NO SENSE(0x00) (null)(0x0000)



     CUnit - A unit testing framework for C - Version 2.1-3
     http://cunit.sourceforge.net/


"""
CLOSE = """\


Run Summary:    Type  Total    Ran Passed Failed Inactive
              suites      1      1    n/a      0        0
               tests      1      1      {}      {}        0
             asserts      1      1      {}      {}      n/a

Elapsed time =    0.001 seconds
Tests completed with return value: 0
"""
GOOD_END, BAD_END = CLOSE.format(1, 0, 1, 0), CLOSE.format(0, 1, 0, 1)

SIMPLE = """\
Suite: TestUnitReady
  Test: Simple ...
    Test TESTUNITREADY
    Send TESTUNITREADY (Expecting SUCCESS)
    [OK] TESTUNITREADY returned SUCCESS NO SENSE(0x00) (null)(0x0000)
passed    Send PRIN/READ_KEYS
"""
NOT_IMPLEMENTED = """\
Suite: CompareAndWrite
  Test: Unwritten ...
    Test COMPARE_AND_WRITE of 1-256 blocks at the start of the LUN, 1 block at a time
    Send COMPAREANDWRITE (Expecting CHECK_CONDITION) LBA:1 LEN:1024 WRPROTECT:0
    [SKIPPED] COMPAREANDWRITE is not implemented.
passed    Send PRIN/READ_KEYS
"""
SKIPPED_ON_THE_LINE = """\
Suite: Unmap
  Test: ZeroBlocks ...    [SKIPPED] Logical unit is fully provisioned. Skipping test
passed    Send PRIN/READ_KEYS
"""
PART_SKIPPED = """\
Suite: WriteSame10
  Test: ZeroBlocks ...
    Test WRITESAME10 of 0 blocks
    Send WRITESAME10 (Expecting SUCCESS) LBA:0 blocks:0 wrprotect:0 anchor:0 unmap:0 group:0
    [OK] WRITESAME10 returned SUCCESS NO SENSE(0x00) (null)(0x0000)
    [SKIPPING] No MAXIMUM WRITE SAME LENGTH - skipping MAXIMUM WRITE SAME LENGTH asserts.
passed    Send PRIN/READ_KEYS
"""
SILENT_TEST = """\
Suite: iSCSITMF
  Test: LUNResetSimpleAsync ...passed    Send PRIN/READ_KEYS
"""
FAILING = """\
Suite: GetLBAStatus
  Test: BeyondEol ...
    Test GET_LBA_STATUS one block past the LUN
    Send GET_LBA_STATUS (Expecting CHECK_CONDITION) LBA:262144 alloc_len:24
    [FAILED] GET_LBA_STATUS successful but should have failed with ILLEGAL_REQUEST(0x05)/LBA_OUT_OF_RANGE(0x2100)
FAILED
    1. test_get_lba_status_beyond_eol.c:38  - CU_ASSERT_EQUAL(_r,0)    Send PRIN/READ_KEYS
"""
COMPLAINING = """\
Suite: Reserve6
  Test: LUNReset ...
    Test that RESERVE6 is released on LUN Reset
    [FAILED] PRIN command: failed with sense. SENSE KEY:UNIT_ATTENTION(6) ASCQ:BUS_RESET(0x2900)
passed    Send PRIN/READ_KEYS
"""
CUT_SHORT = """\
Suite: iSCSIcmdsn
  Test: iSCSICmdSnTooHigh ...
    Test sending invalid iSCSI CMDSN
    Send TESTUNITREADY (Expecting TIMEOUT)
"""
CLEANED_UP_IN_VAIN = """\
Suite: TestUnitReady
  Test: Simple ...
    Send TESTUNITREADY (Expecting SUCCESS)
passed    Send PRIN/READ_KEYS
    [SKIPPED] PERSISTENT RESERVE IN is not implemented.
    [FAILED] PRIN command: failed
"""


def judge(name: str, body: str, status: int | None = 0, errors: str = "") -> Result:
    return cu_run.judge(name, parse(START + body), status, 60, errors)


# --- one test ---


@pytest.mark.parametrize(
    ("name", "body", "verdict", "reason"),
    [
        ("SCSI.TestUnitReady.Simple", SIMPLE, PASSED, None),
        ("SCSI.CompareAndWrite.Unwritten", NOT_IMPLEMENTED, SKIPPED, "COMPAREANDWRITE is not implemented."),
        ("SCSI.Unmap.ZeroBlocks", SKIPPED_ON_THE_LINE, SKIPPED, "Logical unit is fully provisioned. Skipping test"),
        (
            "SCSI.WriteSame10.ZeroBlocks",
            PART_SKIPPED,
            SKIPPED,
            "No MAXIMUM WRITE SAME LENGTH - skipping MAXIMUM WRITE SAME LENGTH asserts.",
        ),
        ("iSCSI.iSCSITMF.LUNResetSimpleAsync", SILENT_TEST, SKIPPED, SILENT),
    ],
    ids=["passed", "not implemented", "skipped on the test's line", "a part skipped", "without a word"],
)
def test_what_the_tool_counts_as_passed_may_be_skipped_or_silent(name, body, verdict, reason):
    result = judge(name, body + GOOD_END)
    assert (result.verdict, result.reasons) == (verdict, [reason] if reason else [])


def test_a_failed_test_tells_what_it_logged_and_where():
    result = judge("SCSI.GetLBAStatus.BeyondEol", FAILING + BAD_END, status=1)
    assert result.verdict == FAILED
    assert result.reasons == [
        "GET_LBA_STATUS successful but should have failed with ILLEGAL_REQUEST(0x05)/LBA_OUT_OF_RANGE(0x2100)",
        "test_get_lba_status_beyond_eol.c:38 CU_ASSERT_EQUAL(_r,0)",
    ]


def test_a_complaint_of_a_test_that_passed_is_kept():
    result = judge("SCSI.Reserve6.LUNReset", COMPLAINING + GOOD_END)
    assert result.verdict == PASSED and len(result.complaints) == 1


def test_what_is_logged_after_the_verdict_is_not_the_tests():
    result = judge("SCSI.TestUnitReady.Simple", CLEANED_UP_IN_VAIN + GOOD_END)
    assert (result.verdict, result.complaints) == (PASSED, [])


@pytest.mark.parametrize(
    ("body", "status", "expected"),
    [
        (CUT_SHORT, None, "did not end within 60 s; last logged: Send TESTUNITREADY (Expecting TIMEOUT)"),
        (CUT_SHORT, -signal.SIGSEGV, "the tool was killed by SIGSEGV; last logged: Send TESTUNITREADY"),
        (CUT_SHORT, 0, "the tool ended in the middle of it; last logged: Send TESTUNITREADY"),
        ("", 255, "did not begin, the tool ended with status 255: Failed to connect to SCSI device 0"),
        ("", None, "did not end within 60 s; before the test began: Failed to connect"),
    ],
    ids=["hangs", "crashes", "ends in the middle", "no login", "hangs at login"],
)
def test_a_tool_that_does_not_finish_is_a_failure_of_the_test(body, status, expected):
    result = judge("iSCSI.iSCSIcmdsn.iSCSICmdSnTooHigh", body, status, "Failed to connect to SCSI device 0\n")
    assert result.verdict == FAILED
    assert "; ".join(result.reasons).startswith(expected)


@pytest.mark.parametrize(
    ("body", "status"),
    [(SIMPLE + GOOD_END, 1), (SIMPLE + BAD_END, 0), (SIMPLE, 0)],
    ids=["status", "summary", "no summary"],
)
def test_a_verdict_that_the_tools_end_contradicts_is_a_failure(body, status):
    assert judge("SCSI.TestUnitReady.Simple", body, status).verdict == FAILED


def test_the_crash_of_a_test_that_had_passed_is_a_failure():
    assert judge("SCSI.TestUnitReady.Simple", SIMPLE, -signal.SIGABRT).verdict == FAILED


# --- whole outputs, recorded in the lab on a level 5 volume and on LIO's fileio LUN ---


@pytest.mark.parametrize(
    ("name", "status", "verdict", "reasons"),
    [
        ("SCSI.CompareAndWrite.Unwritten", 0, SKIPPED, ["COMPAREANDWRITE is not implemented."]),
        ("SCSI.MultipathIO.CompareAndWrite", 0, SKIPPED, [SILENT]),
        (
            "SCSI.Inquiry.BlockLimits",
            1,
            FAILED,
            [
                "Invalid PageLength returned. Was 60 but expected 251",
                "test_inquiry_block_limits.c:72 CU_ASSERT_EQUAL(bl_task->datain.size,bl_task->datain.data[3] + 4)",
            ],
        ),
        (
            "iSCSI.iSCSIdatasn.iSCSIDataSnInvalid",
            1,
            FAILED,
            [
                "WRITE10 command failed with status 251658242 / sense key NO SENSE(0x00) / ASCQ (null)(0x0000)",
                "WRITE10 command failed with status 251658240 / sense key NO SENSE(0x00) / ASCQ (null)(0x0000)",
                "test_iscsi_datasn_invalid.c:133 CU_ASSERT_NOT_EQUAL(ret,0)",
            ],
        ),
        (
            "iSCSI.iSCSITMF.LUNResetSimpleAsync",
            1,
            FAILED,
            ["test_async_lu_reset_simple.c:157 CU_ASSERT_EQUAL(reconnect_succeeded,1)"],
        ),
    ],
)
def test_recorded_outputs_are_judged(name, status, verdict, reasons):
    result = cu_run.judge(name, parse((RECORDED / f"{name}.log").read_text()), status, 60)
    assert (result.verdict, result.reasons) == (verdict, reasons)


def test_a_test_with_many_failed_assertions_is_told_in_few_words():
    name = "iSCSI.iSCSIResiduals.Read10Residuals"
    output = parse((RECORDED / f"{name}.log").read_text())
    assert len(output.tests) == 1 and len(output.tests[0].assertions) == 15 and output.counted == (0, 1)
    result = cu_run.judge(name, output, 1, 60)
    assert result.verdict == FAILED and len(result.reasons) == 4


@pytest.mark.parametrize("length", [0, 1, 3, 10])
@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.log")), ids=lambda path: path.stem)
def test_a_recorded_output_that_is_cut_never_passes(path, length):
    """At any line: the tool was killed there.  (With its end it is not cut.)"""
    lines = path.read_text().splitlines(keepends=True)
    for end in range(length, len(lines) - 8, 7):
        assert cu_run.judge(path.stem, parse("".join(lines[:end])), -signal.SIGKILL, 60).verdict == FAILED
        assert cu_run.judge(path.stem, parse("".join(lines[:end])), 0, 60).verdict == FAILED


# --- choosing and running ---

NAMES = ["SCSI.Read10.Simple", "SCSI.Read10.Async", "SCSI.Read12.Simple", "iSCSI.iSCSITMF.Abort"]


def test_families_all_and_linux_are_not_run_again():
    text = "\n".join(
        [
            "ALL",
            "ALL.Read10",
            "ALL.Read10.Simple",
            "ALL.New.Only",
            "SCSI.Read10.Simple",
            "iSCSI.iSCSITMF.Abort",
            "LINUX.Read10.Simple",
        ]
    )
    assert listed(text) == ["SCSI.Read10.Simple", "iSCSI.iSCSITMF.Abort", "ALL.New.Only"]


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        ([], 4),
        (["SCSI"], 3),
        (["Read10"], 2),
        (["Read1*"], 3),
        (["iSCSI", "SCSI.Read12.Simple"], 2),
        (["Read10.Async"], 1),
    ],
)
def test_a_selection_takes_families_suites_and_patterns(wanted, count):
    assert len(cu_run.select(NAMES, wanted)) == count


def test_an_unknown_family_is_refused_by_name():
    with pytest.raises(cu_run.ToolError, match="--families Reed10: .*SCSI, iSCSI"):
        cu_run.select(NAMES, ["Read10", "Reed10"])


def fake_tool(monkeypatch, script: str) -> None:
    monkeypatch.setattr(cu_run, "words_of", lambda name, address: [sys.executable, "-c", script])


def suite(tmp_path, said: list[str], limit: float) -> cu_run.Suite:
    return cu_run.Suite(
        ["SCSI.TestUnitReady.Simple"] * 1 + [f"SCSI.Other.T{n}" for n in range(9)],
        limit,
        tmp_path,
        tmp_path / "logs",
        said.append,
    )


def test_the_run_goes_on_after_a_test_that_killed_the_tool(monkeypatch, tmp_path):
    fake_tool(monkeypatch, "import os; os.kill(os.getpid(), 9)")
    said, results, kept = [], {}, []
    suite(tmp_path, said, 60).run("level 5", None, results, lambda: kept.append(len(results)))
    assert [result.verdict for result in results.values()] == [FAILED] * 10
    assert kept == [1, 10]
    assert "level 5: SCSI.Other.T0 failed: the tool was killed by SIGKILL; before the test began" in said


def test_a_lun_that_does_not_answer_is_given_up_and_its_tests_fail(monkeypatch, tmp_path):
    fake_tool(monkeypatch, "import time; time.sleep(60)")
    results = {}
    suite(tmp_path, [], 0.1).run("level 5", None, results, lambda: None)
    assert [result.verdict for result in results.values()] == [FAILED] * 10
    assert [result.reasons[0].startswith("not run") for result in results.values()] == [
        False
    ] * cu_run.HANGS_IN_A_ROW_MAX + [True] * (10 - cu_run.HANGS_IN_A_ROW_MAX)


def test_the_log_of_what_did_not_pass_is_kept(monkeypatch, tmp_path):
    fake_tool(monkeypatch, f"print({START + NOT_IMPLEMENTED + GOOD_END!r})")
    results = {}
    cu_run.Suite(["SCSI.CompareAndWrite.Unwritten"], 60, tmp_path, tmp_path / "logs", lambda _: None).run(
        "level 5", None, results, lambda: None
    )
    assert results["SCSI.CompareAndWrite.Unwritten"].verdict == SKIPPED
    assert "[SKIPPED]" in (tmp_path / "logs/level-5/SCSI.CompareAndWrite.Unwritten.log").read_text()


# --- comparing ---


def lun(name: str, **verdicts: str) -> Lun:
    return Lun(
        name, results={f"SCSI.Suite.{test}": Result(verdict, [f"why {test}"]) for test, verdict in verdicts.items()}
    )


def run(*luns: Lun, ended: bool = True) -> Run:
    return Run("2026-01-01", "abc", "kernel", "tool", list(luns), ended)


REFERENCE = lun("reference", a=PASSED, b=FAILED, c=SKIPPED, d=PASSED)


@pytest.mark.parametrize(
    ("ours", "failures", "good"),
    [
        (lun("ours", a=PASSED, b=FAILED, c=SKIPPED, d=SKIPPED), [], True),
        (lun("ours", a=FAILED, b=PASSED, c=PASSED, d=PASSED), ["SCSI.Suite.a"], False),
        (lun("ours", c=FAILED), ["SCSI.Suite.c"], False),
        (lun("ours", unknown=FAILED), ["SCSI.Suite.unknown"], False),
    ],
    ids=["fails what the reference fails", "fails more", "fails what the reference skips", "fails what it has not"],
)
def test_a_failure_that_the_reference_has_not_is_ours(ours, failures, good):
    assert worse(REFERENCE, ours, FAILED) == failures
    assert run(REFERENCE, ours).good == good


def test_a_failure_that_is_known_is_told_with_its_reason_and_fails_no_run(monkeypatch):
    monkeypatch.setitem(results.KNOWN, "SCSI.Suite.a", "the tool is wrong there")
    made = run(REFERENCE, lun("ours", a=FAILED))
    assert made.good
    assert "  SCSI.Suite.a (reference: passed): known, the tool is wrong there" in differences(made)
    assert not run(REFERENCE, lun("ours", a=FAILED, d=FAILED)).good


@pytest.mark.parametrize(
    "made", [run(REFERENCE), run(REFERENCE, lun("ours", a=PASSED), ended=False)], ids=["nothing of ours", "not ended"]
)
def test_a_run_that_did_not_test_all_is_not_good(made):
    assert not made.good


def test_a_volume_that_the_tests_damaged_is_not_good():
    ours = lun("ours", a=PASSED)
    ours.faults.append("a scrub found 3 rows")
    assert not run(REFERENCE, ours).good
    assert "a scrub found 3 rows" in differences(run(REFERENCE, ours))


def test_differences_name_the_test_the_reason_and_the_references_verdict():
    text = differences(run(REFERENCE, lun("ours", a=FAILED, b=PASSED, d=SKIPPED)))
    assert "ours: fails, and the reference does not: 1\n  SCSI.Suite.a (reference: passed): why a" in text
    assert "ours: skipped, and not on the reference: 1\n  SCSI.Suite.d (reference: passed): why d" in text
    assert "reference: fails itself: 1\n  SCSI.Suite.b (ours passed): why b" in text


def test_complaints_are_compared_with_those_of_the_reference():
    ours, reference = lun("ours", a=PASSED, d=PASSED), lun("reference", a=PASSED, d=PASSED)
    ours.results["SCSI.Suite.a"].complaints = ["x"]
    ours.results["SCSI.Suite.d"].complaints = ["x"]
    reference.results["SCSI.Suite.d"].complaints = ["y"]
    assert only_complaining(reference, ours) == ["SCSI.Suite.a"]


def test_the_table_counts_by_suite_family_and_all(tmp_path):
    made = run(REFERENCE, lun("ours", a=PASSED, b=PASSED, c=FAILED, d=SKIPPED))
    made.write(tmp_path / "results.json")
    lines = table(Run.read(tmp_path / "results.json")).splitlines()
    counts = {line[:30].strip(): line[30:].replace("|", "").split() for line in lines[2:]}
    assert counts == {name: ["2", "1", "1", "2", "1", "1"] for name in ("SCSI.Suite", "family SCSI", "all")}


# --- stock tools ---

JUNIT = """<testsuites><testsuite>
<testcase name="test_fstrim_works[reference-ext4]" time="1.5"/>
<testcase name="test_fstrim_works[level 5-ext4]"><skipped message="level 5 has no UNMAP"/></testcase>
<testcase name="test_partitions[reference]"/>
<testcase name="test_partitions[level 5]"/>
<testcase name="test_partitions[level 5]"><error message="tear-down: x"/></testcase>
</testsuite></testsuites>"""


def test_checks_are_sorted_by_lun_and_a_failed_tear_down_counts(tmp_path):
    (tmp_path / "junit.xml").write_text(JUNIT)
    made = run(Lun("reference"), Lun("level 5"))
    tools_run.read_junit(tmp_path / "junit.xml", made)
    verdicts = {lun.name: {name: result.verdict for name, result in lun.results.items()} for lun in made.luns}
    assert verdicts == {
        "reference": {"fstrim works (ext4)": PASSED, "partitions": PASSED},
        "level 5": {"fstrim works (ext4)": SKIPPED, "partitions": FAILED},
    }
    assert (
        "level 5: fails, and the reference does not: 1\n  partitions (reference: passed): tear-down: x"
        in differences(made)
    )


# --- command line ---


@pytest.mark.parametrize(
    "words", [["--levels", "0,x"], ["--limit", "0"], ["--size", "8"], ["--json", "/nowhere/at/all.json"]]
)
def test_arguments_that_mean_nothing_are_refused(words, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.parse(words)
    assert ended.value.code == 2 and words[0] in capsys.readouterr().err
