-- class: collective_mismatch
-- about: Ranks call different collectives, or the same with different sizes, at the same place of their group.
-- The number of an operation in its group (seq) must mean the same on every rank. Named are those that differ
-- from most of the others; where no side has more, all.
WITH member AS (
  SELECT host, pid, rank, job FROM global.probing.targets WHERE job_role = 'rank' AND state <> 'ended'
),
entered AS (
  SELECT DISTINCT job, process_group, seq, rank, host, pid, op, bytes, dtype,
         CASE WHEN op IN ('all_reduce', 'broadcast') THEN op || ' of ' || bytes || ' bytes' ELSE op END AS call
  FROM global.python.collective_starts JOIN member USING (host, pid, rank, job)
  WHERE op NOT IN ('send', 'recv', 'isend', 'irecv') AND NOT coalesce(p2p, false)
),
different AS (
  SELECT job, process_group, seq, count(DISTINCT (host, pid)) AS ranks, mode(call) AS usual
  FROM entered GROUP BY job, process_group, seq
  HAVING count(DISTINCT (host, pid)) > 1 AND count(DISTINCT (host, pid, call)) = count(DISTINCT (host, pid))
     AND (count(DISTINCT call) > 1
          OR (any_value(op) IN ('all_reduce', 'broadcast') AND count(DISTINCT dtype) > 1))
  QUALIFY row_number() OVER (PARTITION BY job, process_group ORDER BY seq) = 1
),
judged AS (
  SELECT d.job, d.process_group, d.seq, e.rank, e.pid, e.host, e.call || coalesce(' (' || e.dtype || ')', '') AS call,
         2 * count(*) FILTER (e.call = d.usual) OVER (PARTITION BY d.job, d.process_group) > d.ranks
         AND e.call = d.usual AS is_usual
  FROM different AS d JOIN entered AS e USING (job, process_group, seq)
)
SELECT CASE WHEN bool_or(is_usual) AND NOT bool_and(is_usual) THEN list(rank ORDER BY rank) FILTER (NOT is_usual)
       ELSE list(rank ORDER BY rank) END AS ranks,
       CASE WHEN bool_or(is_usual) AND NOT bool_and(is_usual) THEN list(pid ORDER BY rank) FILTER (NOT is_usual)
       ELSE list(pid ORDER BY rank) END AS pids, 'error' AS severity,
       'operation #' || seq || ' of group ' || process_group || ': '
       || string_agg('rank ' || rank || ' calls ' || call, ', ' ORDER BY rank) AS evidence,
       'probing cluster backtrace' AS next
FROM judged GROUP BY job, process_group, seq
