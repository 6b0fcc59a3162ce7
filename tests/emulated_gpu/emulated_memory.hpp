// The memory of the emulated GPU: out of reach for the host's code unless the GPU is at work.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>

namespace ddprun::trainer::test {

/// A range of addresses of its own. New memory holds rubbish (nans), and so does what lies behind a
/// piece. Throws GpuError for what a GPU
/// could not do, std::bad_alloc beyond `bytes_max`.
class EmulatedMemory {
 public:
  explicit EmulatedMemory(std::size_t bytes_max);
  ~EmulatedMemory();
  EmulatedMemory(const EmulatedMemory&) = delete;
  EmulatedMemory& operator=(const EmulatedMemory&) = delete;

  std::byte* allocate(std::size_t bytes);
  /// Throws GpuError if something was written behind its end.
  void release(std::byte* memory);

  /// By what was allocated and not released.
  [[nodiscard]] std::size_t used() const { return used_; }
  [[nodiscard]] bool holds(const void* address) const;
  /// Throws GpuError unless [address, address + bytes) lies in one piece of this memory. `call`:
  /// what wants to use it.
  void require(const void* address, std::size_t bytes, const std::string& call) const;
  /// Throws GpuError if an address that a kernel was given is behind a piece of this memory, or the
  /// host's; other words may be no addresses.
  void require_argument(std::uintptr_t word, const std::string& kernel) const;

  /// While one lives, the memory may be read and written.
  class Access {
   public:
    explicit Access(EmulatedMemory& memory);
    ~Access();
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;

   private:
    EmulatedMemory& memory_;
  };

 private:
  void protect(int how) const;
  void check_end(std::size_t offset, std::size_t bytes) const;
  [[nodiscard]] std::size_t offset_of(const void* address) const;

  void* mapped_ = nullptr;
  std::byte* base_ = nullptr;
  std::size_t range_ = 0;  // of addresses
  std::size_t bytes_max_;
  std::size_t used_ = 0;
  std::size_t end_ = 0;  // of what was ever used
  int accesses_ = 0;
  std::map<std::size_t, std::size_t> pieces_;  // offset, bytes
};

}  // namespace ddprun::trainer::test
