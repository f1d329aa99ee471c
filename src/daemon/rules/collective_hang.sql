-- class: collective_hang
-- about: Some ranks wait in a collective operation that another rank has not entered.
-- A rank notes when it enters a collective (python.collective_starts) and when it leaves it
-- (python.collectives). One in which the first to come has waited for {patience} seconds hangs; the
-- ranks of its group that never came are the ones to look at. Of a rank that was started again the last
-- process counts.
WITH member AS (
  SELECT host, pid, rank, job, state FROM global.probing.targets WHERE job_role = 'rank'
  QUALIFY row_number() OVER (PARTITION BY job, rank ORDER BY state = 'ended', restart DESC, since DESC) = 1
),
entered AS (
  SELECT host, pid, rank, job, seq, process_group, op, timestamp_ns
  FROM global.python.collective_starts JOIN member USING (host, pid, rank)
),
waiting AS (
  SELECT e.*, (epoch_ns(now()) - e.timestamp_ns) / 1e9 AS seconds
  FROM entered AS e ANTI JOIN global.python.collectives AS c
    ON c.host = e.host AND c.pid = e.pid AND c.op = e.op AND c.timestamp_ns = e.timestamp_ns
  WHERE (e.host, e.pid) IN (SELECT (host, pid) FROM member WHERE state <> 'ended')
  QUALIFY row_number() OVER (PARTITION BY e.host, e.pid ORDER BY e.timestamp_ns DESC) = 1
),
hanging AS (
  SELECT job, process_group, seq, any_value(op) AS op, max(seconds) AS seconds,
         list(rank ORDER BY rank) AS ranks, list(pid ORDER BY rank) AS pids, arg_min(host, rank) AS host
  FROM waiting GROUP BY job, process_group, seq HAVING max(seconds) > {patience}
),
-- The default group has all ranks; of another one, those that were seen in it.
expected AS (
  SELECT DISTINCT h.job, h.process_group, h.seq, m.host, m.pid, m.rank, m.state
  FROM hanging AS h JOIN member AS m ON m.job = h.job
  WHERE h.process_group IN ('0', 'default', '')
     OR (m.host, m.pid) IN (SELECT (host, pid) FROM entered AS e WHERE e.process_group = h.process_group)
),
missing AS (
  SELECT x.*, (SELECT max(e.seq) FROM entered AS e
               WHERE e.host = x.host AND e.pid = x.pid AND e.process_group = x.process_group) AS last_seq,
         (SELECT any_value(b.func || ' (' || parse_filename(b.file) || ':' || b.lineno || ')')
          FROM global.python.backtrace AS b WHERE b.host = x.host AND b.pid = x.pid AND b.depth = 0) AS place
  FROM expected AS x
  WHERE (x.host, x.pid, x.process_group, x.seq)
        NOT IN (SELECT (host, pid, process_group, seq) FROM entered)
),
absent AS (
  SELECT job, process_group, seq, list(rank ORDER BY rank) AS ranks, list(pid ORDER BY rank) AS pids,
         arg_min(host, rank) AS host,
         string_agg('rank ' || rank || CASE WHEN state = 'ended' THEN ' has ended'
                    ELSE ' has not entered it' || coalesce(', is in ' || place, '') END
                    || coalesce(' (its last was #' || last_seq || ')', ''), '; ' ORDER BY rank) AS text
  FROM missing GROUP BY job, process_group, seq
)
SELECT coalesce(a.ranks, h.ranks) AS ranks, coalesce(a.pids, h.pids) AS pids,
       CASE WHEN a.pids IS NULL THEN h.host ELSE a.host END AS host, 'error' AS severity,
       len(h.ranks) || ' of ' || len(h.ranks) + coalesce(len(a.ranks), 0) || ' ranks wait in ' || h.op || ' #'
       || h.seq || ' of group ' || h.process_group || ' for ' || round(h.seconds, 1) || ' s; '
       || coalesce(a.text, 'every rank that is known has entered it: look at those that are not probed, '
                   || 'and at the network') AS evidence,
       'probing -t ' || coalesce(a.pids, h.pids)[1] || ' backtrace' AS next
FROM hanging AS h LEFT JOIN absent AS a USING (job, process_group, seq)
