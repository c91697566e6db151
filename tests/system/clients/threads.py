"""Many threads on one file, each with buffers of its own."""
import threading
import kfd

render = kfd.open_render()
failures = []


def work():
    try:
        for _ in range(50):
            handle = kfd.gem_create(render)
            dma_buf = kfd.prime_export(render, handle)
            assert kfd.prime_import(render, dma_buf) == handle
            assert kfd.gem_close(render, handle) is None
            __import__("os").close(dma_buf)
    except Exception as error:  # reported by the main thread
        failures.append(repr(error))


threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert failures == [], failures
print("OK")
