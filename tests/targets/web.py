"""A WSGI application: ``/work/N`` computes for a while and says who did."""

import os


def compute(number):
    x = number
    for turn in range(4_000):
        x = (x * 31 + turn) & 0xFFFF  # LINE: compute
    return x


def application(environ, start_response):
    number = int(environ["PATH_INFO"].rpartition("/")[2])
    body = b"%d %d %d" % (os.getpid(), number, compute(number))
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
