// Tables of the product about itself.
#include <array>

#include "table/registry.h"

namespace probing::table {
namespace {

using enum Type;

constexpr std::array kNodes{
    Column{"host", kString, "", "name of the host"},
    Column{"node", kString, "", "address of that host's probingd"},
    Column{"state", kString, "", "up, down, or unknown: what should have led to hosts has not"},
    Column{"version", kString, "", "version of its probingd"},
    Column{"ranks", kInt64, "", "targets there"},
    Column{"last_seen", kTimestamp, "", "when it answered last"},
    Column{"clock_offset_ms", kDouble, "ms", "how far its clock is ahead of ours"},
    Column{"clock_error_ms", kDouble, "ms", "how wrong that may be: half of what the question took"},
    Column{"found_by", kString, "",
           "what led to it: itself, list, slurm, dns:…, tcpstore:…, etcd:… or introduced"},
    Column{"epoch", kInt64, "", "changes when the set of hosts that answer does, or one is started anew"},
    Column{"problem", kString, "", "why it did not answer, or is of another version; NULL when all is well"},
};

constexpr std::array kClusterStacks{
    Column{"processes", kInt64, "", "how many main threads are there"},
    Column{"ranks", kString, "JSON", "their ranks, as in [0, 1, 2]"},
    Column{"pids", kString, "JSON", "their process ids"},
    Column{"innermost", kString, "", "the function that runs now"},
    Column{"stack", kString, "",
           "a line for each frame, the innermost first; with line numbers when all are at the same lines"},
};

constexpr std::array kTargets{
    Column{"name", kString, "", "name of the program"},
    Column{"state", kString, "", "live or ended"},
    Column{"python", kString, "", "version of its interpreter"},
    Column{"version", kString, "", "version of its probe; NULL when it is only observed from outside"},
    Column{"since", kTimestamp, "", "when the probe entered"},
    Column{"cmdline", kString, "", "command line"},
    Column{"job", kString, "", "name of the job it belongs to, as its launcher says; local without one"},
    Column{"job_role", kString, "", "rank, worker (a child of a rank) or launcher; NULL outside a job"},
    Column{"launcher", kString, "", "who gave it its rank: torchrun, slurm, openmpi, pmi, kubernetes"},
    Column{"world_size", kInt64, "", "ranks of the job"},
    Column{"local_rank", kInt64, "", "number among the ranks of its host"},
    Column{"node_rank", kInt64, "", "number of its host in the job"},
    Column{"restart", kInt64, "", "how often the job was started again before this"},
    Column{"parallel", kString, "JSON", "rank in each kind of parallelism, as in {\"dp\": 0, \"tp\": 3}"},
    Column{"variables", kString, "JSON", "the launcher's variables as they were found"},
};

constexpr std::array kConfig{
    Column{"name", kString, "", "name of the setting"},
    Column{"value", kString, "", "its value now"},
    Column{"default_value", kString, "", "its value when nobody changes it"},
    Column{"description", kString, "", "what it does"},
};

constexpr std::array kTablesColumns{
    Column{"table_name", kString, "", "name, with its schema"},
    Column{"kind", kString, "", "stored, live or view"},
    Column{"origin", kString, "", "who makes the rows: probe, outside, probingd"},
    Column{"columns", kInt64, "", "number of columns"},
    Column{"doc", kString, "", "what the rows are"},
};

constexpr std::array kColumnsColumns{
    Column{"table_name", kString, "", "name of the table, with its schema"},
    Column{"column_name", kString, "", "name of the column"},
    Column{"position", kInt64, "", "1 is the first column"},
    Column{"type", kString, "", "SQL type"},
    Column{"unit", kString, "", "unit of the values; empty where there is none"},
    Column{"doc", kString, "", "what the values are"},
};

constexpr std::array kDrops{
    Column{"table_name", kString, "", "name of the table"},
    Column{"capacity", kInt64, "rows", "rows its ring can hold"},
    Column{"rows", kInt64, "rows", "rows in the ring now"},
    Column{"written", kInt64, "rows", "rows ever written"},
    Column{"overwritten", kInt64, "rows", "old rows that made room for new ones"},
    Column{"dropped", kInt64, "rows", "rows that were never stored, because memory was short"},
};

constexpr std::array kHistory{
    Column{"table_name", kString, "", "name of the table"},
    Column{"rows", kInt64, "rows", "rows that were written to files"},
    Column{"files", kInt64, "", "files they are in"},
    Column{"lost", kInt64, "rows", "rows that were overwritten before they could be written"},
    Column{"problem", kString, "", "why the last file could not be written; NULL when it could"},
    Column{"directory", kString, "", "where the files are"},
};

constexpr std::array kStore{
    Column{"table_name", kString, "", "name of the table"},
    Column{"sent", kInt64, "rows", "rows that the store has taken since probingd began to send"},
    Column{"waiting", kInt64, "rows", "rows that wait on disk"},
    Column{"dropped", kInt64, "rows", "rows that waited until there was no room (probing.store.spool)"},
    Column{"lost", kInt64, "rows", "rows that were overwritten before they could be read"},
    Column{"problem", kString, "", "why the last try failed; NULL when it did not"},
    Column{"store", kString, "", "where the rows go"},
};

constexpr std::array kOutlets{
    Column{"outlet", kString, "", "webhook, otlp or syslog"},
    Column{"url", kString, "", "where it leads, without what is secret"},
    Column{"sent", kInt64, "", "alerts, records, metrics and spans that were taken there"},
    Column{"waiting", kInt64, "", "those that wait to be sent, or to be sent again"},
    Column{"failed", kInt64, "", "tries that failed"},
    Column{"dropped", kInt64, "", "those that were given up: refused there, or too many waited"},
    Column{"open", kInt64, "", "findings and stalls that last, and will be told when they end"},
    Column{"last_sent", kTimestamp, "", "when something was taken last; NULL: nothing was yet"},
    Column{"last_failed", kTimestamp, "", "when a try failed last; NULL when none did"},
    Column{"last_error", kString, "", "why that was; NULL when none did"},
};

constexpr std::array kOverhead{
    Column{
        "part", kString, "",
        "what of Probing ran: control (its own thread), evaluations, live, hooks, memory, gc, rows, torch"},
    Column{"calls", kInt64, "", "how often"},
    Column{"total_ns", kInt64, "ns",
           "time in all: of control CPU time, of rows by timing some, of the others with the GIL"},
    Column{"mean_ns", kDouble, "ns", "time of one call"},
    Column{"percent", kDouble, "%", "of the time since the probe entered"},
};

constexpr std::array kTables{
    Table{"cluster.nodes", Kind::kLive, Origin::kDaemon, "hosts of the job and their probingd", kNodes, "",
          About::kHost},
    Table{
        "cluster.stacks", Kind::kView, Origin::kOutside,
        "where the ranks are now, those of a job with the same stack together; pid, rank and host of the "
        "first",
        kClusterStacks,
        // Of each process the thread that trains: the main one, unless that runs nothing but a library and
        // another thread runs the program (Ray Train).
        "WITH frames AS (SELECT pid, rank, host, job, tid, depth, func, lineno,"
        " func || coalesce(' (' || file, '') AS place, CASE WHEN file IS NULL THEN '' ELSE ')' END AS tail,"
        " NOT regexp_matches(coalesce(file, '<'), '/lib(64)?/python3|-packages/|^<') AS is_own,"
        " contains(coalesce(file, ''), '/torch/') AS is_torch FROM {python.stacks}),"
        " threads AS (SELECT host, pid, tid FROM (SELECT host, pid, tid, tid = pid AS is_main,"
        " bool_or(is_own) AS own, bool_or(is_torch) AS torch FROM frames GROUP BY host, pid, tid)"
        " QUALIFY row_number() OVER (PARTITION BY host, pid ORDER BY is_main AND own DESC, own AND torch "
        "DESC,"
        " is_main AND torch DESC, own DESC, is_main DESC, tid) = 1),"
        " each AS (SELECT pid, rank, host, job, max(func) FILTER (depth = 0) AS innermost,"
        " string_agg(place || tail, chr(10) ORDER BY depth) AS functions,"
        " string_agg(place || coalesce(':' || lineno, '') || tail, chr(10) ORDER BY depth) AS lines"
        " FROM frames SEMI JOIN threads USING (host, pid, tid) GROUP BY pid, rank, host, job)"
        " SELECT count(*) AS processes,"
        " CAST(to_json(coalesce(list(rank ORDER BY rank) FILTER (rank IS NOT NULL), [])) AS VARCHAR) AS "
        "ranks,"
        " CAST(to_json(list(pid ORDER BY rank, pid)) AS VARCHAR) AS pids, any_value(innermost) AS innermost,"
        " CASE WHEN count(DISTINCT lines) = 1 THEN any_value(lines) ELSE functions END AS stack,"
        " first(pid ORDER BY rank, pid) AS pid, first(rank ORDER BY rank, pid) AS rank,"
        " first(host ORDER BY rank, pid) AS host, job FROM each GROUP BY functions, job"},
    Table{"probing.targets", Kind::kLive, Origin::kDaemon, "processes that are looked into", kTargets},
    Table{"probing.config", Kind::kLive, Origin::kDaemon, "settings and their values", kConfig, "",
          About::kHost},
    Table{"probing.tables", Kind::kLive, Origin::kDaemon, "tables that can be queried", kTablesColumns, "",
          About::kHost},
    Table{"probing.columns", Kind::kLive, Origin::kDaemon, "columns of all tables", kColumnsColumns, "",
          About::kHost},
    Table{"probing.drops", Kind::kLive, Origin::kDaemon, "rows that each table has and has lost", kDrops},
    Table{"probing.history", Kind::kLive, Origin::kDaemon,
          "what is written to files (probing.retention_days)", kHistory},
    Table{"probing.store", Kind::kLive, Origin::kDaemon,
          "what goes to the store of many hosts (probing.store)", kStore, "", About::kHost},
    Table{"probing.outlets", Kind::kLive, Origin::kDaemon,
          "where findings, stalls, metrics and spans are sent (probing.outlets.*)", kOutlets, "",
          About::kHost},
    Table{"probing.overhead", Kind::kLive, Origin::kProbe, "what Probing costs the target", kOverhead},
};

}  // namespace

std::span<const Table> OwnTables() { return kTables; }

}  // namespace probing::table
