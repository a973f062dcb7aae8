"""The heap keeps the memory of one batch for the next one."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from tests.implementations import require_implementation

#: Prints the page faults of twenty batches of 500 values, when there is a transport.
PROGRAM = """
import resource
from tandem_kafka._native import Selector

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        values = [bytes(1_000) for _ in range(500)]
        del values
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

selector = Selector(
    receive_message_max_bytes=1_000,
    send_buffer_bytes=None,
    receive_buffer_bytes=None,
    socket_options=[],
    receive_budget_bytes=1_000,
    tls=None,
    read_committed=False,
    check_crcs=True,
    max_decompressed_batch_bytes=1_000,
    max_record_headers=10,
    decode_ahead_bytes=0,
)
faults()
print(faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc's heap")
def test_the_values_of_a_batch_get_the_memory_of_the_last_batch() -> None:
    require_implementation("native")
    command = [sys.executable, "-c", PROGRAM]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    assert int(output) < 500, "each batch has 125 pages"
