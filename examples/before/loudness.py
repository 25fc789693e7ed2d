"""How loud a made-up recording of eight million samples (or as told) is, looked at through 400 windows."""

import sys

import numpy as np

WINDOW = 10_000
WINDOWS = 400


def loudness(samples: np.ndarray, start: int) -> float:
    """Root of the mean square of the window that begins at ``start``; ``samples``: anything like an array of floats."""
    signal = np.array(samples, dtype=float)
    window = signal[start : start + WINDOW]
    return float(np.sqrt(np.mean(window * window)))


def main(count: int) -> None:
    samples = np.sin(np.arange(count) / 50.0) * np.linspace(0.0, 1.0, count)
    starts = np.linspace(0, count - WINDOW, WINDOWS).astype(int)
    levels = [loudness(samples, int(start)) for start in starts]
    print(f"{len(levels)} windows, from {min(levels):.4f} to {max(levels):.4f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8_000_000)
