#include "base/source_path.h"

namespace probing {

bool IsLibraryFile(std::string_view file) {
  for (const std::string_view part :
       {"/lib/python3", "/lib64/python3", "/site-packages/", "/dist-packages/"}) {
    if (file.find(part) != std::string_view::npos) return true;
  }
  return file.starts_with("<frozen");
}

std::string_view ShortPath(std::string_view file) {
  for (const std::string_view folder : {"/site-packages/", "/dist-packages/"}) {
    const std::size_t at = file.rfind(folder);
    if (at != std::string_view::npos) return file.substr(at + folder.size());
  }
  // The standard library: /usr/lib/python3.11/json/decoder.py.
  for (const std::string_view folder : {"/lib/python3", "/lib64/python3"}) {
    const std::size_t library = file.rfind(folder);
    if (library == std::string_view::npos) continue;
    const std::size_t package = file.find('/', library + folder.size());
    if (package != std::string_view::npos) return file.substr(package + 1);
  }
  return file.substr(file.rfind('/') + 1);
}

}  // namespace probing
