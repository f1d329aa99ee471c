#include "process/core_file.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/procfs.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <random>

#include "arch/machine.h"
#include "arch/native.h"
#include "process/core_notes.h"

namespace probing::process {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kHeap = 0x10000;     // in the core, whole
constexpr std::uint64_t kProgram = 0x40000;  // first page in the core, second in the file
constexpr std::uint64_t kLibrary = 0x80000;  // no segment at all, as gcore does it

template <typename T>
std::string BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

std::string Note(std::uint32_t type, std::string content) {
  const Elf64_Nhdr header{5, static_cast<Elf64_Word>(content.size()), type};
  content.resize((content.size() + 3) / 4 * 4);
  return BytesOf(header) + std::string("CORE\0\0\0\0", 8) + content;
}

std::string ThreadNote(pid_t tid) {
  elf_prstatus status{};
  status.pr_pid = tid;
  return Note(NT_PRSTATUS, BytesOf(status));
}

class CoreFileTest : public testing::Test {
 protected:
  std::string folder_ = testing::TempDir() + "core_file_test_" + std::to_string(getpid());
  std::string program_ = folder_ + "_program";
  std::string library_ = folder_ + "_library";
  std::string core_ = folder_ + "_core";

  void SetUp() override {
    WriteFile(program_, std::string(kPage, 'p') + std::string(100, 'q'));
    WriteFile(library_, std::string(kPage, 'l') + std::string(kPage, 'm'));
  }
  void TearDown() override {
    for (const std::string& path : {program_, library_, core_}) unlink(path.c_str());
  }

  static void WriteFile(const std::string& path, const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
  }

  std::string Notes() const {
    elf_prpsinfo process{};
    process.pr_pid = 42;
    std::strcpy(process.pr_psargs, "python train.py ");
    struct {
      std::uint64_t count = 2, page_bytes = kPage;
      std::uint64_t program[3] = {kProgram, kProgram + 2 * kPage, 0};
      std::uint64_t library[3] = {kLibrary, kLibrary + kPage, 1};
    } files;
    Elf64_auxv_t entry{AT_ENTRY, {kProgram + 10}};
    return ThreadNote(44) + ThreadNote(42) + Note(NT_PRPSINFO, BytesOf(process)) +
           Note(NT_AUXV, BytesOf(entry)) + Note(NT_FILE, BytesOf(files) + program_ + '\0' + library_ + '\0');
  }

  // Header, program headers, notes, then a page of the heap and a page of the program.
  std::string Core() const {
    const std::string notes = Notes();
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_type = ET_CORE;
    header.e_machine = arch::kElfMachine;
    header.e_phoff = sizeof(header);
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = 3;
    const std::uint64_t notes_at = sizeof(header) + 3 * sizeof(Elf64_Phdr);
    const std::uint64_t data_at = notes_at + notes.size();
    const Elf64_Phdr note{PT_NOTE, 0, notes_at, 0, 0, notes.size(), 0, 4};
    const Elf64_Phdr heap{PT_LOAD, PF_R | PF_W, data_at, kHeap, 0, kPage, kPage, kPage};
    const Elf64_Phdr text{PT_LOAD, PF_R | PF_X, data_at + kPage, kProgram, 0, kPage, 2 * kPage, kPage};
    return BytesOf(header) + BytesOf(note) + BytesOf(heap) + BytesOf(text) + notes + std::string(kPage, 'h') +
           std::string(kPage, 'p');
  }

  Result<CoreFile> Open(const std::string& content, const std::string& executable = "") const {
    WriteFile(core_, content);
    return CoreFile::Open(core_, executable);
  }
};

std::string ReadText(const CoreFile& core, std::uint64_t address, std::size_t size) {
  std::string text(size, '?');
  const auto read = core.memory->Read({address}, std::as_writable_bytes(std::span(text)));
  return read.ok() ? text : "error: " + read.error().message;
}

TEST_F(CoreFileTest, SaysWhoseCoreItIs) {
  const auto core = Open(Core());
  ASSERT_TRUE(core.ok()) << core.error().message;
  EXPECT_EQ(core->pid, 42);
  EXPECT_EQ(core->command, "python train.py");
  EXPECT_EQ(core->tids, (std::vector<pid_t>{42, 44}));  // the main thread first
  EXPECT_FALSE(core->is_truncated);
  EXPECT_TRUE(core->missing_files.empty());
}

TEST_F(CoreFileTest, OfAnotherProcessorHasItsThreadsAndMemoryButNoRegisters) {
  // The same header, another machine, and threads' notes with registers of another size.
  elf_prstatus status{};
  status.pr_pid = 42;
  const std::string native = ThreadNote(42),
                    larger = Note(NT_PRSTATUS, BytesOf(status) + std::string(56, 'r'));
  std::string content = Core();
  ASSERT_TRUE(Open(content)->registers.contains(42));
  auto& header = *reinterpret_cast<Elf64_Ehdr*>(content.data());
  header.e_machine = arch::kElfMachine == EM_AARCH64 ? 62 : EM_AARCH64;
  const auto core = Open(content);
  ASSERT_TRUE(core.ok()) << core.error().message;
  EXPECT_EQ(core->other_processor, arch::NameOf(header.e_machine));
  EXPECT_EQ(core->tids, (std::vector<pid_t>{42, 44}));
  EXPECT_EQ(ReadText(*core, kHeap, 2), "hh");
  CoreNotes notes;
  ParseCoreNotes(std::as_bytes(std::span(larger)), notes);
  EXPECT_EQ(notes.tids, std::vector<pid_t>{42});
  EXPECT_TRUE(notes.registers.empty());
  notes = {};
  ParseCoreNotes(std::as_bytes(std::span(native)), notes);
  EXPECT_TRUE(notes.registers.contains(42));

  header.e_machine = EM_RISCV;
  EXPECT_NE(Open(content).error().message.find("another architecture"), std::string::npos);
}

TEST_F(CoreFileTest, KnowsWhatWasMapped) {
  const auto core = Open(Core());
  ASSERT_TRUE(core.ok());
  ASSERT_EQ(core->maps.all().size(), 3U);
  EXPECT_TRUE(core->maps.Find(kHeap)->writable);
  EXPECT_EQ(core->maps.Find(kHeap)->path, "");
  EXPECT_TRUE(core->maps.Find(kProgram + kPage)->executable);
  EXPECT_EQ(core->maps.Find(kProgram)->path, program_);
  EXPECT_EQ(core->maps.Find(kLibrary)->file_offset, kPage);
}

TEST_F(CoreFileTest, CompletesWhatTheCoreLeavesOutFromTheFiles) {
  const auto core = Open(Core());
  ASSERT_TRUE(core.ok());
  EXPECT_EQ(ReadText(*core, kHeap, kPage), std::string(kPage, 'h'));
  EXPECT_EQ(ReadText(*core, kProgram + kPage - 2, 4), "ppqq");                    // core, then file
  EXPECT_EQ(ReadText(*core, kProgram + kPage + 99, 3), std::string("q\0\0", 3));  // after its end
  EXPECT_EQ(ReadText(*core, kLibrary, 2), "mm");                                  // no segment
  EXPECT_EQ(ReadText(*core, kHeap + kPage - 1, 2), "error: nothing was mapped at 0x11000");
  EXPECT_EQ(ReadText(*core, ~0ULL, 2), "error: nothing was mapped at 0xffffffffffffffff");
}

TEST_F(CoreFileTest, NamesFilesThatAreGoneOrNotTheSame) {
  unlink(library_.c_str());
  WriteFile(program_, std::string(2 * kPage, 'x'));  // another version
  const auto core = Open(Core());
  ASSERT_TRUE(core.ok());
  EXPECT_EQ(core->missing_files, (std::vector<std::string>{program_, library_}));
  EXPECT_EQ(ReadText(*core, kProgram, 2), "pp");
  EXPECT_NE(ReadText(*core, kProgram + kPage, 2).find("which is missing"), std::string::npos);
}

TEST_F(CoreFileTest, TakesTheProgramFromWhereTheUserSays) {
  const std::string moved = program_ + "_moved";
  ASSERT_EQ(rename(program_.c_str(), moved.c_str()), 0);
  const auto core = Open(Core(), moved);
  ASSERT_TRUE(core.ok());
  EXPECT_EQ(ReadText(*core, kProgram + kPage, 2), "qq");
  EXPECT_EQ(ReadText(*core, kLibrary, 2), "mm");
  unlink(moved.c_str());
}

TEST_F(CoreFileTest, RefusesWhatIsNoCore) {
  EXPECT_EQ(CoreFile::Open(core_, "").error().code, Code::kUsage);
  EXPECT_EQ(CoreFile::Open("/dev/null", "").error().message, "/dev/null is not a regular file");
  EXPECT_EQ(Open("").error().message, core_ + " is not a core file: it is too short");
  EXPECT_EQ(Open(std::string(1000, 'x')).error().message, core_ + " is not a core file: it is no ELF file");
  EXPECT_EQ(CoreFile::Open("/proc/self/exe", "").error().message,
            "/proc/self/exe is not a core file: it is a program or a library");
}

TEST_F(CoreFileTest, ATruncatedCoreNeverReadsAsSomethingElse) {
  const std::string whole = Core();
  for (std::size_t size = 0; size < whole.size(); size += size < 2000 ? 7 : 97) {
    const auto core = Open(whole.substr(0, size));
    if (!core.ok()) continue;
    EXPECT_TRUE(core->is_truncated) << size;
    const std::string text =
        ReadText(*core, kProgram, kPage);  // never from the file: it may have been changed
    EXPECT_TRUE(text.starts_with("error: ")) << size;
  }
}

TEST_F(CoreFileTest, SurvivesGarbage) {
  const std::string whole = Core();
  std::mt19937 random(1);
  for (int round = 0; round < 1000; ++round) {
    std::string content = whole;
    for (int flips = 0; flips < 8; ++flips)
      content[random() % (round % 2 == 0 ? 1500 : 240)] = static_cast<char>(random());
    std::memcpy(content.data(), whole.data(), EI_NIDENT + 4);
    const auto core = Open(content);
    if (!core.ok()) continue;
    for (const Mapping& mapping : core->maps.all()) {
      (void)ReadText(*core, mapping.start, 64);
      (void)ReadText(*core, mapping.end - 8, 64);
    }
  }
}

std::string SignalNote(std::int32_t number, std::int32_t code, std::uint64_t value) {
  const std::int32_t head[4] = {number, 0, code, 0};
  return Note(NT_SIGINFO, BytesOf(head) + BytesOf(value));
}

std::string SignalOf(const std::string& segment) {
  CoreNotes notes;
  ParseCoreNotes(std::as_bytes(std::span(segment)), notes);
  return SignalText(notes.signal);
}

TEST(CoreNotes, SayWhichSignalEndedTheProcessAndWhere) {
  EXPECT_EQ(SignalOf(SignalNote(SIGSEGV, SEGV_MAPERR, 0x10)),
            "killed by SIGSEGV at address 0x10 (not mapped)");
  EXPECT_EQ(SignalOf(SignalNote(SIGABRT, SI_TKILL, 4242)), "killed by SIGABRT, sent by process 4242");
  // The first note is of the thread that got it.
  EXPECT_EQ(SignalOf(SignalNote(SIGFPE, FPE_INTDIV, 8) + SignalNote(SIGSEGV, SEGV_MAPERR, 0x10)),
            "killed by SIGFPE at address 0x8");
}

TEST(CoreNotes, WhatADebuggerStopsThreadsWithOrMakesNoSenseIsNoReason) {
  EXPECT_EQ(SignalOf(SignalNote(SIGSTOP, 0, 1)), "");
  EXPECT_EQ(SignalOf(SignalNote(-5, 1, 1)), "");
  EXPECT_EQ(SignalOf(SignalNote(4711, 1, 1)), "");
  EXPECT_EQ(SignalOf(Note(NT_SIGINFO, "short")), "");
}

}  // namespace
}  // namespace probing::process
