"""The pure layer as a shared library: C structs, prototypes, and what both property tests share.

The library is taken from IRAID_BUILD_DIR (default: build/ in the repository); nothing is built.
"""

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from iraid_dev.places import ROOT

KIB, MIB = 1024, 1024 * 1024
BLOCK = 512
CHUNK_SIZES = [4 * KIB << shift for shift in range(9)]
MEMBERS = {0: range(2, 33), 1: range(2, 5), 5: range(3, 33), 6: range(4, 33), 10: range(3, 33)}
ALL_SHAPES = [(level, members) for level, counts in MEMBERS.items() for members in counts]

settings.register_profile(
    "pure",
    deadline=None,
    max_examples=int(os.environ.get("IRAID_EXAMPLES", "200")),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("pure")


class Geometry(ctypes.Structure):
    _fields_ = [
        ("level", ctypes.c_uint8),
        ("members", ctypes.c_uint8),
        ("width", ctypes.c_uint8),
        ("data_chunks", ctypes.c_uint8),
        ("redundancy", ctypes.c_uint8),
        ("chunk_bytes", ctypes.c_uint32),
        ("block_bytes", ctypes.c_uint32),
        ("rows", ctypes.c_uint64),
    ]


class Extent(ctypes.Structure):
    _fields_ = [
        ("row", ctypes.c_uint64),
        ("member_offset_bytes", ctypes.c_uint64),
        ("column_bytes", ctypes.c_uint32),
        ("length_bytes", ctypes.c_uint32),
        ("chunk", ctypes.c_uint8),
        ("role", ctypes.c_uint8),
    ]


class Area(ctypes.Structure):
    _fields_ = [("type", ctypes.c_uint32), ("offset_bytes", ctypes.c_uint64), ("length_bytes", ctypes.c_uint64)]


class TrackedMember(ctypes.Structure):
    _fields_ = [
        ("member_uuid", ctypes.c_uint8 * 16),
        ("role", ctypes.c_uint8),
        ("state", ctypes.c_uint8),
        ("epoch", ctypes.c_uint64),
        ("write_count", ctypes.c_uint64),
    ]


class Superblock(ctypes.Structure):
    _fields_ = [
        ("features_compat", ctypes.c_uint64),
        ("features_ro_compat", ctypes.c_uint64),
        ("features_incompat", ctypes.c_uint64),
        ("write_count", ctypes.c_uint64),
        ("volume_uuid", ctypes.c_uint8 * 16),
        ("member_uuid", ctypes.c_uint8 * 16),
        ("name", ctypes.c_char * 64),
        ("level", ctypes.c_uint8),
        ("member_count", ctypes.c_uint8),
        ("role", ctypes.c_uint8),
        ("clean", ctypes.c_bool),
        ("chunk_bytes", ctypes.c_uint32),
        ("block_bytes", ctypes.c_uint32),
        ("region_rows", ctypes.c_uint32),
        ("member_bytes", ctypes.c_uint64),
        ("data_bytes", ctypes.c_uint64),
        ("epoch", ctypes.c_uint64),
        ("event", ctypes.c_uint64),
        ("created_s", ctypes.c_uint64),
        ("updated_s", ctypes.c_uint64),
        ("resync_row", ctypes.c_uint64),
        ("rebuild_row", ctypes.c_uint64),
        ("scrub_row", ctypes.c_uint64),
        ("scrub_mode", ctypes.c_uint8),
        ("scrub_running", ctypes.c_bool),
        ("scrub_mismatches", ctypes.c_uint64),
        ("owner", ctypes.c_char * 64),
        ("member_uuids", (ctypes.c_uint8 * 16) * 32),
        ("member_states", ctypes.c_uint8 * 32),
        ("areas", Area * 5),
        ("tracked", TrackedMember * 4),
        ("write_counts", ctypes.c_uint64 * 32),
        ("recorded_roles", ctypes.c_uint32),
        ("lost_empty", ctypes.c_uint32),
        ("flushes_fail", ctypes.c_bool),
        ("log_key", ctypes.c_uint64),
        ("log_roles", ctypes.c_uint32),
        ("log_proven", ctypes.c_bool),
        ("undecided_roles", ctypes.c_uint32),
        ("other_holder", ctypes.c_uint8 * 16),
    ]


class SpareMark(ctypes.Structure):
    _fields_ = [
        ("member_uuid", ctypes.c_uint8 * 16),
        ("volume_uuid", ctypes.c_uint8 * 16),
        ("member_bytes", ctypes.c_uint64),
        ("block_bytes", ctypes.c_uint32),
        ("created_s", ctypes.c_uint64),
    ]


class LogPiece(ctypes.Structure):
    _fields_ = [
        ("row", ctypes.c_uint64),
        ("column_bytes", ctypes.c_uint32),
        ("length_bytes", ctypes.c_uint32),
        ("role", ctypes.c_uint8),
        ("kind", ctypes.c_uint8),
    ]


class LogHeader(ctypes.Structure):
    _fields_ = [
        ("volume_uuid", ctypes.c_uint8 * 16),
        ("key", ctypes.c_uint64),
        ("sequence", ctypes.c_uint64),
        ("tail", ctypes.c_uint64),
        ("durable", ctypes.c_uint64),
        ("predecessor", ctypes.c_uint32),
        ("copies", ctypes.c_uint32),
        ("piece_count", ctypes.c_uint16),
        ("payload_blocks", ctypes.c_uint16),
        ("epoch", ctypes.c_uint64),
        ("run_first", ctypes.c_uint64),
    ]


class LogCopy(ctypes.Structure):
    _fields_ = [
        ("header", LogHeader),
        ("digest", ctypes.c_uint32),
        ("offset_bytes", ctypes.c_uint64),
        ("role", ctypes.c_uint8),
        ("whole", ctypes.c_bool),
    ]


class LogReplay(ctypes.Structure):
    _fields_ = [
        ("first", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("missing_from", ctypes.c_uint64),
        ("missing_to", ctypes.c_uint64),
    ]


OK, ABSENT, CORRUPT, UNSUPPORTED = range(4)
LOG_RECORD, LOG_NOTHING, LOG_BROKEN, LOG_UNSUPPORTED = range(4)
LOG_PIECES_MAX, LOG_PAYLOAD_BLOCKS_MAX = 64, 255


class Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class IovRun(ctypes.Structure):
    _fields_ = [("iov", ctypes.POINTER(Iovec)), ("count", ctypes.c_int), ("skip_bytes", ctypes.c_size_t)]


def load_library() -> ctypes.CDLL:
    build = Path(os.environ.get("IRAID_BUILD_DIR", ROOT / "build"))
    path = build / "handler" / "libiraid_pure_shared.so"
    if not path.exists():
        pytest.fail(
            f"{path} is not built: run `cmake --build {build} --target iraid_pure_shared` or set IRAID_BUILD_DIR",
            pytrace=False,
        )
    library = ctypes.CDLL(str(path))
    u8, u32, u64, size, p = (ctypes.c_uint8, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p)
    i32 = ctypes.c_int
    for name, result, arguments in [
        ("geometry_init", i32, [p, i32, i32, u32, u32, u64]),
        ("geometry_row_bytes", u64, [p]),
        ("geometry_volume_bytes", u64, [p]),
        ("geometry_locate", i32, [p, u64, u64, p]),
        ("geometry_role", u8, [p, u64, u8]),
        ("geometry_position", i32, [p, u64, u8]),
        ("geometry_offset", u64, [p, u64, u8]),
        ("geometry_bears", ctypes.c_bool, [p, u32]),
        ("code_make", None, [p, u32, u32, p, size]),
        ("parity_xor", None, [p, p, i32, size]),
        ("parity_xor_runs", None, [IovRun, p, i32, size]),
        ("iov_slice", i32, [p, i32, size, size, p, i32]),
        ("crc32c", u32, [u32, p, size]),
        ("superblock_fault", ctypes.c_char_p, [p]),
        ("superblock_encode", None, [p, p]),
        ("superblock_decode", i32, [p, p, p]),
        ("superblock_choose", i32, [p, p, p, p]),
        ("spare_encode", None, [p, p]),
        ("spare_decode", i32, [p, p]),
        ("log_segment_bytes", u32, [u64]),
        ("log_payload_blocks", u32, [u64]),
        ("log_fault", ctypes.c_char_p, [p, p, p]),
        ("log_encode", u32, [p, p, p, p, i32, p]),
        ("log_decode", i32, [p, p, u64, p, p, p, p]),
        ("log_payload_is_whole", ctypes.c_bool, [p, p]),
        ("log_replay_drop_stale", size, [p, size]),
        ("log_replay_decide", None, [p, size, ctypes.c_bool, p]),
        ("layout_region_rows", u32, [u64, u32]),
        ("layout_compute", i32, [u64, u32, p, p, p]),
        ("layout_grow", None, [p, u64, u32, u64, p, p]),
        ("layout_end_bytes", u64, [p]),
        ("map_block_encode", None, [p, u32, u32, u64, p, p]),
        ("map_block_decode", i32, [p, u32, u32, p, p]),
    ]:
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


@functools.cache
def lib() -> ctypes.CDLL:
    return load_library()


def ref(value):
    return ctypes.byref(value)
