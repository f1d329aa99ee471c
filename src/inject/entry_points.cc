#include "inject/entry_points.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "arch/native.h"
#include "process/elf_image.h"

namespace probing::inject {
namespace {

using process::ElfImage;
using process::Mapping;
using process::Maps;
using process::Memory;
using process::RemoteAddress;

constexpr std::uint64_t kInternalDlopen = 0x80000000;  // __RTLD_DLOPEN, for __libc_dlopen_mode

// "libc" matches libc.so.6 and libc-2.28.so, not libcrypt.so.1.
bool IsLibrary(const std::string& path, std::string_view stem) {
  const std::string_view name = process::BaseName(path);
  if (!name.starts_with(stem)) return false;
  const std::string_view rest = name.substr(stem.size());
  return rest.starts_with(".so") || rest.starts_with("-2.");
}

bool IsLoader(const std::string& path) {
  const std::string_view name = process::BaseName(path);
  return name.starts_with("ld-linux") || name.starts_with("ld-2.") || name == "ld.so";
}

bool IsMusl(const std::string& path) {
  const std::string_view name = process::BaseName(path);
  // Alpine's one file for loader and library, and its name elsewhere; glibc's is libc.so.6.
  return name.starts_with("ld-musl") || name.starts_with("libc.musl") || name == "libc.so";
}

// The address of a byte sequence in the executable parts of an object.
Result<RemoteAddress> FindCode(const Memory& memory, const Maps::Object& object, std::string_view code) {
  constexpr std::uint64_t kChunkBytes = 256 * 1024;
  std::string chunk;
  for (const Mapping& part : object.parts) {
    if (!part.executable) continue;
    for (std::uint64_t at = part.start; at < part.end; at += kChunkBytes) {
      // Chunks overlap by the length of the code, so that none is cut in two.
      chunk.resize(std::min(kChunkBytes + code.size(), part.end - at));
      RETURN_IF_ERROR(memory.Read({at}, std::as_writable_bytes(std::span(chunk.data(), chunk.size()))));
      const std::size_t found = chunk.find(code);
      if (found != std::string::npos) return RemoteAddress{at + found};
    }
  }
  return Error{Code::kNotFound, "no such code in " + object.path, ""};
}

// rt_sigreturn's trampoline is not an exported symbol, but its code is prescribed: debuggers
// recognise it by these very bytes.
Result<RemoteAddress> FindTrampoline(const Memory& memory, const Maps& maps, const Maps::Object& libc) {
  if constexpr (!arch::kTrampolineIsInVdso) return FindCode(memory, libc, arch::kSignalTrampoline);
  Maps::Object vdso;
  for (const Mapping& mapping : maps.all()) {
    if (mapping.path != "[vdso]") continue;
    vdso.path = mapping.path;
    vdso.parts.push_back(mapping);
  }
  return FindCode(memory, vdso, arch::kSignalTrampoline);
}

Result<RemoteAddress> FindSyscallInstruction(const Memory& memory, const ElfImage& libc) {
  ASSIGN_OR_RETURN(const RemoteAddress function, libc.FindSymbol("syscall"));
  std::array<char, 64> code{};
  RETURN_IF_ERROR(memory.Read(function, std::as_writable_bytes(std::span(code))));
  const std::size_t found = std::string_view(code.data(), code.size()).find(arch::kSyscallInstruction);
  if (found == std::string_view::npos) return Error{Code::kFailed, "no syscall instruction in syscall()", ""};
  return function + found;
}

SafePointRules MakeRules(const Memory& memory, const Maps& maps, const std::vector<Maps::Object>& objects) {
  SafePointRules rules;
  rules.maps = maps;
  for (const Maps::Object& object : objects) {
    const bool libc = IsLibrary(object.path, "libc") || IsLibrary(object.path, "libpthread") ||
                      IsLibrary(object.path, "libdl");
    bool never_waits_safely = IsLoader(object.path);
    if (!libc && !never_waits_safely) {
      auto image = ElfImage::Load(memory, {object.base});
      never_waits_safely = image.ok() && image->FindSymbol("malloc").ok();  // an allocator of its own
    }
    for (const Mapping& part : object.parts) {
      if (!part.executable) continue;
      if (libc || never_waits_safely) rules.forbidden.Add(part);
      if (never_waits_safely) rules.never_waits_safely.Add(part);
    }
  }
  for (const Mapping& mapping : maps.all()) {
    if (mapping.path == "[vdso]" || mapping.path == "[vsyscall]") rules.forbidden.Add(mapping);
  }
  return rules;
}

}  // namespace

Linkage DetectLinkage(const Maps& maps) {
  bool glibc = false;
  for (const Mapping& mapping : maps.all()) {
    if (IsMusl(mapping.path)) return Linkage::kMusl;
    glibc = glibc || (mapping.executable && IsLibrary(mapping.path, "libc"));
  }
  return glibc ? Linkage::kGlibc : Linkage::kStatic;
}

Result<EntryPoints> FindEntryPoints(const Memory& memory, const Maps& maps) {
  const std::vector<Maps::Object> objects = maps.Objects();
  const Maps::Object* libc_object = nullptr;
  std::vector<ElfImage> images;  // libc first: since 2.34 it has everything
  for (const std::string_view stem : {"libc", "libpthread", "libdl"}) {
    const auto found = std::find_if(objects.begin(), objects.end(),
                                    [&](const Maps::Object& o) { return IsLibrary(o.path, stem); });
    if (found == objects.end()) continue;
    if (stem == "libc") libc_object = &*found;
    Result<ElfImage> image = ElfImage::Load(memory, {found->base});
    // The smaller two may go while we look, as those that a probe brought do when it leaves.
    if (image.ok()) {
      images.push_back(std::move(*image));
    } else if (stem == "libc") {
      return image.error();
    }
  }
  if (libc_object == nullptr) return Error{Code::kFailed, "no GNU C library in the process", ""};

  const auto find = [&](std::string_view name) -> Result<RemoteAddress> {
    for (const ElfImage& image : images) {
      auto address = image.FindSymbol(name);
      if (address.ok()) return address;
    }
    return Error{Code::kFailed, "the target's C library has no " + std::string(name), ""};
  };
  EntryPoints points;
  ASSIGN_OR_RETURN(points.usleep, find("usleep"));
  ASSIGN_OR_RETURN(points.munmap, find("munmap"));
  ASSIGN_OR_RETURN(points.pthread_create, find("pthread_create"));
  points.dlopen_flags = RTLD_NOW;
  if (auto dlopen_address = find("dlopen"); dlopen_address.ok()) {
    points.dlopen = *dlopen_address;
    ASSIGN_OR_RETURN(points.dlerror, find("dlerror"));
  } else {
    ASSIGN_OR_RETURN(points.dlopen, find("__libc_dlopen_mode"));
    points.dlopen_flags |= kInternalDlopen;
  }
  ASSIGN_OR_RETURN(points.trampoline, FindTrampoline(memory, maps, *libc_object));
  ASSIGN_OR_RETURN(points.syscall_instruction, FindSyscallInstruction(memory, images.front()));
  points.rules = MakeRules(memory, maps, objects);
  return points;
}

}  // namespace probing::inject
