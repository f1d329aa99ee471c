#include "trace/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>

namespace probing::trace {
namespace {

constexpr std::size_t kPieceBytes = 256 << 10;
constexpr int kGzipWindow = 15 + 16;  // the largest window, with the header of gzip

}  // namespace

struct ByteSource::Unpacker {
  Unpacker() { is_ready = inflateInit2(&stream, kGzipWindow) == Z_OK; }
  ~Unpacker() {
    if (is_ready) inflateEnd(&stream);
  }
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;

  z_stream stream{};
  bool is_ready = false;
  bool at_member_end = false;  // of one of the files in it, most often the only one
};

ByteSource::ByteSource() = default;
ByteSource::~ByteSource() = default;

Result<std::unique_ptr<ByteSource>> ByteSource::Open(const std::string& path) {
  std::unique_ptr<ByteSource> source(new ByteSource);
  source->file_ = ScopedFd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!source->file_.valid()) return ErrnoError("open " + path);
  struct stat info{};
  if (fstat(source->file_.get(), &info) != 0) return ErrnoError("look at " + path);
  if (!S_ISREG(info.st_mode))
    return Error{Code::kUsage, path + " is no file", "a trace is a .json or .json.gz"};
  source->FillRaw();
  source->BeginUnpacking();
  return source;
}

std::unique_ptr<ByteSource> ByteSource::Of(std::string_view bytes) {
  std::unique_ptr<ByteSource> source(new ByteSource);
  source->raw_ = bytes;
  source->BeginUnpacking();
  return source;
}

void ByteSource::BeginUnpacking() {
  if (!raw_.starts_with("\x1f\x8b")) return;
  unpacker_ = std::make_unique<Unpacker>();
  if (!unpacker_->is_ready) error_ = "there is no memory to unpack it";
}

bool ByteSource::Give(const char* bytes, std::size_t size) {
  before_ += static_cast<std::uint64_t>(end_ - begin_);
  begin_ = at_ = bytes;
  end_ = bytes + size;
  return size > 0;
}

// More of the file as it is; false at its end.
bool ByteSource::FillRaw() {
  if (!file_.valid()) return false;
  raw_bytes_.resize(kPieceBytes);
  ssize_t got = 0;
  do {
    got = read(file_.get(), raw_bytes_.data(), raw_bytes_.size());
  } while (got < 0 && errno == EINTR);
  if (got < 0) error_ = std::string("it cannot be read: ") + std::strerror(errno);
  raw_ = std::string_view(raw_bytes_).substr(0, got < 0 ? 0 : static_cast<std::size_t>(got));
  return !raw_.empty();
}

bool ByteSource::Fill() {
  if (!error_.empty()) return false;
  if (unpacker_ != nullptr) return FillUnpacked();
  if (raw_.empty() && !FillRaw()) return Give(nullptr, 0);
  const std::string_view piece = std::exchange(raw_, {});
  return Give(piece.data(), piece.size());
}

bool ByteSource::FillUnpacked() {
  z_stream& stream = unpacker_->stream;
  unpacked_.resize(kPieceBytes);
  stream.next_out = reinterpret_cast<Bytef*>(unpacked_.data());
  stream.avail_out = kPieceBytes;
  while (stream.avail_out == kPieceBytes) {
    if (raw_.empty() && !FillRaw()) {
      if (!unpacker_->at_member_end && error_.empty()) error_ = "its compressed data ends too early";
      return Give(nullptr, 0);
    }
    if (unpacker_->at_member_end) {
      if (!raw_.starts_with('\x1f') || inflateReset(&stream) != Z_OK) return Give(nullptr, 0);  // padding
      unpacker_->at_member_end = false;
    }
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(raw_.data()));
    stream.avail_in = static_cast<uInt>(std::min<std::size_t>(raw_.size(), kPieceBytes));
    const auto offered = stream.avail_in;
    const int status = inflate(&stream, Z_NO_FLUSH);
    raw_.remove_prefix(offered - stream.avail_in);
    if (status == Z_STREAM_END) {
      unpacker_->at_member_end = true;
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      error_ = std::string("its compressed data is damaged") +
               (stream.msg == nullptr ? "" : std::string(" (") + stream.msg + ")");
      break;  // what was unpacked before is good
    }
  }
  return Give(unpacked_.data(), kPieceBytes - stream.avail_out);
}

}  // namespace probing::trace
