// Feeds every file of the given folders to a fuzzer's function. Stands in for libFuzzer where the
// compiler has none: what once broke a reader must never do so again. No file at all is a failure,
// since then nothing was tested.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int count, char** words) {
  int fed = 0;
  for (int i = 1; i < count; ++i) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(words[i], error)) {
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(file), {}};
      std::printf("%s (%zu bytes)\n", entry.path().c_str(), bytes.size());
      std::fflush(stdout);  // the last line names the file that breaks it
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
      ++fed;
    }
    if (error) std::printf("%s: %s\n", words[i], error.message().c_str());
  }
  return fed > 0 ? 0 : 1;
}
