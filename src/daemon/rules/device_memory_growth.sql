-- class: device_memory_growth
-- about: The memory of a process on a GPU grows all the time.
-- Over the last six times {patience} seconds it lies on a rising line, grew in every third of that time, and
-- by more than 32 MB and a twentieth of what it was. What grows before the first step, or while modules are
-- imported, is the start of a program.
WITH begun AS (
  SELECT host, pid, max(timestamp) AS first_step
  FROM (SELECT host, pid, min(timestamp) AS timestamp FROM global.python.torch_steps
        WHERE timestamp > now() - to_seconds({patience} * 6) GROUP BY host, pid
        UNION ALL
        SELECT host, pid, max(timestamp) FROM global.python.samples
        WHERE tid = pid AND contains(stack, ';_find_and_load (') AND timestamp > now() - to_seconds({patience} * 6)
        GROUP BY host, pid HAVING count(*) >= 5)
  GROUP BY host, pid
),
recent AS (
  SELECT host, pid, rank, device, name, epoch(timestamp) AS s, process_memory AS bytes,
         memory_total - memory_used AS free,
         ntile(3) OVER (PARTITION BY host, pid, device ORDER BY timestamp_ns) AS third
  FROM global.system.gpu LEFT JOIN begun USING (host, pid)
  WHERE timestamp > now() - to_seconds({patience} * 6) AND process_memory IS NOT NULL
    AND (first_step IS NULL OR timestamp > first_step)
),
grown AS (
  SELECT host, pid, rank, device, any_value(name) AS name, regr_slope(bytes, s) AS rate,
         regr_r2(bytes, s) AS fit, max(s) - min(s) AS seconds, arg_min(bytes, s) AS first,
         arg_max(bytes, s) AS last, arg_max(free, s) AS free, avg(bytes) FILTER (third = 1) AS a,
         avg(bytes) FILTER (third = 2) AS b, avg(bytes) FILTER (third = 3) AS c
  FROM recent GROUP BY host, pid, rank, device HAVING count(*) >= 9
)
SELECT CASE WHEN rank IS NULL THEN [] ELSE [rank] END AS ranks, [pid] AS pids, host,
       CASE WHEN free / rate < 600 THEN 'error' ELSE 'warning' END AS severity,
       'memory on GPU ' || device || ' (' || name || ') grows by ' || round(rate / 1048576, 2)
       || ' MB/s: from ' || round(first / 1048576) || ' to ' || round(last / 1048576) || ' MB in '
       || round(seconds) || ' s; it has none left in ' || round(free / rate / 60) || ' min' AS evidence,
       'probing -t ' || pid || ' memory --leaks' AS next
FROM grown
WHERE seconds >= {patience} * 3 AND fit > 0.85 AND last - first > greatest(33554432, first / 20)
  AND b - a > 0.15 * (last - first) AND c - b > 0.15 * (last - first)
