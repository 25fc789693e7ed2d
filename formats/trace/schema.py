"""The columns of a trace, as plain data.

A trace is one Parquet file with one table. The columns of :data:`COMMON` are at the top level; the rest of each row is in one
struct column per kind (:attr:`Kind.struct`), which is null on rows of every other kind. Everything that reads or writes a
trace derives from :data:`KINDS`: the writer's Arrow schema, the views of the analysis, and ``docs/trace-format.md``.

Types have Arrow's names. Integers are signed, because Spark reads unsigned ones as decimals. Times are int64 nanoseconds
from the start of the recording.
"""

from __future__ import annotations

from .cuda_kinds import CUDA_KINDS
from .gpu_kind import GPU
from .kinds import COMMON as COMMON
from .kinds import Column as Column
from .kinds import Kind as Kind
from .native_kinds import NATIVE_KINDS
from .process_kinds import PROCESS_KINDS

FORMAT_MAJOR = 1
FORMAT_MINOR = 12
FORMAT_VERSION = f"{FORMAT_MAJOR}.{FORMAT_MINOR}"

#: Keys of the Parquet file metadata.
METADATA_VERSION = "scalene_trace.version"
METADATA_CRC32 = "scalene_trace.crc32"
METADATA_TRACE_ID = "scalene_trace.trace_id"
METADATA_FRAMES = "scalene_trace.frames"


KINDS: tuple[Kind, ...] = (
    Kind(
        "cpu",
        "a CPU tick: the thread was interrupted at this time, while it was using the CPU; or, without a stack, the CPU time that the end of its process took",
        ("t_ns", "process", "thread", "stack"),
        (
            Column(
                "user_ns",
                "int64",
                "ns",
                "user CPU time that this tick represents (thread.cpu_ns has the exact sum)",
            ),
            Column("system_ns", "int64", "ns", "kernel CPU time that this tick represents"),
            Column("clock_ns", "int64", "ns", "the thread's CPU clock at the tick, from the thread's first record"),
            Column(
                "pc_class",
                "string",
                "",
                "image of the interrupted instruction: eval (the bytecode loop), interpreter, support (libc and similar), extension, shim, unknown (JIT code), unread (not known: attached to, and polled or not readable)",
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
                "id of the module row of the innermost extension whose function has called others on the native stack, before the bytecode loop",
                "there was none",
            ),
            Column(
                "extension_offset",
                "int64",
                "bytes",
                "ELF virtual address at which that function starts; where native is NULL, that of the return address in it",
                "there was none",
            ),
            Column(
                "native",
                "int32",
                "",
                "id of the native row of the function that was interrupted",
                "in the bytecode loop, not known, or recorded by an older version",
            ),
            Column(
                "opcode",
                "string",
                "",
                "instruction that the innermost frame was executing, in its specialized form",
                "no frame, or it could not be read",
            ),
            Column("eval_found", "bool", "", "the bytecode loop was found on the native stack"),
            Column(
                "vectorcall",
                "bool",
                "",
                "the bytecode loop has called a C function, or PyObject_Vectorcall or PyObject_Call* were on the stack",
            ),
            Column(
                "tp_call", "bool", "", "it has called a type or another object that is not known to be written in C"
            ),
            Column(
                "frame_setup",
                "bool",
                "",
                "code that sets up or clears a Python frame was running, or, with tp_call, code that makes an instance "
                "of a Python class",
            ),
            Column(
                "type_call",
                "bool",
                "",
                "the function through which types or bound methods are called was running itself, or one that it calls by "
                "name, or object's own, which make instances of some types in C too; with vectorcall and without tp_call: an "
                "object that was called has called a C function",
                "recorded by an older version",
            ),
            Column("has_python", "bool", "", "the thread has a Python thread state"),
            Column("gc", "bool", "", "a garbage collection was running"),
            Column("torn", "bool", "", "the frames could not be read consistently, so the stack is missing"),
            Column("system_only", "bool", "", "from the timer that counts kernel time only"),
        ),
    ),
    Kind(
        "wait",
        "a wait of a thread, observed from outside of the program; a long wait may have several rows. t_ns = start",
        ("t_ns", "process", "thread", "stack"),
        (
            Column("duration_ns", "int64", "ns", "how long the thread waited"),
            Column(
                "span_ns",
                "int64",
                "ns",
                "from start to end; more than duration_ns if the thread ran for short times in between",
            ),
            Column(
                "class",
                "string",
                "",
                "sleep (blocked in a system call: a lock, a socket, sleep, poll, a child), disk (uninterruptible), runnable (ready, but without a CPU), gil (blocked on the interpreter's lock)",
            ),
            Column(
                "syscall",
                "int32",
                "",
                "number of the system call when the wait was observed",
                "not in a system call, or runnable",
            ),
            Column(
                "looks",
                "int64",
                "",
                "number of observations that found the thread waiting there; 0 = between two of them",
            ),
            Column(
                "native",
                "int32",
                "",
                "id of the native row of the innermost function: libc's in a system call. Its callers lead to the library that waits",
                "waits that were too short to be observed twice in the same place, runnable, gil, not readable, or recorded by an older version",
            ),
        ),
    ),
    Kind(
        "task",
        "an asyncio task or a greenlet of gevent that was suspended, observed from outside of the program; a long suspension may have several rows. t_ns = start; thread: the one that runs its event loop; stack: from the innermost await out to the task's coroutine",
        ("t_ns", "process", "thread", "stack"),
        (
            Column(
                "duration_ns",
                "int64",
                "ns",
                "how long it was suspended there; if one task represents several (loss tasks_sampled), the sum over all of them",
            ),
            Column("span_ns", "int64", "ns", "from start to end"),
            Column("task", "int32", "", "number of the task in the order of first observation, from 1"),
            Column("name", "string", "", "the task's name when it was first observed suspended", "could not be read"),
        ),
    ),
    Kind(
        "memory",
        "a footprint sample: allocated minus freed bytes changed by the threshold since the last sample of the process",
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
            Column("allocated_bytes", "int64", "bytes", "allocated since the last sample, without subtracting frees"),
            Column("python_allocated_bytes", "int64", "bytes", "the part of it that went through Python's allocators"),
        ),
    ),
    Kind(
        "alloc",
        "an allocation that was sampled, with its life; or an allocation that set a new maximum of the footprint",
        ("t_ns", "process", "thread", "stack"),
        (
            Column("size_bytes", "int64", "bytes", "as requested; of this part, if the row is a part"),
            Column("usable_bytes", "int64", "bytes", "as the allocator gave it; of this part, if the row is a part"),
            Column(
                "block_bytes",
                "int64",
                "bytes",
                "usable bytes of the whole mapping, if it was unmapped in parts, which have a row each",
                "the row is the whole block",
            ),
            Column(
                "interval_bytes",
                "int64",
                "bytes",
                "sampling interval i: a block of b usable bytes was sampled with probability 1 - exp(-b / i); 1 = all were",
                "not sampled: recorded because it set a new maximum",
            ),
            Column(
                "life_interval_bytes",
                "int64",
                "bytes",
                "the interval that applies to its life (larger than interval_bytes if the table of live samples was thinned)",
                "its life was not followed, or it was not sampled",
            ),
            Column(
                "base_interval_bytes",
                "int64",
                "bytes",
                "the interval in force then for code without samples (rounded up by at most 1/128); what has no sample allocated less than three of these in 95 % of the cases",
                "recorded by an older version",
            ),
            Column(
                "lifetime_ns",
                "int64",
                "ns",
                "from allocation to free",
                "not freed during the recording: alive at the end of its process, or not followed",
            ),
            Column("free_stack", "int32", "", "id of the stack row that freed it", "not freed, or no Python stack"),
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
                "function that allocated it: malloc, calloc, realloc, reallocarray, memalign, posix_memalign, aligned_alloc, valloc, pvalloc, mmap, mremap, mprotect (a reservation made accessible), pymalloc, chunk (of the frame stack), arena (of pymalloc as a whole: loss arenas_only)",
            ),
            Column("python", "bool", "", "it went through one of Python's allocators"),
            Column(
                "type",
                "string",
                "",
                "name of the Python object's type, as tp_name has it",
                "not a Python object, or unknown",
            ),
            Column("maximum", "bool", "", "the footprint reached a new maximum with this allocation"),
            Column(
                "native",
                "int32",
                "",
                "id of the native row of the function that asked for the block",
                "recorded without --native-alloc, or not known",
            ),
        ),
    ),
    Kind(
        "copy",
        "a copy sample: the bytes that memcpy and memmove of the thread have copied since its last sample",
        ("t_ns", "process", "thread", "stack"),
        (Column("bytes", "int64", "bytes", "copied"),),
    ),
    *CUDA_KINDS,
    Kind(
        "gc",
        "garbage collections that ended since the previous row of the same process; checked at samples, at most every 100 ms",
        ("t_ns", "process", "thread"),
        (
            Column("generation0", "int64", "", "collections of the youngest generation only"),
            Column("generation1", "int64", "", "collections of the two younger generations"),
            Column("generation2", "int64", "", "full collections"),
            Column("collected", "int64", "", "objects collected"),
            Column("uncollectable", "int64", "", "objects found uncollectable"),
        ),
    ),
    Kind(
        "heap",
        "the parts of a process's memory, recorded at intervals, at new maxima, and at its end",
        ("t_ns", "process"),
        (
            Column("footprint_bytes", "int64", "bytes", "usable bytes of all live blocks and mappings"),
            Column("python_bytes", "int64", "bytes", "the part of it that went through Python's allocators"),
            Column(
                "mapped_bytes",
                "int64",
                "bytes",
                "the part of it in anonymous mappings that the program or libraries made",
            ),
            Column(
                "untouched_bytes",
                "int64",
                "bytes",
                "the part of mapped_bytes that was not resident when last checked, at most a second before",
            ),
            Column(
                "shared_mapped_bytes",
                "int64",
                "bytes",
                "the part of mapped_bytes that was resident then and is shared (MAP_SHARED): rss.shared_bytes has it, too",
                "recorded by an older version",
            ),
            Column("reserved_bytes", "int64", "bytes", "mapped without access or reserve: address space, not memory"),
            Column("arena_bytes", "int64", "bytes", "arenas of pymalloc"),
            Column(
                "pool_bytes", "int64", "bytes", "live blocks in those arenas", "only arenas were counted (arenas_only)"
            ),
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
                "recorded by an older version",
            ),
        ),
    ),
    *PROCESS_KINDS,
    Kind(
        "location",
        "a line of a function, as frames refer to it",
        (),
        (
            Column("id", "int32", "", "the id that stack.locations refers to"),
            Column("file", "string", "", "file name of the code object, as compiled"),
            Column("function", "string", "", "qualified name (3.10: plain name)"),
            Column("first_line", "int32", "", "first line of the function"),
            Column("line", "int32", "", "line of the instruction; 0 = the instruction has none"),
        ),
    ),
    Kind(
        "stack",
        "a Python stack; the column stack has its id",
        ("stack",),
        (
            Column(
                "hash",
                "int64",
                "",
                "over file, function, first line and line of every frame: equal stacks have equal hashes in all traces",
            ),
            Column("locations", "list<int32>", "", "location ids, innermost frame first"),
            Column("truncated", "bool", "", "deeper than the limit: the outermost frames are missing"),
            Column(
                "labels",
                "list<string>",
                "",
                "labels of the context in which it was running (scalene_trace.recorder.label), name=value each, by name: stacks that differ in them are different ones",
                "none, not known, or recorded by an older version",
            ),
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
            Column("python_version", "string", "", "version of the interpreter that the instructions belong to"),
            Column(
                "bytecode",
                "binary",
                "",
                "as in memory when first recorded (from 3.11 on partly specialized)",
                "too large",
            ),
        ),
    ),
    *NATIVE_KINDS,
    Kind(
        "source",
        "a source file that stacks refer to",
        (),
        (
            Column("file", "string", "", "as in location.file"),
            Column(
                "text",
                "string",
                "",
                "the file's text when it was read: while the program ran, or at the end of the recording",
            ),
            Column(
                "changed", "bool", "", "the file was modified after the start of the recording, and read after that"
            ),
        ),
    ),
    Kind(
        "mark",
        "an event that the user or the program caused: a user mark, a pause, a changed setting",
        ("t_ns",),
        (
            Column("what", "string", "", "mark (set by the program, or from outside), pause or set"),
            Column(
                "text",
                "string",
                "",
                "the mark's text; for set: the new setting as given (cpu-interval=1ms). The kind setting has the initial values; for pause: the option that caused it (sample 30s/10min), empty when a person or the program did",
            ),
            Column(
                "end_ns",
                "int64",
                "ns",
                "end of the marked block; end of the pause",
                "a single moment, or the end was not reached during the recording",
            ),
            Column("pid", "int64", "", "pid of the program's process that set the mark", "set from outside"),
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
        "something that was not recorded, or recorded with less precision",
        (),
        (
            Column("name", "string", "", "stable name"),
            Column(
                "severity",
                "string",
                "",
                "info (nothing is missing), loss (samples are missing), error (a whole kind of rows is missing)",
            ),
            Column("count", "int64", "", "number of times"),
            Column("text", "string", "", "one sentence"),
        ),
    ),
)


def kind(name: str) -> Kind:
    """The kind with this name. Raises KeyError if there is none."""
    for each in KINDS:
        if each.name == name:
            return each
    raise KeyError(name)
