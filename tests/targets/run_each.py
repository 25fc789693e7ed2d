"""Runs commands and stores what each printed. ``run_each.py COMMANDS RESULTS FOLDER LIMIT_S WORKERS``.

COMMANDS is a JSON list of [number, words]; RESULTS gets a JSON object: number to exit status (-n for signal n, null if
the command did not end in time), stdout and stderr (text of Latin-1: one character for each byte) and the names of the
files that it left in its folder. Each command runs without input, in a folder of its own in FOLDER.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

COMMANDS, RESULTS, FOLDER, LIMIT_S, WORKERS = sys.argv[1:]
MOST_BYTES = 1_000_000


def environment(folder):
    """Nothing that a user has set, except what a recorder has added."""
    plain = {
        "PATH": "/usr/bin:/usr/sbin:/bin:/sbin",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "HOME": folder,
        "TMPDIR": folder,
        "PERL_HASH_SEED": "0",  # else two runs of a program may print a hash in two orders
    }
    added = {name: os.environ[name] for name in ("LD_PRELOAD", "SCALENE_TRACE_SPOOL") if name in os.environ}
    return plain | added


def ended(words, folder, out, err):
    """The exit status; None if the command was killed at the limit. Its process group is killed in any case."""
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=folder,
            env=environment(folder),
            start_new_session=True,
        )
    except OSError as error:
        return f"cannot be started: {error.strerror}"
    try:
        return process.wait(float(LIMIT_S))
    except subprocess.TimeoutExpired:
        return None
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except OSError:
            pass
        process.wait()


def text_of(path):
    with open(path, "rb") as file:
        return file.read(MOST_BYTES).decode("latin-1")


def files_in(folder):
    return sorted(
        os.path.relpath(os.path.join(top, name), folder) for top, _, names in os.walk(folder) for name in names
    )


def run(command):
    number, words = command
    folder = os.path.join(FOLDER, str(number))
    os.mkdir(folder)
    paths = [os.path.join(FOLDER, f"{number}.{name}") for name in ("out", "err")]
    with open(paths[0], "wb") as out, open(paths[1], "wb") as err:
        status = ended(words, folder, out, err)
    result = {"status": status, "stdout": text_of(paths[0]), "stderr": text_of(paths[1]), "files": files_in(folder)}
    shutil.rmtree(folder)
    for path in paths:
        os.unlink(path)
    return number, result


with open(COMMANDS) as file:
    commands = json.load(file)
with ThreadPoolExecutor(int(WORKERS)) as pool:
    results = dict(pool.map(run, commands))
with open(RESULTS, "w") as file:
    json.dump(results, file)
