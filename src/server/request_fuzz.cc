// What strangers send before anybody knows who they are: the first bytes of a connection, the head of a
// request (a line for each part), a token. Whatever it is, a stranger gets in with the token only.
#include <cstdlib>

#include "base/text.h"
#include "server/access.h"
#include "server/connection.h"
#include "server/http_session.h"
#include "server/router.h"
#include "server/static_files.h"

namespace {

constexpr std::string_view kToken = "a-token-that-nobody-can-guess";

std::string TakeLine(std::string_view& text) {
  const std::string_view line = probing::TakePart(text, '\n');
  return std::string(line);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace probing::server;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)Sniff(text);
  (void)IsTooDeep(text);
  RequestHead head;
  head.method = TakeLine(text);
  head.target = TakeLine(text);
  head.hosts = {TakeLine(text)};
  head.origin = TakeLine(text);
  head.authorization = TakeLine(text);
  head.cookie = TakeLine(text);
  head.fetch_site = TakeLine(text);
  head.has_body = size % 2 == 0;
  head.content_type = TakeLine(text);

  Request request;
  ParseUrl(head.target, request);
  const std::vector<StaticFile> files{{"/index.html", "<html>", ""}};
  const probing::Result<Content> file = ServeFile(files, request);
  if (file.ok() && file->body != "<html>" && file->http_status != 304) std::abort();

  Access access;
  (void)access.SetToken(Right::kEval, std::string(kToken));
  (void)access.IssueTicket(Right::kEval, 0);
  const Peer stranger{Peer::Via::kTcp, "10.0.0.7", std::nullopt, "127.0.0.1", false};
  const Access::Decision decision = access.Check(head, stranger, 1);
  const bool has_token = head.authorization.find(kToken) != std::string::npos;
  if (decision.right != Right::kNone && !has_token) std::abort();
  if (decision.right == Right::kNone && !decision.refusal) std::abort();
  if (access.CheckText(head.cookie, stranger, 1).right != Right::kNone && head.cookie != kToken) std::abort();
  if (!access.RedeemTicket(head.cookie, head, stranger, 1).refusal) std::abort();
  return 0;
}
