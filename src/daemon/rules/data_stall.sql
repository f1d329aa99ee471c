-- class: data_stall
-- about: The training waits for its data.
-- Over the last steps more than three tenths of the time that a rank had for itself, without that in collectives,
-- went into waiting for the next batch. Collectives may overlap with it, so it is a tenth of the whole as well.
-- Where no steps are recorded (torch profiling is off), the samples of the main thread tell how often it is in the loader.
WITH sampled AS (
  SELECT host, pid, rank, sum(weight) AS seconds, sum(weight) FILTER (waits) AS waiting,
         count(*) FILTER (waits) AS looks, max(weight) FILTER (waits) AS longest
  FROM (SELECT *, contains(stack, '/torch/utils/data/dataloader.py') AS waits FROM global.python.samples
        WHERE tid = pid AND timestamp > now() - to_seconds({patience} * 6))
  WHERE (host, pid) NOT IN (SELECT (host, pid) FROM global.python.torch_steps)
  GROUP BY host, pid, rank
),
waits AS (
  SELECT host, pid, step, sum(duration_ms) / 1e3 AS wait FROM global.python.collectives
  WHERE timestamp > now() - to_seconds({patience} * 6) AND duration_ms IS NOT NULL
  GROUP BY host, pid, step
)
SELECT CASE WHEN s.rank IS NULL THEN [] ELSE [s.rank] END AS ranks, [s.pid] AS pids, s.host, 'warning' AS severity,
       round(100 * sum(s.data_wait) / sum(s.duration)) || ' % of the time of ' || count(*)
       || ' steps is waiting for data: ' || round(avg(s.data_wait) * 1e3, 1) || ' of '
       || round(avg(s.duration) * 1e3, 1) || ' ms a step'
       || CASE WHEN avg(coalesce(w.wait, 0)) < 0.001 THEN ''
          ELSE ', ' || round(avg(coalesce(w.wait, 0)) * 1e3, 1) || ' ms of which are for other ranks' END AS evidence,
       'probing -t ' || s.pid || ' flamegraph -d 10 --threads -o data.svg' AS next
FROM global.python.torch_steps AS s LEFT JOIN waits AS w USING (host, pid, step)
WHERE s.timestamp > now() - to_seconds({patience} * 6) AND coalesce(s.phase, 'train') = 'train'
GROUP BY s.host, s.pid, s.rank
HAVING count(*) >= 10 AND sum(s.data_wait) > 0.3 * sum(s.duration - coalesce(w.wait, 0))
   AND sum(s.data_wait) > 0.1 * sum(s.duration) AND avg(s.data_wait) > 0.002
UNION ALL
SELECT CASE WHEN rank IS NULL THEN [] ELSE [rank] END, [pid], host, 'warning',
       round(100 * waiting / seconds) || ' % of the samples of the main thread are in the loader of its data',
       'probing -t ' || pid || ' flamegraph -d 10 --threads -o data.svg'
FROM sampled
WHERE seconds >= 1.5 * {patience} AND waiting > 0.3 * seconds AND looks >= 10 AND longest < 0.5 * waiting
