// What probingd and its query worker say to each other: frames on a pair of sockets.
//
// A frame is a header and a payload; file descriptors travel with the header. Both ends are of the
// same build, so numbers have the form they have in memory; but a worker may have been taken over
// by a bug, so what comes from it is checked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/scoped_fd.h"
#include "query/limits.h"
#include "query/request.h"

namespace probing::query {

enum class FrameType : std::uint32_t {
  kOpen = 1,       // to the worker, first: OpenMessage
  kFiles,          // to the worker: descriptors that the next query has too many of
  kQuery,          // to the worker: QueryMessage, with descriptors
  kRows,           // to the worker: answers kNeed
  kHistory,        // to the history worker: history::StateMessage
  kReady = 16,     // from the worker: empty, or why it cannot work
  kNeed,           // from the worker: NeedMessage
  kData,           // from the worker: bytes of the answer
  kEnd,            // from the worker: EndMessage
  kHistoryStatus,  // from the history worker: history::StatusMessage
  kGather,         // from the worker: GatherRequest; answered by kRows
};

inline constexpr std::size_t kMaxFrameBytes = 512UL << 20;
inline constexpr std::size_t kMaxFilesInFrame = 64;

struct Frame {
  FrameType type{};
  std::string payload;
  std::vector<ScopedFd> files;
};

// Both restart after signals. A closed socket is an error of code kNotFound.
Result<void> SendFrame(int socket, FrameType type, std::string_view payload,
                       const std::vector<int>& files = {});
Result<Frame> ReceiveFrame(int socket, const Deadline& deadline);

// Waits until a frame begins, or until `wake_fd` (-1 for none) is readable: then false.
Result<bool> AwaitFrame(int socket, int wake_fd, const Deadline& deadline);

struct OpenMessage {
  std::int64_t memory_bytes = 0;
  std::string view_directory;
};
struct QueryMessage {  // the targets' descriptors came before, in this order
  std::string sql;
  FormatOptions format;
  Limits limits;
  bool has_provider = false;
  std::vector<table::Target> targets;
  std::optional<table::HistoryScope> history;
  bool has_gatherer = false;
  std::optional<std::int64_t> recorded_ns;
};
struct NeedMessage {
  std::string table;
  std::int64_t target = -1;  // index
  std::vector<std::uint64_t> columns;
};
struct EndMessage {
  std::optional<SqlError> error;
  std::int64_t rows = 0;
  std::vector<std::string> warnings;
  std::string body;     // the last bytes of the answer; mostly all
  bool leaves = false;  // the worker ends now: it cannot be used again
};

std::string Encode(const OpenMessage& message);
std::string Encode(const QueryMessage& message);
std::string Encode(const NeedMessage& message);
std::string Encode(const EndMessage& message);
std::string Encode(const GatherRequest& request);
bool Decode(std::string_view payload, OpenMessage& message);
bool Decode(std::string_view payload, QueryMessage& message, std::vector<ScopedFd> files);
bool Decode(std::string_view payload, NeedMessage& message);
bool Decode(std::string_view payload, EndMessage& message);
bool Decode(std::string_view payload, GatherRequest& request);

// kReady and kRows: an error, or a text.
std::string EncodeResult(const Result<std::string>& result);
Result<std::string> DecodeResult(std::string_view payload);

// The text that answers kGather: several.
std::string EncodeTexts(const std::vector<std::string>& texts);
bool DecodeTexts(std::string_view text, std::vector<std::string>& texts);

}  // namespace probing::query
