// The files of the web page, which travel inside of probingd: CMakeLists.txt has them built from web/ and
// puts them there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/router.h"

namespace probing::server {

struct StaticFile {
  std::string_view path;  // "/assets/index-CmPq1x2y.js"
  std::string_view bytes;
  std::string_view gzip;  // the same, compressed
};

// In no particular order. Written by CMake.
const std::vector<StaticFile>& StaticFiles();

// The file for a path, "/" being /index.html: compressed when the client takes that, 304 when it has it
// already. kNotFound when there is none.
Result<Content> ServeFile(const std::vector<StaticFile>& files, const Request& request);

// "text/javascript; charset=utf-8" for "/a.js".
std::string_view ContentTypeOf(std::string_view path);

}  // namespace probing::server
