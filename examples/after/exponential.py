"""e to powers of up to 3,000 (or as told), to 60 digits, by the sum of x**n / n! over n."""

import sys
from decimal import Decimal, localcontext

DIGITS = 60


def exponential(x: Decimal) -> Decimal:
    """The sum, until it changes no more; two digits more on the way than in the end."""
    with localcontext() as context:
        context.prec += 2
        total, before = Decimal(1), Decimal(0)
        term, n = Decimal(1), 0
        while total != before:
            before = total
            n += 1
            term *= x / n
            total += term
    return +total


def main(largest: int) -> None:
    with localcontext() as context:
        context.prec = DIGITS
        for x in range(largest // 6, largest + 1, largest // 6):
            print(f"e**{x} = {exponential(Decimal(x)):.50e}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3_000)
