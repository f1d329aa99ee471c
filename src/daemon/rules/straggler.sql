-- class: straggler
-- also: data_stall slow_checkpoint gc_pause
-- about: One rank arrives at the collectives later than the others, which wait for it.
-- In a synchronous job all steps take the same time, so durations tell nothing. At each collective the last
-- rank to arrive has kept all others waiting, since the last but one came. The rank that does so again and again,
-- for a tenth of the time, is the straggler; what it did meanwhile is in its samples. A long pause, as of a rank that
-- validates alone, counts no more than its tenth longest; of the many collectives of a step (FSDP) it may be late to
-- one only, so that those are told whose delay is like that. A job that has just begun, or whose collectives have
-- stopped, has none. A rank that comes late because it got out of the collective before so late is no culprit
-- (a slow network does that): it is inside of one meanwhile, and it waits as long as the others. What it is late with
-- (its data, a checkpoint, the garbage collector) gives the class.
WITH member AS (
  SELECT host, pid, rank, job FROM global.probing.targets WHERE job_role = 'rank' AND state <> 'ended'
),
clock AS (
  SELECT host, any_value(clock_offset_ms) AS offset_ms, any_value(clock_error_ms) AS error_ms
  FROM cluster.nodes GROUP BY host
),
arrived AS (
  SELECT host, pid, rank, job, process_group, seq, min(timestamp_ns) AS there_ns,
         min(timestamp_ns) - (coalesce(any_value(offset_ms), 0) * 1e6)::BIGINT AS here_ns,
         any_value(coalesce(error_ms, 0)) AS error_ms
  FROM global.python.collective_starts JOIN member USING (host, pid, rank, job) LEFT JOIN clock USING (host)
  WHERE timestamp > now() - to_seconds({patience} * 6) AND NOT coalesce(p2p, false)
  GROUP BY host, pid, rank, job, process_group, seq
),
ordered AS (
  SELECT *, here_ns - lag(here_ns) OVER same AS after_ns, row_number() OVER same AS place,
         count(*) OVER (PARTITION BY job, process_group, seq) AS ranks
  FROM arrived WINDOW same AS (PARTITION BY job, process_group, seq ORDER BY here_ns)
),
late AS (
  SELECT job, host, pid, rank, process_group, seq, here_ns, there_ns, after_ns / 1e6 AS late_ms
  FROM ordered WHERE place = ranks AND ranks > 1 AND after_ns / 1e6 > greatest(1, 2 * error_ms)
),
usual AS (
  SELECT job, host, pid, rank, list_reverse_sort(list(late_ms))[10] AS tenth_ms
  FROM late GROUP BY job, host, pid, rank
),
blamed AS (
  SELECT l.job, l.host, l.pid, l.rank, any_value(u.tenth_ms) AS tenth_ms,
         count(*) FILTER (l.late_ms >= 0.5 * u.tenth_ms) AS times,
         median(l.late_ms) FILTER (l.late_ms >= 0.5 * u.tenth_ms) AS late_ms,
         sum(least(l.late_ms, coalesce(u.tenth_ms, l.late_ms))) AS total_ms
  FROM late AS l JOIN usual AS u USING (job, host, pid, rank) GROUP BY l.job, l.host, l.pid, l.rank
),
span AS (
  SELECT job, (max(here_ns) - min(here_ns)) / 1e6 AS total_ms, count(DISTINCT (process_group, seq)) AS operations
  FROM arrived GROUP BY job HAVING epoch_ns(now()) - max(here_ns) < {patience} * 1e9
),
straggler AS (
  SELECT b.*, s.total_ms AS span_ms, s.operations FROM blamed AS b JOIN span AS s USING (job)
  WHERE b.times >= 10 AND s.operations >= 30 AND b.late_ms >= 2 AND b.total_ms > 0.1 * s.total_ms
    AND b.total_ms > 2 * coalesce((SELECT sum(o.total_ms) FROM blamed AS o
                                   WHERE o.job = b.job AND (o.host, o.pid) <> (b.host, b.pid)), 0)
),
-- One that is inside of a collective in nearly all of the time before it comes is no culprit.
meanwhile AS (
  SELECT l.host, l.pid, count(*) >= 5 AND avg(contains(split_part(stack, ';', -1),
                                                  'torch/distributed/distributed_c10d.py')::INT) > 0.8 AS is_held_up
  FROM late AS l JOIN straggler AS g ON g.host = l.host AND g.pid = l.pid AND l.late_ms >= 0.5 * g.tenth_ms
  JOIN global.python.samples AS s ON s.host = l.host AND s.pid = l.pid AND s.tid = s.pid
    AND s.timestamp_ns BETWEEN l.there_ns - (l.late_ms * 1e6)::BIGINT AND l.there_ns
  GROUP BY l.host, l.pid
),
-- What it does more than the other ranks of its job: the innermost functions of the user's own code in the samples of
-- main threads, as shares of the time.
sampled AS (
  SELECT m.job, s.host, s.pid, sum(s.weight) AS seconds, count(*) AS looks,
         coalesce(list_filter(string_split(stack, ';'),
                              lambda f: NOT regexp_matches(f, '/lib/python3\.\d+/|-packages/|<frozen'))[-1],
                  split_part(stack, ';', -1)) AS place,
         CASE WHEN contains(stack, '/torch/utils/data/dataloader.py') THEN 'data_stall'
         WHEN regexp_matches(stack, '/(torch/serialization|safetensors/torch|torch/distributed/checkpoint/state_dict_saver)\.py')
         THEN 'slow_checkpoint' ELSE 'straggler' END AS kind
  FROM global.python.samples AS s JOIN member AS m ON m.host = s.host AND m.pid = s.pid
  WHERE s.tid = s.pid AND s.timestamp > now() - to_seconds({patience} * 6) AND m.job IN (SELECT job FROM straggler)
  GROUP BY ALL
),
shares AS (
  SELECT *, seconds / sum(seconds) OVER (PARTITION BY host, pid) AS share FROM sampled
),
excess AS (
  SELECT p.host, p.pid, p.place, p.kind, p.looks,
         p.share - coalesce((SELECT sum(o.share) FROM shares AS o WHERE o.job = p.job AND o.place = p.place
                               AND o.kind = p.kind AND (o.host, o.pid) <> (p.host, p.pid)), 0)
                   / (SELECT greatest(count(DISTINCT (r.host, r.pid)) - 1, 1) FROM shares AS r WHERE r.job = p.job) AS more
  FROM shares AS p JOIN straggler AS g ON g.host = p.host AND g.pid = p.pid
),
causes AS (
  SELECT host, pid, sum(looks) AS looks, arg_max(place, more) AS place,
         sum(more) FILTER (more > 0 AND kind = 'data_stall') / sum(more) FILTER (more > 0) AS loading,
         sum(more) FILTER (more > 0 AND kind = 'slow_checkpoint') / sum(more) FILTER (more > 0) AS saving
  FROM excess GROUP BY host, pid
),
collected AS (
  SELECT host, pid, sum(duration_ms) AS gc_ms FROM global.python.gc
  WHERE timestamp > now() - to_seconds({patience} * 6) GROUP BY host, pid
),
waits AS (
  SELECT host, pid, job, avg(duration_ms) AS wait_ms
  FROM global.python.collectives JOIN member USING (host, pid, rank, job)
  WHERE timestamp > now() - to_seconds({patience} * 6) AND duration_ms IS NOT NULL
  GROUP BY host, pid, job HAVING count(*) >= 10
),
waiting AS (
  SELECT a.host, a.pid, a.wait_ms, median(b.wait_ms) AS others_ms
  FROM waits AS a JOIN waits AS b ON a.job = b.job AND (a.host, a.pid) <> (b.host, b.pid)
  GROUP BY a.host, a.pid, a.wait_ms
),
own AS (
  SELECT s.host, s.pid, m.job, median(s.data_wait) AS data_s, median(s.forward) AS forward_s,
         median(s.backward) AS backward_s
  FROM global.python.torch_steps AS s JOIN member AS m USING (host, pid, rank, job)
  WHERE s.timestamp > now() - to_seconds({patience} * 6) AND coalesce(s.phase, 'train') = 'train'
  GROUP BY s.host, s.pid, m.job HAVING count(*) >= 5
),
compared AS (
  SELECT a.host, a.pid, a.data_s - median(b.data_s) AS data_s, a.forward_s - median(b.forward_s) AS forward_s
  FROM own AS a JOIN own AS b ON a.job = b.job AND (a.host, a.pid) <> (b.host, b.pid)
  GROUP BY a.host, a.pid, a.data_s, a.forward_s
)
SELECT [g.rank] AS ranks, [g.pid] AS pids, g.host, 'warning' AS severity,
       CASE WHEN k.gc_ms > 0.5 * g.total_ms THEN 'gc_pause'
       WHEN x.loading > 0.5 THEN 'data_stall' WHEN x.saving > 0.5 THEN 'slow_checkpoint' ELSE 'straggler' END AS class,
       'rank ' || g.rank || ' came last to ' || g.times || ' of ' || g.operations || ' collectives, '
       || round(g.late_ms, 1) || ' ms after all others (median): ' || round(100 * g.total_ms / g.span_ms)
       || ' % of the time the others wait for it'
       || coalesce('; meanwhile it is in ' || x.place, '')
       || CASE WHEN greatest(c.data_s, c.forward_s) * 1e3 > 0.5 * g.late_ms
          THEN '; most of the difference is in '
               || CASE WHEN c.data_s > c.forward_s THEN 'waiting for data' ELSE 'forward' END
          ELSE '' END AS evidence,
       'probing -t ' || g.pid || ' flamegraph -d 10 -o rank' || g.rank || '.svg' AS next
FROM straggler AS g LEFT JOIN meanwhile AS w USING (host, pid) LEFT JOIN compared AS c USING (host, pid)
LEFT JOIN waiting AS v USING (host, pid) LEFT JOIN collected AS k USING (host, pid)
LEFT JOIN causes AS x USING (host, pid)
WHERE coalesce(v.wait_ms < 0.7 * v.others_ms, true)
  AND NOT coalesce(w.is_held_up, false)
  -- Not before it is known why, where there are samples.
  AND (x.looks >= 15 OR (g.host, g.pid) NOT IN (SELECT (host, pid) FROM global.python.samples))
