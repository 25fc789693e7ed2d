"""Two threads that allocate, copy, compute and sleep; prints what they did, exactly. The argument says for how many seconds;
"orphaned": until half a second after the parent has died."""

import json
import os
import sys
import threading
import time

SIZE, COPIED = 50_021, 300_007
LONGEST_S, REST_S = 60, 0.5


def work(over, facts):
    kept, source, done = [], bytes(COPIED), 0
    while not over.is_set():
        kept.append(bytearray(SIZE))
        bytearray(source)
        done += 1
        begun = time.thread_time()
        while time.thread_time() - begun < 0.001:
            pass
        time.sleep(0.01)
    facts[threading.current_thread().name] = {"done": done, "cpu_s": time.thread_time()}


if __name__ == "__main__":
    facts, over, parent = {}, threading.Event(), os.getppid()
    threads = [threading.Thread(target=work, args=(over, facts), name=name) for name in ("first", "second")]
    for each in threads:
        each.start()
    if sys.argv[1] == "orphaned":
        until = time.monotonic() + LONGEST_S
        while os.getppid() == parent and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(REST_S)
    else:
        time.sleep(float(sys.argv[1]))
    over.set()
    for each in threads:
        each.join()
    print(json.dumps(facts), flush=True)
