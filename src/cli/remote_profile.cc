#include "cli/remote_profile.h"

#include "cli/recording.h"
#include "wire/contract.h"

namespace probing::cli {
namespace {

flame::Frame FrameOf(const Json& frame) {
  const std::string kind = frame.value("kind", "");
  return {kind == "native"  ? flame::FrameKind::kNative
          : kind == "group" ? flame::FrameKind::kGroup
                            : flame::FrameKind::kPython,
          frame.value("func", ""), frame.value("file", ""), frame.value("lineno", 0),
          frame.value("first_line", 0)};
}

// Innermost first, as a profile takes them; numbers of frames are checked.
std::vector<flame::Frame> FramesOf(const Json& stack, const std::vector<flame::Frame>& frames) {
  std::vector<flame::Frame> list;
  for (auto number = stack.rbegin(); number != stack.rend(); ++number)
    list.push_back(frames.at(number->get<std::size_t>()));
  return list;
}

RemoteProfile Convert(const Json& answer) {
  RemoteProfile result{flame::Profile(answer.at("period_ns").get<std::int64_t>(), {}),
                       answer.at("samples_taken").get<std::uint64_t>(), answer.at("ended").get<bool>()};
  std::vector<flame::Frame> frames;
  for (const Json& frame : answer.at("frames")) frames.push_back(FrameOf(frame));
  std::vector<flame::ThreadId> threads;
  for (const Json& thread : answer.at("threads")) {
    flame::Thread added{thread.value("pid", 0), thread.value("tid", 0), thread.value("name", ""),
                        thread.value("process", "")};
    if (thread.contains("rank")) added.rank = thread["rank"].get<std::int64_t>();
    threads.push_back(result.profile.AddThread(std::move(added)));
  }
  const Json& samples = answer.at("samples");
  const Json& stacks = answer.at("stacks");
  for (std::size_t i = 0; i < samples.at("weight").size(); ++i) {
    flame::Sample sample;
    sample.start_ns = samples.at("start_ns").at(i).get<std::int64_t>();
    sample.ticks = samples.at("weight").at(i).get<std::uint32_t>();
    sample.thread = threads.at(samples.at("thread").at(i).get<std::size_t>());
    sample.on_cpu = samples.at("on_cpu").at(i).get<bool>();
    sample.has_gil = samples.at("has_gil").at(i).get<bool>();
    result.profile.AddSample(sample,
                             FramesOf(stacks.at(samples.at("stack").at(i).get<std::size_t>()), frames));
  }
  const auto lost = [&](const char* kind) { return answer.at("lost").value(kind, std::uint64_t{0}); };
  result.profile.losses() = {lost("torn"), lost("dropped"), lost("unmerged"), lost("spared"), lost("missed")};
  result.started_ns = answer.value("started_ns", std::int64_t{0});
  for (const Json& each : answer.value("gone", Json::array())) {
    RemoteProfile::Gone gone{.pid = each.at("pid").get<pid_t>(), .why = each.value("why", "")};
    if (each.contains("after_s")) gone.after_s = each["after_s"].get<double>();
    result.gone.push_back(std::move(gone));
  }
  return result;
}

}  // namespace

Result<RemoteProfile> ProfileFromJson(const Json& answer) {
  try {
    return Convert(answer);
  } catch (const std::exception& e) {
    return Error{Code::kFailed, std::string("the profile cannot be read: ") + e.what(),
                 "is probingd of another version there?"};
  }
}

Result<RemoteProfile> TakeRemoteProfile(const Invocation& invocation, double seconds, double hz) {
  const Json request{{"target", *invocation.target},
                     {"seconds", seconds},
                     {"hz", hz},
                     {"native", invocation.Has("--native")},
                     {"tasks", TasksOf(invocation)},
                     {"subprocesses", invocation.Has("--subprocesses")}};
  ASSIGN_OR_RETURN(const Json answer,
                   PostToDaemon(std::string(wire::kProfileRoute), request, Patience::kEndless));
  return ProfileFromJson(answer);
}

}  // namespace probing::cli
