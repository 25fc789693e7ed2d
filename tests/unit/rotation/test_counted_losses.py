"""Which losses count events, so that a later trace has those of its own time only, and which say what holds on."""

from __future__ import annotations

from scalene_trace.formats.spool.losses import RECORDER_LOSSES, shim_losses
from scalene_trace.recorder.rotate import pieces
from scalene_trace.recorder.rotate.pieces import counted_losses
from scalene_trace.recorder.rotate.segments import Segment

COUNT_EVENTS = """
    spool_full torn_stack deep_stack scratch_busy unmapped_chunk perf_closed perf_silent bootstrap_exhausted
    alloc_table_full alloc_thinned types_unread waits_torn waits_unplaced waits_rare waits_impossible tasks_torn
    environment_lost process_slots unrecorded_static unrecorded_setuid unrecorded_image spool_space marks_left_out gpu_ticks
    traces_given_up labels_unread attached_lost
"""
#: Of processes and threads that go on; counted once in each, or as the most at once; or what later figures build on. Those of
#: processes that were attached to are here too: such recordings do not rotate.
HOLD_ON = """
    unknown_python sub_interpreters engine_posix thread_posix thread_unarmed signal_budget read_refused stacks_off
    allocator_replaced python_malloc code_too_large no_usable_size small_alternate_stack mapping_missed waits_off
    waits_crowded tasks_unread tasks_crowded tasks_sampled tasks_rare greenlets_unread device_unhooked foreign_allocator
    rights_unannounced seccomp python_late python_second python_namespace python_direct python_unseen faults_unseen
    interval_widened images_crowded loop_unread free_threaded allocator_covered pools_unread copies_diverted
    allocator_bypassed
    attached_polled attached_unseen attached_missed attached_memory_ended attached_memory_children
    attached_native_unknown attached_slots attached_unclassified budget_exceeded arenas_only labels_off
    rss_processes watcher_off gpu_off gpu_lost gpu_untold gpu_whole_device
"""
#: What the conversion of each trace finds by itself, and what is told in the last one.
OF_EACH_TRACE = """
    damaged_records unresolved_stack unresolved_native unknown_lines unknown_opcodes source_unread source_changed
    symbols_unread symbols_changed files_withheld recovered rotated attached_memory paused never_resumed processes_running
    snapshots_failed rotations_failed spool_removed exact_cost
"""


def test_each_loss_counts_events_or_holds_on() -> None:
    known = [each.name for each in (*shim_losses(), *RECORDER_LOSSES)]
    assert sorted(known) == sorted([*COUNT_EVENTS.split(), *HOLD_ON.split(), *OF_EACH_TRACE.split()])
    assert {*COUNT_EVENTS.split()} == pieces._COUNTED


def test_a_later_trace_has_the_events_of_its_own_time() -> None:
    segment = Segment(2, "ab" * 16, counts={"spool_space": 3, "watcher_off": 1})
    assert counted_losses({"spool_space": 5, "watcher_off": 1}, segment) == {"spool_space": 2, "watcher_off": 1}
