"""The kinds of rows about native code: functions on native stacks, images, and symbols."""

from __future__ import annotations

from .kinds import Column, Kind

NATIVE_KINDS: tuple[Kind, ...] = (
    Kind(
        "native",
        "a function on the native stack of a tick, an allocation or a wait. Its callers lead to the function that the bytecode loop has called, or to the thread's start; those of a wait end at the interpreter's innermost function, or at the latest 16 functions beyond the first one in a library",
        (),
        (
            Column(
                "id",
                "int32",
                "",
                "the id that cpu.native, alloc.native and wait.native refer to; callers have lower ids",
            ),
            Column("parent", "int32", "", "id of the row of its caller", "none, or not known"),
            Column("module", "int32", "", "id of the module row", "in no known image (JIT code)"),
            Column(
                "offset",
                "int64",
                "bytes",
                "ELF virtual address at which the function starts; without unwind tables, that of a call in it",
                "not known: cpu.pc_offset is in the function",
            ),
            Column("gap", "bool", "", "functions between it and its parent, or outer ones, may be missing"),
        ),
    ),
    Kind(
        "module",
        "a native image: the interpreter, libraries, extensions",
        (),
        (
            Column("id", "int32", "", "the id that cpu.pc_module refers to"),
            Column("path", "string", "", "path of the file"),
            Column("class", "string", "", "interpreter, support, extension or shim"),
        ),
    ),
    Kind(
        "symbol",
        "a function of a native image, for the sampled addresses in [start_offset, end_offset); rows do not overlap",
        (),
        (
            Column("module", "int32", "", "id of the module row"),
            Column(
                "start_offset",
                "int64",
                "bytes",
                "lowest ELF virtual address sampled in it (for a return address: one less)",
            ),
            Column("end_offset", "int64", "bytes", "one more than the highest one"),
            Column(
                "name", "string", "", "from the file's symbol table, without a symbol version; mangled for C++ and Rust"
            ),
            Column(
                "demangled",
                "string",
                "",
                "the same for people: a name of C++ or Rust without parameters and return type; where it is long, with <…> for the arguments of its templates",
                "the name is not mangled, it could not be read, or recorded by an older version",
            ),
        ),
    ),
)
