"""Three arrays of 512 MB: one never touched, one half, one wholly. All are alive at the end."""

import numpy as np

SIZE = 512_000_000

nothing = np.empty(SIZE, np.uint8)  # LINE: touched_0
half = np.empty(SIZE, np.uint8)  # LINE: touched_50
half[: SIZE // 2] = 1
whole = np.empty(SIZE, np.uint8)  # LINE: touched_100
whole[:] = 1
print(nothing.size + half.size + whole.size)
