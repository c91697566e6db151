"""A client killed in the middle of a chain takes its context and buffers with it; another one's chain is not touched."""
import os
import signal
import sys
import time
import xdna

CONTEXT_LIMIT = 16  # of the NPU's firmware
LONG_CHAIN, LONG_COPY_BYTES = 24, 2 << 20


def free_contexts(fd):
    """How many contexts there is room for."""
    contexts = []
    try:
        while True:
            contexts.append(xdna.create_context(fd)[0])
    except OSError:
        pass
    for context in contexts:
        assert xdna.destroy_context(fd, context) is None
    return len(contexts)


if sys.argv[1:] == ["victim"]:
    victim = xdna.Design(LONG_COPY_BYTES)
    victim.submit_chain(LONG_CHAIN)
    assert xdna.state_of(victim.chain) == xdna.NEW, "done already"
    os.kill(os.getpid(), signal.SIGKILL)

bystander = xdna.Design()
assert free_contexts(bystander.fd) == CONTEXT_LIMIT - 1
point = bystander.submit_chain(5)
assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, __file__, "victim"]) == -signal.SIGKILL
assert bystander.wait(point) is None and xdna.state_of(bystander.chain) == xdna.COMPLETED
deadline = time.monotonic() + 20
while free_contexts(bystander.fd) != CONTEXT_LIMIT - 1:
    assert time.monotonic() < deadline, "the victim's context lives on"
    time.sleep(0.01)
bystander.source[0:4096] = os.urandom(4096)
assert bystander.wait(bystander.submit_chain(5)) is None
assert bystander.target[:] == bystander.source[:]
print("OK")
