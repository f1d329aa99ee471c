#include "unwind/modules.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/byte_reader.h"
#include "unwind/debug_files.h"

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

// All of them, from the file itself or, where it is stripped, from what its distribution keeps elsewhere;
// what it exports, otherwise.
Result<SymbolTable> LoadSymbols(const ElfFile& object, const std::string& path) {
  if (object.Has(".symtab")) return SymbolTable::FromFile(object);
  if (const auto debug_file = FindDebugFile(object, path); debug_file && debug_file->Has(".symtab"))
    return SymbolTable::FromFile(*debug_file);
  auto exported = SymbolTable::FromFile(object);
  const auto debug_data = OpenDebugData(object);
  if (!debug_data) return exported;
  auto others = SymbolTable::FromFile(*debug_data);
  if (!exported.ok()) return others;
  if (others.ok()) exported->SetSecond(std::move(*others));
  return exported;
}

Result<std::unique_ptr<DebugInfo>> LoadDebugInfo(const std::vector<std::string>& paths, const Memory& memory,
                                                 std::uint64_t start) {
  ASSIGN_OR_RETURN(const std::string page, FirstPage(memory, start));
  ASSIGN_OR_RETURN(const MappedFile found, OpenMappedFile(paths, page));
  if (found.file.Has(".debug_info")) return DebugInfo::Load(found.file);
  if (const auto debug_file = FindDebugFile(found.file, found.path)) return DebugInfo::Load(*debug_file);
  return Error{Code::kNotFound, "no debug information", ""};
}

// In .symtab: the name first, then who has it.
std::optional<std::uint64_t> FindSymbolByName(const ElfFile& file, const std::string& name) {
  const Elf64_Shdr* symbols = file.Find(".symtab");
  if (symbols == nullptr || symbols->sh_link >= file.sections().size()) return std::nullopt;
  const Elf64_Shdr& strings = file.sections()[symbols->sh_link];
  const auto names = Section(file.memory(), strings.sh_offset, strings.sh_size).Read(0, strings.sh_size);
  const auto table = Section(file.memory(), symbols->sh_offset, symbols->sh_size).Read(0, symbols->sh_size);
  if (!names.ok() || !table.ok()) return std::nullopt;
  const std::string_view text(reinterpret_cast<const char*>(names->data()), names->size());
  const std::size_t found = text.find(name + '\0');
  ByteReader reader(*table);
  while (found != std::string_view::npos && !reader.AtEnd()) {
    const auto symbol = reader.Take<Elf64_Sym>();
    if (reader.ok() && symbol.st_name == found && symbol.st_shndx != SHN_UNDEF) return symbol.st_value;
  }
  return std::nullopt;
}

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
  ASSIGN_OR_RETURN(const MappedFile found, OpenMappedFile(paths, page));
  ASSIGN_OR_RETURN(SymbolTable table, LoadSymbols(found.file, found.path));
  auto shared = std::make_shared<const SymbolTable>(std::move(table));
  tables_.emplace(std::move(page), shared);
  return shared;
}

Result<MappedFile> OpenMappedFile(const std::vector<std::string>& paths, std::string_view first_page) {
  for (const std::string& path : paths) {
    auto file = OpenFileAsMemory(path);
    if (!file.ok()) continue;
    const auto same_page = FirstPage(**file, 0);
    if (!same_page.ok() || *same_page != first_page) continue;
    ASSIGN_OR_RETURN(ElfFile elf, ElfFile::Load(std::move(*file)));
    return MappedFile{std::move(elf), path};
  }
  return Error{Code::kNotFound, "the mapped file is not there any more", ""};
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
      auto loaded = SymbolTable::FromImage(std::make_shared<BorrowedMemory>(memory), **image);
      symbols_ = std::make_shared<const SymbolTable>(loaded.ok() ? std::move(*loaded) : SymbolTable());
    }
  }
  auto symbol = symbols_->Find(pc - (*image)->bias());
  if (symbol) symbol->start += (*image)->bias();
  return symbol;
}

std::vector<SourcePlace> Module::FindLines(std::uint64_t pc, const FindFile& find_file,
                                           const Memory& memory) {
  const auto image = Image(memory);
  if (!image.ok()) return {};
  if (!debug_info_) debug_info_.emplace(LoadDebugInfo(find_file(first_part_), memory, first_part_.start));
  return debug_info_->ok() ? (**debug_info_)->Find(pc - (*image)->bias()) : std::vector<SourcePlace>{};
}

std::optional<std::uint64_t> Module::FindData(const std::string& name, const FindFile& find_file,
                                              const Memory& memory) {
  const auto image = Image(memory);
  if (!image.ok()) return std::nullopt;
  if (const auto exported = (*image)->FindSymbol(name); exported.ok()) return exported->address;
  // All names of all libraries are 100 MB in a process with PyTorch.
  if (name_.find("llvm") == std::string::npos && name_.find("LLVM") == std::string::npos) return std::nullopt;
  const auto page = FirstPage(memory, first_part_.start);
  if (!page.ok()) return std::nullopt;
  const auto found = OpenMappedFile(find_file(first_part_), *page);
  if (!found.ok()) return std::nullopt;
  const auto value = FindSymbolByName(found->file, name);
  return value ? std::optional(*value + (*image)->bias()) : std::nullopt;
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
