"""The kinds of rows about the lives of processes and threads."""

from __future__ import annotations

from .kinds import Column, Kind

PROCESS_KINDS: tuple[Kind, ...] = (
    Kind(
        "process",
        "an image of a process: exec starts a new one. t_ns = start",
        ("t_ns", "process"),
        (
            Column("pid", "int64", "", "the system's process id"),
            Column("parent_pid", "int64", "", "the parent's pid at the start"),
            Column("parent", "int32", "", "id of the forking process, or of the image before exec", "not recorded"),
            Column("cause", "string", "", "root, fork, exec or spawn"),
            Column("executable", "string", "", "path of the executable"),
            Column("command", "list<string>", "", "command line", "not recorded: --no-argv"),
            Column("python_version", "string", "", "version of the interpreter", "no Python in this image"),
            Column("stacks", "bool", "", "Python stacks could be read"),
            Column(
                "free_threaded",
                "bool",
                "",
                "the interpreter is a free-threaded build, whether or not it runs with a GIL",
                "no Python in this image",
            ),
            Column(
                "end_ns",
                "int64",
                "ns",
                "time of its end; of a killed one, when its parent had waited for it",
                "no end was seen: it ran on, or was killed and its parent has not waited for it",
            ),
            Column(
                "end",
                "string",
                "",
                "exit, quick_exit (_exit), exec, killed (by a signal), running (it ran on when the recording ended), unknown (it was attached to, and nobody saw how it ended) or "
                "filter (a seccomp filter was set, and the process ran on unrecorded)",
                "no end was seen",
            ),
            Column("exit_status", "int64", "", "exit status; 128 + n for signal n", "no parent has waited for it"),
            Column("user_ns", "int64", "ns", "exact user CPU time of the image", "no end was recorded"),
            Column("system_ns", "int64", "ns", "exact kernel CPU time of the image", "no end was recorded"),
            Column(
                "peak_rss_bytes",
                "int64",
                "bytes",
                "high-water mark of its resident set, from the kernel",
                "no end was recorded",
            ),
            Column(
                "start_footprint_bytes",
                "int64",
                "bytes",
                "footprint at the start (a forked child inherits its parent's)",
            ),
            Column("end_footprint_bytes", "int64", "bytes", "footprint at the end", "no end was recorded"),
        ),
    ),
    Kind(
        "thread",
        "a thread. t_ns = start",
        ("t_ns", "process", "thread"),
        (
            Column("tid", "int64", "", "the system's thread id"),
            Column("name", "string", "", "the kernel's name of the thread", "it did not end during the recording"),
            Column(
                "engine",
                "string",
                "",
                "source of its ticks: perf, posix, polled (attached to, without a perf event), none",
            ),
            Column("end_ns", "int64", "ns", "time of its end", "it did not end during the recording"),
            Column(
                "cpu_ns",
                "int64",
                "ns",
                "exact CPU time, without the time used while paused; for a thread that did not end, up to its last tick; of a main thread, with what the end of its process took, if its parent has waited for it",
            ),
            Column(
                "user_ns",
                "int64",
                "ns",
                "user part of it, from the kernel (tick-based on most kernels)",
                "it did not end during the recording",
            ),
            Column(
                "system_ns", "int64", "ns", "system part of it, from the kernel", "it did not end during the recording"
            ),
            Column(
                "starter", "int32", "", "id of the thread that started it", "unknown, or recorded by an older version"
            ),
            Column(
                "start_stack",
                "int32",
                "",
                "id of the stack row of the thread that started it, at that moment",
                "it had none, or recorded by an older version",
            ),
            Column(
                "python_name",
                "string",
                "",
                "the last name that Python's threading module had for it",
                "Thread.start did not start it (a main thread, a thread of native code), its name could not be read, or "
                "recorded by an older version",
            ),
        ),
    ),
)
