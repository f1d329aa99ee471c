-- class: collective_hang
-- about: NCCL itself says that ranks of a communicator are dead, do not answer, or are behind the others.
-- From NCCL's RAS port, for jobs whose collectives no probe has seen (else collective_hang.sql speaks, which
-- knows since when). A rank counts as behind when no rank of its communicator has launched anything for
-- {patience} seconds: so long the table has been read (`diagnose --watch`), or the job has made no step.
-- A rank that is behind in one communicator and waits for others in another is held up itself and not named.
WITH member AS (
  SELECT host, pid, rank, job, world_size FROM global.probing.targets WHERE job_role = 'rank'
  QUALIFY row_number() OVER (PARTITION BY job, rank ORDER BY state = 'ended', restart DESC, since DESC) = 1
),
-- Every host that is asked tells of all ranks; each knows its own processes.
told AS (
  SELECT r.communicator, r.size, r.comm_rank, any_value(r.node) AS node, any_value(r.process) AS process,
         any_value(r.status) AS status, any_value(r.op) AS op, min(r.launched) AS launched,
         min(r.behind) AS behind, max(r.still_s) AS still_s, any_value(m.host) AS host, any_value(m.pid) AS pid,
         any_value(m.rank) AS rank, any_value(m.job) AS job
  FROM global.nccl.ras_ranks AS r
  LEFT JOIN member AS m ON r.is_local AND m.host = r.host AND m.pid = r.process
  WHERE r.communicator IS NOT NULL GROUP BY r.communicator, r.size, r.comm_rank
),
-- A communicator as large as its job numbers its ranks as the job does.
known AS (
  SELECT t.* EXCLUDE (rank, job, host, pid), j.job, coalesce(t.rank, m.rank) AS rank,
         coalesce(t.pid, m.pid) AS pid, coalesce(t.host, m.host) AS host
  FROM told AS t
  JOIN (SELECT communicator, any_value(job) AS job FROM told GROUP BY communicator) AS j USING (communicator)
  LEFT JOIN member AS m ON t.rank IS NULL AND m.job = j.job AND m.rank = t.comm_rank AND m.world_size = t.size
  WHERE j.job IS NULL OR j.job NOT IN (
    SELECT s.job FROM member AS s JOIN global.python.collective_starts AS c USING (host, pid, rank, job))
),
stepped AS (
  SELECT job, max(timestamp) AS last FROM global.python.torch_steps JOIN member USING (host, pid, rank, job) GROUP BY job
),
halted AS (
  SELECT k.communicator, any_value(k.op) AS op, max(k.launched) AS launched
  FROM known AS k LEFT JOIN stepped AS s ON s.job = k.job
  GROUP BY k.communicator
  HAVING max(k.behind) > 0
     AND (min(k.still_s) FILTER (k.behind IS NOT NULL) > {patience}
          OR max(s.last) < now() - to_seconds({patience}))
),
suspect AS (
  SELECT k.*, k.behind > 0 AS is_behind,
         CASE WHEN status = 'DEAD' THEN 'is dead to NCCL' WHEN status = 'UNRESPONSIVE' THEN 'does not answer NCCL'
         ELSE 'has launched ' || op || ' ' || k.launched || ' times, ' || k.behind || ' less than others' END AS text
  FROM known AS k
  WHERE status IN ('DEAD', 'UNRESPONSIVE')
     OR (k.behind > 0 AND k.communicator IN (SELECT communicator FROM halted))
),
waits AS (
  SELECT DISTINCT node, process FROM known
  WHERE behind = 0 AND communicator IN (SELECT communicator FROM halted)
),
guilty AS (
  SELECT * FROM suspect AS s
  WHERE NOT is_behind OR is_behind IS NULL OR (node, process) NOT IN (SELECT (node, process) FROM waits)
     OR NOT EXISTS (SELECT 1 FROM suspect AS o WHERE o.job IS NOT DISTINCT FROM s.job
                    AND (NOT coalesce(o.is_behind, false)
                         OR (o.node, o.process) NOT IN (SELECT (node, process) FROM waits)))
  -- One line for a process, from the largest communicator that tells of it.
  QUALIFY row_number() OVER (PARTITION BY job, node, process, CASE WHEN process IS NULL THEN comm_rank END
                             ORDER BY is_behind IS TRUE, size DESC, communicator) = 1
)
SELECT list(rank ORDER BY comm_rank) FILTER (rank IS NOT NULL) AS ranks,
       list(pid ORDER BY comm_rank) FILTER (pid IS NOT NULL) AS pids, arg_min(host, comm_rank) AS host,
       CASE WHEN bool_and(status = 'UNRESPONSIVE') THEN 'warning' ELSE 'error' END AS severity,
       'NCCL''s RAS: ' || string_agg(
         CASE WHEN rank IS NOT NULL THEN 'rank ' || rank
         ELSE 'rank ' || comm_rank || ' of communicator ' || communicator END || ' ' || text
         || coalesce(' (process ' || process || ' on ' || node || ')', ''), '; ' ORDER BY comm_rank) AS evidence,
       CASE WHEN bool_or(pid IS NOT NULL) THEN 'probing -t ' || any_value(pid) FILTER (pid IS NOT NULL) || ' backtrace'
       ELSE 'probing query "SELECT * FROM nccl.ras_ranks WHERE behind > 0 OR status <> ''RUNNING''"' END AS next
FROM guilty GROUP BY job
