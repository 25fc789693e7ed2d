"""One busy thread beside eight that are blocked: two each in a queue, an event, a socket and sleep."""

import queue
import socket
import sys
import threading
import time


def busy(seconds):
    end = time.thread_time() + seconds
    x = 1
    while time.thread_time() < end:
        for i in range(20_000):
            x = (x * 31 + i) & 0xFFFFFF  # LINE: busy


def main():
    seconds = float(sys.argv[1])
    box, event = queue.Queue(), threading.Event()
    ours, theirs = socket.socketpair()
    waiting = [box.get, event.wait, lambda: theirs.recv(1), lambda: time.sleep(seconds)]
    threads = [threading.Thread(target=wait) for wait in waiting * 2]
    for thread in threads:
        thread.start()
    busy(seconds)
    box.put(0)
    box.put(0)
    event.set()
    ours.send(b"xx")
    for thread in threads:
        thread.join()


main()
