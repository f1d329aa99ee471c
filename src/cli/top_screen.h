// The screen of `probing top`: what was seen in the last second, as lines that fit into a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace probing::cli {

enum class TopPage : std::uint8_t { kFunctions, kThreads, kTasks, kHelp };
enum class TopOrder : std::uint8_t { kOwn, kTotal, kOwnTime, kTotalTime };

struct TopSettings {
  TopPage page = TopPage::kFunctions;
  TopOrder order = TopOrder::kOwn;
  std::size_t first = 0;  // row that is shown first
};

struct TopFunction {
  double own = 0, total = 0;                  // shares of the last second
  double own_seconds = 0, total_seconds = 0;  // since top began
  std::string function, place;
  bool is_library = false;
};

struct TopThread {
  int tid = 0;
  std::string name;
  double on_cpu = 0, with_gil = 0;  // shares of the last second
  std::string place;                // where it is
};

struct TopTask {
  std::string name, state, place;
};

struct TopPicture {
  std::string title;
  double gil = 0, on_cpu = 0;  // shares; of all threads together
  std::uint64_t samples = 0, unreadable = 0;
  std::vector<TopFunction> functions;
  std::vector<TopThread> threads;
  std::vector<TopTask> tasks;
  std::string no_tasks;  // why there are none to show
  std::string filter;    // what is left out: "only with the GIL"
};

// At most `rows` lines of at most `columns`, without a line end behind the last. Names are made visible.
std::string DrawTop(const TopPicture& picture, TopSettings& settings, std::size_t columns, std::size_t rows);

// Sorts as `order` says, what takes most first.
void SortFunctions(std::vector<TopFunction>& functions, TopOrder order);

// " 12.3%"
std::string SharePercent(double share);

}  // namespace probing::cli
