// An answer as people and programs read it.
#include <nlohmann/json.hpp>

#include "base/visible.h"
#include "process/maps.h"
#include "why/explain.h"

namespace probing::why {
namespace {

using Json = nlohmann::ordered_json;

std::string ProcessText(const Node& node) {
  if (node.pid == 0) return "";
  std::string text = node.rank ? "rank " + std::to_string(*node.rank) + ", " : "";
  text += "pid " + std::to_string(node.pid);
  return node.process.empty() ? text : text + " (" + Visible(node.process) + ")";
}

std::string PlaceText(const Node& node) {
  if (node.function.empty()) return node.call.empty() ? "" : "in the system call " + node.call;
  return "in " + Visible(node.function) + " (" + Visible(process::BaseName(node.file)) +
         (node.line > 0 ? ":" + std::to_string(node.line) : "") + ")";
}

std::string ThreadText(const Node& node) {
  return "thread " + (node.thread.empty() ? std::to_string(node.tid) : Visible(node.thread));
}

std::string WithNote(std::string text, const Node& node) {
  return node.note.empty() ? text : text + (text.empty() ? "" : ": ") + Visible(node.note);
}

// What the last one does, and what that means.
std::string EndText(const Node& node, End end) {
  const std::string place = PlaceText(node);
  const auto join = [&](const std::string& verb) { return place.empty() ? verb : verb + " " + place; };
  switch (end) {
    case End::kDied:
      return node.tid == 0 || !node.note.empty() ? WithNote("", node) : "has ended";
    case End::kStopped:
      return WithNote(join("stopped"), node);
    case End::kRuns:
      return WithNote(join("runs"), node) + "  ← could go on";
    case End::kSleeps:
      return join("sleeps") + "  ← goes on by itself";
    case End::kKernel:
      return WithNote(join("waits"), node);
    case End::kOutside:
      return node.pid == 0 ? "outside: " + Visible(node.note) : WithNote(join("waits"), node) + "  ← outside";
    case End::kIdle:
      return WithNote(join("waits for work"), node);
    case End::kDeadlock:
      return WithNote(join("waits"), node) + "  ← deadlock";
    case End::kUnknown:
    case End::kWaits:
      break;
  }
  return WithNote(join("waits"), node) + "  ← the way ends here";
}

std::string Verb(const Node& node) {
  const std::string place = PlaceText(node);
  return place.empty() ? "waits" : "waits " + place;
}

bool IsThread(const Node& node) { return node.tid != 0; }

std::string ChainText(const Graph& graph, const Chain& chain) {
  std::string text;
  std::string indent;
  const auto node_at = [&](std::size_t i) -> const Node& { return graph.nodes[chain.steps[i].node]; };
  pid_t pid = 0;
  for (std::size_t i = 0; i < chain.steps.size(); ++i) {
    const Node& node = node_at(i);
    const Step& step = chain.steps[i];
    const bool is_last = i + 1 == chain.steps.size();
    if (i == 0) text += ProcessText(node);
    const bool is_thread_of_process =
        i > 0 && !IsThread(node_at(i - 1)) && IsThread(node) && step.reason.empty();
    if (i > 0 && !is_thread_of_process) {
      text += indent + "└ for ";
      indent += "   ";
      std::string who = ProcessText(node);
      if (node.pid == 0) {
        who = (node.end == End::kOutside ? "outside: " : "") + Visible(node.note);
      } else if (node.pid == pid) {
        who = IsThread(node) ? ThreadText(node) : "itself";
      }
      text += who;
      if (!step.reason.empty() && node.pid != 0) text += ": " + Visible(step.reason);
      if (!step.certain) text += " (likely)";
      text += "\n";
    }
    if (i > 0 && chain.end == End::kDeadlock && is_last) {
      text += indent + "↑ which is in this chain already  ← deadlock\n";
      break;
    }
    pid = node.pid;
    if (node.pid == 0) continue;
    if (!IsThread(node) && !is_last) continue;  // its thread follows
    std::string what = is_last ? EndText(node, chain.end) : Verb(node);
    if (IsThread(node)) what = ThreadText(node) + " " + what;
    text += (i == 0 ? ": " : indent) + what + "\n";
    if (i == 0) indent = "  ";
  }
  return text;
}

std::string RootText(const Graph& graph, const Chain& chain) {
  const Node& root = graph.nodes[chain.root()];
  if (chain.end == End::kDeadlock) {
    std::string text = "deadlock:";
    for (std::size_t i = chain.back_to; i + 1 < chain.steps.size(); ++i) {
      const Node& node = graph.nodes[chain.steps[i].node];
      if (!IsThread(node)) continue;
      text += (text.ends_with(':') ? " " : ", ") + ProcessText(node) + " " + ThreadText(node) + " " +
              PlaceText(node);
    }
    return text;
  }
  if (root.pid == 0) return "outside: " + Visible(root.note);
  return ProcessText(root) + " " + EndText(root, chain.end);
}

Json NodeToJson(const Node& node) {
  const auto or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  Json json = {{"pid", node.pid != 0 ? Json(node.pid) : Json(nullptr)},
               {"tid", node.tid != 0 ? Json(node.tid) : Json(nullptr)},
               {"rank", node.rank ? Json(*node.rank) : Json(nullptr)},
               {"process", or_null(node.process)},
               {"thread", or_null(node.thread)},
               {"func", or_null(node.function)},
               {"file", or_null(node.file)},
               {"lineno", node.line > 0 ? Json(node.line) : Json(nullptr)},
               {"syscall", or_null(node.call)},
               {"note", or_null(node.note)}};
  return json;
}

}  // namespace

std::string AnswerToText(const Answer& answer, Emphasis emphasis) {
  std::string text;
  for (const Cause& cause : answer.causes) {
    if (!text.empty()) text += "\n";
    if (!answer.is_about_one) {
      std::string title = RootText(answer.graph, cause.longest);
      if (emphasis == Emphasis::kTerminal) title = "\033[1m" + title + "\033[0m";
      text += title + "\n";
    }
    text += ChainText(answer.graph, cause.longest);
    std::string also;
    pid_t last = answer.graph.nodes[cause.longest.steps.front().node].pid;
    for (const std::size_t waiting : cause.waiting) {
      const auto& steps = cause.longest.steps;
      if (std::ranges::find(steps, waiting, &Step::node) != steps.end()) continue;
      const Node& node = answer.graph.nodes[waiting];
      const std::string who = answer.is_about_one || node.pid == last ? ThreadText(node) : ProcessText(node);
      also += (also.empty() ? "" : ", ") + who;
      last = node.pid;
    }
    if (!also.empty()) text += "also waiting for it: " + also + "\n";
  }
  return text;
}

std::string AnswerToJson(const Answer& answer) {
  Json causes = Json::array();
  for (const Cause& cause : answer.causes) {
    Json chain = Json::array();
    for (const Step& step : cause.longest.steps) {
      Json one = NodeToJson(answer.graph.nodes[step.node]);
      one["reason"] = step.reason.empty() ? Json(nullptr) : Json(step.reason);
      one["certain"] = step.certain;
      chain.push_back(std::move(one));
    }
    Json waiting = Json::array();
    for (const std::size_t node : cause.waiting) {
      waiting.push_back({{"pid", answer.graph.nodes[node].pid}, {"tid", answer.graph.nodes[node].tid}});
    }
    const bool is_deadlock = cause.longest.end == End::kDeadlock;
    causes.push_back({{"end", EndName(cause.longest.end)},
                      {"root", NodeToJson(answer.graph.nodes[cause.longest.root()])},
                      {"chain", std::move(chain)},
                      {"back_to", is_deadlock ? Json(cause.longest.back_to) : Json(nullptr)},
                      {"waiting", std::move(waiting)}});
  }
  const Json whole = {{"causes", std::move(causes)}, {"whole", answer.is_whole}};
  return whole.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string Sentence(const Answer& answer, pid_t pid) {
  for (const Cause& cause : answer.causes) {
    for (const std::size_t waiting : cause.waiting) {
      if (answer.graph.nodes[waiting].pid != pid) continue;
      const Chain chain = Follow(answer.graph, waiting);
      if (chain.steps.size() < 2) break;
      return "waits for " + RootText(answer.graph, chain);
    }
  }
  return "";
}

}  // namespace probing::why
