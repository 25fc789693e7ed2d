"""The columns of a trace, as plain data.

One Parquet file, one table. The columns of :data:`COMMON` stand at the top level; the rest of each record lives in one
struct column per kind, null on rows of every other kind. Everything that reads or writes a trace derives from
:data:`KINDS` (struct column: :attr:`Kind.struct`): the writer's Arrow schema, the views of the analysis, and ``docs/trace-format.md``.

Types are named as Arrow names them. Whole numbers are signed (Spark reads unsigned ones as decimals); times are int64
nanoseconds from the start of the recording.
"""

from __future__ import annotations

from .cuda_kinds import CUDA_KINDS
from .gpu_kind import GPU
from .kinds import COMMON as COMMON
from .kinds import Column as Column
from .kinds import Kind as Kind

FORMAT_MAJOR = 1
FORMAT_MINOR = 5
FORMAT_VERSION = f"{FORMAT_MAJOR}.{FORMAT_MINOR}"

#: Keys of the Parquet file metadata.
METADATA_VERSION = "scalene_trace.version"
METADATA_CRC32 = "scalene_trace.crc32"
METADATA_TRACE_ID = "scalene_trace.trace_id"
METADATA_FRAMES = "scalene_trace.frames"


KINDS: tuple[Kind, ...] = (
    Kind(
        "cpu",
        "a CPU tick: the thread was interrupted at this moment, while it used the CPU",
        ("t_ns", "process", "thread", "stack"),
        (
            Column(
                "user_ns",
                "int64",
                "ns",
                "user CPU time that this tick stands for, as sampled (see thread.cpu_ns for the exact sum)",
            ),
            Column("system_ns", "int64", "ns", "kernel CPU time that this tick stands for"),
            Column("clock_ns", "int64", "ns", "the thread's CPU clock at the tick, from the thread's first record"),
            Column(
                "pc_class",
                "string",
                "",
                "image of the interrupted instruction: eval (the bytecode loop), interpreter, support (libc and the like), extension, shim, unknown (JIT code)",
            ),
            Column(
                "pc_module", "int32", "", "id of the module row of the interrupted instruction", "in no known image"
            ),
            Column(
                "pc_offset",
                "int64",
                "bytes",
                "ELF virtual address of the interrupted instruction in that module",
                "in no known image",
            ),
            Column(
                "extension_module",
                "int32",
                "",
                "module of the first return address of an extension on the native stack, before the bytecode loop",
                "none was there",
            ),
            Column(
                "extension_offset", "int64", "bytes", "ELF virtual address of that return address", "none was there"
            ),
            Column(
                "opcode",
                "string",
                "",
                "instruction that the innermost frame was executing, specialised form as it stood in memory",
                "no frame, or not read",
            ),
            Column("eval_found", "bool", "", "the scan of the native stack met the bytecode loop"),
            Column(
                "vectorcall", "bool", "", "... and before it a return address in PyObject_Vectorcall or PyObject_Call*"
            ),
            Column("tp_call", "bool", "", "... or in _PyObject_MakeTpCall"),
            Column("frame_setup", "bool", "", "... or in code that sets up or clears a Python frame (3.10)"),
            Column("has_python", "bool", "", "the thread has a Python thread state"),
            Column("gc", "bool", "", "a garbage collection was running"),
            Column("torn", "bool", "", "the frames could not be read consistently: the stack is missing"),
            Column("system_only", "bool", "", "from the timer that carries kernel time only"),
        ),
    ),
    Kind(
        "wait",
        "a wait of a thread, seen from outside the program; a long one may be in pieces. t_ns = start",
        ("t_ns", "process", "thread", "stack"),
        (
            Column("duration_ns", "int64", "ns", "how long the thread waited"),
            Column(
                "span_ns",
                "int64",
                "ns",
                "from start to end: more than duration_ns where the thread ran for moments in between",
            ),
            Column(
                "class",
                "string",
                "",
                "sleep (blocked in a system call: a lock, a socket, sleep, poll, a child), disk (uninterruptible), runnable (wants the CPU and does not get it), gil (blocked on the interpreter's lock)",
            ),
            Column(
                "syscall",
                "int32",
                "",
                "number of the system call when the wait was met",
                "outside of system calls, or runnable",
            ),
            Column("looks", "int64", "", "how often the thread was found waiting there; 0 = no look met it"),
        ),
    ),
    Kind(
        "task",
        "an asyncio task that was suspended, seen from outside the program; a long suspension may be in pieces. t_ns = start. thread: runs its event loop. stack: from what is awaited out to the task's coroutine",
        ("t_ns", "process", "thread", "stack"),
        (
            Column(
                "duration_ns",
                "int64",
                "ns",
                "how long it was suspended there; where one task stands for several (loss tasks_sampled), theirs together",
            ),
            Column("span_ns", "int64", "ns", "from start to end"),
            Column("task", "int32", "", "counts the tasks that were met in the recording, from 1"),
            Column("name", "string", "", "the task's name when it was first met suspended", "could not be read"),
        ),
    ),
    Kind(
        "memory",
        "a footprint sample: allocated minus freed bytes moved by the threshold since the last sample of the process",
        ("t_ns", "process", "thread", "stack"),
        (
            Column("net_bytes", "int64", "bytes", "allocated minus freed since the last sample"),
            Column(
                "footprint_bytes",
                "int64",
                "bytes",
                "allocated minus freed since the process began, this sample included",
            ),
            Column(
                "python_footprint_bytes",
                "int64",
                "bytes",
                "the part of the footprint that went through Python's allocators",
            ),
            Column("allocated_bytes", "int64", "bytes", "allocated since the last sample, gross"),
            Column("python_allocated_bytes", "int64", "bytes", "the part of it that went through Python's allocators"),
        ),
    ),
    Kind(
        "alloc",
        "an allocation that was sampled, with its life; or one that set a new maximum of the footprint",
        ("t_ns", "process", "thread", "stack"),
        (
            Column("size_bytes", "int64", "bytes", "as requested; of this part, where the row is a part"),
            Column("usable_bytes", "int64", "bytes", "as the allocator gave it; of this part, where the row is a part"),
            Column(
                "block_bytes",
                "int64",
                "bytes",
                "usable bytes of the whole mapping, where it was unmapped in parts and each part has a row",
                "the row is the whole block",
            ),
            Column(
                "interval_bytes",
                "int64",
                "bytes",
                "sampling interval i: a block of b usable bytes was taken with the chance 1 - exp(-b / i); 1 = all were",
                "not sampled: recorded because it set a new maximum",
            ),
            Column(
                "life_interval_bytes",
                "int64",
                "bytes",
                "the interval that holds for its life (larger than interval_bytes where the table of live samples was thinned)",
                "its life was not followed, or it was not sampled",
            ),
            Column(
                "lifetime_ns",
                "int64",
                "ns",
                "from allocation to free",
                "not freed while recorded: alive at the end of its process, or not followed",
            ),
            Column("free_stack", "int32", "", "id of the stack that freed it", "not freed, or no Python stack"),
            Column(
                "survived",
                "int64",
                "",
                "garbage collections (of any generation) between allocation and free, or the end of its process",
                "no Python, or not followed",
            ),
            Column("at_exit", "bool", "", "freed while the interpreter was finalizing: alive until then"),
            Column(
                "allocator",
                "string",
                "",
                "what gave it: malloc, calloc, realloc, reallocarray, memalign, posix_memalign, aligned_alloc, valloc, pvalloc, mmap, mremap, mprotect (a reservation made accessible), pymalloc, chunk (of the frame stack)",
            ),
            Column("python", "bool", "", "it went through one of Python's allocators"),
            Column(
                "type",
                "string",
                "",
                "name of the Python object's type, as tp_name has it",
                "no Python object, or not known",
            ),
            Column("maximum", "bool", "", "the footprint reached a new maximum with it"),
        ),
    ),
    Kind(
        "copy",
        "a copy sample: what memcpy and memmove of the thread copied since its last one",
        ("t_ns", "process", "thread", "stack"),
        (Column("bytes", "int64", "bytes", "copied"),),
    ),
    *CUDA_KINDS,
    Kind(
        "gc",
        "garbage collections that ended since the row before, of the same process; noticed at samples, at most every 100 ms",
        ("t_ns", "process", "thread"),
        (
            Column("generation0", "int64", "", "collections of the youngest generation alone"),
            Column("generation1", "int64", "", "collections of the two younger ones"),
            Column("generation2", "int64", "", "full collections"),
            Column("collected", "int64", "", "objects collected"),
            Column("uncollectable", "int64", "", "objects found uncollectable"),
        ),
    ),
    Kind(
        "heap",
        "what a process's memory consists of: now and then, at new maxima, and at its end",
        ("t_ns", "process"),
        (
            Column("footprint_bytes", "int64", "bytes", "usable bytes of all live blocks and mappings"),
            Column("python_bytes", "int64", "bytes", "the part of it that went through Python's allocators"),
            Column("mapped_bytes", "int64", "bytes", "the part of it in anonymous mappings that libraries made"),
            Column(
                "untouched_bytes",
                "int64",
                "bytes",
                "the part of mapped_bytes that was not resident when it was last looked at, at most a second before",
            ),
            Column("reserved_bytes", "int64", "bytes", "mapped without access or reserve: address space, not memory"),
            Column("arena_bytes", "int64", "bytes", "arenas of pymalloc"),
            Column("pool_bytes", "int64", "bytes", "live blocks in those arenas"),
        ),
    ),
    Kind(
        "rss",
        "resident set of a process, read by the recorder",
        ("t_ns", "process"),
        (
            Column("rss_bytes", "int64", "bytes", "resident set size"),
            Column(
                "shared_bytes",
                "int64",
                "bytes",
                "the part of it that is backed by files or shared (libraries, file mappings, shared memory)",
                "written by an older recorder",
            ),
        ),
    ),
    Kind(
        "process",
        "a process, or rather an image: exec starts a new one. t_ns = start",
        ("t_ns", "process"),
        (
            Column("pid", "int64", "", "the system's process id"),
            Column("parent_pid", "int64", "", "the parent's pid at the start"),
            Column("parent", "int32", "", "id of the forking process, or of the image before exec", "not recorded"),
            Column("cause", "string", "", "root, fork, exec or spawn"),
            Column("executable", "string", "", "path of the executable"),
            Column("command", "list<string>", "", "command line", "left out with --no-argv"),
            Column("python_version", "string", "", "version of the interpreter", "no Python in this image"),
            Column("stacks", "bool", "", "Python stacks could be read"),
            Column("end_ns", "int64", "ns", "when it ended", "it did not say (killed, or still running)"),
            Column("end", "string", "", "exit, quick_exit (_exit) or exec", "it did not say"),
            Column("exit_status", "int64", "", "exit status; 128 + n for signal n", "not known"),
            Column("user_ns", "int64", "ns", "exact user CPU time of the image", "it did not say"),
            Column("system_ns", "int64", "ns", "exact kernel CPU time of the image", "it did not say"),
            Column(
                "peak_rss_bytes", "int64", "bytes", "the kernel's high-water mark of its resident set", "it did not say"
            ),
            Column(
                "start_footprint_bytes",
                "int64",
                "bytes",
                "footprint at the start (a forked child inherits its parent's)",
            ),
            Column("end_footprint_bytes", "int64", "bytes", "footprint at the end", "it did not say"),
        ),
    ),
    Kind(
        "thread",
        "a thread. t_ns = start",
        ("t_ns", "process", "thread"),
        (
            Column("tid", "int64", "", "the system's thread id"),
            Column("name", "string", "", "name as the kernel has it", "it did not end while recorded"),
            Column("engine", "string", "", "what drives its ticks: perf, posix, none"),
            Column("end_ns", "int64", "ns", "when it ended", "it did not end while recorded"),
            Column(
                "cpu_ns",
                "int64",
                "ns",
                "exact CPU time, less what it used while paused; for a thread that did not end, up to its last tick",
            ),
            Column(
                "user_ns",
                "int64",
                "ns",
                "the kernel's user part of it (tick-based on most kernels)",
                "it did not end while recorded",
            ),
            Column("system_ns", "int64", "ns", "the kernel's system part of it", "it did not end while recorded"),
        ),
    ),
    Kind(
        "location",
        "a line of a function: what frames point to",
        (),
        (
            Column("id", "int32", "", "what stack.locations refers to"),
            Column("file", "string", "", "file name of the code object, as compiled"),
            Column("function", "string", "", "qualified name (3.10: plain name)"),
            Column("first_line", "int32", "", "first line of the function"),
            Column("line", "int32", "", "line of the instruction; 0 = the instruction has none"),
        ),
    ),
    Kind(
        "stack",
        "a Python stack, id in column stack",
        ("stack",),
        (
            Column(
                "hash", "int64", "", "over file, function, first line and line of every frame: equal in every trace"
            ),
            Column("locations", "list<int32>", "", "location ids, innermost frame first"),
            Column("truncated", "bool", "", "deeper than the limit: the outermost frames are missing"),
        ),
    ),
    Kind(
        "code",
        "bytecode of a code object that was innermost in a tick",
        (),
        (
            Column("file", "string", "", "file name"),
            Column("function", "string", "", "qualified name"),
            Column("first_line", "int32", "", "first line"),
            Column("python_version", "string", "", "which interpreter's instructions these are"),
            Column(
                "bytecode",
                "binary",
                "",
                "as it stood in memory when first seen (3.11 on: specialised in part)",
                "too large",
            ),
        ),
    ),
    Kind(
        "module",
        "a native image: the interpreter, libraries, extensions",
        (),
        (
            Column("id", "int32", "", "what cpu.pc_module refers to"),
            Column("path", "string", "", "path of the file"),
            Column("class", "string", "", "interpreter, support, extension or shim"),
        ),
    ),
    Kind(
        "symbol",
        "a function of a native image, for the sampled addresses in [start_offset, end_offset): rows do not overlap",
        (),
        (
            Column("module", "int32", "", "id of the module row"),
            Column(
                "start_offset",
                "int64",
                "bytes",
                "lowest ELF virtual address sampled in it (of a return address: one less)",
            ),
            Column("end_offset", "int64", "bytes", "behind the highest one"),
            Column("name", "string", "", "as in the file's symbol table, without a version; mangled for C++ and Rust"),
        ),
    ),
    Kind(
        "source",
        "text of a source file that stacks point to",
        (),
        (
            Column("file", "string", "", "as in location.file"),
            Column("text", "string", "", "the file's text at the end of the recording"),
            Column("changed", "bool", "", "the file was modified after the recording began"),
        ),
    ),
    Kind(
        "mark",
        "something that somebody said while recording: a mark, a pause, a changed setting",
        ("t_ns",),
        (
            Column("what", "string", "", "mark (by the program, or from outside), pause or set"),
            Column(
                "text",
                "string",
                "",
                "the mark's text; of set: what was set, as given (cpu-interval=1ms). Settings hold what was in force first",
            ),
            Column(
                "end_ns",
                "int64",
                "ns",
                "end of the block that is marked; end of the pause",
                "a moment, or the end was not reached while recorded",
            ),
            Column("pid", "int64", "", "pid of the program's process that set the mark", "came from outside"),
        ),
    ),
    GPU,
    Kind(
        "setting",
        "a setting or a fact about the host, as text",
        (),
        (
            Column(
                "name", "string", "", "for example cpu_interval_ns, started_at, command, exit_status, hostname, kernel"
            ),
            Column("value", "string", "", "numbers in decimal, lists as JSON"),
        ),
    ),
    Kind(
        "loss",
        "something that was not recorded, or not as well as it could be",
        (),
        (
            Column("name", "string", "", "stable name"),
            Column(
                "severity",
                "string",
                "",
                "info (nothing is missing), loss (samples are missing), error (a whole kind is missing)",
            ),
            Column("count", "int64", "", "how often"),
            Column("text", "string", "", "one sentence"),
        ),
    ),
)


def kind(name: str) -> Kind:
    """The kind called ``name``; KeyError if there is none."""
    for each in KINDS:
        if each.name == name:
            return each
    raise KeyError(name)
