-- class: collective_mismatch
-- about: Ranks call different collectives, or the same with different sizes, at the same place of their group.
-- The number of an operation in its group (seq) must mean the same on every rank.
WITH entered AS (
  SELECT job, process_group, seq, rank, host, pid, op, bytes
  FROM global.python.collective_starts
  JOIN (SELECT host, pid, rank, job, restart FROM global.probing.targets WHERE job_role = 'rank' AND state <> 'ended')
    USING (host, pid, rank)
  WHERE op NOT IN ('send', 'recv', 'isend', 'irecv')
),
different AS (
  SELECT job, process_group, seq, list(rank ORDER BY rank) AS ranks, list(pid ORDER BY rank) AS pids,
         string_agg('rank ' || rank || ' calls ' || op || coalesce(' of ' || bytes || ' bytes', ''), ', '
                    ORDER BY rank) AS calls
  FROM entered GROUP BY job, process_group, seq
  HAVING count(DISTINCT (host, pid)) > 1
     AND (count(DISTINCT op) > 1
          OR (any_value(op) IN ('all_reduce', 'broadcast') AND count(DISTINCT bytes) > 1))
)
SELECT ranks, pids, 'error' AS severity,
       'operation #' || seq || ' of group ' || process_group || ': ' || calls AS evidence,
       'probing cluster backtrace' AS next
FROM different
QUALIFY row_number() OVER (PARTITION BY job, process_group ORDER BY seq) = 1
