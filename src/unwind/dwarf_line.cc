#include "unwind/dwarf_line.h"

namespace probing::unwind {
namespace {

constexpr std::uint64_t kMaxTableBytes = 64 << 20;
constexpr std::uint64_t kMaxNames = 1 << 16;
constexpr std::uint64_t kMaxFields = 16;

Error Malformed(const char* what) {
  return {Code::kFailed, std::string("malformed line table: ") + what, ""};
}

std::string Join(const std::string& folder, const std::string& name) {
  return folder.empty() || name.starts_with('/') ? name : folder + "/" + name;
}

}  // namespace

Result<LineTable> LineTable::Load(const DwarfSections& sections, std::uint64_t offset,
                                  const std::string& folder) {
  LineTable table;
  table.folder_ = folder;
  ASSIGN_OR_RETURN(const auto start, sections.line.ReadUpTo(offset, 16));
  ByteReader sizes(start);
  std::uint64_t length = sizes.Take<std::uint32_t>();
  table.is_64_bit_ = length == 0xffffffffU;
  if (table.is_64_bit_) length = sizes.Take<std::uint64_t>();
  if (!sizes.ok() || length > kMaxTableBytes) return Malformed("length");
  ASSIGN_OR_RETURN(auto bytes, sections.line.Read(offset + sizes.position(), length));
  ByteReader reader(bytes);
  table.version_ = reader.Take<std::uint16_t>();
  if (table.version_ < 2 || table.version_ > 5) return Malformed("unknown version");
  if (table.version_ == 5 && (reader.Take<std::uint8_t>() != 8 || reader.Take<std::uint8_t>() != 0))
    return Malformed("address size");
  const std::uint64_t header_bytes =
      table.is_64_bit_ ? reader.Take<std::uint64_t>() : reader.Take<std::uint32_t>();
  if (header_bytes > bytes.size() - reader.position()) return Malformed("header");
  const std::size_t program_start = reader.position() + header_bytes;
  table.instruction_bytes_ = reader.Take<std::uint8_t>();
  if (table.version_ >= 4) (void)reader.Take<std::uint8_t>();  // operations per instruction: 1 but on VLIW
  table.default_is_statement_ = reader.Take<std::uint8_t>() != 0;
  table.line_base_ = reader.Take<std::int8_t>();
  table.line_range_ = reader.Take<std::uint8_t>();
  table.opcode_base_ = reader.Take<std::uint8_t>();
  if (!reader.ok() || table.line_range_ == 0 || table.opcode_base_ == 0) return Malformed("header");
  for (int i = 1; i < table.opcode_base_; ++i) table.operand_counts_.push_back(reader.Take<std::uint8_t>());
  if (table.version_ == 5) {
    RETURN_IF_ERROR(table.ReadNames(reader, sections));
  } else {
    table.ReadOldNames(reader);
  }
  if (!reader.ok()) return Malformed("names");
  table.program_.assign(bytes.begin() + static_cast<std::ptrdiff_t>(program_start), bytes.end());
  return table;
}

void LineTable::ReadOldNames(ByteReader& reader) {
  folders_.push_back(folder_);
  while (reader.ok() && folders_.size() < kMaxNames) {
    const auto name = reader.TakeCString();
    if (name.empty()) break;
    folders_.push_back(Join(folder_, std::string(name)));
  }
  files_.push_back({});  // they are counted from 1
  while (reader.ok() && files_.size() < kMaxNames) {
    const auto name = reader.TakeCString();
    if (name.empty()) break;
    files_.push_back({std::string(name), reader.TakeUleb()});
    (void)reader.TakeUleb();  // time
    (void)reader.TakeUleb();  // size
  }
}

// DWARF 5: folders, then files, each as a table with columns of its own.
Result<void> LineTable::ReadNames(ByteReader& reader, const DwarfSections& sections) {
  const auto take_offset = [&] {
    return is_64_bit_ ? reader.Take<std::uint64_t>() : std::uint64_t{reader.Take<std::uint32_t>()};
  };
  for (const bool are_files : {false, true}) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> fields(reader.Take<std::uint8_t>());
    if (fields.size() > kMaxFields) return Malformed("fields");
    for (auto& [content, form] : fields) {
      content = reader.TakeUleb();
      form = reader.TakeUleb();
    }
    const std::uint64_t count = reader.TakeUleb();
    if (count > kMaxNames) return Malformed("count of names");
    for (std::uint64_t i = 0; i < count && reader.ok(); ++i) {
      std::string name;
      std::uint64_t folder = 0;
      for (const auto& [content, form] : fields) {
        std::string text;
        std::uint64_t number = 0;
        switch (form) {
          case 0x08:
            text = reader.TakeCString();
            break;
          case 0x0e:
            text = sections.str.ReadCString(take_offset());
            break;
          case 0x1f:
            text = sections.line_str.ReadCString(take_offset());
            break;
          case 0x0b:
            number = reader.Take<std::uint8_t>();
            break;
          case 0x05:
            number = reader.Take<std::uint16_t>();
            break;
          case 0x06:
            number = reader.Take<std::uint32_t>();
            break;
          case 0x0f:
            number = reader.TakeUleb();
            break;
          case 0x1e:
            (void)reader.TakeBytes(16);
            break;  // MD5
          case 0x09:
            (void)reader.TakeBytes(reader.TakeUleb());
            break;
          default:
            return Malformed("unknown form");
        }
        if (content == 1) name = text;      // DW_LNCT_path
        if (content == 2) folder = number;  // DW_LNCT_directory_index
      }
      if (are_files) files_.push_back({name, folder});
      if (!are_files) folders_.push_back(Join(folder_, name));
    }
  }
  return {};
}

std::string LineTable::FileName(std::uint64_t file) const {
  if (file >= files_.size() || files_[file].name.empty()) return "";
  const std::uint64_t folder = files_[file].folder;
  return Join(folder < folders_.size() ? folders_[folder] : folder_, files_[file].name);
}

LineTable::Row LineTable::Find(std::uint64_t address) const {
  struct State {
    std::uint64_t address = 0, file = 1, line = 1;
    bool is_statement = true;
  };
  State state{0, 1, 1, default_is_statement_};
  // The row before the one that is being added, of the same sequence.
  bool has_last = false;
  State last;
  Row found;
  bool is_found = false;
  const auto add_row = [&](bool ends) {
    if (has_last && last.address <= address && address < state.address) {
      found = {last.file, last.line};
      is_found = true;
    }
    // Of several at one address the last; one that begins no statement does not replace one that does.
    if (!has_last || last.address != state.address || state.is_statement || !last.is_statement) last = state;
    has_last = !ends;
    if (ends) state = State{0, 1, 1, default_is_statement_};
  };
  ByteReader reader(program_);
  while (!reader.AtEnd() && reader.ok() && !is_found) {
    const auto opcode = reader.Take<std::uint8_t>();
    if (opcode >= opcode_base_) {
      const unsigned adjusted = opcode - opcode_base_;
      state.address += std::uint64_t{adjusted / line_range_} * instruction_bytes_;
      state.line += static_cast<std::uint64_t>(line_base_ + static_cast<int>(adjusted % line_range_));
      add_row(false);
      continue;
    }
    switch (opcode) {
      case 0: {
        ByteReader extended(reader.TakeBytes(reader.TakeUleb()));
        const auto kind = extended.Take<std::uint8_t>();
        if (kind == 1) add_row(true);
        if (kind == 2) state.address = extended.Take<std::uint64_t>();
        break;
      }
      case 1:
        add_row(false);
        break;
      case 2:
        state.address += reader.TakeUleb() * instruction_bytes_;
        break;
      case 3:
        state.line += static_cast<std::uint64_t>(reader.TakeSleb());
        break;
      case 4:
        state.file = reader.TakeUleb();
        break;
      case 6:
        state.is_statement = !state.is_statement;
        break;
      case 8:
        state.address += std::uint64_t{(255U - opcode_base_) / line_range_} * instruction_bytes_;
        break;
      case 9:
        state.address += reader.Take<std::uint16_t>();
        break;
      default:
        for (int i = 0; i < operand_counts_[opcode - 1U]; ++i) (void)reader.TakeUleb();
        break;
    }
  }
  return found;
}

}  // namespace probing::unwind
