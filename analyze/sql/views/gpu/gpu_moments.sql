-- Answers: at which moments are GPU time and memory charged, and what does each moment stand for?
-- Each interval that the driver reports is cut into equal pieces, and their middles are the moments: pieces of at most
-- 10 ms for utilisation, 50 ms for memory; longer ones where there are many intervals, down to one piece for each. The
-- driver averages over as much as a second. So if a device was at least twice as busy on one side of an interval as on
-- the other, and busier there than in the interval, the work of the interval is moved to that end, as dense as there.
-- Reads: gpu_ticks, threads
-- Stored: no
-- Columns:
--   trace
--   process: process id; NULL = any process
--   device: place of the device, from 0; NULL = all devices together (of memory)
--   t_ns, step_ns, window_ns
--   gpu_s [s]: GPU time; 0 = the moment is about memory
--   memory_bytes [bytes]: GPU memory of the process; NULL = the moment is about utilisation
-- Order: none
WITH budgets AS (
    SELECT 480000 // greatest(count(*), 8) AS busy, 160000 // greatest(count(*), 8) AS memory FROM threads
), ticks AS (
    SELECT *, busy_ns / duration_ns AS share FROM gpu_ticks WHERE charged AND busy_ns IS NOT NULL AND duration_ns > 0
), near AS (
    SELECT *, if(lag(t_ns + duration_ns) OVER life >= t_ns - duration_ns, lag(share) OVER life, 0) AS share_before,
        if(lead(t_ns) OVER life <= t_ns + 2 * duration_ns, lead(share) OVER life, 0) AS share_after
    FROM ticks WINDOW life AS (PARTITION BY trace, process, device, scope ORDER BY t_ns, duration_ns)
), sides AS (
    SELECT *, greatest(share_before, share_after, 0) AS high,
        least(coalesce(share_before, 0), coalesce(share_after, 0)) AS low,
        high > share AND low <= high / 2 AS is_edge,
        coalesce(share_after > share_before, share_after > 0, false) AS is_rise
    FROM near WHERE busy_ns > 0
), placed AS (
    SELECT trace, process, device, duration_ns AS window_ns, busy_ns,
        if(is_edge, greatest(floor(busy_ns / high)::BIGINT, 1), duration_ns) AS span_ns,
        if(is_edge AND is_rise, t_ns + duration_ns - span_ns, t_ns) AS from_ns
    FROM sides
), pieces AS (
    SELECT *, least(ceil(span_ns / 1e7)::BIGINT, greatest(budgets.busy // count(*) OVER (), 1), 150) AS number
    FROM placed, budgets
), looks AS (
    SELECT trace, process, t_ns, duration_ns, sum(memory_bytes)::BIGINT AS memory_bytes,
        1 + least(duration_ns // 50000000, greatest(any_value(memory) // count(*) OVER (), 1), 20) AS number
    FROM gpu_ticks, budgets WHERE charged AND memory_bytes IS NOT NULL GROUP BY trace, process, t_ns, duration_ns
)
SELECT trace, process, device, from_ns + span_ns * (2 * place + 1) // (2 * number) AS t_ns,
    span_ns // number AS step_ns, window_ns, busy_ns / 1e9 / number AS gpu_s, NULL::BIGINT AS memory_bytes
FROM (SELECT *, unnest(range(number)) AS place FROM pieces)
UNION ALL BY NAME
SELECT trace, process, NULL::INTEGER AS device, t_ns + if(number > 1, duration_ns * place // (number - 1), 0) AS t_ns,
    0::BIGINT AS step_ns, 0::BIGINT AS window_ns, 0::DOUBLE AS gpu_s, memory_bytes
FROM (SELECT *, unnest(range(number)) AS place FROM looks)
