#include "process/elf_image.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "process/maps.h"

namespace probing::process {
namespace {

RemoteAddress BaseOf(const char* file_prefix) {
  const auto maps = Maps::Read(getpid());
  for (const auto& object : maps->Objects()) {
    if (BaseName(object.path).starts_with(file_prefix)) return {object.base};
  }
  return {};
}

// A whole address space of a few hundred bytes at kAt.
class FakeMemory final : public Memory {
 public:
  static constexpr std::uint64_t kAt = 0x10000;

  explicit FakeMemory(std::vector<std::byte> content) : content_(std::move(content)) {}
  Result<void> Read(RemoteAddress from, std::span<std::byte> out) const override {
    const std::uint64_t offset = from.address - kAt;
    if (from.address < kAt || offset > content_.size() || out.size() > content_.size() - offset) {
      return Error{Code::kFailed, "nothing there", ""};
    }
    if (!out.empty()) std::memcpy(out.data(), content_.data() + offset, out.size());
    return {};
  }

 private:
  std::vector<std::byte> content_;
};

TEST(ElfImage, FindsTheSymbolsTheLoaderFinds) {
  const ProcessMemory memory(getpid());
  const auto libc = ElfImage::Load(memory, BaseOf("libc.so.6"));
  ASSERT_TRUE(libc.ok()) << libc.error().message;
  void* const loaders = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);  // sanitizers stand before it
  ASSERT_NE(loaders, nullptr);
  for (const char* name : {"dlopen", "pthread_create", "malloc", "__libc_start_main"}) {
    const auto address = libc->FindSymbol(name);
    ASSERT_TRUE(address.ok()) << address.error().message;
    EXPECT_EQ(address->address, reinterpret_cast<std::uint64_t>(dlsym(loaders, name))) << name;
  }
  dlclose(loaders);
}

TEST(ElfImage, SaysWhatIsNotThere) {
  const ProcessMemory memory(getpid());
  const auto libc = ElfImage::Load(memory, BaseOf("libc.so.6"));
  ASSERT_TRUE(libc.ok());
  for (const char* name : {"", "no_such_function", "mallo", "malloc_"}) {
    const auto address = libc->FindSymbol(name);
    ASSERT_FALSE(address.ok()) << name;
    EXPECT_EQ(address.error().code, Code::kNotFound);
  }
  const auto indirect = libc->FindSymbol("strlen");
  ASSERT_FALSE(indirect.ok());
  EXPECT_EQ(indirect.error().message, "strlen is an indirect function");
}

TEST(ElfImage, ReadsTheVdsoWhichNoFileBacks) {
  const ProcessMemory memory(getpid());
  const auto vdso = ElfImage::Load(memory, {getauxval(AT_SYSINFO_EHDR)});
  ASSERT_TRUE(vdso.ok()) << vdso.error().message;
  // Each processor has its own name for it.
  EXPECT_TRUE(vdso->FindSymbol("__vdso_clock_gettime").ok() ||
              vdso->FindSymbol("__kernel_clock_gettime").ok());
}

TEST(ElfImage, RefusesWhatIsNoElf) {
  EXPECT_FALSE(ElfImage::Load(FakeMemory({}), {FakeMemory::kAt}).ok());
  EXPECT_FALSE(ElfImage::Load(FakeMemory(std::vector<std::byte>(4096)), {FakeMemory::kAt}).ok());
  EXPECT_FALSE(ElfImage::Load(ProcessMemory(getpid()), {0}).ok());
}

TEST(ElfImage, RefusesA32BitImage) {
  std::vector<std::byte> content(4096);
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS32;
  std::memcpy(content.data(), &header, sizeof(header));
  const auto image = ElfImage::Load(FakeMemory(content), {FakeMemory::kAt});
  ASSERT_FALSE(image.ok());
  EXPECT_NE(image.error().message.find("not 64-bit"), std::string::npos);
}

// The image belongs to the target and may be anything: whatever is flipped, reading it ends.
TEST(ElfImage, SurvivesAnImageWithFlippedBytes) {
  const RemoteAddress vdso{getauxval(AT_SYSINFO_EHDR)};
  std::vector<std::byte> original(4096);
  ASSERT_TRUE(ProcessMemory(getpid()).Read(vdso, original).ok());
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::byte> content = original;
    for (int flips = 0; flips < 8; ++flips) {
      content[random() % (round % 2 == 0 ? 512 : content.size())] = static_cast<std::byte>(random());
    }
    std::memcpy(content.data(), original.data(), EI_NIDENT);
    const FakeMemory memory(std::move(content));
    const auto image = ElfImage::Load(memory, {FakeMemory::kAt});
    if (image.ok()) (void)image->FindSymbol("__vdso_clock_gettime").ok();
  }
}

}  // namespace
}  // namespace probing::process
