# cython: language_level=3
"""What ways.py calls: functions, methods, operators and generators that Cython compiles."""


def total(long count):
    cdef long each
    cdef double sum_ = 0
    for each in range(count):
        sum_ += each * 0.5
    return sum_


cpdef double product(long count):
    cdef long each
    cdef double result = 1
    for each in range(count):
        result *= 1.0000001
    return result


def each(long count):
    cdef long number
    for number in range(count):
        yield number * 0.5


def of_objects(values):
    sum_ = 0
    for value in values:
        sum_ += value * value
    return sum_


cdef class Sums:
    cdef long count

    def __init__(self, long count):
        self.count = count
        total(count)

    def total(self):
        return total(self.count)

    @property
    def all(self):
        return total(self.count)

    def __getitem__(self, long count):
        return total(count)

    def __add__(self, other):
        return total(self.count)


class Plain:
    def total(self, count):
        return total(count)
