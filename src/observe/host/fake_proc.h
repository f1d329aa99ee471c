// A /proc of the tests' own making, in a folder that goes with it.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace probing::observe {

class FakeProc {
 public:
  FakeProc() {
    std::string name = testing::TempDir() + "probing_proc_XXXXXX";
    const char* made = mkdtemp(name.data());
    EXPECT_NE(made, nullptr);
    root_ = name;
  }
  ~FakeProc() { std::filesystem::remove_all(root_); }
  FakeProc(const FakeProc&) = delete;
  FakeProc& operator=(const FakeProc&) = delete;

  const std::string& root() const { return root_; }

  // Keeps the file itself, as /proc does: whoever has it open sees the new content.
  void Write(const std::string& path, const std::string& content) {
    const std::filesystem::path full = root_ + "/" + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << content;
  }
  // A process or thread with CPU times in ticks of 10 ms.
  void WriteStat(const std::string& folder, const std::string& name, char state, long user_ticks,
                 long system_ticks) {
    std::string text = "17 (" + name + ") " + state + " 1";
    for (int field = 5; field <= 52; ++field) {
      long value = 0;
      if (field == 12) value = 5 * user_ticks;  // major faults
      if (field == 14) value = user_ticks;
      if (field == 15) value = system_ticks;
      if (field == 20) value = 2;
      if (field == 22) value = 100;
      if (field == 23) value = 8 << 20;
      if (field == 24) value = 10;
      if (field == 39) value = 3;
      text += field == 25 ? " 18446744073709551615" : " " + std::to_string(value);
    }
    Write(folder + "/stat", text + "\n");
  }

 private:
  std::string root_;
};

}  // namespace probing::observe
