#include "base/result.h"

#include <cstring>

namespace probing {

const char* ErrnoName(int error_number) {
  switch (error_number) {
#define PROBING_ERRNO(name) \
  case name:                \
    return #name
    PROBING_ERRNO(EPERM);
    PROBING_ERRNO(ENOENT);
    PROBING_ERRNO(ESRCH);
    PROBING_ERRNO(EINTR);
    PROBING_ERRNO(EIO);
    PROBING_ERRNO(ENXIO);
    PROBING_ERRNO(E2BIG);
    PROBING_ERRNO(ENOEXEC);
    PROBING_ERRNO(EBADF);
    PROBING_ERRNO(ECHILD);
    PROBING_ERRNO(EAGAIN);
    PROBING_ERRNO(ENOMEM);
    PROBING_ERRNO(EACCES);
    PROBING_ERRNO(EFAULT);
    PROBING_ERRNO(EBUSY);
    PROBING_ERRNO(EEXIST);
    PROBING_ERRNO(ENODEV);
    PROBING_ERRNO(ENOTDIR);
    PROBING_ERRNO(EISDIR);
    PROBING_ERRNO(EINVAL);
    PROBING_ERRNO(ENFILE);
    PROBING_ERRNO(EMFILE);
    PROBING_ERRNO(EFBIG);
    PROBING_ERRNO(ENOSPC);
    PROBING_ERRNO(EROFS);
    PROBING_ERRNO(EPIPE);
    PROBING_ERRNO(ENAMETOOLONG);
    PROBING_ERRNO(ENOSYS);
    PROBING_ERRNO(ELOOP);
    PROBING_ERRNO(EPROTO);
    PROBING_ERRNO(EADDRINUSE);
    PROBING_ERRNO(ENETUNREACH);
    PROBING_ERRNO(ECONNRESET);
    PROBING_ERRNO(ETIMEDOUT);
    PROBING_ERRNO(ECONNREFUSED);
    PROBING_ERRNO(EHOSTUNREACH);
#undef PROBING_ERRNO
    default:
      return "errno";
  }
}

Error ErrnoError(std::string what, int error_number) {
  const Code code = error_number == EPERM || error_number == EACCES ? Code::kPermission
                    : error_number == ESRCH                         ? Code::kNotFound
                                                                    : Code::kFailed;
  what += ": ";
  what += ErrnoName(error_number);
  what += " (";
  what += std::strerror(error_number);
  what += ")";
  return Error{code, std::move(what), ""};
}

}  // namespace probing
