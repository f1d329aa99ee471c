#include "ring/dictionary.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "ring/words.h"

namespace probing::ring {
namespace {

constexpr std::uint64_t kColumnShare = 8;
constexpr std::uint64_t kStepBytes = 64U << 10;
constexpr int kMaxProbes = 16;

__extension__ using Wide = unsigned __int128;

inline std::uint64_t Mix(std::uint64_t a, std::uint64_t b) {
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

// Good enough for short names, and short itself: most take one multiplication (as in wyhash).
inline std::uint64_t Hash(std::string_view text) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
  constexpr std::uint64_t kOther = 0xd1b54a32d192ed03;
  std::uint64_t hash = text.size() * kOdd;
  const char* bytes = text.data();
  std::size_t left = text.size();
  for (; left > 16; left -= 16, bytes += 16)
    hash = Mix(WordOf(bytes, 8) ^ kOther, WordOf(bytes + 8, 8) ^ hash) + kOdd;
  const std::uint64_t last = left > 8 ? WordOf(bytes + 8, left - 8) : 0;
  return Mix(WordOf(bytes, left) ^ kOther, last ^ hash);
}

}  // namespace

int Dictionary::Open(std::uint64_t bytes) {
  // Cells keep the offset in 32 bits, in units of 8 bytes.
  bytes = std::clamp<std::uint64_t>(bytes, kStepBytes, 1ULL << 30);
  std::uint64_t slots = 1024;
  while (slots < bytes / 16) slots *= 2;
  void* index =
      mmap(nullptr, slots * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (index == MAP_FAILED) return errno;
  index_ = static_cast<std::atomic<std::uint64_t>*>(index);
  index_mask_ = slots - 1;
  if (const int error = file_->New(bytes, &segment_); error != 0) return error;
  if (const int error = file_->Allocate(&segment_, 4096); error != 0) return error;
  allocated_ = segment_.allocated;
  StoreRelease(&segment_.At<DictionaryHeader>(0)->used, sizeof(DictionaryHeader));
  file_->Publish(segment_, SegmentKind::kDictionary, 0);
  return 0;
}

Dictionary::~Dictionary() {
  if (index_ != nullptr) munmap(index_, (index_mask_ + 1) * 8);
  if (file_->guard().SameProcess()) file_->Free(&segment_);
}

std::uint64_t Dictionary::Intern(std::string_view text, std::atomic<std::uint64_t>* column_bytes) {
  const std::uint64_t hash = Hash(text);
  const std::uint64_t tag = hash >> 32 << 32;
  std::uint64_t own = kNone;
  for (int i = 0; i < kMaxProbes; ++i) {
    std::atomic<std::uint64_t>& slot = index_[(hash + i) & index_mask_];
    std::uint64_t found = slot.load(std::memory_order_acquire);
    if (found == 0) {
      if (own == kNone) own = Append(text, column_bytes);
      if (own == kNone) return kNone;
      // The loser of a race for the same string leaves a few bytes unused behind.
      if (slot.compare_exchange_strong(found, tag | own, std::memory_order_acq_rel)) return own;
    }
    if ((found & ~0xffffffffULL) == tag && Equals(found & 0xffffffff, text)) return found & 0xffffffff;
  }
  return own;
}

bool Dictionary::Equals(std::uint64_t cell, std::string_view text) const {
  const std::uint64_t* entry = segment_.At<std::uint64_t>(cell * 8);
  if (Load(entry) != text.size()) return false;
  std::size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    if (Load(++entry) != word) return false;
  }
  return i == text.size() || Load(++entry) == WordOf(text.data() + i, text.size() - i);
}

std::uint64_t Dictionary::Append(std::string_view text, std::atomic<std::uint64_t>* column_bytes) {
  const std::uint64_t bytes = EntryBytes(text.size());
  if (column_bytes->load(std::memory_order_relaxed) + bytes > segment_.size / kColumnShare) return kNone;
  std::uint64_t* used = &segment_.At<DictionaryHeader>(0)->used;
  std::uint64_t at = Load(used);
  do {
    if (at + bytes > allocated_.load(std::memory_order_acquire) && !Grow(at + bytes)) return kNone;
  } while (!__atomic_compare_exchange_n(used, &at, at + bytes, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  column_bytes->fetch_add(bytes, std::memory_order_relaxed);
  WriteEntry(segment_.At<std::uint64_t>(at), text.data(), text.size());
  return at / 8;
}

// Not waited for: while another thread gives it memory, strings go to the heap.
bool Dictionary::Grow(std::uint64_t bytes) {
  if (bytes > segment_.size || growing_.exchange(true, std::memory_order_acquire)) return false;
  const std::uint64_t wanted = std::min(AlignUp(bytes, kStepBytes), segment_.size);
  const bool grown = file_->Allocate(&segment_, wanted) == 0;
  allocated_.store(segment_.allocated, std::memory_order_release);
  growing_.store(false, std::memory_order_release);
  return grown;
}

}  // namespace probing::ring
