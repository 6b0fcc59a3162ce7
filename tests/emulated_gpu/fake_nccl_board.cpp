#include "tests/emulated_gpu/fake_nccl_board.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace fake_nccl {
namespace {

constexpr std::size_t kHead = 4096;
constexpr std::size_t kAllBytes = kHead + kRanksMax * kBytesOfRank;
static_assert(sizeof(RankBoard) * kRanksMax <= kHead);

}  // namespace

std::shared_ptr<Board> Board::create(std::string& path) {
  const int fd = memfd_create("fake-nccl", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, kAllBytes) != 0) return nullptr;
  path = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd);
  return std::shared_ptr<Board>(new Board(fd));
}

std::shared_ptr<Board> Board::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  return fd < 0 ? nullptr : std::shared_ptr<Board>(new Board(fd));
}

Board::Board(int fd) : fd_(fd) {
  void* const memory =
      mmap(nullptr, kAllBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  memory_ = static_cast<std::byte*>(memory);
  ranks_ = static_cast<RankBoard*>(memory);
}

Board::~Board() {
  munmap(memory_, kAllBytes);
  close(fd_);
}

std::byte* Board::bytes(int rank) {
  return memory_ + kHead + static_cast<std::size_t>(rank) * kBytesOfRank;
}

}  // namespace fake_nccl
