"""The on-disk codec against a second one, made from docs/design/format.md alone."""

from __future__ import annotations

import ctypes
import errno
import random
import struct

from hypothesis import example, given, settings
from hypothesis import strategies as st
from pure_library import (
    ABSENT,
    ALL_SHAPES,
    CHUNK_SIZES,
    CORRUPT,
    KIB,
    MEMBERS,
    MIB,
    OK,
    UNSUPPORTED,
    Area,
    SpareMark,
    Superblock,
    lib,
    ref,
)

from iraid_dev.stack.checksum import crc32c

# name: (offset, struct format)
FIELDS = {
    "magic": (0, "8s"),
    "crc": (8, "I"),
    "version": (12, "I"),
    "features_compat": (16, "Q"),
    "features_ro_compat": (24, "Q"),
    "features_incompat": (32, "Q"),
    "write_count": (40, "Q"),
    "volume_uuid": (48, "16s"),
    "member_uuid": (64, "16s"),
    "name": (80, "64s"),
    "level": (144, "B"),
    "member_count": (145, "B"),
    "role": (146, "B"),
    "flags": (147, "B"),
    "chunk_bytes": (148, "I"),
    "block_bytes": (152, "I"),
    "region_rows": (156, "I"),
    "member_bytes": (160, "Q"),
    "data_bytes": (168, "Q"),
    "epoch": (176, "Q"),
    "event": (184, "Q"),
    "created_s": (192, "Q"),
    "updated_s": (200, "Q"),
    "resync_row": (208, "Q"),
    "rebuild_row": (216, "Q"),
    "scrub_row": (224, "Q"),
    "scrub_mode": (232, "B"),
    "scrub_running": (233, "B"),
    "scrub_mismatches": (240, "Q"),
    "owner": (256, "64s"),
    "area_count": (320, "I"),
    **{
        f"area{i}_{what}": (384 + 24 * i + at, form)
        for i in range(5)
        for what, at, form in (("type", 0, "I"), ("offset", 8, "Q"), ("length", 16, "Q"))
    },
    **{f"uuid{i}": (768 + 16 * i, "16s") for i in range(32)},
    **{f"state{i}": (1280 + i, "B") for i in range(32)},
    **{
        f"tracked{i}_{what}": (1312 + 24 * i + at, form)
        for i in range(4)
        for what, at, form in (
            ("uuid", 0, "16s"),
            ("role", 16, "B"),
            ("state", 17, "B"),
            ("epoch_low", 18, "I"),
            ("epoch_high", 22, "H"),
        )
    },
    **{f"write_count{i}": (1408 + 8 * i, "Q") for i in range(32)},
    **{f"tracked{i}_write_count": (1664 + 8 * i, "Q") for i in range(4)},
    "recorded_roles": (1696, "I"),
    "lost_empty": (1700, "I"),
    "flushes_fail": (1704, "B"),
    "log_key": (1712, "Q"),
    "log_roles": (1720, "I"),
    "log_proven": (1724, "B"),
    "undecided_roles": (1728, "I"),
    "other_holder": (1736, "16s"),
}
SPARE_FIELDS = {
    "magic": (0, "8s"),
    "crc": (8, "I"),
    "version": (12, "I"),
    "member_uuid": (16, "16s"),
    "volume_uuid": (32, "16s"),
    "member_bytes": (48, "Q"),
    "block_bytes": (56, "I"),
    "created_s": (64, "Q"),
}
REBUILDING, OUT_OF_DATE, FAULTY = 4, 5, 2


def model_encode(values: dict, fields: dict = FIELDS) -> bytes:
    block = bytearray(4096)
    for name, value in values.items():
        offset, form = fields[name]
        struct.pack_into("<" + form, block, offset, value)
    struct.pack_into("<I", block, 8, 0)
    struct.pack_into("<I", block, 8, crc32c(block))
    return bytes(block)


def model_decode(block: bytes, fields: dict = FIELDS) -> dict:
    return {name: struct.unpack_from("<" + form, block, offset)[0] for name, (offset, form) in fields.items()}


def tracked_of(v: dict) -> list[tuple[bytes, int, int]]:
    """(UUID, role, state) of the sets that are in use."""
    return [
        (v.get(f"tracked{i}_uuid", bytes(16)), v.get(f"tracked{i}_role", 0), state)
        for i in range(4)
        if (state := v.get(f"tracked{i}_state", 0))
    ]


def is_text(raw: bytes) -> bool:
    text, nul, _ = raw.partition(b"\0")
    return bool(nul) and all(0x20 <= byte <= 0x7E for byte in text)


def model_rows(level: int, members: int, member_chunks: int) -> int:
    """Those of level 10 have two chunks, on two members only."""
    return member_chunks * members // 2 if level == 10 else member_chunks


def model_verdict(v: dict) -> int:
    """Of a block whose magic and CRC are right."""
    if v["version"] > 1:
        return UNSUPPORTED
    if v["version"] == 1 and (v["features_incompat"] & ~1 or v["features_ro_compat"]):
        return UNSUPPORTED
    n, chunk, data, member = v["member_count"], v["chunk_bytes"], v["data_bytes"], v["member_bytes"]
    areas = v["area_count"]
    rules = [
        lambda: v["version"] == 1,
        lambda: n in MEMBERS.get(v["level"], ()),
        lambda: v["role"] < n and v["flags"] in (0, 1),
        lambda: chunk in CHUNK_SIZES and v["block_bytes"] in (512, 4096),
        lambda: chunk <= data < 2**58 and data % chunk == 0,
        lambda: v["region_rows"] in [2**i for i in range(32)],
        lambda: -(-model_rows(v["level"], n, data // chunk) // v["region_rows"]) <= 262144,
        lambda: 16 * MIB <= member < 2**63,
        lambda: all(
            v[f"{what}_row"] <= model_rows(v["level"], n, data // chunk) for what in ("resync", "rebuild", "scrub")
        ),
        lambda: v["scrub_mode"] <= 2 and v["scrub_running"] <= 1 and v["flushes_fail"] <= 1,
        lambda: (v["features_incompat"] & 1) == (v["log_key"] != 0),
        lambda: v["log_proven"] <= 1 and (v["log_key"] != 0 or v["log_roles"] == v["log_proven"] == 0),
        lambda: v["log_key"] == 0 or (v["level"] in (5, 6) and not v["flags"] & 1),
        lambda: is_text(v["name"]) and v["name"][0] != 0 and is_text(v["owner"]),
        lambda: all(v[f"state{i}"] in (1, 2, 3) for i in range(n)),
        lambda: len({v[f"uuid{i}"] for i in range(n)}) == n,
        lambda: (
            v[f"uuid{v['role']}"] == v["member_uuid"]
            or any(uuid == v["member_uuid"] and role == v["role"] for uuid, role, _ in tracked_of(v))
        ),
        lambda: all(role < n and state in (REBUILDING, OUT_OF_DATE, FAULTY) for _, role, state in tracked_of(v)),
        lambda: len({uuid for uuid, _, _ in tracked_of(v)}) == len(tracked_of(v)),
        lambda: (
            not any(uuid == v[f"uuid{other}"] for uuid, role, _ in tracked_of(v) for other in range(n) if other != role)
        ),
        lambda: areas in (4, 5),
        lambda: all(v[f"area{i}_type"] == i + 1 for i in range(areas)),
        lambda: all(
            v[f"area{i}_offset"] % MIB == 0
            and v[f"area{i}_length"] > 0
            and v[f"area{i}_offset"] + v[f"area{i}_length"] <= member
            for i in range(areas)
        ),
        lambda: all(v[f"area{i}_offset"] + v[f"area{i}_length"] <= v[f"area{i + 1}_offset"] for i in range(areas - 1)),
        lambda: v["area0_offset"] == MIB and v["area0_length"] == MIB,
        lambda: v["area1_length"] % MIB == 0,
        lambda: sum(v[f"area{i}_length"] for i in (2, 4)[: areas - 3]) * 1024 >= data,
        lambda: v["area3_length"] >= data,
    ]
    return OK if all(rule() for rule in rules) else CORRUPT


def model_areas(member: int, chunk: int) -> tuple[list[tuple[int, int]], int, int]:
    """[(offset, length)], data bytes, rows per region."""
    log = min(max(member // 256 // MIB, 1), 256) * MIB
    rest = min(member, 2**55) - 2 * MIB - log
    checksums = -(-rest // (1025 * MIB)) * MIB
    rows = (rest - checksums) // chunk
    region_rows = 64
    while region_rows * 131072 < rows:
        region_rows *= 2
    return (
        [(MIB, MIB), (2 * MIB, log), (2 * MIB + log, checksums), (2 * MIB + log + checksums, rows * chunk)],
        rows * chunk,
        region_rows,
    )


def model_grow(areas: list[tuple[int, int]], member: int, chunk: int) -> tuple[list[tuple[int, int]], int]:
    """[(offset, length)], data bytes."""
    begin, covered = areas[3][0], areas[2][1] * 1024
    room = min(member, 2**55) - begin
    if room > covered:
        more = -(-(room - covered) // (1025 * MIB)) * MIB
        room = max(min(member, 2**55) // MIB * MIB - more - begin, covered)
    data = room // chunk * chunk
    grown = [*areas[:3], (begin, data)]
    if data > covered:
        grown.append((-(-(begin + data) // MIB) * MIB, -(-(data // 1024 - areas[2][1]) // MIB) * MIB))
    return grown, data


def text(draw, low: int) -> bytes:
    return bytes(draw(st.lists(st.integers(0x20, 0x7E), min_size=low, max_size=63)))


@st.composite
def superblocks(draw) -> dict:
    level, n = draw(st.sampled_from(ALL_SHAPES))
    chunk = draw(st.sampled_from(CHUNK_SIZES))
    member = draw(st.integers(16 * MIB, 2**30) | st.integers(16 * MIB, 2**48))
    areas, data, region_rows = model_areas(member, chunk)
    if draw(st.booleans()):
        member += draw(st.integers(0, 2**33))
        areas, data = model_grow(areas, member, chunk)
    rows = model_rows(level, n, data // chunk)
    while region_rows * 262144 < rows:
        region_rows *= 2
    u64, row = st.integers(0, 2**64 - 1), st.integers(0, rows) | st.just(rows)
    role = draw(st.integers(0, n - 1))
    seed = draw(st.integers(0, 2**30))
    values = {
        "magic": b"IRAID-SB",
        "version": 1,
        "features_compat": draw(st.just(0) | u64),
        "write_count": draw(u64),
        "volume_uuid": random.Random(seed).randbytes(16),
        "name": text(draw, 1),
        "level": level,
        "member_count": n,
        "role": role,
        "flags": draw(st.integers(0, 1)),
        "chunk_bytes": chunk,
        "block_bytes": draw(st.sampled_from([512, 4096])),
        "region_rows": region_rows,
        "member_bytes": member,
        "data_bytes": data,
        "epoch": draw(u64),
        "event": draw(u64),
        "created_s": draw(u64),
        "updated_s": draw(u64),
        "resync_row": draw(row),
        "rebuild_row": draw(row),
        "scrub_row": draw(row),
        "scrub_mode": draw(st.integers(0, 2)),
        "scrub_running": draw(st.integers(0, 1)),
        "flushes_fail": draw(st.integers(0, 1)),
        "undecided_roles": draw(st.integers(0, 2**32 - 1)),
        "other_holder": draw(st.binary(min_size=16, max_size=16)),
        "scrub_mismatches": draw(u64),
        "owner": text(draw, 0),
        "area_count": len(areas),
    }
    if values["level"] in (5, 6) and not values["flags"] and draw(st.booleans()):
        values |= {
            "features_incompat": 1,
            "log_key": draw(st.integers(1, 2**64 - 1)),
            "log_roles": draw(st.integers(0, 2**32 - 1)),
            "log_proven": draw(st.integers(0, 1)),
        }
    for i, (offset, length) in enumerate(areas):
        values |= {f"area{i}_type": i + 1, f"area{i}_offset": offset, f"area{i}_length": length}
    for i in range(n):
        values |= {
            f"uuid{i}": random.Random(seed + i + 1).randbytes(16),
            f"state{i}": draw(st.integers(1, 3)),
            f"write_count{i}": draw(st.integers(0, 2**64 - 1)),
        }
    values |= {"member_uuid": values[f"uuid{role}"]}
    uuids = [(values[f"uuid{i}"], i) for i in range(n)]
    uuids += [(random.Random(seed + 100 + i).randbytes(16), i % n) for i in range(4)]
    for number, (uuid, its_role) in enumerate(
        draw(st.lists(st.sampled_from(uuids), max_size=4, unique_by=lambda item: item[0]))
    ):
        values |= {
            f"tracked{number}_uuid": uuid,
            f"tracked{number}_role": its_role,
            f"tracked{number}_state": draw(st.sampled_from([REBUILDING, OUT_OF_DATE, FAULTY])),
            f"tracked{number}_epoch_low": draw(st.integers(0, 2**32 - 1)),
            f"tracked{number}_epoch_high": draw(st.integers(0, 2**16 - 1)),
            f"tracked{number}_write_count": draw(st.integers(0, 2**64 - 1)),
        }
        if draw(st.booleans()):  # the superblock of one that is being filled
            values |= {"member_uuid": uuid, "role": its_role}
    return values


SCALARS = [
    "features_compat",
    "features_ro_compat",
    "features_incompat",
    "write_count",
    "level",
    "member_count",
    "role",
    "chunk_bytes",
    "block_bytes",
    "region_rows",
    "member_bytes",
    "data_bytes",
    "epoch",
    "event",
    "created_s",
    "updated_s",
    "resync_row",
    "rebuild_row",
    "scrub_row",
    "scrub_mode",
    "scrub_running",
    "scrub_mismatches",
    "recorded_roles",
    "lost_empty",
    "flushes_fail",
    "log_key",
    "log_roles",
    "log_proven",
    "undecided_roles",
]


def to_struct(values: dict) -> Superblock:
    superblock = Superblock()
    for name in SCALARS:
        setattr(superblock, name, values.get(name, 0))
    superblock.name, superblock.owner = values["name"], values["owner"]
    superblock.clean = bool(values["flags"] & 1)
    superblock.volume_uuid[:] = values["volume_uuid"]
    superblock.other_holder[:] = values["other_holder"]
    superblock.member_uuid[:] = values["member_uuid"]
    for i in range(values["member_count"]):
        superblock.member_uuids[i][:] = values[f"uuid{i}"]
        superblock.member_states[i] = values[f"state{i}"]
        superblock.write_counts[i] = values.get(f"write_count{i}", 0)
    for i in range(values["area_count"]):
        superblock.areas[i] = Area(*(values[f"area{i}_{what}"] for what in ("type", "offset", "length")))
    for i in range(4):
        if values.get(f"tracked{i}_state"):
            superblock.tracked[i].member_uuid[:] = values[f"tracked{i}_uuid"]
            superblock.tracked[i].role = values[f"tracked{i}_role"]
            superblock.tracked[i].state = values[f"tracked{i}_state"]
            superblock.tracked[i].epoch = (
                values.get(f"tracked{i}_epoch_low", 0) | values.get(f"tracked{i}_epoch_high", 0) << 32
            )
            superblock.tracked[i].write_count = values.get(f"tracked{i}_write_count", 0)
    return superblock


def tracked_fields(superblock: Superblock) -> list[tuple]:
    return [
        (bytes(entry.member_uuid), entry.role, entry.state, entry.epoch, entry.write_count)
        for entry in superblock.tracked
    ]


def decode(block: bytes) -> tuple[int, Superblock, str]:
    superblock, reason = Superblock(), ctypes.c_char_p()
    verdict = lib().superblock_decode(block.ljust(4096, b"\0"), ref(superblock), ref(reason))
    return verdict, superblock, (reason.value or b"").decode()


@given(st.binary(max_size=600), st.integers(0, 600))
def test_crc32c_is_the_published_one_and_can_be_continued(data, cut):
    first, second = data[:cut], data[cut:]
    assert lib().crc32c(0, data, len(data)) == crc32c(data)
    begun = lib().crc32c(0, first, len(first))
    assert lib().crc32c(begun, second, len(second)) == crc32c(data)


@given(superblocks())
def test_superblocks_of_both_codecs_are_the_same_bytes(values):
    block = model_encode(values)
    verdict, superblock, reason = decode(block)
    assert (verdict, reason) == (OK, "")
    assert bytes(superblock) == bytes(to_struct(values))
    out = ctypes.create_string_buffer(4096)
    lib().superblock_encode(ref(to_struct(values)), out)
    assert out.raw == block


def sample_block() -> bytes:
    areas, data, region_rows = model_areas(64 * MIB, 64 * KIB)
    values = {
        "magic": b"IRAID-SB",
        "version": 1,
        "write_count": 3,
        "volume_uuid": bytes(range(16)),
        "name": b"v0",
        "level": 5,
        "member_count": 4,
        "role": 1,
        "flags": 0,
        "chunk_bytes": 64 * KIB,
        "block_bytes": 512,
        "region_rows": region_rows,
        "member_bytes": 64 * MIB,
        "data_bytes": data,
        "epoch": 2,
        "event": 9,
        "owner": b"a gateway",
        "area_count": 4,
        "member_uuid": bytes([1]) * 16,
    }
    for i, (offset, length) in enumerate(areas):
        values |= {f"area{i}_type": i + 1, f"area{i}_offset": offset, f"area{i}_length": length}
    for i in range(4):
        values |= {f"uuid{i}": bytes([i]) * 16, f"state{i}": 1}
    return model_encode(values)


def test_every_flipped_bit_of_a_superblock_is_detected():
    block = bytearray(sample_block())
    assert decode(bytes(block))[0] == OK
    superblock = Superblock()
    view = (ctypes.c_uint8 * 4096).from_buffer(block)
    for bit in range(8 * 4096):
        block[bit // 8] ^= 1 << bit % 8
        verdict = lib().superblock_decode(view, ref(superblock), None)
        assert verdict == (ABSENT if bit < 64 else CORRUPT)  # the magic is 64 bits
        block[bit // 8] ^= 1 << bit % 8


def test_truncated_and_torn_superblocks_are_refused():
    new = sample_block()
    values = {n: v for n, v in model_decode(new).items() if n != "crc"}
    old = model_encode(values | {"write_count": 1, "epoch": 1, "owner": b"another"})
    for length in range(0, 4096, 7):
        lost = any(new[length:])  # behind the last field are zeros anyway
        assert decode(new[:length])[0] == (ABSENT if length < 8 else CORRUPT if lost else OK)
    for length in range(0, 4096, 512):  # a torn write ends at a sector
        torn = new[:length] + old[length:]
        assert decode(torn)[0] == (OK if torn in (new, old) else CORRUPT)


@settings(max_examples=400)
@given(superblocks(), st.data())
def test_sealed_but_wrong_fields_get_the_verdict_of_the_reference(values, data):
    """One to three fields replaced, the CRC made right."""
    count = values["member_count"]
    names = [
        name
        for name in FIELDS
        if name not in ("magic", "crc")
        and not (name.startswith("uuid") and int(name[4:]) > count)
        and not (name.startswith("state") and int(name[5:]) > count)
    ]
    areas = [name for name in names if name.startswith("area")]
    tracked = [name for name in names if name.startswith("tracked")]
    singles = [name for name in names if not name.startswith(("area", "uuid", "state", "tracked"))]
    name_of = st.sampled_from(singles) | st.sampled_from(areas) | st.sampled_from(tracked) | st.sampled_from(names)
    twice = data.draw(st.integers(0, 9)) == 0  # or two sets of one member instead
    for name in [] if twice else data.draw(st.lists(name_of, min_size=1, max_size=3)):
        form = FIELDS[name][1]
        if form.endswith("s"):
            size = int(form[:-1])
            values[name] = data.draw(
                st.binary(min_size=size, max_size=size)
                | st.just(b"x" * size)
                | st.just(bytes(size))
                | st.just(values["uuid0"][:size])
                | st.just(values.get("tracked0_uuid", values["uuid0"])[:size])
            )
        else:
            top = 2 ** (8 * struct.calcsize(form)) - 1
            now = values.get(name, 0)
            near = [now + d for d in (-MIB, -4096, -512, -1, 1, 512, 4096, MIB)]
            near += [now * 2, now // 2]
            values[name] = data.draw(
                st.sampled_from([x for x in near if 0 <= x <= top] + [0, top])
                | st.integers(0, top)
                | st.integers(0, 40)
            )
    if twice:
        values |= {f"tracked1_{what}": values.get(f"tracked0_{what}", 0) for what in ("role", "state")}
        values["tracked1_uuid"] = values.get("tracked0_uuid", bytes(16))
    block = model_encode(values)
    verdict, superblock, reason = decode(block)
    assert verdict == model_verdict(model_decode(block)), reason
    assert bool(reason) == (verdict != OK)
    if verdict != OK:
        assert bytes(superblock) == bytes(ctypes.sizeof(Superblock)), "written although refused"
    else:
        assert tracked_fields(superblock) == tracked_fields(to_struct(model_decode(block)))


@given(st.binary(max_size=4096), st.booleans())
def test_random_bytes_never_crash_the_decoder(data, seal):
    block = bytearray(data.ljust(4096, b"\0"))
    if seal:
        block[:12] = b"IRAID-SB\0\0\0\0"
        struct.pack_into("<I", block, 8, crc32c(block))
    assert decode(bytes(block))[0] in ((CORRUPT, UNSUPPORTED) if seal else (ABSENT,))
    superblock = Superblock()
    lib().superblock_choose(bytes(block), sample_block(), ref(superblock), None)


@given(
    superblocks(),
    st.lists(st.sampled_from(["good", "older", "newer", "torn", "zeros", "future", "foreign"]), min_size=2, max_size=2),
)
def test_the_newer_valid_copy_is_chosen_and_nothing_is_guessed(values, kinds):
    values["write_count"] = values["write_count"] // 2 + 1
    blocks, counts = [], []
    for kind in kinds:
        count = values["write_count"] + {"older": -1, "newer": 1}.get(kind, 0)
        changed = values | {"write_count": count}
        if kind == "future":
            changed |= {"features_incompat": 4}
        if kind == "foreign":
            changed |= {"volume_uuid": b"another volume!!"}
        block = bytearray(model_encode(changed))
        if kind == "torn":
            block[160:512] = bytes(352)
        blocks.append(bytes(4096) if kind == "zeros" else bytes(block))
        counts.append(count)
    chosen = Superblock()
    verdict = lib().superblock_choose(*blocks, ref(chosen), None)
    valid = [i for i in (0, 1) if kinds[i] in ("good", "older", "newer", "foreign")]
    if "future" in kinds:
        assert verdict == UNSUPPORTED
    elif len(valid) == 2 and (kinds[0] == "foreign") != (kinds[1] == "foreign"):
        assert verdict == CORRUPT
    elif valid:
        assert verdict == OK
        assert chosen.write_count == max(counts[i] for i in valid)
    else:
        assert verdict == (CORRUPT if "torn" in kinds else ABSENT)


@given(st.integers(0, 2**26) | st.integers(0, 2**50) | st.integers(0, 2**64 - 1), st.sampled_from(CHUNK_SIZES))
@example(32931 * MIB, 4096)  # 131072 regions of 64 rows
@example(32931 * MIB + 4096, 4096)
def test_areas_are_aligned_apart_inside_and_as_large_as_can_be(member, chunk):
    areas, data, region_rows = (Area * 5)(), ctypes.c_uint64(), ctypes.c_uint32()
    result = lib().layout_compute(member, chunk, areas, ref(data), ref(region_rows))
    if member < 16 * MIB:
        assert result == -errno.ENOSPC
        return
    assert result == 0
    expected, expected_data, expected_rows = model_areas(member, chunk)
    assert [(a.offset_bytes, a.length_bytes) for a in areas] == [*expected, (0, 0)]
    assert [a.type for a in areas] == [1, 2, 3, 4, 0]
    areas = areas[:4]
    assert (data.value, region_rows.value) == (expected_data, expected_rows)

    assert all(a.offset_bytes % MIB == 0 for a in areas)
    ends = [a.offset_bytes + a.length_bytes for a in areas]
    assert all(end <= nxt.offset_bytes for end, nxt in zip(ends, areas[1:]))
    assert ends[3] <= member
    assert areas[2].length_bytes >= data.value // 4096 * 4
    if member < 2**55:  # not more is left over than what rounding takes
        assert member - ends[3] < chunk
        assert areas[2].length_bytes - data.value // 1024 < 2 * MIB
    regions = -(-(data.value // chunk) // region_rows.value)
    assert 1 <= regions <= 131072
    assert region_rows.value == 64 or regions > 131072 // 2


@given(
    st.integers(16 * MIB, 2**26) | st.integers(16 * MIB, 2**50), st.integers(0, 2**63 - 1), st.sampled_from(CHUNK_SIZES)
)
@example(64 * MIB, 1030 * MIB - 1, 65536)  # less than a MiB behind what the first checksums are of
def test_grown_areas_keep_what_there_was_and_use_what_there_is(before, after, chunk):
    areas, grown, data, region_rows = (Area * 5)(), (Area * 5)(), ctypes.c_uint64(), ctypes.c_uint32()
    after = max(before, after)
    lib().layout_compute(before, chunk, areas, ref(data), ref(region_rows))
    lib().layout_grow(areas, after, chunk, 2**64 - 1, grown, ref(data))
    expected, expected_data = model_grow([(a.offset_bytes, a.length_bytes) for a in areas[:4]], after, chunk)
    assert [(a.offset_bytes, a.length_bytes) for a in grown if a.type] == expected
    assert data.value == expected_data >= areas[3].length_bytes
    ends = [a.offset_bytes + a.length_bytes for a in grown]
    assert all(end <= nxt.offset_bytes for end, nxt in zip(ends, grown[1:]) if nxt.type)
    assert lib().layout_end_bytes(grown) == max(ends) <= after
    assert (grown[2].length_bytes + grown[4].length_bytes) * 1024 >= data.value
    if after < 2**55:
        assert after - max(ends) < chunk + 2 * MIB


@given(st.integers(1, 2**46), st.integers(0, 2**32 - 1))
@example(131072, 1)
@example(131073, 1)
def test_regions_are_as_small_as_wanted_or_as_the_map_allows(rows, wanted):
    region_rows = lib().layout_region_rows(rows, wanted)
    assert region_rows in [2**i for i in range(32)]
    assert -(-rows // region_rows) <= 131072
    if region_rows >= 2:  # half of it would be too small for one of the two
        assert -(-rows // (region_rows // 2)) > 131072 or region_rows // 2 < (wanted or 64)
    assert region_rows >= min(wanted or 64, 2**31)


@given(
    st.binary(min_size=16, max_size=16),
    st.binary(min_size=16, max_size=16) | st.just(bytes(16)),
    st.integers(16 * MIB, 2**63 - 1),
    st.sampled_from([512, 4096]),
    st.integers(0, 2**64 - 1),
)
def test_marks_of_spares_are_the_same_bytes(member, volume, size, block, created):
    values = {
        "magic": b"IRAID-SP",
        "version": 1,
        "member_uuid": member,
        "volume_uuid": volume,
        "member_bytes": size,
        "block_bytes": block,
        "created_s": created,
    }
    mark = SpareMark(member_bytes=size, block_bytes=block, created_s=created)
    mark.member_uuid[:], mark.volume_uuid[:] = member, volume
    out = ctypes.create_string_buffer(4096)
    lib().spare_encode(ref(mark), out)
    assert out.raw == model_encode(values, SPARE_FIELDS)
    read = SpareMark()
    assert lib().spare_decode(out, ref(read)) == OK
    assert bytes(read) == bytes(mark)
    assert lib().superblock_decode(out, ref(Superblock()), None) == ABSENT


@given(st.data())
def test_sealed_but_wrong_marks_of_spares_get_the_verdict_of_the_reference(data):
    values = {"magic": b"IRAID-SP", "version": 1, "member_bytes": 64 * MIB, "block_bytes": 512}
    name = data.draw(st.sampled_from(["version", "member_bytes", "block_bytes"]))
    top = 2 ** (8 * struct.calcsize(SPARE_FIELDS[name][1])) - 1
    values[name] = (
        data.draw(
            st.sampled_from([0, 1, 2, 512, 1024, 4096, 16 * MIB - 1, 16 * MIB, top, top // 2, top // 2 + 1])
            | st.integers(0, top)
        )
        & top
    )
    good = (
        values["version"] == 1 and values["block_bytes"] in (512, 4096) and 16 * MIB <= values["member_bytes"] < 2**63
    )
    expected = OK if good else UNSUPPORTED if values["version"] > 1 else CORRUPT
    assert lib().spare_decode(model_encode(values, SPARE_FIELDS), ref(SpareMark())) == expected


def model_granule(flags: bytes, index: int, epoch: int, uuid: bytes) -> bytes:
    body = struct.pack("<Q", epoch) + flags[500 * index : 500 * (index + 1)].ljust(500, b"\0")
    return struct.pack("<I", crc32c(uuid + struct.pack("<I", index) + body)) + body


@settings(max_examples=40)
@given(
    st.integers(1, 262144) | st.integers(1, 9000),
    st.integers(0, 2**64 - 1),
    st.data(),
    st.integers(0, 2**64 - 1).map(random.Random),  # more bytes than newer versions of Hypothesis draw
)
def test_map_blocks_are_the_same_and_damage_stays_in_its_granule(regions, epoch, data, rng):
    blocks = -(-regions // 4000)
    block = data.draw(st.integers(0, blocks - 1) | st.just(blocks - 1))
    uuid = rng.randbytes(16)
    flags = bytes(rng.choices(range(64), k=regions))
    out = ctypes.create_string_buffer(4096)
    lib().map_block_encode(flags, regions, block, epoch, uuid, out)
    assert out.raw == b"".join(model_granule(flags, 8 * block + i, epoch, uuid) for i in range(8))

    damaged = sorted(data.draw(st.sets(st.integers(0, 7))))
    raw = bytearray(out.raw)
    for i in damaged:
        raw[512 * i + rng.randrange(512)] ^= 1 << rng.randrange(8)
    decoded = ctypes.create_string_buffer(b"\xee" * regions, regions)
    bad = lib().map_block_decode(bytes(raw), regions, block, uuid, decoded)
    expected = bytearray(b"\xee" * regions)
    low, high = 4000 * block, min(4000 * (block + 1), regions)
    expected[low:high] = flags[low:high]
    holding = [i for i in damaged if low + 500 * i < high]
    for i in holding:
        at, end = low + 500 * i, min(low + 500 * (i + 1), high)
        expected[at:end] = b"\x3d" * (end - at)  # dirty, stale on everybody
    assert decoded.raw == bytes(expected)
    assert bad == len(holding)
