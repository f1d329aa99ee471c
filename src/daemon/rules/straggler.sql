-- class: straggler
-- about: One rank needs longer than the others, which wait for it.
-- In a synchronous job all steps take the same time, so durations tell nothing. What a rank does by
-- itself is its step without the time in collectives: the culprit waits least and computes most.
WITH member AS (
  SELECT host, pid, rank, job FROM global.probing.targets WHERE job_role = 'rank' AND state <> 'ended'
),
waits AS (
  SELECT host, pid, step, sum(duration_ms) / 1e3 AS wait FROM global.python.collectives
  WHERE timestamp > now() - to_seconds({patience} * 6) AND duration_ms IS NOT NULL
  GROUP BY host, pid, step
),
own AS (
  SELECT s.host, s.pid, s.rank, m.job, avg(s.duration) AS step_s, median(coalesce(w.wait, 0)) AS wait_s,
         median(s.duration - coalesce(w.wait, 0)) AS busy_s, median(s.data_wait) AS data_s,
         median(s.forward) AS forward_s, median(s.backward) AS backward_s
  FROM global.python.torch_steps AS s JOIN member AS m USING (host, pid, rank)
  LEFT JOIN waits AS w USING (host, pid, step)
  WHERE s.timestamp > now() - to_seconds({patience} * 6)
  GROUP BY s.host, s.pid, s.rank, m.job HAVING count(*) >= 5
),
compared AS (
  SELECT a.host, a.pid, a.rank, a.step_s, a.wait_s, a.busy_s, a.data_s, a.forward_s, a.backward_s,
         median(b.busy_s) AS others_busy_s, median(b.wait_s) AS others_wait_s, median(b.data_s) AS others_data_s,
         median(b.forward_s) AS others_forward_s, median(b.backward_s) AS others_backward_s
  FROM own AS a JOIN own AS b ON a.job = b.job AND (a.host, a.pid) <> (b.host, b.pid)
  GROUP BY ALL
)
SELECT [rank] AS ranks, [pid] AS pids, host, 'warning' AS severity,
       'rank ' || rank || ' needs ' || round(busy_s * 1e3, 1) || ' ms of its own for a step, the others '
       || round(others_busy_s * 1e3, 1) || ' ms; it waits ' || round(wait_s * 1e3, 1)
       || ' ms in collectives, they ' || round(others_wait_s * 1e3, 1) || ' ms; most of the difference is in '
       || CASE greatest(coalesce(data_s - others_data_s, 0), coalesce(forward_s - others_forward_s, 0),
                        coalesce(backward_s - others_backward_s, 0), (busy_s - others_busy_s) / 2)
          WHEN data_s - others_data_s THEN 'waiting for data' WHEN forward_s - others_forward_s THEN 'forward'
          WHEN backward_s - others_backward_s THEN 'backward' ELSE 'code outside of the model' END AS evidence,
       'probing -t ' || pid || ' flamegraph -d 10 -o rank' || rank || '.svg' AS next
FROM compared
WHERE busy_s > 1.3 * others_busy_s AND busy_s - others_busy_s > 0.1 * step_s
