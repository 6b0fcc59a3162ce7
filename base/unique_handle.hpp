// Move-only owners of operating-system handles.
#pragma once

#include <unistd.h>

#include <utility>

namespace ddprun {

/// Owns one handle; `Traits` says which value means "none" and how to close. The destructor closes
/// and never throws.
template <class Traits>
class UniqueHandle {
 public:
  using Value = typename Traits::Value;

  UniqueHandle() noexcept = default;
  explicit UniqueHandle(Value value) noexcept : value_(value) {}
  UniqueHandle(UniqueHandle&& other) noexcept : value_(other.release()) {}
  UniqueHandle& operator=(UniqueHandle&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~UniqueHandle() { reset(); }

  [[nodiscard]] Value get() const& noexcept { return value_; }
  Value get() && = delete;  // the owner would die before the value is used
  [[nodiscard]] explicit operator bool() const noexcept { return value_ != Traits::null(); }

  [[nodiscard]] Value release() noexcept { return std::exchange(value_, Traits::null()); }
  void reset(Value value = Traits::null()) noexcept {
    const Value old = std::exchange(value_, value);
    if (old != Traits::null()) Traits::close(old);
  }

 private:
  Value value_ = Traits::null();
};

struct FdTraits {
  using Value = int;
  static int null() noexcept { return -1; }
  static void close(int fd) noexcept { ::close(fd); }
};

/// A file descriptor.
using UniqueFd = UniqueHandle<FdTraits>;

}  // namespace ddprun
