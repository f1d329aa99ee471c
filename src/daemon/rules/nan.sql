-- class: nan
-- about: A value is not a number any more, or the loss has jumped.
-- Looks at what the job logs (python.metrics), at watched variables (python.variables), and at what nan=on has seen in
-- models (python.nonfinite). In a job a NaN is in everybody's weights a step later: named are the ranks that had it first,
-- all those that had it within a tenth of a step; the others got it from them.
WITH member AS (
  SELECT host, pid, job FROM global.probing.targets WHERE job_role = 'rank'
),
clock AS (
  SELECT host, (any_value(clock_offset_ms) * 1e6)::BIGINT AS offset_ns FROM cluster.nodes GROUP BY host
),
logged AS (
  SELECT host, pid, rank, name, step, timestamp_ns, value AS number FROM global.python.metrics
  WHERE value IS NOT NULL
  UNION ALL
  SELECT host, pid, rank, name, step, timestamp_ns, number FROM global.python.variables WHERE number IS NOT NULL
),
numbered AS (
  SELECT *, row_number() OVER (PARTITION BY host, pid, name ORDER BY timestamp_ns DESC) AS back FROM logged
),
bad AS (
  SELECT host, pid, rank, name || ' is ' || CASE WHEN isnan(number) THEN 'NaN' ELSE 'infinite' END
         || coalesce(' since step ' || step, '') AS text, timestamp_ns, 1 AS times, 'training_logs' AS source
  FROM logged WHERE isnan(number) OR isinf(number)
  UNION ALL
  -- Modules that are called later, and those around it, have it from the one that it came from.
  SELECT host, pid, rank,
         CASE WHEN nans > 0 THEN 'NaN' ELSE 'infinity' END
         || CASE WHEN origin THEN ' came from module ' || module
            WHEN stage = 'gradient' THEN ' was seen first in the gradient of ' || module
            ELSE ' was seen first in what ' || module || ' returned (it may have come from a module within)' END
         || coalesce(' at step ' || step, '') || ' (' || CASE WHEN nans > 0 THEN nans ELSE infs END || ' of '
         || numbers || ' numbers)', timestamp_ns, 0, 'python.nonfinite'
  FROM global.python.nonfinite
),
broken AS (
  SELECT b.host, b.pid, rank, coalesce(any_value(job), b.host || '/' || b.pid) AS job,
         min(timestamp_ns) - coalesce(any_value(offset_ns), 0) AS since_ns,
         coalesce(arg_min(text, timestamp_ns) FILTER (contains(text, ' came from module ')),
                  arg_min(text, timestamp_ns)) AS text,
         arg_min(source, timestamp_ns) AS source, sum(times) AS times
  FROM bad AS b LEFT JOIN member USING (host, pid) LEFT JOIN clock USING (host) GROUP BY b.host, b.pid, rank
),
pace AS (
  SELECT m.job, median(s.duration) * 1e9 AS step_ns
  FROM global.python.torch_steps AS s JOIN member AS m USING (host, pid) GROUP BY m.job
),
earliest AS (
  SELECT b.*, count(*) OVER (PARTITION BY job) AS ranks
  FROM broken AS b LEFT JOIN pace USING (job)
  QUALIFY since_ns <= min(since_ns) OVER (PARTITION BY job) + 0.1 * coalesce(step_ns, 0)
),
jumped AS (
  SELECT host, pid, rank, name, arg_max(step, number) FILTER (back <= 5) AS step,
         max(number) FILTER (back <= 5) AS number, median(number) FILTER (back BETWEEN 6 AND 55) AS before,
         stddev(number) FILTER (back BETWEEN 6 AND 55) AS spread
  FROM numbered WHERE name ILIKE '%loss%' AND NOT isnan(number) AND NOT isinf(number)
  GROUP BY host, pid, rank, name HAVING count(*) FILTER (back BETWEEN 6 AND 55) >= 15
)
SELECT list(rank ORDER BY rank) FILTER (rank IS NOT NULL) AS ranks, list(pid ORDER BY rank) AS pids,
       arg_min(host, since_ns) AS host, min(since_ns) AS since_ns, 'error' AS severity,
       arg_min(text, since_ns)
       || CASE WHEN max(times) > 0 THEN ' (' || max(times) || ' times)' ELSE '' END
       || CASE WHEN any_value(ranks) > count(*) THEN '; ' || any_value(ranks) - count(*) || ' more ranks have it since'
          ELSE '' END AS evidence,
       'probing -t ' || arg_min(pid, since_ns) || ' query "SELECT * FROM ' || arg_min(source, since_ns)
       || ' ORDER BY timestamp DESC LIMIT 20"' AS next
FROM earliest GROUP BY job
UNION ALL
SELECT CASE WHEN rank IS NULL THEN [] ELSE [rank] END, [pid], host, NULL, 'warning',
       name || ' jumped to ' || round(number, 4) || coalesce(' at step ' || step, '') || ' from about '
       || round(before, 4),
       'probing -t ' || pid || ' query "SELECT * FROM training_logs ORDER BY timestamp DESC LIMIT 20"'
FROM jumped WHERE before > 0 AND number > 5 * before AND number > before + 8 * spread
