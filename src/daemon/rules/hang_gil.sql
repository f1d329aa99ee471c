-- class: hang
-- about: A thread keeps the interpreter lock, so that nothing else in Python can run.
-- The probe looks at the interpreter every few seconds (python.memory). When it has not got the lock
-- for several such times and {patience} seconds, and one thread has it now, that thread is named.
WITH
-- Clocks of other hosts, as far as their offset is known.
clock AS (
  SELECT host, (any_value(clock_offset_ms) * 1e6)::BIGINT AS offset_ns FROM cluster.nodes GROUP BY host
),
inside AS (
  SELECT host, pid, rank, timestamp_ns,
         timestamp_ns - lag(timestamp_ns) OVER (PARTITION BY host, pid ORDER BY timestamp_ns) AS gap_ns
  FROM global.python.memory WHERE blocks IS NOT NULL
),
silent AS (
  SELECT host, pid, rank, (epoch_ns(now()) - max(timestamp_ns - coalesce(offset_ns, 0))) / 1e9 AS seconds
  FROM inside LEFT JOIN clock USING (host) GROUP BY host, pid, rank
  HAVING count(*) >= 3 AND seconds > greatest({patience}, 3 * median(gap_ns) / 1e9)
)
SELECT CASE WHEN s.rank IS NULL THEN [] ELSE [s.rank] END AS ranks, [s.pid] AS pids, s.host, 'error' AS severity,
       'thread ' || coalesce(k.thread_name, k.tid::VARCHAR) || ' keeps the GIL in ' || k.func || ' ('
       || coalesce(parse_filename(k.file), '?') || coalesce(':' || k.lineno, '') || '); nobody else got it for '
       || round(s.seconds, 1) || ' s' AS evidence,
       'probing -t ' || s.pid || ' backtrace --native' AS next
FROM silent AS s JOIN global.python.stacks AS k ON k.host = s.host AND k.pid = s.pid
WHERE k.depth = 0 AND k.has_gil
