-- class: collective_hang
-- about: Some ranks wait in a collective operation that another rank has not entered, or cannot finish.
-- A rank notes when it enters a collective (python.collective_starts) and when that is over
-- (python.collectives); torch also counts both for each group (python.process_groups). One in which the
-- first to come has waited for {patience} seconds hangs. Named are the ranks of its group that have not come
-- so far, and when all have, those on which it is not over although it is on others: their device is stuck. A
-- rank that waits in another collective is held up itself and not named, as long as there is one that is not.
-- A rank that is at work (its main thread is seen in several functions, or sleeps and wakes twice a second, as one that
-- validates alone) is not missing before six times {patience} and 40 seconds; one that stays asleep, or in a loop of one function, is.
-- Of a rank that was started again the last process counts. Sends and receives have numbers of their own and are
-- left out.
WITH member AS (
  SELECT host, pid, rank, job, state FROM global.probing.targets WHERE job_role = 'rank'
  QUALIFY row_number() OVER (PARTITION BY job, rank ORDER BY state = 'ended', restart DESC, since DESC) = 1
),
-- Clocks of other hosts, as far as their offset is known.
clock AS (
  SELECT host, any_value(clock_offset_ms) AS offset_ms FROM cluster.nodes GROUP BY host
),
entered AS (
  SELECT host, pid, rank, job, seq, process_group, op, members, timestamp_ns,
         timestamp_ns - (coalesce(offset_ms, 0) * 1e6)::BIGINT AS here_ns
  FROM global.python.collective_starts JOIN member USING (host, pid, rank, job) LEFT JOIN clock USING (host)
  WHERE NOT coalesce(p2p, false)
),
-- How far each rank has come in each group, also by operations that are no longer recorded.
progress AS (
  SELECT host, pid, rank, job, process_group, max(enqueued) AS enqueued, max(returned) AS returned,
         max(completed) AS completed, any_value(description) AS description
  FROM (SELECT host, pid, process_group, seq AS enqueued, NULL AS returned, NULL AS completed,
               NULL AS description FROM entered
        UNION ALL
        SELECT host, pid, process_group, seq, seq, CASE WHEN state = 'completed' THEN seq END, description
        FROM global.python.collectives WHERE NOT coalesce(p2p, false)
        UNION ALL
        SELECT host, pid, process_group, enqueued, completed, completed, description
        FROM global.python.process_groups)
  JOIN member USING (host, pid) GROUP BY ALL
),
-- The first one that is not over, of each group a rank is in.
waiting AS (
  SELECT e.*, (epoch_ns(now()) - e.here_ns) / 1e9 AS seconds
  FROM entered AS e ANTI JOIN global.python.collectives AS c
    ON c.host = e.host AND c.pid = e.pid AND c.op = e.op AND c.timestamp_ns = e.timestamp_ns
  LEFT JOIN progress AS p ON p.host = e.host AND p.pid = e.pid AND p.process_group = e.process_group
  WHERE (e.host, e.pid) IN (SELECT (host, pid) FROM member WHERE state <> 'ended')
    AND e.seq > coalesce(p.returned, -1)
  QUALIFY row_number() OVER (PARTITION BY e.host, e.pid, e.process_group ORDER BY e.seq, e.timestamp_ns) = 1
),
hanging AS (
  SELECT job, process_group, seq, any_value(op) AS op, max(seconds) AS seconds, min(here_ns) AS since_ns,
         any_value(members) AS members, list(rank ORDER BY rank) AS ranks, list(pid ORDER BY rank) AS pids,
         arg_min(host, rank) AS host
  FROM waiting GROUP BY job, process_group, seq HAVING max(seconds) > {patience}
),
-- The ranks that torch knows to be in the group; else the default group has all ranks, and of another one
-- those that were seen in it.
expected AS (
  SELECT DISTINCT h.job, h.process_group, h.seq, m.host, m.pid, m.rank, m.state
  FROM hanging AS h JOIN member AS m ON m.job = h.job
  WHERE CASE WHEN h.members IS NOT NULL THEN list_contains(h.members::BIGINT[], m.rank)
        ELSE h.process_group IN ('0', 'default', '')
          OR (m.host, m.pid) IN (SELECT (host, pid) FROM entered AS e WHERE e.process_group = h.process_group)
        END
),
reached AS (
  SELECT x.*, p.enqueued, coalesce(p.completed >= x.seq, false) AS is_over,
         coalesce(p.enqueued < x.seq, true) AS is_missing
  FROM expected AS x LEFT JOIN progress AS p
    ON p.host = x.host AND p.pid = x.pid AND p.process_group = x.process_group
),
-- What its main thread did in the last part of {patience}: not what it did before it may have begun to hang.
seen AS (
  SELECT host, pid, split_part(stack, ';', -1) AS place, sum(weight) AS seconds,
         sum(weight) FILTER (on_cpu) AS computing
  FROM global.python.samples WHERE tid = pid AND timestamp > now() - to_seconds(0.6 * {patience}) GROUP BY ALL
),
looked AS (
  SELECT host, pid, count(*) AS places, max(seconds) / sum(seconds) AS longest,
         coalesce(max(computing), 0) / sum(seconds) AS loop
  FROM seen GROUP BY host, pid
),
awake AS (
  SELECT host, pid, sum(voluntary_switches) AS times FROM global.system.threads
  WHERE tid = pid AND timestamp > now() - to_seconds(0.6 * {patience}) GROUP BY host, pid
),
working AS (
  SELECT host, pid FROM looked FULL JOIN awake USING (host, pid)
  WHERE (places >= 4 AND longest < 0.9) OR (times >= 1.2 * {patience} AND coalesce(loop < 0.9, true))
),
missing AS (
  SELECT x.*, (x.host, x.pid) IN (SELECT (host, pid) FROM waiting) AS waits, p.place,
         (x.host, x.pid) IN (SELECT (host, pid) FROM working) AS works
  FROM reached AS x LEFT JOIN {places} AS p ON p.host = x.host AND p.pid = x.pid WHERE is_missing
),
-- Everybody has come, and it is over for some.
stuck AS (
  SELECT * FROM reached AS r
  WHERE NOT is_over AND (job, process_group, seq) NOT IN (SELECT (job, process_group, seq) FROM missing)
    AND EXISTS (SELECT 1 FROM reached AS o WHERE o.job = r.job AND o.process_group = r.process_group
                AND o.seq = r.seq AND o.is_over)
),
guilty AS (
  SELECT job, process_group, seq, host, pid, rank,
         CASE state WHEN 'ended' THEN ' has ended' WHEN 'missing' THEN ' has no recording'
         ELSE ' has not entered it' || CASE WHEN works THEN ', is at work on its own' ELSE '' END
         || coalesce(', is in ' || place, '') END
         || coalesce(' (its last was #' || enqueued || ')', '') AS text
  FROM missing AS m
  WHERE NOT waits OR (host, pid) IN (SELECT (host, pid) FROM stuck)
    OR NOT EXISTS (SELECT 1 FROM missing AS o WHERE o.job = m.job AND NOT o.waits)
       AND NOT EXISTS (SELECT 1 FROM stuck AS s WHERE s.job = m.job)
  UNION ALL
  SELECT job, process_group, seq, host, pid, rank, ' does not finish it, though others have'
  FROM stuck
),
absent AS (
  SELECT job, process_group, seq, list(rank ORDER BY rank) AS ranks, list(pid ORDER BY rank) AS pids,
         arg_min(host, rank) AS host, string_agg('rank ' || rank || text, '; ' ORDER BY rank) AS text
  FROM guilty GROUP BY job, process_group, seq
),
found AS (
  SELECT h.*, (SELECT count(*) FROM expected AS x WHERE x.job = h.job AND x.process_group = h.process_group
               AND x.seq = h.seq) AS expected, a.ranks AS guilty_ranks, a.pids AS guilty_pids, a.host AS guilty_host, a.text,
         (SELECT any_value(p.description) FROM progress AS p
          WHERE p.job = h.job AND p.process_group = h.process_group) AS description
  FROM hanging AS h LEFT JOIN absent AS a USING (job, process_group, seq)
  -- Where a rank is missing, those that wait for one that waits say nothing new.
  WHERE (a.ranks IS NOT NULL OR NOT EXISTS (SELECT 1 FROM absent AS b WHERE b.job = h.job))
    AND (h.seconds > greatest(6 * {patience}, 40) OR NOT EXISTS (
           SELECT 1 FROM missing AS m WHERE m.job = h.job AND m.works AND NOT m.waits AND m.state <> 'ended'))
)
SELECT coalesce(guilty_ranks, ranks) AS ranks, coalesce(guilty_pids, pids) AS pids,
       coalesce(guilty_host, host) AS host, since_ns, 'error' AS severity,
       len(ranks) || ' of ' || expected || ' ranks wait in ' || op || ' #'
       || seq || ' of group ' || process_group || coalesce(' (' || description || ')', '')
       || CASE WHEN seconds < 86400 THEN ' for ' || round(seconds, 1) || ' s'
          ELSE ' since ' || strftime(make_timestamp_ns(since_ns), '%Y-%m-%d %H:%M:%S') END || '; '
       || coalesce(text, 'every rank that is known has entered it: look at those that are not probed, '
                   || 'and at the network') AS evidence,
       'probing -t ' || coalesce(guilty_pids, pids)[1] || ' backtrace' AS next
FROM found AS f
-- One finding for a cause: not for a part of the ranks that another one names.
WHERE NOT EXISTS (SELECT 1 FROM found AS g WHERE g.job = f.job AND len(g.guilty_ranks) > len(f.guilty_ranks)
                  AND list_has_all(g.guilty_ranks, f.guilty_ranks))
QUALIFY row_number() OVER (PARTITION BY job, coalesce(guilty_ranks, ranks) ORDER BY seconds DESC) = 1
