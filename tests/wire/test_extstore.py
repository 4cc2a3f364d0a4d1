# SPDX-License-Identifier: Apache-2.0
"""Pages that survive: memcached with a file on a disk (extstore), and one whose memory outlives its process."""

import os
import shutil
import signal
import subprocess
import time

import pytest

from client import job
from stack import Stack, has_sanitizer, wait_for
from symbols import debug_id, differences, run_gensym

MODULES = 5
pytestmark = [pytest.mark.slow, pytest.mark.skipif(has_sanitizer(), reason="what memcached keeps is the same with a sanitizer")]


def with_options(options, memory):
    stack = Stack(memory=memory, config={"cache_size": "1M"})
    stack.memcached[0].options = options
    return stack


def ask(stack, module, answers):
    """Each offset is answered right, twice: the second time what was not kept before is."""
    offsets = [int(a["offset"], 16) for a in answers]
    for _ in range(2):
        assert differences(answers, stack.client.frames(module, offsets)) == []
        stack.node.settled()


def fill(stack, gensym):
    """Modules whose maps take twice the memory of memcached."""
    modules = [[f"kept{i}.pdb", debug_id(f"kept{i}")] for i in range(MODULES)]
    answers = [run_gensym(gensym, stack.symbols, module, "-f", "12000", "-s", str(i + 1), answers=600) for i, module in enumerate(modules)]
    for module, right in zip(modules, answers):
        ask(stack, module, right)
    return list(zip(modules, answers))


def stats(stack):
    with stack.memcached[0].raw() as raw:
        return raw.stats()


def loads_after_restart(stack, known):
    """What the bucket is asked for once the responder has been restarted: objects."""
    stack.daemon.stop()
    stack.daemon.start()
    stack.bucket.reset()
    for module, right in known:
        ask(stack, module, right)
    return stack.bucket.hits()


def test_a_file_keeps_what_memory_has_no_room_for(gensym, tmp_path):
    """16 MB of memory and a file of 1 GB: after a restart of the responder nothing is loaded. With the memory alone it is."""
    with with_options(["-o", f"ext_path={tmp_path}/pages:1G,ext_wbuf_size=2,ext_item_age=0"], 16) as s:
        known = fill(s, gensym)
        wait_for(lambda: int(stats(s)["extstore_objects_used"]) > 0, "pages in the file")
        assert loads_after_restart(s, known) == 0
        assert int(stats(s)["get_extstore"]) > 0
    with with_options([], 16) as s:
        known = fill(s, gensym)
        assert loads_after_restart(s, known) > 0


def test_a_killed_memcached_costs_loads_and_no_answer(gensym, tmp_path):
    """The file is of no use to the next process: what it had is loaded once more."""
    with with_options(["-o", f"ext_path={tmp_path}/pages:1G,ext_wbuf_size=2"], 16) as s:
        known = fill(s, gensym)[:3]
        s.memcached[0].kill()
        s.memcached[0].start()
        assert loads_after_restart(s, known) == 3
        assert loads_after_restart(s, known) == 0


def test_a_full_disk_costs_loads_and_no_answer(gensym):
    """memcached writes the file as it goes: where the disk is full, values are lost, and every answer stays right."""
    mount = "/dev/shm"
    folder = os.path.join(mount, f"symbolicated-extstore-{os.getpid()}")
    os.makedirs(folder)
    if os.getuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], capture_output=True, check=False).returncode:
        os.rmdir(folder)
        pytest.skip("no file system can be mounted")
    try:
        with with_options(["-o", f"ext_path={folder}/pages:1G,ext_wbuf_size=2"], 16) as s:
            known = fill(s, gensym)
            for module, right in known:
                ask(s, module, right)
            assert shutil.disk_usage(folder).free < 4 << 20
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
        os.rmdir(folder)


def test_memory_that_outlives_its_process(gensym, tmp_path):
    """-e keeps the memory in a file of a tmpfs: a memcached that is stopped by SIGUSR1 goes on where it was."""
    path = f"/dev/shm/symbolicated-memcached-{os.getpid()}"
    try:
        with with_options(["-e", path], 256) as s:
            known = fill(s, gensym)
            s.memcached[0].signal(signal.SIGUSR1)
            wait_for(lambda: s.memcached[0].process.poll() is not None, "memcached to end")
            s.memcached[0].process = None
            # memcached's clock is coarse: it believes no file that was closed later than now
            with open(path + ".meta", encoding="ascii") as meta:
                stopped = next(int(line.split()[1]) for line in meta if line.startswith("Kstop_time"))
            wait_for(lambda: time.time() > stopped + 1, "the time at which memcached stopped")
            s.memcached[0].start()
            assert loads_after_restart(s, known) == 0
            reply = s.client.post("/symbolicate/v5", job([known[0][0]], [[0, int(known[0][1][0]["offset"], 16)]]))
            assert reply.json()["results"][0]["found_modules"] == {"/".join(known[0][0]): True}
    finally:
        for name in (path, path + ".meta"):
            if os.path.exists(name):
                os.remove(name)
