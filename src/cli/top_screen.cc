#include "cli/top_screen.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "cli/output.h"

namespace probing::cli {
namespace {

constexpr std::size_t kLinesAround = 6;  // title, bands, space, header; space, keys
constexpr std::size_t kBand = 20;

constexpr const char* kKeys = "1-4 sort  f functions  t threads  a tasks  g GIL  i idle  ? help  q quit";

constexpr std::array kHelp{
    "1  most own time in the last second     3  most own time since top began",
    "2  most total time in the last second   4  most total time since top began",
    "f  functions    t  threads    a  asyncio tasks",
    "g  only what holds the GIL              i  also what waits",
    "l  lines of a function apart            r  count from now on",
    "arrows, j, k, PgUp, PgDn  scroll        q  quit",
    "",
    "OWN: the function itself ran. TOTAL: it ran, or what it called.",
    "A thread counts when it is on a CPU or holds the GIL.",
    "GIL: how much of the last second a thread held it. Near 100 % the threads of",
    "Python wait for each other. CPU: of all threads; 100 % is one core.",
};

std::string Format(const char* format, double value) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string Seconds(double seconds) { return Format(seconds < 10000 ? "%8.2fs" : "%8.0fs", seconds); }

std::string Band(double share) {
  const auto filled =
      static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * static_cast<double>(kBand)));
  std::string band;
  for (std::size_t i = 0; i < filled; ++i) band += "█";
  for (std::size_t i = filled; i < kBand; ++i) band += "░";
  return Painted(band, share >= 0.9 ? Colour::kYellow : Colour::kGreen);
}

std::string Marked(const char* title, bool is_sorted) { return is_sorted ? std::string(title) + "▼" : title; }

std::string PadLeft(const std::string& text, std::size_t columns) {
  const std::size_t width = VisibleWidth(text);
  return std::string(width < columns ? columns - width : 0, ' ') + text;
}

std::string PadRight(std::string text, std::size_t columns) {
  text = FittedText(text, columns);
  const std::size_t width = VisibleWidth(text);
  return text + std::string(columns - width, ' ');
}

std::vector<std::string> Functions(const TopPicture& picture, TopOrder order) {
  std::vector<std::string> lines{PadLeft(Marked("%OWN", order == TopOrder::kOwn), 7) +
                                 PadLeft(Marked("%TOTAL", order == TopOrder::kTotal), 8) +
                                 PadLeft(Marked("OWN", order == TopOrder::kOwnTime), 10) +
                                 PadLeft(Marked("TOTAL", order == TopOrder::kTotalTime), 10) + "  FUNCTION"};
  for (const TopFunction& one : picture.functions) {
    const std::string name =
        OneLine(one.function, 200) + (one.place.empty() ? "" : " (" + OneLine(one.place, 200) + ")");
    lines.push_back(PadLeft(SharePercent(one.own), 7) + PadLeft(SharePercent(one.total), 8) +
                    PadLeft(Seconds(one.own_seconds), 10) + PadLeft(Seconds(one.total_seconds), 10) + "  " +
                    Painted(name, one.is_library ? Colour::kDim : Colour::kBold));
  }
  return lines;
}

std::vector<std::string> Threads(const TopPicture& picture) {
  std::vector<std::string> lines{"    TID     CPU     GIL  NAME              IN"};
  for (const TopThread& one : picture.threads) {
    lines.push_back(PadLeft(std::to_string(one.tid), 7) + PadLeft(SharePercent(one.on_cpu), 8) +
                    PadLeft(SharePercent(one.with_gil), 8) + "  " + PadRight(OneLine(one.name, 60), 16) +
                    "  " + OneLine(one.place, 200));
  }
  return lines;
}

std::vector<std::string> Tasks(const TopPicture& picture) {
  std::vector<std::string> lines{"TASK                      STATE     IN"};
  for (const TopTask& one : picture.tasks) {
    lines.push_back(PadRight(OneLine(one.name, 60), 24) + "  " + PadRight(one.state, 8) + "  " +
                    OneLine(one.place, 200));
  }
  if (picture.tasks.empty()) lines.push_back(picture.no_tasks);
  return lines;
}

std::vector<std::string> Lines(const TopPicture& picture, const TopSettings& settings) {
  switch (settings.page) {
    case TopPage::kFunctions:
      return Functions(picture, settings.order);
    case TopPage::kThreads:
      return Threads(picture);
    case TopPage::kTasks:
      return Tasks(picture);
    case TopPage::kHelp:
      break;
  }
  std::vector<std::string> lines{"KEYS"};
  lines.insert(lines.end(), kHelp.begin(), kHelp.end());
  return lines;
}

}  // namespace

std::string SharePercent(double share) { return Format("%5.1f%%", 100 * share); }

void SortFunctions(std::vector<TopFunction>& functions, TopOrder order) {
  const auto key = [order](const TopFunction& one) {
    switch (order) {
      case TopOrder::kOwn:
        return std::pair(one.own, one.total);
      case TopOrder::kTotal:
        return std::pair(one.total, one.own);
      case TopOrder::kOwnTime:
        return std::pair(one.own_seconds, one.total_seconds);
      case TopOrder::kTotalTime:
        break;
    }
    return std::pair(one.total_seconds, one.own_seconds);
  };
  std::ranges::stable_sort(functions, [&](const auto& a, const auto& b) { return key(a) > key(b); });
}

std::string DrawTop(const TopPicture& picture, TopSettings& settings, std::size_t columns, std::size_t rows) {
  const double processors = std::max(1.0, static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN)));
  std::vector<std::string> shown{Painted(OneLine(picture.title, 200), Colour::kBold),
                                 "GIL " + SharePercent(picture.gil) + " " + Band(picture.gil) + "  CPU " +
                                     SharePercent(picture.on_cpu) + " " + Band(picture.on_cpu / processors) +
                                     "  " + std::to_string(picture.threads.size()) +
                                     (picture.threads.size() == 1 ? " thread" : " threads"),
                                 ""};
  std::vector<std::string> lines = Lines(picture, settings);
  shown.push_back(Painted(lines[0], Colour::kReverse));
  lines.erase(lines.begin());
  const std::size_t room = rows > kLinesAround ? rows - kLinesAround : 1;
  settings.first = std::min(settings.first, lines.size() > room ? lines.size() - room : 0);
  for (std::size_t i = settings.first; i < lines.size() && i < settings.first + room; ++i)
    shown.push_back(lines[i]);
  while (shown.size() + 2 < rows) shown.emplace_back();
  std::string state = std::to_string(picture.samples) + " samples";
  if (!picture.filter.empty()) state += ", " + picture.filter;
  if (picture.unreadable > 0) state += ", " + std::to_string(picture.unreadable) + " unreadable";
  if (lines.size() > room) {
    state += ", rows " + std::to_string(settings.first + 1) + "–" +
             std::to_string(std::min(settings.first + room, lines.size())) + " of " +
             std::to_string(lines.size());
  }
  shown.push_back(Painted(state, Colour::kDim));
  shown.push_back(Painted(kKeys, Colour::kDim));
  if (shown.size() > rows) shown.resize(rows);
  std::string text;
  for (const std::string& line : shown) text += (text.empty() ? "" : "\n") + FittedText(line, columns);
  return text;
}

}  // namespace probing::cli
