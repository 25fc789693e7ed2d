"""A program of nine lines of work, one of them busy; ``--slower 20`` makes the busy one take 20 % longer.

Arguments: --slower PERCENT, --rounds N.
"""

import argparse


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--slower", type=float, default=0.0)
    parser.add_argument("--rounds", type=int, default=300)
    asked = parser.parse_args()
    busy = sorted(range(40_000))
    more = int(len(busy) * (1 + asked.slower / 100))
    few = busy[:4_000]
    for _ in range(asked.rounds):
        sum(number * number % 7 for number in range(more))  # LINE: busy
        sum([number * number % 5 for number in few])
        sorted(few, key=lambda number: -number)
        "".join([str(number) for number in few])
        dict.fromkeys([number // 3 for number in few])
        [number for number in few if number % 3]
        {number ^ 1 for number in few}
        [divmod(number, 7) for number in few]
        max([number * 3 & 255 for number in few])


if __name__ == "__main__":
    main()
