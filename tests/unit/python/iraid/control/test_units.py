"""Sizes as people write and read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iraid.control.units import format_duration, format_size, local_time, parse_size, percent_done


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("65536", 65536),
        ("512B", 512),
        ("64K", 65536),
        ("64k", 65536),
        ("64KiB", 65536),
        (" 1 MiB ", 1 << 20),
        ("3T", 3 << 40),
        ("2e", 2 << 60),
    ],
)
def test_sizes_are_read_in_binary_units(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "K", "-1", "1.5M", "64X", "64 K B", "0x10", "64KiBs"])
def test_what_is_no_size_is_refused_and_named(text):
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


def test_decimal_units_are_refused_as_ambiguous():
    with pytest.raises(ValueError, match="write KiB"):
        parse_size("64KB")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (65536, "64 KiB"),
        (1536, "1.5 KiB"),
        ((1 << 30) - 1, "1 GiB"),
        (300 << 30, "300 GiB"),
        (3 << 60, "3 EiB"),
    ],
)
def test_sizes_are_shown_in_the_largest_unit_that_fits(size, text):
    assert format_size(size) == text


@given(st.integers(0, 1 << 62))
def test_a_shown_size_is_within_five_percent_and_never_reads_1024(size):
    number, unit = format_size(size).split()
    assert float(number) < 1024
    power = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB").index(unit)
    assert abs(float(number) * 1024**power - size) <= 0.05 * size


@given(st.integers(0, 1 << 40), st.integers(1, 1 << 40))
def test_a_hundred_percent_means_done(done, total):
    assert (percent_done(done, total) == 100.0) == (done >= total)


def test_nothing_to_do_is_done():
    assert percent_done(0, 0) == 100.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min 0 s"),
        (3599, "59 min 59 s"),
        (3660, "1 h 1 min"),
        (86399, "23 h 59 min"),
        (90000, "1 d 1 h"),
    ],
)
def test_durations_are_shown_in_two_units(seconds, text):
    assert format_duration(seconds) == text


@pytest.mark.parametrize("time_ms", [2**63, -(2**63), 10**17])
def test_a_time_that_is_in_no_calendar_is_shown_all_the_same(time_ms):
    assert local_time(time_ms) == local_time(0)
