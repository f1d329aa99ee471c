#include "cli/repl_client.h"

#include "cli/evaluation.h"
#include "net/refusal.h"
#include "wire/contract.h"

namespace probing::cli {

ReplClient::ReplClient(pid_t target, std::string session, bool ipython)
    : target_(target), session_(std::move(session)), ipython_(ipython) {}

Result<std::shared_ptr<WebSocket>> ReplClient::Connected() {
  if (socket_ != nullptr && socket_->StillThere()) return socket_;
  socket_.reset();
  ASSIGN_OR_RETURN(socket_,
                   OpenWebSocket(std::string(wire::kReplRoute) + "?target=" + std::to_string(target_)));
  return socket_;
}

Result<Json> ReplClient::Ask(const Question& question) {
  const std::lock_guard asking(asking_);
  ASSIGN_OR_RETURN(const std::shared_ptr<WebSocket> socket, Connected());
  const int id = ++last_id_;
  const Json request{{"id", id},
                     {"op", question.op},
                     {"code", question.code},
                     {"session", session_},
                     {"whole", question.whole ? "1" : "0"},
                     {"confirmed", question.confirmed ? "1" : "0"},
                     {"ipython", ipython_ ? "1" : "0"},
                     {"timeout", question.timeout_s},
                     {"gil_timeout", kGilSeconds},
                     {"stream", question.on_output != nullptr}};
  Result<void> sent = socket->Send(EncodeJson(request));
  while (sent.ok()) {
    Result<std::string> text = socket->Receive();
    if (!text.ok()) {
      sent = text.error();
      break;
    }
    Json answer = Json::parse(*text, nullptr, false);
    if (!answer.is_object()) return Error{Code::kFailed, "probingd answered something that is not JSON", ""};
    if (std::optional<Error> error = net::ErrorIn(answer)) return std::move(*error);
    if (answer.value("id", 0) != id) continue;  // of a question that was given up
    if (!answer.contains("partial")) return answer;
    if (question.on_output) question.on_output(answer.value("stdout", ""), answer.value("stderr", ""));
  }
  socket_.reset();
  return Error{Code::kFailed, sent.error().message,
               "the session's variables are still in the target; the next line connects again"};
}

// Over a connection of its own: the other one belongs to whoever waits for the answer.
void ReplClient::Interrupt() const {
  (void)PostToDaemon(std::string(wire::kInterruptRoute), {{"target", target_}, {"session", session_}});
}

bool ReplClient::StillThere() {
  const std::unique_lock asking(asking_, std::try_to_lock);
  if (!asking.owns_lock()) return true;  // somebody waits for an answer and will notice
  if (socket_ == nullptr || socket_->StillThere()) return true;
  socket_.reset();
  return false;
}

}  // namespace probing::cli
