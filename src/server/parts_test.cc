#include <gtest/gtest.h>

#include "server/connection.h"
#include "server/http_session.h"
#include "server/http_translate.h"
#include "server/router.h"
#include "server/static_files.h"

namespace probing::server {
namespace {

TEST(Sniff, TellsHttpFromText) {
  for (const char* http :
       {"GET / HTTP/1.1", "POST /api", "OPTIONS * HTTP/1.1", "DELETE /x", "CONNECT a:1", "GET http://evil/"})
    EXPECT_EQ(Sniff(http), Protocol::kHttp) << http;
  for (const char* text :
       {"bt\n", "SELECT 1", "select 1", "help", "DELETE FROM t", "GET x", "G\n", "\n", "\x80"})
    EXPECT_EQ(Sniff(text), Protocol::kText) << text;
  for (const char* part : {"", "G", "GET", "GET ", "DELE", "GET h", "P"})
    EXPECT_EQ(Sniff(part), Protocol::kUnknown) << part;
  EXPECT_EQ(Sniff("\x16\x03\x01"), Protocol::kTls);
}

TEST(Json, DepthIsCountedOutsideOfStrings) {
  EXPECT_FALSE(IsTooDeep(R"({"a": "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"[["})"));
  EXPECT_FALSE(IsTooDeep("[[[[]]]]"));
  EXPECT_TRUE(IsTooDeep(std::string(33, '[')));
}

TEST(Url, IsDecoded) {
  Request request;
  ParseUrl("/a%20b/%2e%2e?x=1%202&y=a+b&z&w=%zz", request);
  EXPECT_EQ(request.path, "/a b/..");
  EXPECT_EQ(request.query["x"], "1 2");
  EXPECT_EQ(request.query["y"], "a b");
  EXPECT_EQ(request.query["z"], "");
  EXPECT_EQ(request.query["w"], "%zz");
}

TEST(Response, AFieldMayComeSeveralTimesAndTakesThePlaceOfOurs) {
  Content content{"text/plain", "", 200, {}};
  content.headers = {{"Probing-Warning", "one"}, {"Probing-Warning", "two"}, {"Cache-Control", "max-age=1"}};
  const RawResponse response = ToResponse(std::move(content), 11, true);
  EXPECT_EQ(response.count("Probing-Warning"), 2U);
  EXPECT_EQ(response.count("Cache-Control"), 1U);
  EXPECT_EQ(response["Cache-Control"], "max-age=1");
}

const std::vector<StaticFile> kFiles{{"/index.html", "<html>", "packed"}, {"/a.js", "1", ""}};

TEST(StaticFiles, AreServedAsTheyAre) {
  Request request;
  request.path = "/";
  Result<Content> page = ServeFile(kFiles, request);
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->body, "<html>");
  EXPECT_EQ(page->type, "text/html; charset=utf-8");
  request.accept_encoding = "br, gzip";
  page = ServeFile(kFiles, request);
  EXPECT_EQ(page->body, "packed");
  request.path = "/a.js";
  EXPECT_EQ(ServeFile(kFiles, request)->body, "1");
}

TEST(StaticFiles, AreNotSentTwice) {
  Request request;
  request.path = "/a.js";
  const Result<Content> first = ServeFile(kFiles, request);
  ASSERT_TRUE(first.ok());
  for (const auto& [name, value] : first->headers) {
    if (name == "ETag") request.if_none_match = value;
  }
  ASSERT_FALSE(request.if_none_match.empty());
  EXPECT_EQ(ServeFile(kFiles, request)->http_status, 304);
}

TEST(StaticFiles, AreKeptWhenTheirNameChangesWithThem) {
  const std::vector<StaticFile> files{{"/index.html", "<html>", ""}, {"/assets/a-1.js", "1", ""}};
  const auto caching = [&](const char* path) {
    Request request;
    request.path = path;
    const Result<Content> content = ServeFile(files, request);
    for (const auto& [name, value] : content->headers) {
      if (name == "Cache-Control") return value;
    }
    return std::string();
  };
  EXPECT_EQ(caching("/"), "no-cache");
  EXPECT_EQ(caching("/assets/a-1.js"), "max-age=31536000, immutable");
}

TEST(StaticFiles, ThereAreNoOthers) {
  Request request;
  for (const char* path : {"/b.js", "/../etc/passwd", "/index.html/", "", "//index.html"}) {
    request.path = path;
    EXPECT_FALSE(ServeFile(kFiles, request).ok()) << path;
  }
}

}  // namespace
}  // namespace probing::server
