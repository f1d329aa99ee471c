#include "inject/preflight_rules.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "arch/native.h"

namespace probing::inject {
namespace {

constexpr pid_t kPid = 42;

// ── seccomp ─────────────────────────────────────────────────────────────────

constexpr Seccomp kNone{0, 0}, kStrict{1, 0}, kOne{2, 1}, kTwo{2, 2}, kUncounted{2, 0};

TEST(SeccompTest, IsReadFromAStatusFile) {
  const Seccomp seccomp =
      Seccomp::Parse("Name:\tSeccomp: 7\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t3\n");
  EXPECT_EQ(seccomp.mode, 2);
  EXPECT_EQ(seccomp.filters, 3);
  EXPECT_EQ(Seccomp::Parse("Name:\tx\n").mode, 0);
  EXPECT_EQ(Seccomp::Parse("").filters, 0);
}

TEST(SeccompTest, AFilterThatWeLiveUnderAsWellIsNoneOfItsOwn) {
  EXPECT_FALSE(HasFilterOfItsOwn(kNone, kNone));
  EXPECT_FALSE(HasFilterOfItsOwn(kNone, kOne));
  EXPECT_FALSE(HasFilterOfItsOwn(kOne, kOne));
  EXPECT_FALSE(HasFilterOfItsOwn(kOne, kTwo));
  EXPECT_FALSE(HasFilterOfItsOwn(kUncounted, kUncounted));  // a container before Linux 5.9
}

TEST(SeccompTest, AnyOtherIs) {
  EXPECT_TRUE(HasFilterOfItsOwn(kOne, kNone));
  EXPECT_TRUE(HasFilterOfItsOwn(kTwo, kOne));
  EXPECT_TRUE(HasFilterOfItsOwn(kUncounted, kNone));
  EXPECT_TRUE(HasFilterOfItsOwn(kStrict, kNone));
  EXPECT_TRUE(HasFilterOfItsOwn(kStrict, kStrict));
}

TEST(SeccompTest, AFilteredMainThreadIsRefusedByName) {
  const Check check = JudgeSeccomp(kPid, kOne, kNone, {1, 1});
  EXPECT_FALSE(check.passed);
  EXPECT_EQ(check.error.code, Code::kPermission);
  EXPECT_NE(check.error.message.find("process 42 runs in a seccomp sandbox (1 filters)"), std::string::npos);
  EXPECT_FALSE(JudgeSeccomp(kPid, kStrict, kNone, {1, 1}).passed);
}

TEST(SeccompTest, FilteredThreadsAreNamedAndLeftAlone) {
  const Check check = JudgeSeccomp(kPid, kNone, kNone, {9, 2});
  EXPECT_TRUE(check.passed);
  EXPECT_NE(check.detail.find("2 of 9 threads"), std::string::npos);
  EXPECT_EQ(JudgeSeccomp(kPid, kNone, kNone, {9, 0}).detail, "no filter");
  EXPECT_TRUE(JudgeSeccomp(kPid, kOne, kOne, {1, 0}).passed);
}

// ── Yama ────────────────────────────────────────────────────────────────────

TEST(YamaTest, WhoMayTraceWhom) {
  struct Case {
    int scope;
    bool capable, descendant, allowed;
  };
  const std::vector<Case> cases = {
      {0, false, false, true},  {0, true, true, true},    {1, false, false, false}, {1, false, true, true},
      {1, true, false, true},   {2, false, false, false}, {2, false, true, false},  {2, true, false, true},
      {3, false, false, false}, {3, true, false, false},  {3, true, true, false},
  };
  for (const Case& one : cases) {
    const Check check = JudgeYama(kPid, one.scope, one.capable, one.descendant);
    EXPECT_EQ(check.passed, one.allowed) << one.scope << one.capable << one.descendant;
    EXPECT_EQ(check.name, "Yama");
    if (one.allowed) continue;
    EXPECT_EQ(check.error.code, Code::kPermission);
    EXPECT_NE(check.error.message.find("ptrace_scope " + std::to_string(one.scope)), std::string::npos);
  }
}

// ── the program ─────────────────────────────────────────────────────────────

Check Judged(unsigned char elf_class, std::uint16_t machine, bool shadow_stack) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = elf_class;
  header.e_machine = machine;
  return JudgeProgram(kPid, std::as_bytes(std::span(&header, 1)), shadow_stack);
}

TEST(ProgramTest, OnlyThisProcessorsWithoutAShadowStackIsEntered) {
  EXPECT_TRUE(Judged(ELFCLASS64, arch::kElfMachine, false).passed);
  EXPECT_NE(Judged(ELFCLASS64, arch::kElfMachine, true).error.message.find("shadow stack"),
            std::string::npos);
  EXPECT_NE(Judged(ELFCLASS32, EM_386, false).error.message.find("32-bit"), std::string::npos);
  EXPECT_NE(Judged(ELFCLASS32, arch::kElfMachine, false).error.message.find("32-bit"),
            std::string::npos);  // x32
  EXPECT_FALSE(Judged(ELFCLASS64, EM_RISCV, false).passed);
}

TEST(ProgramTest, WhatIsTooShortIsNoProgram) {
  EXPECT_FALSE(JudgeProgram(kPid, {}, false).passed);
  const std::vector<std::byte> bytes(5, std::byte{2});
  EXPECT_FALSE(JudgeProgram(kPid, bytes, false).passed);
}

}  // namespace
}  // namespace probing::inject
