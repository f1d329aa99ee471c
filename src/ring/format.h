// The bytes of a ring: constants and structs; docs/design/ring.md is the page that explains them.
//
// Everything is little-endian, 8-byte aligned, and all zero when it is new. Fields that change
// while others read are plain integers here and are touched only through words.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace probing::ring {

inline constexpr std::uint64_t kMagic = 0x31474e4952425250;  // "PRBRING1"
inline constexpr std::uint32_t kFormatVersion = 1;
inline constexpr std::uint32_t kByteOrder = 0x01020304;

inline constexpr std::uint32_t kMaxColumns = 64;  // one bit each in a 64-bit mask
inline constexpr std::uint32_t kMaxLanes = 64;    // of one table
inline constexpr std::uint32_t kMaxSegments = 2048;
inline constexpr std::size_t kMaxTableName = 127;
inline constexpr std::size_t kMaxColumnName = 61;
inline constexpr std::uint32_t kMinBlockRows = 64;  // one word of validity bits
inline constexpr std::uint32_t kMaxBlockRows = 2048;
inline constexpr std::uint64_t kMaxRowsLimit = 1ULL << 30;

// Up to this length a string is kept once, in the dictionary; longer ones go to the lane's heap.
inline constexpr std::size_t kMaxInterned = 64;
// Readers keep a copy of the dictionary; a larger one is none of ours.
inline constexpr std::uint64_t kMaxDictionaryBytes = 16U << 20;
// A longer value is refused and counted.
inline constexpr std::size_t kMaxValueBytes = 16U << 20;
// What one lane may keep of long strings; when it is full the oldest rows make room.
inline constexpr std::uint64_t kMaxHeapBytes = 64U << 20;

enum class ColumnType : std::uint8_t {
  kInt64 = 1,
  kDouble = 2,
  kBool = 3,
  kString = 4,  // UTF-8 by agreement; nobody here checks
  kBytes = 5,
  kTimestamp = 6,  // int64, ns since 1970-01-01T00:00:00Z
};

// Of a segment. 0 is nothing, so that zeroed memory says nothing.
enum class SegmentKind : std::uint32_t { kTable = 1, kLane = 2, kHeap = 3, kDictionary = 4 };

// At offset 0.
struct FileHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t byte_order;
  std::int64_t pid;           // in the writer's own pid namespace
  std::uint64_t start_ticks;  // of the writer, as in /proc/PID/stat
  std::int64_t created_ns;
  std::uint32_t segment_count;  // entries of the directory that were ever used
  std::uint32_t closed;         // 1: the writer has left
  std::uint64_t allocated_bytes;
  std::uint64_t max_bytes;
};
static_assert(sizeof(FileHeader) == 64);
static_assert(offsetof(FileHeader, segment_count) == 40 && offsetof(FileHeader, max_bytes) == 56);

// One of kMaxSegments, from kDirectoryOffset on. `state` is odd while the entry is valid and grows
// by one with every change, so that a reader can tell two users of one entry apart.
struct SegmentEntry {
  std::uint64_t offset;  // in the file
  std::uint64_t size;
  std::uint32_t kind;
  std::uint32_t table;  // id of the table it belongs to; 0 for the dictionary
  std::uint32_t state;
  std::uint32_t reserved;
};
static_assert(sizeof(SegmentEntry) == 32);
inline constexpr std::uint64_t kDirectoryOffset = 4096;
inline constexpr std::uint64_t kFirstSegmentOffset = kDirectoryOffset + sizeof(SegmentEntry) * kMaxSegments;
static_assert(kFirstSegmentOffset == 69632 && kFirstSegmentOffset % 4096 == 0);

// A table segment: this, then `columns` times ColumnEntry.
struct TableHeader {
  char name[128];  // NUL-terminated
  std::uint32_t id;
  std::uint32_t columns;
  std::uint64_t rows_limit;  // per lane
  // Of lanes that are gone; those of living lanes are in their headers.
  std::uint64_t gone_written;
  std::uint64_t gone_overwritten;
  std::uint64_t dropped;  // no lane was free, or no memory
  std::uint64_t refused;  // wrong type, or too long
  std::uint64_t reserved[10];
};
static_assert(sizeof(TableHeader) == 256 && offsetof(TableHeader, rows_limit) == 136);

struct ColumnEntry {
  char name[62];  // NUL-terminated
  std::uint8_t type;
  std::uint8_t reserved;
};
static_assert(sizeof(ColumnEntry) == 64 && offsetof(ColumnEntry, type) == 62);

// A lane segment: this, `blocks` times BlockHeader, then from BlocksOffset() the blocks.
//
// Blocks are numbered from 1 for ever. Alive are first..last; `first` moves before anything of a
// recycled block is written, which is what a reader checks after it has copied. 0 means nothing
// is alive (not begun, or given back to the system).
struct LaneHeader {
  std::uint64_t lane_id;  // never used twice in a file
  std::uint32_t block_rows;
  std::uint32_t blocks;
  std::uint64_t first;
  std::uint64_t last;
  std::uint64_t written;
  std::uint64_t overwritten;
  std::uint64_t reserved[2];
};
static_assert(sizeof(LaneHeader) == 64 && offsetof(LaneHeader, first) == 16);

// `state` is number << 16 | rows, so that one load tells both. 0: being recycled.
struct BlockHeader {
  std::uint64_t state;
  std::uint64_t first_row;  // how many rows of this lane came before
  std::int64_t min_time;
  std::int64_t max_time;
  std::uint64_t heap_start;  // the writer's: where this block's long strings begin
  std::uint64_t reserved[3];
};
static_assert(sizeof(BlockHeader) == 64);
inline constexpr std::uint64_t kBlockRowsMask = 0xffff;
inline constexpr int kBlockNumberShift = 16;

// A dictionary segment: this, then entries. An entry is a length (8 bytes) and the bytes, padded
// to 8. It never moves and never changes once a cell names it.
struct DictionaryHeader {
  std::uint64_t used;  // bytes of the segment, this header included
  std::uint64_t reserved[7];
};
static_assert(sizeof(DictionaryHeader) == 64);

// A string or bytes cell: an entry of the dictionary (offset / 8 in its segment), or of a heap:
// kHeapFlag, index of the heap's segment, running offset. An entry of a heap looks like one of the
// dictionary, lies at offset % size of the segment, and never wraps around its end.
inline constexpr std::uint64_t kHeapFlag = 1ULL << 63;
inline constexpr int kHeapSegmentShift = 48;
inline constexpr std::uint64_t kHeapOffsetMask = (1ULL << kHeapSegmentShift) - 1;
static_assert(kMaxSegments <= 1U << 15);

inline constexpr std::uint64_t EntryBytes(std::uint64_t length) { return 8 + ((length + 7) & ~7ULL); }

// Where columns are inside a block, and blocks inside a lane. Reader and Writer compute it from the
// types and the rows of a block; no offset is stored, so none can lie.
//
// A column is block_rows validity bits (1: there is a value), then block_rows values. In units of
// block_rows / 8 bytes that is 1 + 64, or 1 + 8 for bool.
inline constexpr std::uint32_t ColumnUnits(ColumnType type) { return type == ColumnType::kBool ? 9 : 65; }

inline constexpr std::uint64_t AlignUp(std::uint64_t value, std::uint64_t to) {
  return (value + to - 1) / to * to;
}

inline constexpr std::uint64_t BlockStride(std::uint64_t units, std::uint64_t block_rows) {
  return AlignUp(units * (block_rows / 8), 64);
}

inline constexpr std::uint64_t BlocksOffset(std::uint64_t blocks) {
  return sizeof(LaneHeader) + blocks * sizeof(BlockHeader);
}

// Rows of a block for a table that keeps `rows`: about 1/32 of them, a power of two.
inline constexpr std::uint32_t BlockRowsFor(std::uint64_t rows) {
  std::uint32_t block_rows = kMinBlockRows;
  while (block_rows < kMaxBlockRows && block_rows * 32ULL < rows) block_rows *= 2;
  return block_rows;
}

}  // namespace probing::ring
