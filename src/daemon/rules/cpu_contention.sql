-- class: cpu_contention
-- about: The main thread wants to run and does not get the CPU.
-- A sample counts a thread that waits for a CPU as running, the kernel's clock does not: the
-- difference is what others took. Or its control group is kept from running (throttled).
WITH wanted AS (
  SELECT host, pid, rank, sum(weight) FILTER (on_cpu) / sum(weight) AS share
  FROM global.python.samples
  WHERE tid = pid AND timestamp > now() - to_seconds({patience} * 2)
  GROUP BY host, pid, rank HAVING sum(weight) >= {patience}
),
got AS (
  SELECT host, pid, avg(cpu_percent) / 100 AS share, sum(involuntary_switches) AS switches, count(*) AS seconds
  FROM global.system.threads
  WHERE tid = pid AND timestamp > now() - to_seconds({patience} * 2)
  GROUP BY host, pid HAVING count(*) >= 3
),
throttled AS (
  SELECT host, pid, sum(throttled_ms) / 1e3 / greatest(epoch(max(timestamp) - min(timestamp)), 0.1) AS share
  FROM global.system.cpu WHERE timestamp > now() - to_seconds({patience} * 2)
  GROUP BY host, pid HAVING count(*) >= 3
)
SELECT CASE WHEN w.rank IS NULL THEN [] ELSE [w.rank] END AS ranks, [w.pid] AS pids, w.host, 'warning' AS severity,
       'the main thread wants ' || round(100 * w.share) || ' % of a core and gets ' || round(100 * g.share)
       || ' %; it was put aside ' || g.switches || ' times in the last ' || round({patience} * 2) || ' s'
       || CASE WHEN t.share > 0.1 THEN ', its control group was throttled for ' || round(100 * t.share)
               || ' % of that time' ELSE '' END AS evidence,
       'probing -t ' || w.pid || ' query "SELECT * FROM system.cpu ORDER BY timestamp DESC LIMIT 10"' AS next
FROM wanted AS w JOIN got AS g USING (host, pid) LEFT JOIN throttled AS t USING (host, pid)
WHERE (w.share > 0.6 AND g.share < 0.6 * w.share) OR t.share > 0.1
