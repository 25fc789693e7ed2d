"""One object that stays, one that makes the peak, one that comes after it. A bytes object has 33 bytes of its own."""


def main():
    stays = bytes(50_000_017)  # LINE: stays
    spike = bytes(400_000_009)  # LINE: spike
    del spike
    after = bytes(20_000_003)  # LINE: after
    for _ in range(7):
        bytes(10_000_019)  # LINE: churn
    return stays, after


kept = main()
