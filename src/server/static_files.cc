#include "server/static_files.h"

#include <array>
#include <cstdio>
#include <utility>

namespace probing::server {
namespace {

// FNV-1a: nobody else can write these files, so all it has to do is change with them.
std::string EntityTag(std::string_view bytes, std::string_view encoding) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(hash));
  return "\"" + std::string(text.data()) + std::string(encoding) + "\"";
}

}  // namespace

std::string_view ContentTypeOf(std::string_view path) {
  using Type = std::pair<std::string_view, std::string_view>;
  static constexpr std::array kTypes{
      Type{".html", "text/html; charset=utf-8"},
      Type{".js", "text/javascript; charset=utf-8"},
      Type{".css", "text/css; charset=utf-8"},
      Type{".svg", "image/svg+xml"},
      Type{".json", "application/json"},
      Type{".png", "image/png"},
      Type{".woff2", "font/woff2"},
      Type{".txt", "text/plain; charset=utf-8"},
      Type{".ico", "image/x-icon"},
      Type{".map", "application/json"},
  };
  for (const auto& [suffix, type] : kTypes) {
    if (path.ends_with(suffix)) return type;
  }
  return "application/octet-stream";
}

Result<Content> ServeFile(const std::vector<StaticFile>& files, const Request& request) {
  const std::string_view path = request.path == "/" ? std::string_view("/index.html") : request.path;
  for (const StaticFile& file : files) {
    if (file.path != path) continue;
    const bool compressed = !file.gzip.empty() && request.accept_encoding.find("gzip") != std::string::npos;
    const std::string_view bytes = compressed ? file.gzip : file.bytes;
    const std::string tag = EntityTag(file.bytes, compressed ? "-gzip" : "");
    Content content{std::string(ContentTypeOf(path)), std::string(bytes), 200, {}};
    // The name of an asset changes with what is in it. The rest is asked for again every time, and answered
    // with 304: a new probingd is a new page at once.
    content.headers.emplace_back("Cache-Control",
                                 path.starts_with("/assets/") ? "max-age=31536000, immutable" : "no-cache");
    content.headers.emplace_back("ETag", tag);
    content.headers.emplace_back("Vary", "Accept-Encoding");
    if (compressed) content.headers.emplace_back("Content-Encoding", "gzip");
    if (!request.if_none_match.empty() && request.if_none_match.find(tag) != std::string::npos) {
      content.http_status = 304;
      content.body.clear();
    }
    return content;
  }
  return Error{Code::kNotFound, "there is no " + request.path, "/api/v1/openapi.json lists what is"};
}

}  // namespace probing::server
