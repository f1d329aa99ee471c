#include "cpython/locate.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "cpython/find_interpreter.h"
#include "cpython/object_data.h"
#include "process/elf_image.h"

namespace probing::cpython {
namespace {

using process::ElfImage;
using process::Maps;
using process::Memory;
using process::RemoteAddress;

bool IsNamedLikePython(const Maps::Object& object) {
  const std::string_view name = process::BaseName(object.path);
  return name.starts_with("python") || name.starts_with("libpython");
}

RemoteAddress SymbolOrNull(const ElfImage& image, std::string_view name) {
  const auto symbol = image.FindSymbol(name);
  return symbol.ok() ? *symbol : RemoteAddress{};
}

std::optional<Version> VersionFromData(const Memory& memory, const Maps& maps, const Maps::Object& object) {
  for (const DataRange& range : ReadObjectData(memory, maps, object)) {
    const std::string_view bytes(reinterpret_cast<const char*>(range.words.data()),
                                 range.words.size() * sizeof(std::uint64_t));
    if (const auto version = VersionFromVariables(bytes)) return version;
  }
  return std::nullopt;
}

Result<Version> FindVersion(const Memory& memory, const ElfImage& image, const Maps& maps,
                            const Maps::Object& object) {
  if (const RemoteAddress hex = SymbolOrNull(image, "Py_Version")) {
    ASSIGN_OR_RETURN(const std::uint64_t value, memory.ReadValue(hex.As<std::uint64_t>()));
    return VersionFromHex(value);
  }
  if (const auto version = VersionFromData(memory, maps, object)) return *version;
  if (const auto version = VersionFromFileName(process::BaseName(object.path))) return *version;
  return Error{Code::kFailed, "cannot tell the version of the Python in " + object.path, ""};
}

Result<Location> LocateByRuntime(const Memory& memory, const ElfImage& image, const Maps& maps,
                                 const Maps::Object& object, RemoteAddress runtime) {
  Location location;
  if (auto self = ReadDebugOffsets(memory, runtime); self.ok()) {
    location.version = self->version;
    location.offsets = self->offsets;
  } else if (self.error().code != Code::kNotFound) {
    return std::move(self.error());
  } else {
    ASSIGN_OR_RETURN(location.version, FindVersion(memory, image, maps, object));
    ASSIGN_OR_RETURN(location.offsets, KnownOffsets(location.version));
  }
  if (location.offsets.runtime.interpreters_head == kAbsent) {
    return Error{Code::kFailed,
                 object.path + " has _PyRuntime but says it is Python " + location.version.ToText(), ""};
  }
  location.first_interpreter = runtime + location.offsets.runtime.interpreters_head;
  if (location.offsets.runtime.current_thread != kAbsent) {
    location.current_thread = runtime + location.offsets.runtime.current_thread;
  }
  return location;
}

Result<Location> LocateWithoutRuntime(const Memory& memory, const ElfImage& image, const Maps& maps,
                                      const Maps::Object& object, RemoteAddress current_thread) {
  Location location;
  ASSIGN_OR_RETURN(location.version, FindVersion(memory, image, maps, object));
  if (location.version.minor > 6) {
    return Error{Code::kFailed, "cannot read the stacks of Python " + location.version.ToText(),
                 "Python 3.4 to 3.15 are supported"};
  }
  ASSIGN_OR_RETURN(location.offsets, KnownOffsets(location.version));
  ASSIGN_OR_RETURN(location.first_interpreter,
                   FindInterpreterPointer36(memory, maps, object, location.offsets, current_thread));
  location.current_thread = current_thread;
  location.generations = SymbolOrNull(image, "_PyGC_generation0");
  return location;
}

// kNotFound: there is no interpreter in this object.
Result<Location> LocateIn(const Memory& memory, const Maps& maps, const Maps::Object& object) {
  auto image = ElfImage::Load(memory, {object.base});
  if (!image.ok()) return Error{Code::kNotFound, object.path + " is no ELF object", ""};
  const RemoteAddress runtime = SymbolOrNull(*image, "_PyRuntime");
  const RemoteAddress current_thread =
      runtime ? RemoteAddress{} : SymbolOrNull(*image, "_PyThreadState_Current");
  if (!runtime && !current_thread) return Error{Code::kNotFound, "no Python in " + object.path, ""};
  auto location = runtime ? LocateByRuntime(memory, *image, maps, object, runtime)
                          : LocateWithoutRuntime(memory, *image, maps, object, current_thread);
  if (location.ok()) {
    location->code_type = SymbolOrNull(*image, "PyCode_Type");
    location->object = object.path;
  }
  return location;
}

// Of a program that exports none of its symbols. kNotFound: there seems to be no interpreter in it.
Result<Location> LocateWithoutSymbols(const Memory& memory, const Maps& maps, const Maps::Object& object) {
  auto image = ElfImage::Load(memory, {object.base});
  if (!image.ok()) return Error{Code::kNotFound, object.path + " is no ELF object", ""};
  std::optional<RemoteAddress> runtime = FindSelfDescription(memory, maps, object);
  if (!runtime) {
    const auto version = VersionFromData(memory, maps, object);
    if (!version) return Error{Code::kNotFound, "no Python in " + object.path, ""};
    ASSIGN_OR_RETURN(const Offsets offsets, KnownOffsets(*version));
    ASSIGN_OR_RETURN(const RemoteAddress head, FindInterpreterPointer(memory, maps, object, offsets));
    if (offsets.runtime.interpreters_head == kAbsent) {
      Location location;
      location.version = *version;
      location.offsets = offsets;
      location.first_interpreter = head;
      location.object = object.path;
      return location;
    }
    runtime = RemoteAddress{head.address - offsets.runtime.interpreters_head};
  }
  ASSIGN_OR_RETURN(Location location, LocateByRuntime(memory, *image, maps, object, *runtime));
  location.object = object.path;
  return location;
}

// Whether there is an interpreter with a thread that points back to it.
bool IsLive(const Memory& memory, const Location& location) {
  const auto interpreter = memory.ReadValue(location.first_interpreter.As<RemoteAddress>());
  if (!interpreter.ok() || !*interpreter) return false;
  const auto thread =
      memory.ReadValue((*interpreter + location.offsets.interpreter.threads_head).As<RemoteAddress>());
  if (!thread.ok() || !*thread) return false;
  const auto owner = memory.ReadValue((*thread + location.offsets.thread.interpreter).As<RemoteAddress>());
  return owner.ok() && *owner == *interpreter;
}

}  // namespace

Result<Location> Locate(const Memory& memory, const Maps& maps) {
  std::vector<Maps::Object> objects = maps.Objects();
  // The lowest one. (The lowest mapping may be an allocator's: free-threaded Pythons have it there.)
  const std::uint64_t program = objects.empty() ? 0 : objects.front().base;
  std::stable_partition(objects.begin(), objects.end(), IsNamedLikePython);
  // A Python that does not run says something only when there is no other: libraries link a libpython, or
  // load one, that they never start.
  std::optional<Result<Location>> second_best;
  std::vector<std::uint64_t> idle;  // bases of objects with a Python that does not run
  const auto is_answer = [&](const Result<Location>& location, const Maps::Object& object) {
    if (!location.ok() && location.error().code == Code::kNotFound) return false;
    if (location.ok() && IsLive(memory, *location)) return true;
    idle.push_back(object.base);
    if (!second_best || (location.ok() && !second_best->ok())) second_best = location;
    return false;
  };
  for (const Maps::Object& object : objects) {
    auto location = LocateIn(memory, maps, object);
    if (is_answer(location, object)) return location;
  }
  for (const Maps::Object& object : objects) {
    if (object.base != program && !IsNamedLikePython(object)) continue;
    if (std::find(idle.begin(), idle.end(), object.base) != idle.end()) continue;
    auto location = LocateWithoutSymbols(memory, maps, object);
    if (is_answer(location, object)) return location;
  }
  if (second_best) return std::move(*second_best);
  return Error{Code::kFailed, "no Python interpreter in this process",
               "`probing backtrace` shows Python stacks; is it the right process?"};
}

}  // namespace probing::cpython
