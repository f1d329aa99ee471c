#include "observe/stalls/user_frame.h"

#include <string_view>

namespace probing::observe {
namespace {

enum class Origin { kUser, kPackage, kStandardLibrary };

Origin OriginOf(const std::string& file) {
  for (const std::string_view folder : {"/site-packages/", "/dist-packages/"}) {
    if (file.find(folder) != std::string::npos) return Origin::kPackage;
  }
  const bool is_standard = file.starts_with("<frozen ") || file.find("/lib/python3") != std::string::npos ||
                           file.find("/lib64/python3") != std::string::npos;
  return is_standard ? Origin::kStandardLibrary : Origin::kUser;
}

// Below it is what started the loop.
bool RunsLoop(const flame::Frame& frame) {
  return frame.file.ends_with("/asyncio/base_events.py") || frame.file.ends_with("/asyncio/runners.py");
}

}  // namespace

std::optional<std::size_t> FindUserFrame(const std::vector<const flame::Frame*>& frames) {
  if (frames.empty()) return std::nullopt;
  std::optional<std::size_t> package;
  for (std::size_t i = frames.size(); i-- > 0;) {
    const flame::Frame& frame = *frames[i];
    if (frame.kind != flame::FrameKind::kPython) continue;
    if (RunsLoop(frame)) break;
    const Origin origin = OriginOf(frame.file);
    if (origin == Origin::kUser) return i;
    if (origin == Origin::kPackage && !package) package = i;
  }
  return package ? package : frames.size() - 1;
}

}  // namespace probing::observe
