// Rings that were damaged, cut short, or lie on purpose.
#include <fcntl.h>
#include <sys/mman.h>

#include <random>
#include <thread>

#include "base/clock.h"
#include "ring/exercise.h"
#include "ring/testing.h"

namespace probing::ring {
namespace {

// More than any honest ring of that size holds, by far; what a lie could add is bounded.
constexpr std::uint64_t kMostRows = 1'000'000;

TEST(Hostile, ASampleIsReadWhole) {
  const std::string image = SampleRing();
  Result<Reader> reader = Reader::FromBytes(image.data(), image.size());
  ASSERT_TRUE(reader.ok()) << reader.error().message;
  std::uint64_t sum = 0;
  EXPECT_GE(ReadEverything(&*reader, &sum), 200U);
}

TEST(Hostile, RandomDamageNeitherCrashesNorHangsTheReader) {
  const std::string good = SampleRing();
  ASSERT_FALSE(good.empty());
  std::uint64_t opened = 0;
  std::uint64_t sum = 0;
  for (std::uint32_t seed = 0; seed < 3000; ++seed) {
    std::mt19937_64 random(seed);
    std::string image = good;
    // Most of the file is rows, which may hold anything. The interesting bytes are where numbers
    // are: the headers, and the beginning of every segment.
    for (std::uint64_t i = 0, flips = 1 + random() % 32; i < flips; ++i) {
      std::size_t at = random() % image.size();
      if (random() % 4 == 0) at = random() % 64;
      if (random() % 4 == 0) at = kDirectoryOffset + random() % (8 * sizeof(SegmentEntry));
      if (random() % 2 == 0)
        at = kFirstSegmentOffset + random() % (image.size() - kFirstSegmentOffset) / 4096 * 4096 +
             random() % 512;
      image[at % image.size()] = static_cast<char>(random() % 2 == 0 ? random() : 0xff);
    }
    if (seed % 10 == 0) image.resize(random() % image.size());
    Result<Reader> reader = Reader::FromBytes(image.data(), image.size());
    if (!reader.ok()) continue;
    ++opened;
    ASSERT_LT(ReadEverything(&*reader, &sum), kMostRows) << seed;
  }
  EXPECT_GT(opened, 1000U);
}

TEST(Hostile, EveryLengthOfATruncatedFileIsHandled) {
  const std::string good = SampleRing();
  std::uint64_t sum = 0;
  for (std::size_t size = 0; size < good.size(); size += 509) {
    Result<Reader> reader = Reader::FromBytes(good.data(), size);
    if (size < kFirstSegmentOffset) {
      EXPECT_FALSE(reader.ok());
      continue;
    }
    ASSERT_TRUE(reader.ok());
    ReadEverything(&*reader, &sum);
  }
}

TEST(Hostile, OneEntryNamedByEveryRowDoesNotFillTheMemory) {
  const auto arena = testing::MakeArena(256U << 20);
  Table* table = testing::MakeTable(
      arena.get(), {.name = "test.lie",
                    .columns = {{"time", ColumnType::kTimestamp}, {"s", ColumnType::kString}},
                    .rows = 64});
  const std::string text(kMaxValueBytes, 'x');
  for (int i = 0; i < 64; ++i) {
    RowWriter row(*table);
    row.SetString(1, i == 0 ? std::string_view(text) : "short");
    ASSERT_EQ(row.Commit(), WriteStatus::kWritten);
  }
  // All rows get the cell of the first.
  const off_t size = lseek(arena->fd(), 0, SEEK_END);
  auto* base = static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, arena->fd(), 0));
  ASSERT_NE(base, MAP_FAILED);
  const auto* entries = reinterpret_cast<const SegmentEntry*>(base + kDirectoryOffset);
  for (std::uint32_t i = 0; i < 8; ++i) {
    if (entries[i].kind != static_cast<std::uint32_t>(SegmentKind::kLane)) continue;
    const std::uint64_t blocks = reinterpret_cast<const LaneHeader*>(base + entries[i].offset)->blocks;
    auto* cells =
        reinterpret_cast<std::uint64_t*>(base + entries[i].offset + BlocksOffset(blocks) + 65 * 8 + 8);
    for (int row = 1; row < 64; ++row) cells[row] = cells[0];
  }
  munmap(base, size);
  Reader reader = testing::OpenReader(arena->fd());
  Scan scan = reader.StartScan(testing::FindTable(&reader, "test.lie"), {.columns = {1}});
  Batch batch;
  ASSERT_TRUE(scan.Next(&batch));
  EXPECT_EQ(batch.rows(), 64U);
  EXPECT_GT(scan.stats().bad_cells, 50U);
  EXPECT_TRUE(batch.Texts(0)[0] == text);
}

TEST(Hostile, ATextThatReachesBeyondTheDictionaryIsNotRead) {
  const auto arena = testing::MakeArena();
  Table* table = testing::MakeTable(
      arena.get(), {.name = "test.lie",
                    .columns = {{"time", ColumnType::kTimestamp}, {"s", ColumnType::kString}},
                    .rows = 64});
  RowWriter row(*table);
  row.SetString(1, "short");
  ASSERT_EQ(row.Commit(), WriteStatus::kWritten);
  const off_t size = lseek(arena->fd(), 0, SEEK_END);
  auto* base = static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, arena->fd(), 0));
  ASSERT_NE(base, MAP_FAILED);
  const auto* entries = reinterpret_cast<const SegmentEntry*>(base + kDirectoryOffset);
  std::uint64_t last = 0;  // word of the dictionary, which says that the longest text follows
  for (std::uint32_t i = 0; i < 8; ++i) {
    if (entries[i].kind != static_cast<std::uint32_t>(SegmentKind::kDictionary)) continue;
    last = entries[i].size / 8 - 1;
    reinterpret_cast<std::uint64_t*>(base + entries[i].offset)[last] = kMaxInterned;
  }
  ASSERT_NE(last, 0U);
  for (std::uint32_t i = 0; i < 8; ++i) {
    if (entries[i].kind != static_cast<std::uint32_t>(SegmentKind::kLane)) continue;
    const std::uint64_t blocks = reinterpret_cast<const LaneHeader*>(base + entries[i].offset)->blocks;
    auto* cells =
        reinterpret_cast<std::uint64_t*>(base + entries[i].offset + BlocksOffset(blocks) + 65 * 8 + 8);
    cells[0] = last;
  }
  munmap(base, size);
  Reader reader = testing::OpenReader(arena->fd());
  Scan scan = reader.StartScan(testing::FindTable(&reader, "test.lie"), {.columns = {1}});
  Batch batch;
  ASSERT_TRUE(scan.Next(&batch));
  EXPECT_EQ(scan.stats().bad_cells, 1U);
  EXPECT_TRUE(batch.Texts(0)[0].empty());
}

TEST(Hostile, ABlockThatClaimsMoreRowsThanItHoldsIsNotRead) {
  const auto arena = testing::MakeArena();
  Table* table = testing::MakeTable(arena.get(),
                                    {.name = "test.lie",
                                     .columns = {{"time", ColumnType::kTimestamp}, {"n", ColumnType::kInt64}},
                                     .rows = 64});
  RowWriter row(*table);
  row.SetInt(1, 7);
  ASSERT_EQ(row.Commit(), WriteStatus::kWritten);
  const off_t size = lseek(arena->fd(), 0, SEEK_END);
  auto* base = static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, arena->fd(), 0));
  ASSERT_NE(base, MAP_FAILED);
  const auto* entries = reinterpret_cast<const SegmentEntry*>(base + kDirectoryOffset);
  for (std::uint32_t i = 0; i < 8; ++i) {
    if (entries[i].kind != static_cast<std::uint32_t>(SegmentKind::kLane)) continue;
    reinterpret_cast<BlockHeader*>(base + entries[i].offset + sizeof(LaneHeader))->state |= kBlockRowsMask;
  }
  munmap(base, size);
  Reader reader = testing::OpenReader(arena->fd());
  Scan scan = reader.StartScan(testing::FindTable(&reader, "test.lie"), {.columns = {1}});
  Batch batch;
  EXPECT_FALSE(scan.Next(&batch));
  EXPECT_EQ(scan.stats().overtaken, 1U);
}

TEST(Hostile, ASparseFileIsNotCopied) {
  const std::string good = SampleRing();
  Result<ScopedFd> file = MakeMemoryFile();
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(pwrite(file->get(), good.data(), good.size(), 0), static_cast<ssize_t>(good.size()));
  ASSERT_EQ(ftruncate(file->get(), (1L << 30) + 1), 0);  // not sealed, so that it would have to be copied
  const Result<Reader> reader = Reader::Open(ScopedFd(dup(file->get())));
  ASSERT_FALSE(reader.ok());
  EXPECT_NE(reader.error().message.find("too large"), std::string::npos) << reader.error().message;
}

TEST(Hostile, AWriterThatScribblesWhileWeReadDoesNoHarm) {
  const std::string good = SampleRing();
  Result<ScopedFd> file = MakeMemoryFile();
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(pwrite(file->get(), good.data(), good.size(), 0), static_cast<ssize_t>(good.size()));
  ASSERT_EQ(fcntl(file->get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  void* base = mmap(nullptr, good.size(), PROT_READ | PROT_WRITE, MAP_SHARED, file->get(), 0);
  ASSERT_NE(base, MAP_FAILED);
  Reader reader = testing::OpenReader(file->get());
  std::atomic<bool> stop{false};
  std::thread scribbler([&] {
    std::mt19937_64 random(1);
    auto* words = static_cast<std::uint64_t*>(base);
    while (!stop.load(std::memory_order_relaxed)) {
      // Damage, then the truth again, so that there is always something to be read.
      const std::size_t at = kDirectoryOffset / 8 + random() % (good.size() / 8 - kDirectoryOffset / 8);
      std::uint64_t truth;
      std::memcpy(&truth, good.data() + at * 8, 8);
      Store(words + at, random());
      if (random() % 4 != 0) Store(words + at, truth);
    }
  });
  std::uint64_t sum = 0;
  const Deadline deadline = Deadline::AfterNs(300'000'000);
  while (!deadline.passed()) ASSERT_LT(ReadEverything(&reader, &sum), kMostRows);
  stop = true;
  scribbler.join();
  munmap(base, good.size());
}

TEST(Hostile, AFileThatIsCutWhileWeReadDoesNotKillUs) {
  const std::string good = SampleRing();
  Result<ScopedFd> file = MakeMemoryFile();
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(pwrite(file->get(), good.data(), good.size(), 0), static_cast<ssize_t>(good.size()));
  Reader reader = testing::OpenReader(file->get());  // not sealed
  const std::vector<TableInfo> tables = reader.Tables();
  ASSERT_EQ(tables.size(), 1U);
  Scan scan = reader.StartScan(tables[0], {.columns = {1}});
  ASSERT_EQ(ftruncate(file->get(), 0), 0);
  Batch batch;
  EXPECT_TRUE(scan.Next(&batch));
  EXPECT_TRUE(reader.Tables().empty());
}

TEST(Hostile, WhatIsNoRingIsRefusedWithAReason) {
  EXPECT_FALSE(Reader::Open(ScopedFd(open("/dev/zero", O_RDONLY))).ok());
  EXPECT_FALSE(Reader::Open(ScopedFd(open("/proc/self/exe", O_RDONLY))).ok());
  EXPECT_FALSE(Reader::Open(ScopedFd(open("/", O_RDONLY))).ok());
  EXPECT_FALSE(Reader::Open(ScopedFd()).ok());
  std::string image = SampleRing();
  image[8] = 99;
  Result<Reader> reader = Reader::FromBytes(image.data(), image.size());
  ASSERT_FALSE(reader.ok());
  EXPECT_NE(reader.error().message.find("format 99"), std::string::npos);
}

}  // namespace
}  // namespace probing::ring
