-- class: nan
-- about: A logged value is not a number any more, or the loss has jumped.
-- Looks at what the job logs (python.metrics) and at watched variables (python.variables).
WITH logged AS (
  SELECT host, pid, rank, name, step, timestamp_ns, value AS number FROM global.python.metrics
  WHERE value IS NOT NULL
  UNION ALL
  SELECT host, pid, rank, name, step, timestamp_ns, number FROM global.python.variables WHERE number IS NOT NULL
),
numbered AS (
  SELECT *, row_number() OVER (PARTITION BY host, pid, name ORDER BY timestamp_ns DESC) AS back FROM logged
),
broken AS (
  SELECT host, pid, rank, name, arg_min(step, timestamp_ns) AS step, arg_min(number, timestamp_ns) AS number,
         count(*) AS times
  FROM numbered WHERE isnan(number) OR isinf(number) GROUP BY host, pid, rank, name
),
jumped AS (
  SELECT host, pid, rank, name, arg_max(step, number) FILTER (back <= 5) AS step,
         max(number) FILTER (back <= 5) AS number, median(number) FILTER (back BETWEEN 6 AND 55) AS before,
         stddev(number) FILTER (back BETWEEN 6 AND 55) AS spread
  FROM numbered WHERE name ILIKE '%loss%' AND NOT isnan(number) AND NOT isinf(number)
  GROUP BY host, pid, rank, name HAVING count(*) FILTER (back BETWEEN 6 AND 55) >= 15
)
SELECT CASE WHEN rank IS NULL THEN [] ELSE [rank] END AS ranks, [pid] AS pids, host, 'error' AS severity,
       name || ' is ' || CASE WHEN isnan(number) THEN 'NaN' ELSE 'infinite' END
       || coalesce(' since step ' || step, '') || ' (' || times || ' times)' AS evidence,
       'probing -t ' || pid || ' query "SELECT * FROM training_logs ORDER BY timestamp DESC LIMIT 20"' AS next
FROM broken
UNION ALL
SELECT CASE WHEN rank IS NULL THEN [] ELSE [rank] END, [pid], host, 'warning',
       name || ' jumped to ' || round(number, 4) || coalesce(' at step ' || step, '') || ' from about '
       || round(before, 4),
       'probing -t ' || pid || ' query "SELECT * FROM training_logs ORDER BY timestamp DESC LIMIT 20"'
FROM jumped WHERE before > 0 AND number > 5 * before AND number > before + 8 * spread
