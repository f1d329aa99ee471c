-- class: gc_pause
-- about: The garbage collector holds up the process.
-- More than a twentieth of the last six times {patience} seconds went into collections, or one of
-- them took more than half a second. What is collected before the first step is the start of a program.
WITH begun AS (
  SELECT host, pid, min(timestamp) AS first_step FROM global.python.torch_steps GROUP BY host, pid
)
SELECT CASE WHEN rank IS NULL THEN [] ELSE [rank] END AS ranks, [pid] AS pids, host, 'warning' AS severity,
       count(*) || ' garbage collections took ' || round(sum(duration_ms)) || ' ms of the last '
       || round({patience} * 6) || ' s, the longest ' || round(max(duration_ms), 1) || ' ms' AS evidence,
       'probing -t ' || pid
       || ' eval "import gc; (gc.get_threshold(), len(gc.get_objects()))"' AS next
FROM global.python.gc LEFT JOIN begun USING (host, pid)
WHERE timestamp > now() - to_seconds({patience} * 6) AND (first_step IS NULL OR timestamp > first_step)
GROUP BY host, pid, rank
HAVING sum(duration_ms) > 0.05 * {patience} * 6000 OR max(duration_ms) > 500
