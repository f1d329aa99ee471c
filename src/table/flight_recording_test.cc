#include "table/flight_recording.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/file.h"

namespace probing::table {
namespace {

// As torch 2.13 writes it; pg_status counts as text there.
constexpr std::string_view kDump = R"({"version": "2.10",
  "pg_config": {"1": {"name": "1", "desc": "TP", "ranks": "[0, 2]"}, "": {"name": "", "desc": "", "ranks": "[]"}},
  "pg_status": {"7": {"last_completed_collective": "40"}},
  "entries": [
    {"record_id": 3, "pg_id": 7, "process_group": ["1", "TP"], "collective_seq_id": 40, "p2p_seq_id": 0,
     "profiling_name": "nccl:_all_gather_base", "time_created_ns": 1000, "input_sizes": [[4, 8], [2]],
     "input_dtypes": ["BFloat16", "Float"], "state": "scheduled", "retired": false, "is_p2p": false,
     "time_discovered_started_ns": null, "time_discovered_completed_ns": 0,
     "frames": [{"name": "all_gather", "filename": "/x/torch/distributed.py", "line": 1},
                {"name": "step", "filename": "/jobs/train.py", "line": 7}]},
    {"record_id": 4, "pg_id": 7, "process_group": ["1", "TP"], "collective_seq_id": 41, "p2p_seq_id": 0,
     "profiling_name": "gloo:all_reduce", "time_created_ns": 2000, "input_sizes": [[1]], "input_dtypes": ["Long"],
     "state": "scheduled", "retired": false, "is_p2p": false},
    {"record_id": 5, "pg_id": 9, "process_group": ["2", ""], "collective_seq_id": 1, "p2p_seq_id": 6,
     "profiling_name": "gloo:send", "time_created_ns": 3000, "input_sizes": [], "input_dtypes": [],
     "state": "scheduled", "retired": true, "is_p2p": true},
    {"record_id": 6}, 5, null]})";

TEST(FlightRecording, ReadsWhatTorchWrites) {
  const Result<DataTree> tree = ReadJson(kDump);
  ASSERT_TRUE(tree.ok());
  const std::optional<FlightRecording> recording = ReadFlightRecording(*tree);
  ASSERT_TRUE(recording);
  EXPECT_EQ(recording->version, "2.10");
  ASSERT_EQ(recording->groups.size(), 1U);
  EXPECT_EQ(RanksText(recording->groups.at("1").ranks), "[0, 2]");
  ASSERT_EQ(recording->entries.size(), 3U) << "what makes no sense is left out";
  const FlightEntry& gather = recording->entries[0];
  EXPECT_EQ(gather.op, "all_gather_into_tensor");
  EXPECT_EQ(gather.backend, "nccl");
  EXPECT_EQ(gather.bytes, 4 * 8 * 2 + 2 * 4);
  EXPECT_EQ(gather.dtype, "bfloat16");
  EXPECT_EQ(gather.sizes, "[[4, 8], [2]]");
  EXPECT_EQ(gather.place, "step (train.py:7)");
  EXPECT_TRUE(gather.is_over) << "the group has counted it";
  EXPECT_FALSE(recording->entries[1].is_over);
  EXPECT_EQ(recording->entries[1].seq, 41);
  EXPECT_TRUE(recording->entries[2].is_p2p && recording->entries[2].is_over);
  EXPECT_EQ(recording->entries[2].seq, 6) << "sends have numbers of their own";
}

TEST(FlightRecording, KnowsWhatIsNone) {
  EXPECT_FALSE(ReadFlightRecording(*ReadJson("{}")));
  EXPECT_FALSE(ReadFlightRecording(*ReadJson("[1]")));
  EXPECT_FALSE(ReadFlightRecording(DataTree()));
}

// Recordings of a job on 16 GPUs, beside the project and not in it.
TEST(FlightRecording, ReadsThePicklesOfARealJob) {
  const std::string source = __FILE__;
  const std::string folder =
      source.substr(0, source.rfind("/src/table/")) + "/../shared/data/flight_recorder/gpu_error_1st";
  if (access(folder.c_str(), R_OK) != 0) GTEST_SKIP() << "needs " << folder;
  for (int rank = 0; rank < 16; ++rank) {
    const Result<std::string> bytes = ReadFile(folder + "/_dump_" + std::to_string(rank));
    ASSERT_TRUE(bytes.ok());
    const Result<DataTree> tree = ReadPickle(*bytes);
    ASSERT_TRUE(tree.ok()) << tree.error().message;
    const std::optional<FlightRecording> recording = ReadFlightRecording(*tree);
    ASSERT_TRUE(recording);
    EXPECT_EQ(recording->version, "2.9");
    EXPECT_EQ(recording->groups.at("0").ranks.size(), 16U);
    EXPECT_FALSE(recording->entries.empty());
    for (std::size_t cut = 0; cut < bytes->size(); cut += 97)
      EXPECT_FALSE(ReadPickle(std::string_view(*bytes).substr(0, cut)).ok());
  }
}

}  // namespace
}  // namespace probing::table
