"""A stack that is deeper than what is shown keeps its innermost and its outermost frames."""

from __future__ import annotations

from collections.abc import Callable

import harness

DEPTH = 9000


def test_a_deep_stack_keeps_both_ends(
    probing: harness.Cli, target: Callable[..., harness.Target], python: str
) -> None:
    pid = target("deep", DEPTH, python=python).pid
    threads = probing("bt", "-t", pid, "--json").expect(0).json["threads"]
    [thread] = [one for one in threads if one["tid"] != pid]
    names = [frame["func"] for frame in thread["frames"]]
    assert names[0] == "down" and "root" in names[-5:], names[-5:]
    assert thread["truncated"] is True
    outer = names[thread["left_out_before"] :]
    assert names.count("down") + thread["frames_left_out"] == DEPTH + 1
    assert outer.index("root") == outer.count("down")
    text = probing("bt", "-t", pid).expect(0).stdout
    assert f"    ({thread['frames_left_out']} frames left out)\n" in text


def test_native_frames_of_a_deep_stack_are_read_once(
    probing: harness.Cli, target: Callable[..., harness.Target], python: str
) -> None:
    pid = target("deep", DEPTH, python=python).pid
    answer = probing("bt", "-t", pid, "--native", "--json").expect(0)
    [thread] = [one for one in answer.json["threads"] if one["tid"] != pid]
    names = [frame["func"] for frame in thread["frames"] if frame["frame_type"] == "Python"]
    assert names.count("down") == DEPTH + 1 and "root" in names[-5:]
