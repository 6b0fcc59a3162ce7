#include "tests/emulated_gpu/emulated_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <new>

#include "trainer/cuda/gpu.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

namespace ddprun::trainer::test {
namespace {

constexpr std::size_t kRange = std::size_t{1} << 36;
/// In large pages the memory is opened and closed 512 times as fast, where the system has them.
constexpr std::size_t kLargePage = std::size_t{2} << 20;
constexpr std::size_t kAlignment = 256;
/// Behind each piece: bytes that nothing may write, nor read under AddressSanitizer. Of two at an
/// even address: a nan in every type of floats, which calculations with floats change.
constexpr std::size_t kFence = 256;
constexpr std::byte kFenceBytes[] = {std::byte{0xbf}, std::byte{0x7f}};
constexpr int kRubbish = 0xff;  // a nan in every type of floats
/// Below it no heap, stack or library of a program lies that is position-independent.
constexpr std::uintptr_t kHostAddressesFrom = 0x550000000000;
constexpr std::uintptr_t kHostAddressesTo = 0x800000000000;

std::size_t rounded(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::byte fence_at(const std::byte* address) {
  return kFenceBytes[reinterpret_cast<std::uintptr_t>(address) % 2];
}

/// Whether something is there.
bool is_mapped(std::uintptr_t address) {
  constexpr std::uintptr_t kPage = 4096;
  unsigned char resident = 0;
  return ::mincore(reinterpret_cast<void*>(address / kPage * kPage), kPage, &resident) == 0;
}

}  // namespace

EmulatedMemory::EmulatedMemory(std::size_t bytes_max) : range_(kRange), bytes_max_(bytes_max) {
  mapped_ = ::mmap(nullptr, range_ + kLargePage, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped_ == MAP_FAILED) throw std::bad_alloc();
  const auto address = reinterpret_cast<std::uintptr_t>(mapped_);
  base_ = static_cast<std::byte*>(mapped_) + (kLargePage - address % kLargePage);
  (void)::madvise(base_, range_, MADV_HUGEPAGE);
}

EmulatedMemory::~EmulatedMemory() {
  ASAN_UNPOISON_MEMORY_REGION(base_, end_);
  ::munmap(mapped_, range_ + kLargePage);
}

std::byte* EmulatedMemory::allocate(std::size_t bytes) {
  if (used_ + bytes > bytes_max_) throw std::bad_alloc();
  // The first hole that is large enough.
  const std::size_t wanted = rounded(bytes) + kFence;
  std::size_t offset = 0;
  for (const auto& [begin, size] : pieces_) {
    if (begin >= offset + wanted) break;
    offset = begin + rounded(size) + kFence;
  }
  if (offset + wanted > range_) throw std::bad_alloc();
  if (offset + wanted > end_) {
    end_ = offset + wanted;
    if (accesses_ > 0) protect(PROT_READ | PROT_WRITE);
  }
  pieces_.emplace(offset, bytes);
  used_ += bytes;
  const Access access(*this);
  ASAN_UNPOISON_MEMORY_REGION(base_ + offset, wanted);
  std::memset(base_ + offset, kRubbish, bytes);
  for (std::byte* at = base_ + offset + bytes; at < base_ + offset + wanted; ++at)
    *at = fence_at(at);
  ASAN_POISON_MEMORY_REGION(base_ + offset + bytes, wanted - bytes);
  return base_ + offset;
}

void EmulatedMemory::release(std::byte* memory) {
  const auto found = pieces_.find(offset_of(memory));
  if (found == pieces_.end()) throw cuda::GpuError("memory was released that is not the GPU's");
  check_end(found->first, found->second);
  used_ -= found->second;
  pieces_.erase(found);
}

void EmulatedMemory::check_end(std::size_t offset, std::size_t bytes) const {
  const Access access(const_cast<EmulatedMemory&>(*this));
  const std::byte* const end = base_ + offset + bytes;
  const std::size_t fence = rounded(bytes) + kFence - bytes;
  ASAN_UNPOISON_MEMORY_REGION(end, fence);
  for (std::size_t i = 0; i < fence; ++i) {
    if (end[i] != fence_at(end + i))
      throw cuda::GpuError(
          fmt::format("something wrote {} bytes behind the end of {} bytes", i, bytes));
  }
  ASAN_POISON_MEMORY_REGION(end, fence);
}

std::size_t EmulatedMemory::offset_of(const void* address) const {
  return static_cast<std::size_t>(static_cast<const std::byte*>(address) - base_);
}

bool EmulatedMemory::holds(const void* address) const {
  const auto* const byte = static_cast<const std::byte*>(address);
  return byte >= base_ && byte < base_ + range_;
}

void EmulatedMemory::require(const void* address, std::size_t bytes,
                             const std::string& call) const {
  if (bytes == 0) return;
  if (!holds(address))
    throw cuda::GpuError(fmt::format("{}: an address of the host where the GPU's is due", call));
  const std::size_t offset = offset_of(address);
  auto piece = pieces_.upper_bound(offset);
  if (piece != pieces_.begin()) {
    --piece;
    if (offset + bytes <= piece->first + piece->second) return;
  }
  throw cuda::GpuError(fmt::format("{}: {} bytes that are not all in one piece", call, bytes));
}

void EmulatedMemory::require_argument(std::uintptr_t word, const std::string& kernel) const {
  const void* const address = reinterpret_cast<const void*>(word);
  if (holds(address)) {
    require(address, 1, kernel);
    return;
  }
  if (word >= kHostAddressesFrom && word < kHostAddressesTo && is_mapped(word))
    throw cuda::GpuError(fmt::format("{}: was given an address of the host", kernel));
}

void EmulatedMemory::protect(int how) const {
  const std::size_t bytes = (end_ + kLargePage - 1) / kLargePage * kLargePage;
  if (bytes > 0 && ::mprotect(base_, bytes, how) != 0) throw std::bad_alloc();
}

EmulatedMemory::Access::Access(EmulatedMemory& memory) : memory_(memory) {
  if (memory_.accesses_++ == 0) memory_.protect(PROT_READ | PROT_WRITE);
}

EmulatedMemory::Access::~Access() {
  if (--memory_.accesses_ == 0) memory_.protect(PROT_NONE);
}

}  // namespace ddprun::trainer::test
