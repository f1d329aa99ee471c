-- class: gc_pause
-- about: The garbage collector holds up the process.
-- More than a twentieth of the last six times {patience} seconds, and of the last {patience}, went into
-- collections, or two of them took more than half a second each and the job went on after it. What is collected
-- before the first step or collective, or while modules are imported, is the start of a program, and what a process
-- collects when it ends is no pause.
WITH begun AS (
  SELECT host, pid, greatest(min(timestamp) FILTER (is_step), max(timestamp) FILTER (NOT is_step)) AS first_step,
         max(timestamp) FILTER (is_step) AS last_step
  FROM (SELECT host, pid, timestamp, true AS is_step FROM global.python.torch_steps
        UNION ALL SELECT host, pid, timestamp, true FROM global.python.collective_starts
        UNION ALL SELECT host, pid, max(timestamp), false FROM global.python.samples
                  WHERE tid = pid AND contains(stack, ';_find_and_load (') GROUP BY host, pid HAVING count(*) >= 5)
  GROUP BY host, pid
),
collected AS (
  SELECT host, pid, rank, count(*) AS times, sum(duration_ms) AS took, max(duration_ms) AS longest,
         coalesce(sum(duration_ms) FILTER (timestamp > now() - to_seconds({patience})), 0) AS lately,
         count(*) FILTER (last_step IS NOT NULL AND duration_ms > 500) AS long_ones
  FROM global.python.gc LEFT JOIN begun USING (host, pid)
  WHERE timestamp > now() - to_seconds({patience} * 6) AND (first_step IS NULL OR timestamp > first_step)
    AND (last_step IS NULL OR timestamp < last_step)
    AND (host, pid) IN (SELECT (host, pid) FROM global.probing.targets WHERE state = 'live')
  GROUP BY host, pid, rank
)
SELECT CASE WHEN rank IS NULL THEN [] ELSE [rank] END AS ranks, [pid] AS pids, host, 'warning' AS severity,
       times || ' garbage collections took ' || round(took) || ' ms of the last '
       || round({patience} * 6) || ' s, the longest ' || round(longest, 1) || ' ms' AS evidence,
       'probing -t ' || pid
       || ' eval "import gc; (gc.get_threshold(), len(gc.get_objects()))"' AS next
FROM collected
WHERE (took > 0.05 * {patience} * 6000 AND lately > 0.05 * {patience} * 1000) OR long_ones >= 2
