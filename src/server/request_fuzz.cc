// What strangers send before anybody knows who they are: the first bytes of a connection, the head of a
// request (a line for each part), a token. Whatever it is, a stranger gets in with the token only.
#include <unistd.h>

#include <cstdlib>

#include "base/text.h"
#include "server/access.h"
#include "server/connection.h"
#include "server/http_session.h"
#include "server/router.h"
#include "server/static_files.h"
#include "server/url.h"

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
  const std::string target = TakeLine(text);
  head.hosts = {TakeLine(text)};
  head.origin = TakeLine(text);
  head.authorization = TakeLine(text);
  head.cookie = TakeLine(text);
  head.fetch_site = TakeLine(text);
  head.has_body = size % 2 == 0;
  head.content_type = TakeLine(text);

  Request request;
  if (const probing::Result<Url> url = ParseUrl(target); url.ok()) {
    // What is decided by a path and what is routed by it are the same text.
    if (target.substr(0, target.find('?')) != url->path) std::abort();
    request.path = url->path;
  }
  const std::vector<StaticFile> files{{"/index.html", "<html>", ""}};
  const probing::Result<Content> file = ServeFile(files, request);
  if (file.ok() && file->body != "<html>" && file->http_status != 304) std::abort();

  Access access;
  (void)access.SetToken(Right::kEval, std::string(kToken));
  (void)access.IssueTicket(Right::kEval, 0);
  const Peer stranger{.via = Peer::Via::kTcp, .address = "10.0.0.7", .local_address = "127.0.0.1"};
  const Access::Decision decision = access.Check(head, stranger, 1);
  const bool has_token = head.authorization.find(kToken) != std::string::npos;
  if (decision.right != Right::kNone && !has_token) std::abort();
  if (decision.right == Right::kNone && !decision.refusal) std::abort();
  if (access.CheckText(head.cookie, stranger, 1).right != Right::kNone && head.cookie != kToken) std::abort();
  if (!access.RedeemTicket(head.cookie, head, stranger, 1).refusal) std::abort();

  // Another site in the owner's browser, whatever else it sends.
  const Peer owner{
      .via = Peer::Via::kTcp, .address = "127.0.0.1", .uid = geteuid(), .local_address = "127.0.0.1"};
  head.authorization.clear();
  for (const char* site : {"cross-site", "same-site"}) {
    head.fetch_site = site;
    if (!access.Check(head, owner, 1).refusal) std::abort();
  }
  return 0;
}
