-- class: straggler
-- about: One stage of a pipeline needs longer than the others, which wait for it in sends and receives.
-- Sends and receives have no numbers that ranks share. In the samples of main threads the stage the others wait for is the
-- one that waits least: it works for more than a third of the time, and twice as much as any other rank of its job. Only
-- of jobs that send and receive, whose collectives are rare, and in which no rank stays anywhere for long: while one
-- validates alone the others only wait.
WITH member AS (
  SELECT host, pid, rank, job FROM global.probing.targets WHERE job_role = 'rank' AND state <> 'ended'
),
looked AS (
  SELECT s.host, s.pid, m.rank, m.job, sum(s.weight) AS seconds, max(s.weight) AS longest,
         coalesce(sum(s.weight) FILTER (inside), 0) / sum(s.weight) AS waits,
         coalesce(sum(s.weight) FILTER (inside AND regexp_matches(stack,
           ';(send|recv|isend|irecv|batch_isend_irecv|_wait_batch_p2p|Work.wait)[^;]*$|;(send|recv) \([^;]*distributed_c10d')), 0)
           / sum(s.weight) AS passes,
         mode(coalesce(list_filter(string_split(stack, ';'),
                         lambda f: NOT regexp_matches(f, '/lib/python3\.\d+/|-packages/|<frozen'))[-1],
                       split_part(stack, ';', -1))) FILTER (NOT inside) AS place
  FROM (SELECT *, regexp_matches(stack, 'torch/distributed/[^;]*$') AS inside FROM global.python.samples
        WHERE tid = pid AND timestamp > now() - to_seconds({patience} * 2)) AS s
  JOIN member AS m ON m.host = s.host AND m.pid = s.pid
  GROUP BY s.host, s.pid, m.rank, m.job HAVING sum(s.weight) >= {patience} AND count(*) >= 20
),
collective AS (
  SELECT m.job FROM global.python.collective_starts JOIN member AS m USING (host, pid)
  WHERE timestamp > now() - to_seconds({patience} * 2) AND NOT coalesce(p2p, false)
  GROUP BY m.job HAVING count(DISTINCT (process_group, seq)) > 2 * {patience}
),
ranked AS (
  SELECT *, max(longest / seconds) OVER (PARTITION BY job) AS longest_stay, 1 - waits AS works, lead(1 - waits) OVER same AS next_works, count(*) OVER (PARTITION BY job) AS ranks,
         max(passes) OVER (PARTITION BY job) AS passes_most, row_number() OVER same AS place_in_job
  FROM looked WINDOW same AS (PARTITION BY job ORDER BY waits)
)
SELECT [rank] AS ranks, [pid] AS pids, host, 'warning' AS severity,
       'rank ' || rank || ' works for ' || round(100 * works) || ' % of the time, no other of ' || ranks
       || ' ranks for more than ' || round(100 * next_works) || ' %: they wait for it in sends and receives; meanwhile it is in '
       || place AS evidence,
       'probing -t ' || pid || ' flamegraph -d 10 -o rank' || rank || '.svg' AS next
FROM ranked
WHERE place_in_job = 1 AND ranks > 1 AND works > 0.34 AND works > 2 * next_works AND passes_most > 0.2
  AND longest_stay < 0.2 AND job NOT IN (SELECT job FROM collective)
