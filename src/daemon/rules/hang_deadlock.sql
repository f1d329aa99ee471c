-- class: hang
-- about: Two or more threads of a process wait for locks and nothing changes.
-- Their stacks were the same for {patience} seconds, they do not run, the kernel says that they wait
-- for a futex, and the function that waits is not one that is made for waiting (queues, pools, events).
WITH still AS (
  SELECT host, pid, tid, max(weight) AS seconds FROM global.python.samples
  WHERE NOT on_cpu AND weight >= {patience}
    AND timestamp + to_microseconds((weight * 1e6)::BIGINT) > now() - to_seconds(3)
  GROUP BY host, pid, tid
),
blocked AS (
  SELECT s.host, s.pid, s.rank, s.tid, s.thread_name, s.func, s.file, s.lineno, still.seconds
  FROM global.python.stacks AS s JOIN still USING (host, pid, tid)
  WHERE s.depth = 0 AND s.wait_channel LIKE '%futex%' AND s.frame_type = 'Python'
    AND NOT coalesce(s.has_gil, false)
    AND NOT regexp_matches(s.file, '(/|^)(threading|queue|_base|thread|connection|selectors|pool|process|synchronize)\.py$|/torch/|<frozen')
)
SELECT list_distinct(list(rank)) AS ranks, [pid] AS pids, host, 'error' AS severity,
       count(*) || ' threads wait for locks for ' || round(min(seconds), 1) || ' s: '
       || string_agg(coalesce(thread_name, tid::VARCHAR) || ' in ' || func || ' (' || parse_filename(file) || ':'
                     || lineno || ')', ', ' ORDER BY tid) AS evidence,
       'probing -t ' || pid || ' backtrace --locals' AS next
FROM blocked GROUP BY host, pid HAVING count(*) >= 2
