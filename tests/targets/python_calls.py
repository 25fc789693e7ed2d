"""Calls functions, classes and instances that are written in Python, in ways that pass through C code. Arguments: seconds of
CPU time for each function; names of functions (default: all)."""

import functools
import sys
import time


def plain(value):
    return value


def decorated_with(function):
    @functools.wraps(function)
    def wrapper(*arguments, **keywords):
        return function(*arguments, **keywords)

    return wrapper


decorated = decorated_with(plain)


class Instance:
    def __call__(self, value):
        return value

    def __getitem__(self, index):
        return index


instance = Instance()


def calls_unpacked(count):
    arguments = (1,)
    for _ in range(count):
        plain(*arguments)


def calls_with_keywords(count):
    keywords = {"value": 1}
    for _ in range(count):
        plain(**keywords)


def calls_decorated(count):
    for each in range(count):
        decorated(each)


def calls_instance(count):
    for each in range(count):
        instance(each)


def indexes_instance(count):
    for each in range(count):
        instance[each]


def maps_lambda(count):
    list(map(lambda value: value + 1, range(count)))  # noqa: C417 (this is the case)


def sorts_with_lambda(count):
    sorted(range(count), key=lambda value: -value)


def filters_with_lambda(count):
    list(filter(lambda value: value & 1, range(count)))


CASES = (
    *(calls_unpacked, calls_with_keywords, calls_decorated, calls_instance, indexes_instance),
    *(maps_lambda, sorts_with_lambda, filters_with_lambda),
)

for case in CASES:
    if sys.argv[2:] and case.__name__ not in sys.argv[2:]:
        continue
    end = time.thread_time() + float(sys.argv[1])
    while time.thread_time() < end:
        case(5_000)
