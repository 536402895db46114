"""The papers' arithmetic, against figures that can be worked out by hand, and the papers' own."""

import pytest

from iraid_dev.bench.papers import model


def test_one_block_at_a_time_waits_for_each_round_trip():
    """1 MB over 1 Gbit/s is 8 ms; with a round trip of 8 ms half of the link is used."""
    assert model.model_mb_per_s(1e6, 1, 8, 1000) == pytest.approx(62.5)


def test_depth_multiplies_until_the_link_is_full():
    shallow = model.model_mb_per_s(1e6, 1, 64, 1000)

    assert model.model_mb_per_s(1e6, 4, 64, 1000) == pytest.approx(4 * shallow)
    assert model.model_mb_per_s(1e6, 64, 64, 1000) == pytest.approx(125)


@pytest.mark.parametrize("rtt_ms", [16, 32, 64])
def test_the_paper_reached_a_fraction_of_its_model(rtt_ms):
    """ "About half": its curve lies below the model's everywhere, and never below a sixth of it."""
    share = model.LAYERS_TUNED_MB[rtt_ms] / model.model_mb_per_s(model.LAYERS_BLOCK_BYTES, 1, rtt_ms, 1000)

    assert 1 / 6 < share < 0.7


@pytest.mark.parametrize("bad", [{"block_bytes": 0}, {"depth": 0}, {"rtt_ms": -1}, {"rate_mbit": 0}])
def test_the_model_refuses_what_has_no_answer(bad):
    with pytest.raises(ValueError, match="no throughput"):
        model.model_mb_per_s(**{"block_bytes": 4096, "depth": 1, "rtt_ms": 8, "rate_mbit": 1000} | bad)


def test_depth_covers_bandwidth_times_delay():
    assert model.depth_for(100, 1e6, 64) == 7  # 6.4 MB under way
    assert model.depth_for(100, 1e6, 0) == 1


def test_the_mean_is_of_four_operations_and_refuses_three():
    four = {"write": 10.0, "read": 20.0, "randwrite": 30.0, "randread": 40.0}
    assert model.mean_of_operations(four) == 25

    del four["randread"]
    with pytest.raises(ValueError, match="randread missing"):
        model.mean_of_operations(four)


def test_gain_is_the_ratio_of_means_not_the_mean_of_ratios():
    plain = dict.fromkeys(model.OPERATIONS, 10.0)
    faster = {"write": 10.0, "read": 30.0, "randwrite": 10.0, "randread": 30.0}
    uneven = plain | {"read": 30.0}  # mean 15

    assert model.gain(faster, plain) == pytest.approx(2)
    assert model.gain(faster, uneven) == pytest.approx(20 / 15)


def test_parity_takes_a_members_link():
    assert [model.data_members(level, 4) for level in (0, 5, 6)] == [4, 3, 2]
    with pytest.raises(ValueError, match="no room for data"):
        model.data_members(6, 2)


@pytest.mark.parametrize(
    ("level", "members", "kib"), [(None, 1, 256), (0, 4, 256), (5, 4, 384), (5, 8, 448), (0, 3, 384)]
)
def test_sequential_requests_are_whole_rows(level, members, kib):
    assert model.whole_rows_bytes(level, members, 65536, 256 * 1024) == kib * 1024


def test_a_figure_is_host_bound_from_half_of_what_the_machine_moves():
    assert not model.host_bound(4, 100, unshaped_mb_per_s=100)
    assert model.host_bound(4, 101, unshaped_mb_per_s=100)


def test_utilisation_is_of_one_link():
    assert model.utilisation(12.5e6, 2, 100) == pytest.approx(0.5)


def test_cerns_parity_wrote_at_half_of_its_striping():
    shares = model.shares_of_level_0(model.CERN_MB)

    assert shares[5]["block output"] == pytest.approx(0.5)
    assert shares[5]["random read, 1.5 MB"] > 1
    assert 0 not in shares


def test_a_share_is_of_the_same_job_and_only_where_level_0_has_it():
    levels = {0: {"write": 20.0}, 5: {"write": 15.0, "read": 3.0}}

    assert model.shares_of_level_0(levels) == {5: {"write": 0.75}}
    assert model.shares_of_level_0({5: {"write": 15.0}}) == {5: {}}


def bonnie_line(output="24576,7", rewrite="10240,6", read="40960,8", version="1.98"):
    """What bonnie++ 2.00a -f -n 0 -q prints."""
    return f"{version},2.00a,name,1,1795339365,64M,,8192,5,,,{output},{rewrite},,,{read},812.2,31,,,,,,,,,,,,,,,,,,,6505us\n"


def test_bonnies_kib_are_our_mb():
    assert model.read_bonnie(bonnie_line()) == {"output": (25.17, 7.0), "rewrite": (10.49, 6.0), "input": (41.94, 8.0)}


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (bonnie_line(rewrite="+++++,+++"), "rewrite in less than half a second"),
        (bonnie_line(version="3.0"), "no line in format"),
        ("Can't open file\n", "Can't open file"),
    ],
)
def test_bonnies_line_without_a_figure_is_refused(line, named):
    with pytest.raises(ValueError, match=named):
        model.read_bonnie(line)
