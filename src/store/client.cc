#include "store/client.h"

#include <algorithm>

#include "base/text.h"
#include "net/channel.h"
#include "net/http_answer.h"
#include "net/http_request.h"

namespace probing::store {
namespace {

constexpr std::int64_t kDialMs = 5'000;

// Codes of ClickHouse's errors that mean something to us.
constexpr int kUnknownColumn = 47;
constexpr int kUnknownTable = 60;
constexpr int kUnknownDatabase = 81;
constexpr int kTimeoutExceeded = 159;
constexpr int kReadOnly = 164;
constexpr int kFirstAccess = 192;  // unknown user; 193 is a wrong password, 194 one that is missing
constexpr int kLastAccess = 195;
constexpr int kAccessDenied = 497;
constexpr int kAuthenticationFailed = 516;

// "Code: 60, e.displayText() = DB::Exception: TEXT, e.what() = …" or "Code: 60. DB::Exception: TEXT (version
// …)".
int CodeIn(std::string_view body) {
  int code = 0;
  if (!body.starts_with("Code: ")) return 0;
  body.remove_prefix(6);
  ParseNumber(body.substr(0, body.find_first_of(".,")), code);
  return code;
}

std::string TextIn(std::string_view body) {
  constexpr std::string_view kBefore = "DB::Exception: ";
  if (const std::size_t at = body.find(kBefore); at != std::string_view::npos)
    body.remove_prefix(at + kBefore.size());
  body = body.substr(0, std::min(body.rfind(", e.what()"), body.size()));
  body = body.substr(0, std::min(body.rfind(" (version "), body.size()));
  return std::string(Trim(body.substr(0, 1000), " \r\n\t"));
}

}  // namespace

Result<ServerAnswer> Client::Ask(const Question& question) const {
  Fields fields = url_.settings;
  const bool has_data = !question.data.empty();
  if (has_data) fields.emplace_back("query", question.sql);
  fields.insert(fields.end(), question.settings.begin(), question.settings.end());
  const std::string_view body = has_data ? question.data : std::string_view(question.sql);
  std::string head = net::RequestHead("POST", "/?" + net::UrlQuery(fields), url_.address.ToText(), "");
  if (!url_.user.empty()) head += "X-ClickHouse-User: " + url_.user + "\r\n";
  if (!url_.password.empty()) head += "X-ClickHouse-Key: " + url_.password + "\r\n";
  head += "Content-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n";

  net::DialOptions options{.timeout_ms = kDialMs, .who = url_.ToText()};
  options.encryption = url_.is_encrypted ? net::Encryption::kAlways : net::Encryption::kNever;
  ASSIGN_OR_RETURN(net::Channel channel, net::Channel::Dial(url_.address, options));
  RETURN_IF_ERROR(channel.Write(head));
  // A server that refuses may do so before it has read everything.
  const Result<void> written = channel.Write(body);
  Result<net::HttpAnswer> answer =
      net::ReadAnswer(channel, Deadline::AfterMs(question.timeout_ms), question.max_bytes);
  if (!answer.ok()) return written.ok() ? answer.error() : written.error();
  return ServerAnswer{answer->status, std::move(answer->body)};
}

Result<std::string> Client::Run(const Question& question) const {
  ASSIGN_OR_RETURN(ServerAnswer answer, Ask(question));
  if (!answer.ok()) return RefusalError(url_, answer);
  return std::move(answer.body);
}

Error RefusalError(const wire::StoreUrl& url, const ServerAnswer& answer) {
  Error error{Code::kFailed, url.ToText() + " says: " + TextIn(answer.body), ""};
  const int code = CodeIn(answer.body);
  if (code == 0) error.message += " (HTTP " + std::to_string(answer.status) + ")";
  if ((code >= kFirstAccess && code <= kLastAccess) || code == kAuthenticationFailed ||
      code == kAccessDenied || answer.status == 401 || answer.status == 403) {
    error.code = Code::kPermission;
    error.hint = "who asks is said before the host: clickhouse://USER:PASSWORD@HOST/DATABASE";
  } else if (code == kTimeoutExceeded) {
    error.code = Code::kTimeout;
    error.hint = "ask for less, or for longer: probing config probing.query.timeout=60";
  } else if (code == kReadOnly) {
    error.hint = "a store is only read: SELECT, SHOW, DESCRIBE";
  } else if (code == kUnknownTable || code == kUnknownColumn ||
             (code == kUnknownDatabase &&
              error.message.find(" " + url.database + " ") == std::string::npos)) {
    error.hint = "`probing -t " + url.ToText() + " tables` lists what is there";
  } else if (code == kUnknownDatabase) {
    error.hint = "`probing store ddl` prints how it is made";
  }
  return error;
}

}  // namespace probing::store
