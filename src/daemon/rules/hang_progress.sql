-- class: hang
-- about: The training steps have stopped although the process lives.
-- No step (python.torch_steps) has ended for {patience} seconds and for ten times as long as the
-- longest of the last hundred took. Ranks that wait in a collective are left to collective_hang.
WITH
-- Clocks of other hosts, as far as their offset is known.
clock AS (
  SELECT host, (any_value(clock_offset_ms) * 1e6)::BIGINT AS offset_ns FROM cluster.nodes GROUP BY host
),
steps AS (
  SELECT host, pid, rank, step, duration,
         timestamp_ns + (duration * 1e9)::BIGINT - coalesce(offset_ns, 0) AS end_ns
  FROM global.python.torch_steps LEFT JOIN clock USING (host)
  QUALIFY row_number() OVER (PARTITION BY host, pid ORDER BY timestamp_ns DESC) <= 100
),
silent AS (
  SELECT host, pid, rank, max(step) AS step, (epoch_ns(now()) - max(end_ns)) / 1e9 AS seconds,
         max(duration) AS longest
  FROM steps
  WHERE (host, pid) IN (SELECT (host, pid) FROM global.probing.targets WHERE state = 'live')
  GROUP BY host, pid, rank
  HAVING count(*) >= 5 AND seconds > greatest({patience}, 10 * longest)
),
pending AS (
  SELECT host, pid, max(timestamp_ns) AS timestamp_ns FROM global.python.collective_starts GROUP BY host, pid
)
SELECT CASE WHEN s.rank IS NULL THEN [] ELSE [s.rank] END AS ranks, [s.pid] AS pids, s.host, 'error' AS severity,
       'no step has ended for ' || round(s.seconds, 1) || ' s since step ' || s.step || ' (the longest before took '
       || round(s.longest, 3) || ' s); the main thread is in '
       || coalesce(any_value(b.place), 'no Python code') AS evidence,
       'probing -t ' || s.pid || ' backtrace --locals' AS next
FROM silent AS s
LEFT JOIN {places} AS b ON b.host = s.host AND b.pid = s.pid
WHERE NOT EXISTS (
  SELECT 1 FROM pending AS p WHERE p.host = s.host AND p.pid = s.pid
    AND NOT EXISTS (SELECT 1 FROM global.python.collectives AS c
                    WHERE c.host = p.host AND c.pid = p.pid AND c.timestamp_ns = p.timestamp_ns))
GROUP BY s.host, s.pid, s.rank, s.seconds, s.step, s.longest
