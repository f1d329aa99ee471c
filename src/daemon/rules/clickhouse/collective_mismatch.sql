-- class: collective_mismatch
-- about: Ranks call different collectives, or the same with different sizes, at the same place of their group.
-- The number of an operation in its group (seq) must mean the same on every rank; of the last six times
-- {patience} seconds.
SELECT ranks, pids, 'error' AS severity,
       concat('operation #', toString(assumeNotNull(seq)), ' of group ', assumeNotNull(process_group), ' of ', job,
              ': ', arrayStringConcat(arraySlice(calls, 1, 8), ', '), if(length(calls) > 8, ', …', '')) AS evidence,
       'probing cluster backtrace' AS next
FROM (
  SELECT job, process_group, seq, arrayMap(x -> x.1, members) AS ranks, arrayMap(x -> x.2, members) AS pids,
         arrayMap(x -> x.3, members) AS calls,
         arraySort(groupArray((assumeNotNull(rank), assumeNotNull(pid),
                               concat('rank ', toString(assumeNotNull(rank)), ' calls ', assumeNotNull(op), ' of ',
                                      toString(ifNull(bytes, 0)), ' bytes')))) AS members
  FROM global.python.collective_starts
  WHERE timestamp > now() - toUInt32({patience} * 6) AND isNotNull(rank) AND isNotNull(op)
    AND op NOT IN ('send', 'recv', 'isend', 'irecv')
  GROUP BY job, process_group, seq
  HAVING uniqExact(host, pid) > 1
     AND (uniqExact(op) > 1 OR (any(op) IN ('all_reduce', 'broadcast') AND uniqExact(bytes) > 1))
)
ORDER BY seq LIMIT 1 BY job, process_group
