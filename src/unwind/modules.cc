#include "unwind/modules.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace probing::unwind {
namespace {

using process::Mapping;
using process::Memory;

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kMaxUnusedTables = 512;  // a process with PyTorch has 100

// Files may be shorter than a page; what is mapped behind their end is zero.
Result<std::string> FirstPage(const Memory& memory, std::uint64_t start) {
  std::string page(kPageBytes, '\0');
  RETURN_IF_ERROR(memory.Read({start}, std::as_writable_bytes(std::span(page))));
  return page;
}

std::string MapFilesPath(pid_t pid, const Mapping& mapping) {
  std::array<char, 96> text;
  std::snprintf(text.data(), text.size(), "/proc/%d/map_files/%llx-%llx", pid,
                static_cast<unsigned long long>(mapping.start), static_cast<unsigned long long>(mapping.end));
  return text.data();
}

// Somebody else's, who keeps it.
class BorrowedMemory final : public Memory {
 public:
  explicit BorrowedMemory(const Memory& memory) : memory_(&memory) {}
  Result<void> Read(process::RemoteAddress from, std::span<std::byte> out) const override {
    return memory_->Read(from, out);
  }

 private:
  const Memory* memory_;
};

bool IsSamePlace(const Mapping& a, const Mapping& b) {
  return a.start == b.start && a.inode == b.inode && a.path == b.path;
}

}  // namespace

Result<std::shared_ptr<const SymbolTable>> SymbolStore::Load(const std::vector<std::string>& paths,
                                                             const Mapping& first_part,
                                                             const Memory& memory) {
  ASSIGN_OR_RETURN(std::string page, FirstPage(memory, first_part.start));
  const std::lock_guard lock(mutex_);
  if (tables_.size() > kMaxUnusedTables)
    std::erase_if(tables_, [](const auto& entry) { return entry.second.use_count() == 1; });
  if (const auto known = tables_.find(page); known != tables_.end()) return known->second;
  for (const std::string& path : paths) {
    auto file = OpenFileAsMemory(path);
    if (!file.ok()) continue;
    const auto same_page = FirstPage(**file, 0);
    if (!same_page.ok() || *same_page != page) continue;
    ASSIGN_OR_RETURN(SymbolTable table, SymbolTable::FromFile(std::move(*file)));
    auto shared = std::make_shared<const SymbolTable>(std::move(table));
    tables_.emplace(std::move(page), shared);
    return shared;
  }
  return Error{Code::kNotFound, first_part.path + " is not there any more", ""};
}

FindFile FilesOfProcess(pid_t pid) {
  return [pid](const Mapping& first_part) {
    return std::vector{"/proc/" + std::to_string(pid) + "/root" + first_part.path,
                       MapFilesPath(pid, first_part)};
  };
}

Module::Module(const Mapping& first_part)
    : first_part_(first_part), name_(process::BaseName(first_part.path)) {}

bool Module::IsAt(const Mapping& first_part) const { return IsSamePlace(first_part_, first_part); }

Result<const process::ElfImage*> Module::Image(const Memory& memory) {
  if (!image_) image_.emplace(process::ElfImage::Load(memory, {first_part_.start}));
  if (!image_->ok()) return image_->error();
  return &**image_;
}

Result<Row> Module::FindRow(std::uint64_t pc, const Memory& memory) {
  if (!unwind_table_) {
    ASSIGN_OR_RETURN(const process::ElfImage* image, Image(memory));
    unwind_table_.emplace(UnwindTable::Load(memory, *image));
  }
  if (!unwind_table_->ok()) return unwind_table_->error();
  return (*unwind_table_)->Find(pc);
}

std::optional<Symbol> Module::FindSymbol(std::uint64_t pc, const FindFile& find_file, const Memory& memory,
                                         SymbolStore& store) {
  const auto image = Image(memory);
  if (!image.ok()) return std::nullopt;
  if (symbols_ == nullptr) {
    auto table = store.Load(find_file(first_part_), first_part_, memory);
    if (table.ok()) {
      symbols_ = std::move(*table);
    } else {
      auto loaded = SymbolTable::FromImage(std::make_unique<BorrowedMemory>(memory), **image);
      symbols_ = std::make_shared<const SymbolTable>(loaded.ok() ? std::move(*loaded) : SymbolTable());
    }
  }
  auto symbol = symbols_->Find(pc - (*image)->bias());
  if (symbol) symbol->start += (*image)->bias();
  return symbol;
}

void Modules::Update(process::Maps maps) {
  maps_ = std::move(maps);
  std::vector<std::unique_ptr<Module>> old = std::move(modules_);
  modules_.clear();
  parts_.clear();
  const Mapping* first = nullptr;  // of the object we are in
  Module* module = nullptr;        // made when the object turns out to have code
  for (const Mapping& mapping : maps_.all()) {
    const bool is_object = !mapping.path.empty() && (mapping.path.front() == '/' || mapping.path == "[vdso]");
    const bool continues = first != nullptr && first->path == mapping.path && first->inode == mapping.inode;
    if (is_object && (mapping.file_offset == 0 || !continues)) {
      // A file that is mapped twice is two objects. One segment may be split, and starts once.
      first = &mapping;
      module = nullptr;
    }
    if (!mapping.executable) continue;
    if (is_object && module == nullptr) {
      const auto same = std::find_if(
          old.begin(), old.end(), [&](const auto& other) { return other != nullptr && other->IsAt(*first); });
      modules_.push_back(same != old.end() ? std::move(*same) : std::unique_ptr<Module>(new Module(*first)));
      module = modules_.back().get();
    }
    parts_.push_back({mapping.start, mapping.end, is_object ? module : nullptr});
  }
}

std::optional<Modules::Code> Modules::FindCode(std::uint64_t pc) {
  const auto next = std::upper_bound(parts_.begin(), parts_.end(), pc,
                                     [](std::uint64_t at, const Part& part) { return at < part.start; });
  if (next == parts_.begin() || pc >= std::prev(next)->end) return std::nullopt;
  return Code{std::prev(next)->module};
}

}  // namespace probing::unwind
