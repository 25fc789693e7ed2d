"""Pure Python, one kind of it per function, each for the same CPU time. Marked lines are where the time must go."""

import sys
import time


def arithmetic(end):
    while time.thread_time() < end:
        x = 1
        for i in range(20_000):
            x = (x * 31 + i) & 0xFFFFFF  # LINE: arithmetic


def floats(end):
    while time.thread_time() < end:
        x = 0.5
        for _ in range(20_000):
            x = 3.9 * x * (1.0 - x)  # LINE: floats


def long_strings(end):
    base = "x" * 700
    while time.thread_time() < end:
        for i in range(4_000):
            text = f"{base}{i}" + base  # LINE: long_strings


def dict_building(end):
    while time.thread_time() < end:
        for _ in range(10):
            found = {}
            for i in range(2_000):
                found[i] = i  # LINE: dict_building


def called(a, b=2, *rest, c=3, **more):
    return a  # LINE: called


def keyword_calls(end):
    while time.thread_time() < end:
        for i in range(5_000):
            called(i, c=4)  # LINE: keyword_calls


class Point:
    def __init__(self, x, y):
        self.x = x
        self.y = y


def class_instances(end):
    while time.thread_time() < end:
        for i in range(5_000):
            Point(i, i)  # LINE: class_instances


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)  # LINE: fib


def call_fib(end):
    while time.thread_time() < end:
        fib(18)


def numbers(n):
    for i in range(n):
        yield i  # LINE: numbers


def generators(end):
    while time.thread_time() < end:
        for value in numbers(20_000):
            pair = value, value  # LINE: generators


def main():
    seconds = float(sys.argv[1])
    kinds = [arithmetic, floats, long_strings, dict_building, keyword_calls, class_instances, call_fib, generators]
    for kind in kinds:
        if sys.argv[2:] and kind.__name__ not in sys.argv[2:]:
            continue
        kind(time.thread_time() + seconds)


main()
