import os
import sys
from pathlib import Path

import pytest

from accel.cgroups import Limits, limits, parse_cpu_max, parse_memory_limit

V2_MOUNT = "30 23 0:26 {root} /sys/fs/cgroup rw,nosuid,nodev shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNTS = (
    "24 30 0:22 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755\n"
    "31 24 0:27 {root} /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 master:2 - cgroup cgroup rw,cpu,cpuacct\n"
    "32 24 0:28 {root} /sys/fs/cgroup/memory rw,nosuid shared:10 - cgroup cgroup rw,memory\n"
)
V1_GROUPS = "5:cpu,cpuacct:{path}\n4:memory:{path}\n1:name=systemd:{path}\n"


def lay(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("max 100000\n", None),
        ("150000 100000\n", 1.5),
        ("50000 100000", 0.5),
        ("-1 100000", None),
        ("0 100000", None),
        ("100000 0", None),
        ("100000", None),
        ("", None),
        ("what is this", None),
    ],
)
def test_cpu_max(text, cpus):
    assert parse_cpu_max(text) == cpus


@pytest.mark.parametrize(
    ("text", "limit"),
    [("max\n", None), ("536870912\n", 1 << 29), ("9223372036854771712\n", None), ("0", None), ("-1", None), ("", None)],
)
def test_memory_limit(text, limit):
    assert parse_memory_limit(text) == limit


def test_version_2_in_a_container_with_its_own_namespace(tmp_path):
    lay(
        tmp_path,
        {
            "proc/self/cgroup": "0::/\n",
            "proc/self/mountinfo": V2_MOUNT.format(root="/"),
            "sys/fs/cgroup/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/memory.max": "2147483648\n",
        },
    )
    assert limits(tmp_path) == Limits(cpus=1.5, memory_bytes=2 << 30)


def test_version_2_without_a_limit(tmp_path):
    lay(
        tmp_path,
        {
            "proc/self/cgroup": "0::/user.slice\n",
            "proc/self/mountinfo": V2_MOUNT.format(root="/"),
            "sys/fs/cgroup/user.slice/cpu.max": "max 100000\n",
            "sys/fs/cgroup/user.slice/memory.max": "max\n",
        },
    )
    assert limits(tmp_path) == Limits(cpus=None, memory_bytes=None)


@pytest.mark.parametrize("tightest", ["kubepods", "kubepods/pod1", "kubepods/pod1/box"])
def test_the_tightest_of_nested_groups_wins(tmp_path, tightest):
    groups = ("kubepods", "kubepods/pod1", "kubepods/pod1/box")
    files = {f"sys/fs/cgroup/{group}/cpu.max": "800000 100000\n" for group in groups}
    files |= {f"sys/fs/cgroup/{tightest}/cpu.max": "250000 100000\n"}
    files |= {f"sys/fs/cgroup/{tightest}/memory.max": "1073741824\n"}
    files |= {"sys/fs/cgroup/kubepods/other/cpu.max": "10000 100000\n"}
    files |= {"proc/self/cgroup": "0::/kubepods/pod1/box\n", "proc/self/mountinfo": V2_MOUNT.format(root="/")}
    assert limits(lay(tmp_path, files)) == Limits(cpus=2.5, memory_bytes=1 << 30)


def test_version_1_quota(tmp_path):
    lay(
        tmp_path,
        {
            "proc/self/cgroup": V1_GROUPS.format(path="/docker/abc"),
            "proc/self/mountinfo": V1_MOUNTS.format(root="/"),
            "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "200000\n",
            "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": "4294967296\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    assert limits(tmp_path) == Limits(cpus=2.0, memory_bytes=4 << 30)


@pytest.mark.parametrize("mount_root", ["/docker/abc", "/somewhere/else"])
def test_version_1_in_a_container_that_is_told_its_path_from_the_host(tmp_path, mount_root):
    lay(
        tmp_path,
        {
            "proc/self/cgroup": V1_GROUPS.format(path="/docker/abc"),
            "proc/self/mountinfo": V1_MOUNTS.format(root=mount_root),
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "350000\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        },
    )
    assert limits(tmp_path).cpus == 3.5


def test_a_group_outside_the_namespace_falls_back_on_the_mount(tmp_path):
    lay(
        tmp_path,
        {
            "proc/self/cgroup": "0::/../../other\n",
            "proc/self/mountinfo": V2_MOUNT.format(root="/"),
            "sys/fs/cgroup/cpu.max": "100000 100000\n",
            "other/cpu.max": "1000 100000\n",
        },
    )
    assert limits(tmp_path).cpus == 1.0


def test_both_versions_mixed(tmp_path):
    unified = "41 24 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    lay(
        tmp_path,
        {
            "proc/self/cgroup": V1_GROUPS.format(path="/") + "0::/\n",
            "proc/self/mountinfo": V1_MOUNTS.format(root="/") + unified,
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "300000\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/unified/cgroup.controllers": "\n",
        },
    )
    assert limits(tmp_path) == Limits(cpus=3.0, memory_bytes=None)


def test_a_mount_point_with_a_space(tmp_path):
    lay(
        tmp_path,
        {
            "proc/self/cgroup": "0::/\n",
            "proc/self/mountinfo": "30 23 0:26 / /mnt/my\\040groups rw - cgroup2 cgroup2 rw\n",
            "mnt/my groups/cpu.max": "120000 100000\n",
        },
    )
    assert limits(tmp_path).cpus == 1.2


def test_no_cgroups_at_all(tmp_path):
    assert limits(tmp_path) == Limits(cpus=None, memory_bytes=None)


def test_nonsense_is_no_limit(tmp_path):
    lay(tmp_path, {"proc/self/cgroup": "what\n\n::", "proc/self/mountinfo": "a b - c\n1 2 3 - cgroup2 x y\n"})
    assert limits(tmp_path) == Limits(cpus=None, memory_bytes=None)


def test_here():
    here = limits()
    assert here.cpus is None or 0 < here.cpus <= 4096
    assert here.memory_bytes is None or here.memory_bytes > 1 << 20
    if sys.platform != "linux":
        assert here == Limits(cpus=None, memory_bytes=None)
    assert (os.cpu_count() or 1) >= 1
